"""Rules for RAG benchmarks, their results, and the results as a judge marks them."""

import math
import re
from collections.abc import Callable, Iterator, Mapping, Sequence
from functools import partial
from pathlib import Path
from types import MappingProxyType
from typing import Any, BinaryIO, Final, get_args

import msgspec

from memfin.contracts import Counters, RagBenchmark, RagExpected, RagQuestionEntry, iso_span
from memfin.contracts.catalog import contract_of_file
from memfin.contracts.rag import (
    PASS_THRESHOLD,
    RagGroup,
    RagIndividual,
    RagJudged,
    RagJudgeGroup,
    RagJudgeSummary,
    RagResult,
    RagSummary,
    RagType,
)
from memfin.contracts.reading import Line, iter_lines, shown
from memfin.errors import UsageError
from memfin.validation.findings import Finding, Steps, finding
from memfin.validation.rules import JudgementRules, Row, RunRules, at, digest

FOLDER: Final = "questions"
MAX_QUESTIONS_BYTES: Final = 64 * 1024 * 1024
"""The largest file of questions, or line of one, that is read, in bytes."""

JSON_LINES: Final = (".jsonl", ".ndjson")
"""Suffixes of files of questions with a JSON text per line."""

FACTS: Final = (
    *("amount_total", "amount_breakdown", "date", "date_range"),
    *("count", "text_answer", "boolean_answer", "entity"),
)
"""The fields of ``expected`` that a fact can be compared by."""

MARKS: Final = ("faithfulness", "answer_correctness")

_SLACK: Final = 1e-9
_NO_QUESTIONS: Final = frozenset({"schema.json"})
"""JSON files beside question files that hold none, such as the benchmark's own schema."""
_CONTROL: Final = re.compile(r"[\x00-\x1f\x7f]")
_LINES: Final = re.compile(r"([0-9]{1,9})(?:-([0-9]{1,9}))?")


def is_benchmark(directory: str | Path) -> bool:
    """Return True if a directory holds a benchmark: a folder ``questions``, or is that folder itself."""
    root = Path(directory)
    return (root / FOLDER).is_dir() or root.name == FOLDER


def question_files(path: str | Path) -> list[Path]:
    """Return the question files of a benchmark, by name.

    A file stands for itself. Of a directory they are the files ``questions/*.json``; without that folder,
    the JSON files in the directory itself but for ``schema.json`` and artifacts of runs. Hidden files are
    left out; folders below are not searched.

    Raises:
        UsageError: when there are none, or the directory cannot be read.
    """
    root = Path(path)
    try:
        if not root.is_dir():
            return [root]
        folder = root / FOLDER if (root / FOLDER).is_dir() else root
        names = sorted(item.name for item in folder.iterdir())
    except (OSError, ValueError) as problem:  # ValueError: a NUL in the path
        reason = problem.strerror if isinstance(problem, OSError) else str(problem)
        raise UsageError(f"cannot read {path}: {reason}") from None
    names = [name for name in names if name.lower().endswith(".json") and not name.startswith(".")]
    if folder.name != FOLDER:
        names = [
            name
            for name in names
            if name not in _NO_QUESTIONS and contract_of_file(name).file_format != "json"
        ]
    if not names:
        raise UsageError(f"{path} holds no questions; a benchmark has files {FOLDER}/*.json")
    return [folder / name for name in names]


def question_lines(file: BinaryIO) -> Iterator[tuple[Line, Steps]]:
    """Yield the lines of a JSONL file of questions, each as the text of a question file.

    A line is one, or a question alone; the steps are those to it in the text, which are in no line then.
    """
    for line in iter_lines(file, MAX_QUESTIONS_BYTES):
        try:
            alone = "questions" not in msgspec.json.decode(line.data, type=dict[str, msgspec.Raw])
        except (msgspec.MsgspecError, UnicodeDecodeError, RecursionError):
            alone = False  # its check reports the problem
        data = b'{"questions":[' + line.data + b"]}" if alone else line.data
        yield line._replace(data=data), ("questions", 0) if alone else ()


class QuestionRules(RunRules):
    """Question files: ids, evidence, expectations, and the needs of each type of question.

    ``seen`` maps the ids of files that were checked before to these files; ids of this one are added.
    """

    def __init__(self, name: str = "", seen: dict[str, str] | None = None) -> None:
        super().__init__(self._rows)
        self._name = name
        self._others = {} if seen is None else seen

    def _rows(self, record: RagBenchmark) -> Iterator[Row]:
        types = get_args(RagType)
        yield not record.questions, "questions", "there are no questions"
        for name in record.evaluation_criteria.type_weights:
            message = f"is no type of question; there are {', '.join(types)}"
            yield name not in types, ("evaluation_criteria", "type_weights", name), message
        own, other = record.evaluation_criteria.pass_threshold, record.evaluation_criteria.passing_threshold
        differs = own != PASS_THRESHOLD and other not in (None, own)
        yield differs, ("evaluation_criteria", "passing_threshold"), f"contradicts pass_threshold {own:g}"
        for index, entry in enumerate(record.questions):
            yield from at(("questions", index), self._identity(entry.id))
            yield from at(("questions", index), _question(entry, entry.type or record.benchmark_type))

    def _identity(self, name: str) -> Iterator[Row]:
        if not name.strip():
            yield True, "id", "the id is blank"
            return
        yield _CONTROL.search(name), "id", f"{shown(name)} holds a control character"
        first, is_new = self._others.setdefault(name, self._name), self.is_new(name)
        yield first != self._name, "id", f"{shown(name)} stands in {first} too"
        yield first == self._name and not is_new, "id", f"{shown(name)} stands earlier in this file too"


def _question(entry: RagQuestionEntry, kind: RagType | None) -> Iterator[Row]:
    yield from _texts(entry)
    places = set[tuple[Any, ...]]()
    for index, evidence in enumerate(entry.required_evidence):
        place = (evidence.page, evidence.must_include.strip(), evidence.section, evidence.speaker)
        yield place in places, ("required_evidence", index), "the same evidence is required twice"
        places.add(place)
    yield from at(("expected",), _expected(entry.expected))
    if entry.evidence_location is not None and entry.evidence_location.lines is not None:
        try:
            line_ranges(entry.evidence_location.lines)
        except ValueError as problem:
            yield True, ("evidence_location", "lines"), str(problem)
    differs = entry.weight != 1 and entry.scoring.weight not in (None, entry.weight)
    yield differs, ("scoring", "weight"), f"contradicts the weight {entry.weight:g} of the question"
    yield kind is None, "type", "missing, and the file has no benchmark_type"
    yield from _of_type(entry, kind)


def _texts(entry: RagQuestionEntry) -> Iterator[Row]:
    expected = entry.expected
    texts: dict[Steps, str | None] = {
        ("question",): entry.question,
        ("expected", "text_answer"): expected.text_answer,
        ("expected", "entity"): expected.entity,
        ("required_quote",): entry.required_quote,
    }
    texts |= {("expected", "key_points", index): text for index, text in enumerate(expected.key_points)}
    texts |= {("additional_quotes", index): text for index, text in enumerate(entry.additional_quotes)}
    for index, evidence in enumerate(entry.required_evidence):
        texts["required_evidence", index, "must_include"] = evidence.must_include
    for steps, text in texts.items():
        yield text is not None and not text.strip(), steps, "is blank"


def _expected(expected: RagExpected) -> Iterator[Row]:
    period = expected.date_range
    if expected.date is not None:
        yield _no_date(("date",), expected.date)
    if period is not None:
        yield _no_date(("date_range", "start"), period.start)
        yield _no_date(("date_range", "end"), period.end)
        start, end = iso_span(period.start), iso_span(period.end)
        reversed_ = start is not None and end is not None and start[0] > end[1]
        yield reversed_, "date_range", f"start {period.start} is after end {period.end}"
    yield expected.amount_breakdown == [], "amount_breakdown", "is empty, so nothing is expected"


def _no_date(steps: Steps, text: str) -> Row:
    message = f"{shown(text)} is no date; write 2020-08-30, or less: 2020-08, 2020"
    return iso_span(text) is None, steps, message


def _of_type(entry: RagQuestionEntry, kind: RagType | None) -> Iterator[Row]:
    """Check the needs of each type of question."""
    if kind == "fact_exact":
        nothing = all(entry.expected[name] is None for name in FACTS)
        yield nothing, "expected", f"expects nothing; name at least one of {', '.join(FACTS)}"
    elif kind == "evidence_set":
        required, needed = len(entry.required_evidence), entry.expected.evidence_count_min
        yield not required, "required_evidence", "is empty, so nothing can be found"
        message = f"{needed}, but required_evidence holds {required}"
        yield required and (needed or 0) > required, ("expected", "evidence_count_min"), message
    elif kind == "conflict_gap":
        asked, given = entry.scoring.abstention_required, entry.should_abstain
        message = f"{str(asked).lower()} contradicts should_abstain {str(given).lower()}"
        contradicts = None not in (asked, given) and asked != given
        yield contradicts, ("scoring", "abstention_required"), message
        unquoted = entry.scoring.quote_required and not (entry.required_quote or entry.additional_quotes)
        yield unquoted, "required_quote", "missing, though scoring.quote_required is true"


def line_ranges(text: str) -> list[tuple[int, int]]:
    """Return the ranges of lines, both ends included, that ``105-107``, ``105`` or ``3, 7-9`` name.

    Raises:
        ValueError: for another form, line 0, or a range that ends before it begins.
    """
    ranges = []
    for part in text.split(","):
        match = _LINES.fullmatch(part.strip())
        if match is None:
            raise ValueError(f"{shown(text)} are no lines; write 105-107, 105, or several with commas")
        first, last = int(match[1]), int(match[2] or match[1])
        if not 1 <= first <= last:
            raise ValueError(f"{shown(text)} are no lines; they count from 1 and ascend")
        ranges.append((first, last))
    return ranges


# ---- results


Scores = dict[bytes, tuple[bool, float, float]]
"""Pass, score and maximum score of questions, by a digest of their ids."""


class RagResultRules(RunRules):
    """``rag_results.jsonl``: a question stands once, and its score is possible."""

    def __init__(self) -> None:
        super().__init__(_scored, self._rows)
        self.scores: Scores = {}
        self._places: set[int] = set()
        self._errors = 0

    def _rows(self, record: RagResult) -> Iterator[Row]:
        key, place, error = digest(record.id), record.question_index, record.error
        yield key in self.scores, "id", f"{shown(record.id)} stands on an earlier line too"
        yield place in self._places, "question_index", f"{place} is that of an earlier line, too"
        scored = error is not None and (record.passed or record.score)
        yield scored, "error", "a question that failed has no score and does not pass"
        differs = record.status is not None and (record.status == "ok") != (error is None)
        yield differs, "status", f"{record.status}, while error is {shown(error)}"
        yield error is None and record.answer is None, "answer", "missing, and no error says why"
        self._places.add(place)
        self.scores[key] = (record.passed, record.score, record.max_score)
        self._errors += error is not None

    def counters(self) -> Counters:
        """Return the counters of the manifest: a question is a dialogue of one turn."""
        total = len(self.scores)
        return Counters(
            total_dialogs=total, valid_dialogs=total, failed_dialogs=self._errors, total_turn_pairs=total
        )


def _scored(record: RagResult | RagIndividual) -> Iterator[Row]:
    """Check a score, and the judge's marks: both of them, or an error."""
    possible = -_SLACK <= record.score <= record.max_score + _SLACK
    yield not possible, "score", f"{record.score} is not between 0 and max_score {record.max_score}"
    judged = record.judge
    if judged is not msgspec.UNSET:
        yield record.error is not None, "judge", "there, though the question has no answer"
        marked = [judged[mark] is not None for mark in MARKS]
        message = "a judged answer has both marks, and a failed judgement an error"
        yield marked != [judged.error is None] * len(MARKS), "judge", message
        declined = judged.declined is not None and judged.error is None
        yield declined, ("judge", "declined"), "set, though the judgement did not fail"


def _summary(record: RagSummary) -> Iterator[Row]:
    """Check that the sums of a summary are those of the questions that it lists."""
    listed = record.individual_results
    for index, one in enumerate(listed):
        yield from at(("individual_results", index), _scored(one))
    yield from _judge_summary(record.judge, listed)
    total = RagGroup(
        count=record.total_tests,
        passed=record.passed_tests,
        total_score=record.overall_score,
        max_score=record.max_score,
    )
    yield from _sums(total, listed, ("total_tests", "passed_tests", "overall_score"))
    for name, group in record.by_type.items():
        of_type = [one for one in listed if one.type == name]
        yield from at(("by_type", name), _sums(group, of_type, ("count", "passed", "total_score")))
    missing = {one.type for one in listed} - set(record.by_type)
    yield missing, "by_type", f"{', '.join(sorted(missing))} is missing"
    share = record.passed_tests / record.total_tests if record.total_tests else 0.0
    percent = 100 * record.overall_score / record.max_score if record.max_score else 0.0
    for name, found in (("pass_rate", share), ("overall_percentage", percent)):
        yield not _close(record[name], found), name, f"{record[name]}, but the sums amount to {found}"
    for name, baseline in (record.baselines or {}).items():
        found = percent - baseline.overall_percentage
        message = f"{baseline.difference}, but the percentages differ by {found}"
        yield not _close(baseline.difference, found), ("baselines", name, "difference"), message


def _sums(stated: RagGroup, listed: Sequence[RagIndividual], names: tuple[str, str, str]) -> Iterator[Row]:
    count, passed, score = names
    for name, there, here in (
        (count, stated.count, len(listed)),
        (passed, stated.passed, sum(one.passed for one in listed)),
        (score, stated.total_score, math.fsum(one.score for one in listed)),
        ("max_score", stated.max_score, math.fsum(one.max_score for one in listed)),
    ):
        yield not _close(there, here), name, f"{there}, but the listed questions amount to {here}"


def _close(one: float, other: float) -> bool:
    return math.isclose(one, other, rel_tol=_SLACK, abs_tol=_SLACK)


def _judge_summary(
    summary: RagJudgeSummary | msgspec.UnsetType, listed: Sequence[RagIndividual]
) -> Iterator[Row]:
    judged = [(one.type, one.judge) for one in listed if one.judge is not msgspec.UNSET]
    if summary is msgspec.UNSET:
        yield judged, "judge", f"missing, but {len(judged)} listed answers were judged"
        return
    yield from at(("judge",), _judge_group(summary, [each for _, each in judged]))
    for name in {kind for kind, _ in judged} | set(summary.by_type):
        group = summary.by_type.get(name, RagJudgeGroup())
        of_type = [each for kind, each in judged if kind == name]
        yield from at(("judge", "by_type", name), _judge_group(group, of_type))


def _judge_group(group: RagJudgeGroup, judged: Sequence[RagJudged]) -> Iterator[Row]:
    failed = sum(each.error is not None for each in judged)
    for name, stated, here in (("asked", group.asked, len(judged)), ("failed", group.failed, failed)):
        yield stated != here, name, f"{stated}, but the listed questions amount to {here}"
    for mark in MARKS:
        scores = [each[mark] for each in judged if each[mark] is not None]
        count, interval = group[mark].count, group[mark].ci95
        there, found = group[mark].mean or 0.0, math.fsum(scores) / len(scores) if scores else 0.0
        differs = count != len(scores) or not math.isclose(there, found, rel_tol=_SLACK)
        listed = f"the listed questions have {len(scores)}, mean {found}"
        yield differs, mark, f"{count} marks, mean {there}, but {listed}"
        reversed_ = interval is not None and interval[0] > interval[1]
        yield reversed_, (mark, "ci95"), "the lower bound is above the upper bound"


def results_against_answers(path: Path, results: Scores, answers: Scores) -> Iterator[Finding]:
    """Yield the differences of results and the answers that were written before they were judged."""
    if lost := len(results.keys() - answers.keys()):
        yield finding(path, f"{lost} questions are not in rag_answers.jsonl")
    changed = sum(key in answers and answers[key] != scores for key, scores in results.items())
    if changed:
        message = f"{changed} questions have another score than in rag_answers.jsonl; a judge changes none"
        yield finding(path, message, ("score",))


def summary_against_results(path: Path, summary: RagSummary, results: Scores) -> Iterator[Finding]:
    """Yield the differences of a summary and the results of its run."""
    for index, one in enumerate(summary.individual_results):
        found = results.get(digest(one.id))
        if found == (one.passed, one.score, one.max_score):
            continue
        message = "passed, score and max_score differ from those in rag_results.jsonl"
        if found is None:
            message = f"{shown(one.id)} is no question of rag_results.jsonl"
        yield finding(path, message, ("individual_results", index))
    if (here := len(summary.individual_results)) < (there := len(results)):
        message = f"{here} questions, but rag_results.jsonl holds {there}"
        yield finding(path, message, ("individual_results",))


RAG_RULES: Final[Mapping[str, Callable[[], RunRules]]] = MappingProxyType(
    {
        "rag-benchmark": QuestionRules,
        "rag-result": RagResultRules,
        "rag-answered": RagResultRules,
        "rag-judgement": partial(JudgementRules, ("question_index",), "answer"),
        "rag-judge-controls": RunRules,
        "rag-summary": partial(RunRules, _summary),
    }
)
