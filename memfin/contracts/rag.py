"""The contract of the RAG suite: question files, answers, results, judgements and their summary.

Everything a question file may hold is a field here; unknown fields are ignored on reading. What no field
type can say (dates of the calendar, ids that repeat, questions that expect nothing) is for
`memfin.validation.rag` to check.

A judge gives two marks, the field's standard terms for answers from documents. *Faithfulness*: is every
statement of the answer supported by the pages that were given to the judge? *Answer correctness*: does the
answer say what the benchmark expects? A wrong answer may be faithful, and a right one may rest on nothing.

``rag_summary.json`` is read and written in pieces. Its list of questions grows with the benchmark, everything
else does not: as MemFin writes the file, every question begins and ends on lines of its own, so that one
question at a time is in memory. A file that was formatted in another way is read as a whole.
"""

import calendar
import re
from collections.abc import Iterable, Iterator
from datetime import date
from pathlib import Path
from typing import Annotated, Any, BinaryIO, Final, Literal

import msgspec

from memfin.contracts.base import Count, Difficulty, Finite, Language, Record, TurnStatus
from memfin.contracts.judgement import ControlKind, Controls, Declined, Score, Vote
from memfin.contracts.reading import MAX_DOCUMENT_BYTES, InvalidRecord, decode_part, open_input, read_json

MeanScore = Annotated[float, msgspec.Meta(ge=1.0, le=5.0)]


class RagVerdict(Record):
    """A judge's marks for one answer, on its scale of 1 to 5, and why.

    ``spread`` is the widest distance of a mark over several votes, None for a single one.
    """

    faithfulness: Score
    answer_correctness: Score
    faithfulness_reason: str = ""
    answer_correctness_reason: str = ""
    spread: Finite | None = None


class RagJudged(Record):
    """The judge's part of a result: its marks, or why there are none; never a default.

    ``pages`` are the pages of the document that the judge was given; ``pages_left_out`` counts those that
    the answer points at besides, for which there was no room. ``error`` says why a judgement did not come
    about, ``declined`` that it was for what the answer is.
    """

    judge: str
    faithfulness: Score | None = None
    answer_correctness: Score | None = None
    faithfulness_reason: str | None = None
    answer_correctness_reason: str | None = None
    spread: Finite | None = None
    pages: list[int] = []
    pages_left_out: Count = 0
    error: str | None = None
    declined: Declined | None = None


class RagMark(Record):
    """The mean of a mark over answers, with its 95 % interval; None without answers, or without two."""

    count: Count = 0
    mean: MeanScore | None = None
    ci95: tuple[MeanScore, MeanScore] | None = None


class RagJudgeGroup(Record):
    """Marks of a judge for a group of questions.

    ``asked`` answers were put to it and ``failed`` of them got no verdict, of which ``declined`` were
    ``too_long`` for it or ``refused``; such are in no mean.
    """

    asked: Count = 0
    failed: Count = 0
    declined: dict[str, int] = {}
    faithfulness: RagMark = RagMark()
    answer_correctness: RagMark = RagMark()


class RagJudgeSummary(RagJudgeGroup, kw_only=True):
    """The judge's part of ``rag_summary.json``; it changes no score."""

    judge: str
    by_type: dict[str, RagJudgeGroup] = {}


RAG_SCHEMA_VERSION: Final = "1.0.0"
"""The version of the benchmark's form that results are written for."""

PASS_THRESHOLD: Final = 0.7
"""The share of its score that passes a question, where the file says nothing else."""

RagType = Literal["fact_exact", "evidence_set", "conflict_gap"]
RagBaselineName = Literal["builtin", "bm25s"]
RagSection = Literal["qa_pair", "header"]
RagSpeaker = Literal["question", "answer"]

PageNumber = Annotated[int, msgspec.Meta(ge=1, le=1_000_000_000)]
Weight = Annotated[float, msgspec.Meta(gt=0, le=1e9)]
AnsweredInteger = Annotated[int, msgspec.Meta(ge=-(2**63), le=2**63 - 1)]
Threshold = Annotated[float, msgspec.Meta(ge=0, le=1)]
IsoDate = str
"""A date as ``2020-08-30``; where a document says no more, ``2020-08`` or ``2020``, which match as such."""

_ISO_DATE: Final = re.compile(r"([0-9]{4})(?:-([0-9]{2})(?:-([0-9]{2}))?)?")


def iso_span(text: str) -> tuple[date, date] | None:
    """Return the first and the last day that an ISO date of any precision covers; None for what is none."""
    match = _ISO_DATE.fullmatch(text)
    if match is None:
        return None
    year, month, day = (None if part is None else int(part) for part in match.groups())
    try:
        first = date(year or 0, month or 1, day or 1)
        days = day or calendar.monthrange(first.year, month or 12)[1]
        return first, date(first.year, month or 12, days)
    except ValueError:  # no such day
        return None


class RagDateRange(Record):
    """A period from ``start`` to ``end``, both included."""

    start: IsoDate
    end: IsoDate


class RagAmountPart(Record):
    """One part of a breakdown; ``item`` says what it was for and is not compared."""

    amount: Finite
    item: str | None = None


class RagExpected(Record):
    """Content of a right answer (RAG benchmark schema, ``expected`` of the first two types).

    Amounts are in the document's unit of money, written out: 4.2万元 is 42000. Every typed field that
    is present must match; a breakdown matches as a multiset of amounts. ``evidence_count_min`` and
    ``key_points`` belong to ``evidence_set``.
    """

    amount_total: Finite | None = None
    amount_breakdown: list[Finite | RagAmountPart] | None = None
    date: IsoDate | None = None
    date_range: RagDateRange | None = None
    count: Count | None = None
    text_answer: str | None = None
    boolean_answer: bool | None = None
    entity: str | None = None
    evidence_count_min: Count | None = None
    key_points: list[str] = []

    def breakdown(self) -> tuple[float, ...] | None:
        """Return the amounts of the breakdown in their order, or None when none is expected."""
        if self.amount_breakdown is None:
            return None
        return tuple(
            part.amount if isinstance(part, RagAmountPart) else part for part in self.amount_breakdown
        )


class RequiredEvidence(Record):
    """A place that supports a right answer: ``must_include`` is on ``page``, counted from 1.

    ``section`` and ``speaker`` narrow the place down: to a question with its answer or to the head of
    the record, and to the words of who asks or who answers. Evidence is critical unless the file
    says otherwise.
    """

    page: PageNumber
    must_include: str
    section: RagSection | None = None
    speaker: RagSpeaker | None = None
    is_critical: bool = True


class EvidenceLocation(Record):
    """Location of the quote of a ``conflict_gap`` question.

    ``lines`` are lines of the document's file, counted from 1, both ends included: ``105-107``, ``105``,
    or several such separated by commas.
    """

    page: PageNumber
    lines: str | None = None


class RagScoring(Record):
    """Scoring of a question (RAG benchmark schema, ``scoring`` of all three types).

    Without thresholds those of the schema's example hold. ``abstention_required`` and ``quote_required``
    are None where the file leaves them out: then the question's ``should_abstain`` and whether it has a
    ``required_quote`` speak for them. ``hallucination_check`` is recorded only; the check is always made.
    ``weight`` is another place for that of the question.
    """

    numeric_exact: bool = True
    date_exact: bool = True
    citation_required: bool = True
    evidence_recall_min: Threshold = 0.8
    evidence_precision_min: Threshold = 0.7
    abstention_required: bool | None = None
    hallucination_check: str | None = None
    quote_required: bool | None = None
    weight: Weight | None = None


class RagMetadata(Record):
    """Topic of a question; results are grouped by difficulty, category and tag."""

    difficulty: Difficulty | None = None
    category: str | None = None
    tags: list[str] = []
    notes: str | None = None


class RagQuestionEntry(Record):
    """A question as its file has it; fields of the other two types are left at their defaults.

    ``type`` falls back to the file's ``benchmark_type``. A ``conflict_gap`` question without
    ``should_abstain`` asks for an abstention unless ``scoring.abstention_required`` is false.
    ``required_quote`` and ``additional_quotes``, of which one is enough, are in the document word for word
    but for line breaks; ``...`` in a quote stands for words left out. ``hallucination_penalty`` and
    ``expected_behavior`` are for readers and change no score.
    """

    id: str
    question: str
    type: RagType | None = None
    weight: Weight = 1.0
    expected: RagExpected = RagExpected()
    required_evidence: list[RequiredEvidence] = []
    scoring: RagScoring = RagScoring()
    should_abstain: bool | None = None
    hallucination_penalty: str | None = None
    required_quote: str | None = None
    additional_quotes: list[str] = []
    evidence_location: EvidenceLocation | None = None
    expected_behavior: str | None = None
    metadata: RagMetadata = RagMetadata()


class RagCriteria(Record):
    """Data of all questions of a file.

    ``type_weights`` multiply the weights of the questions of a type; a question passes when its score is
    at least ``pass_threshold`` of its greatest, for which ``passing_threshold`` is another name.
    """

    type_weights: dict[str, Weight] = {}
    pass_threshold: Threshold = PASS_THRESHOLD
    passing_threshold: Threshold | None = None


class RagBenchmark(Record):
    """A file of questions (RAG benchmark schema, root).

    ``document`` names the document that the questions are about; what is read is found as
    `memfin.rag.benchmark` says.
    """

    questions: list[RagQuestionEntry]
    benchmark_type: RagType | None = None
    description: str | None = None
    document: str | None = None
    evaluation_criteria: RagCriteria = RagCriteria()


class RagQuestion(RagQuestionEntry, kw_only=True):
    """A question as it is asked and scored: the entry with what its file says of all of them applied.

    ``weight`` includes the weight of its type and is the greatest score; ``should_abstain`` is settled and
    False for other types than ``conflict_gap``.
    """

    type: RagType  # pyright: ignore[reportGeneralTypeIssues] - required here, by keyword
    pass_threshold: Threshold = PASS_THRESHOLD
    should_abstain: bool = False


class RagEvidence(Record):
    """A piece of the document that a system brings as evidence; a page that is unknown is None."""

    text: str
    page: AnsweredInteger | None = None


class RagCitation(Record):
    """Words of the document that a system quotes for its answer; a page that is unknown is None."""

    quote: str
    page: AnsweredInteger | None = None


class RagAnswerRange(Record):
    """A period as a system writes it, in any form of dates; an end that it leaves open is None."""

    start: str | None = None
    end: str | None = None


class RagAnswer(Record):
    """An answer of a system under test (spec section 9).

    A typed field that is None is extracted from ``answer``; so is, with ``abstained`` None, whether the
    system declines to answer. Dates may have any form that `memfin.rag.scoring` extracts.
    """

    answer: str
    amount: Finite | None = None
    amount_breakdown: list[Finite] | None = None
    date: str | None = None
    date_range: RagAnswerRange | None = None
    count: AnsweredInteger | None = None
    text: str | None = None
    boolean: bool | None = None
    entity: str | None = None
    evidence: list[RagEvidence] = []
    citation: list[RagCitation] = []
    abstained: bool | None = None


class RagIndividual(Record):
    """One question in the summary; ``details`` are its parts, by the names that the scorer gives them."""

    id: str
    type: RagType
    question: str
    passed: bool
    score: Finite
    max_score: Finite
    details: dict[str, Any] = {}
    error: str | None = None
    judge: RagJudged | msgspec.UnsetType = msgspec.UNSET


class RagResult(Record):
    """One line of ``rag_results.jsonl``: a question, its answer and its score.

    ``question_index`` is its place in the benchmark, from 1. ``answer`` is None when the system failed,
    and ``error`` then says how; such a question scores 0. ``status`` distinguishes time-outs from other
    failures; it is None in results of a draft that did not. ``latency_ms`` is the time until the answer.
    ``judge`` is there in a run with a judge, for every question that was answered; it changes no score.
    """

    schema_version: str
    run_id: str
    id: str
    type: RagType
    question: str
    question_index: Annotated[int, msgspec.Meta(ge=1)]
    passed: bool
    score: Finite
    max_score: Finite
    details: dict[str, Any] = {}
    error: str | None = None
    status: TurnStatus | None = None
    answer: RagAnswer | None = None
    latency_ms: Finite | None = None
    difficulty: Difficulty | None = None
    category: str | None = None
    tags: list[str] = []
    judge: RagJudged | msgspec.UnsetType = msgspec.UNSET


class RagGroup(Record):
    """The questions of one type, difficulty, category or tag together.

    ``ci95`` has the 95 % intervals of ``score``, the share of the greatest score, and of ``pass_rate``, both
    0 to 1, with questions as the units; none for fewer than two questions.
    """

    count: Count = 0
    passed: Count = 0
    total_score: Finite = 0.0
    max_score: Finite = 0.0
    ci95: dict[str, tuple[Finite, Finite]] = {}


class RagBaseline(Record):
    """The result of a baseline on the questions of a run; intervals as in `RagGroup`.

    ``difference`` is the system's percentage minus the baseline's, in points; ``difference_by_type`` is the
    same for each type.
    """

    passed_tests: Count
    overall_score: Finite
    max_score: Finite
    overall_percentage: Finite
    difference: Finite
    by_type: dict[str, RagGroup] = {}
    difference_by_type: dict[str, Finite] = {}
    ci95: dict[str, tuple[Finite, Finite]] = {}


class RagSummary(Record):
    """``rag_summary.json``: the same bytes for the same answers (spec section 9).

    ``pass_rate`` is the share of the questions that passed, 0 to 1; ``overall_percentage`` is the score in
    percent of the greatest. Both are 0 where nothing was asked. ``errors`` counts the questions on which the
    system failed. ``type_filter`` is the one type that was asked, None for all.
    ``judge`` is there when a judge read the answers; ``ci95`` is that of all questions, see `RagGroup`.
    ``unfounded`` counts the evidence and quotes of the question files that the document does not hold; it is
    left out where there are none. ``baselines`` are those of ``--baseline``, by name.
    """

    schema_version: str
    run_id: str
    total_tests: Count
    passed_tests: Count
    pass_rate: Finite
    overall_score: Finite
    max_score: Finite
    overall_percentage: Finite
    by_type: dict[str, RagGroup]
    by_difficulty: dict[str, RagGroup] = {}
    by_category: dict[str, RagGroup] = {}
    by_tag: dict[str, RagGroup] = {}
    errors: Count = 0
    benchmark_path: str | None = None
    document: str | None = None
    system: str | None = None
    type_filter: RagType | None = None
    config_fingerprint: str | None = None
    judge: RagJudgeSummary | msgspec.UnsetType = msgspec.UNSET
    ci95: dict[str, tuple[Finite, Finite]] = {}
    unfounded: Count | msgspec.UnsetType = msgspec.UNSET
    baselines: dict[str, RagBaseline] | msgspec.UnsetType = msgspec.UNSET
    individual_results: list[RagIndividual] = []


class RagPage(Record):
    """A page of the document: its number and its text."""

    number: int
    text: str


class RagJudgeRequest(Record):
    """One answer to judge; every text in it is untrusted.

    ``pages`` are those of the document that bear on it: those of the required evidence, then those that
    the answer's evidence and citations point at. ``pages_left_out`` counts those of the latter for which
    there was no room.
    """

    question: RagQuestion
    answer: RagAnswer
    language: Language = "zh"
    pages: list[RagPage] = []
    pages_left_out: Count = 0


class RagJudgement(Vote[RagVerdict], kw_only=True):
    """One line of ``rag_judgements.jsonl``: a vote on one answer."""

    run_id: str
    id: str
    question_index: int
    judge: str


class RagJudgeControl(Record):
    """An answer whose quality is known beforehand, judged like any other.

    ``null`` says nothing, ``injected`` says nothing and orders the judge to give full marks, ``oracle`` is
    the answer that the benchmark expects to the question ``id``.
    """

    kind: ControlKind
    id: str
    faithfulness: Score | None = None
    answer_correctness: Score | None = None
    error: str | None = None


class RagJudgeControls(Controls[RagJudgeControl], kw_only=True):
    """``rag_judge_controls.json``: scores of the judge for the controls, and warnings about them."""


SUMMARY: Final = "rag_summary.json"

_LIST: Final = b'  "individual_results": ['
_ENDS: Final = (b"  ]", b"  ],")
_LAST_LINES: Final = (b"    }", b"    },")
_PIECE: Final = 1 << 16


def summary_pieces(summary: RagSummary, results: Iterable[RagIndividual]) -> Iterator[bytes]:
    """Yield the file's bytes: the summary, with these results for those that it lists itself."""
    frame = _indented(summary.replace(individual_results=[]))
    # Line breaks are between values only: within a JSON string it is escaped.
    head, _, tail = frame.partition(b"\n" + _LIST)
    gathered = bytearray(head + b"\n" + _LIST)
    separator = b"\n    "
    for one in results:
        gathered += separator + _indented(one).replace(b"\n", b"\n    ")
        separator = b",\n    "
        if len(gathered) >= _PIECE:
            yield bytes(gathered)
            gathered.clear()
    yield bytes(gathered) + (b"\n  " if separator[:1] == b"," else b"") + tail + b"\n"


def read_sums(path: str | Path) -> RagSummary:
    """Read everything but the individual results; the summary returned lists none.

    Raises:
        InvalidRecord: the content does not decode; the message begins with the file.
        UsageError: the file cannot be opened.
    """
    with open_input(path) as file:
        content = b"".join(_frame(file, path))
    return decode_part(content, RagSummary, path).replace(individual_results=[])


def iter_individual_results(path: str | Path) -> Iterator[RagIndividual]:
    """Yield the individual results in their order, one in memory at a time.

    Raises:
        InvalidRecord: the content does not decode; the message begins with the file.
        UsageError: the file cannot be opened.
    """
    with open_input(path) as file:
        if any(line.rstrip() == _LIST for line in _lines(file, path)):
            yield from _listed(file, path)
            return
    yield from read_json(path, RagSummary).individual_results


def _listed(file: BinaryIO, path: str | Path) -> Iterator[RagIndividual]:
    """Yield the results of a file that is open at the first line of the list."""
    number = 0
    gathered: list[bytes] = []
    for line in _lines(file, path):
        ending = line.rstrip()
        if ending in _ENDS and not gathered:
            return
        gathered.append(line)
        if ending in _LAST_LINES:
            text = b"".join(gathered).rstrip().removesuffix(b",")
            gathered.clear()
            yield decode_part(text, RagIndividual, path, f".individual_results[{number}]")
            number += 1
    raise InvalidRecord(f"{path}: $.individual_results: the list does not end")


def _frame(file: BinaryIO, path: str | Path) -> Iterator[bytes]:
    """Yield the lines of the file without those between the ends of the list."""
    listed = False
    size = 0
    for line in _lines(file, path):
        listed = listed and line.rstrip() not in _ENDS
        if not listed:
            size += len(line)
            if size > MAX_DOCUMENT_BYTES:
                raise InvalidRecord(f"{path}: the file is larger than {MAX_DOCUMENT_BYTES} bytes")
            yield line
        listed = listed or line.rstrip() == _LIST


def _lines(file: BinaryIO, path: str | Path) -> Iterator[bytes]:
    while line := file.readline(MAX_DOCUMENT_BYTES + 1):
        if len(line) > MAX_DOCUMENT_BYTES:
            raise InvalidRecord(f"{path}: the file is larger than {MAX_DOCUMENT_BYTES} bytes")
        yield line


def _indented(value: object) -> bytes:
    return msgspec.json.format(msgspec.json.encode(value), indent=2)
