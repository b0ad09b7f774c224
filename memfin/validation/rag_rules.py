"""What must hold of question files beyond their structure (RAG benchmark schema)."""

import re
from collections.abc import Callable, Iterator
from typing import Final, get_args

from memfin.contracts import RagBenchmark, RagExpected, RagQuestionEntry, RequiredEvidence, iso_span
from memfin.contracts.rag import EvidenceLocation, RagDateRange, RagScoring, RagType
from memfin.contracts.reading import shown
from memfin.validation.findings import Steps, Violation
from memfin.validation.rules import RunRules

FACTS: Final = (
    "amount_total",
    "amount_breakdown",
    "date",
    "date_range",
    "count",
    "text_answer",
    "boolean_answer",
    "entity",
)
"""The fields of ``expected`` that a fact can be compared by."""

_Place = tuple[int, str, str | None, str | None]
_CONTROL: Final = re.compile(r"[\x00-\x1f\x7f]")
_LINES: Final = re.compile(r"([0-9]{1,9})(?:-([0-9]{1,9}))?")


class QuestionRules(RunRules):
    """What must hold of a question file beyond its structure.

    ``seen`` maps the ids of files that were checked before to these files; ids of this one are added.
    ``benchmark`` is the file's content once it was found structurally sound.
    """

    def __init__(self, name: str = "", seen: dict[str, str] | None = None) -> None:
        super().__init__()
        self.benchmark: RagBenchmark | None = None
        self._name = name
        self._seen = {} if seen is None else seen
        self._own: set[str] = set()

    def check(self, record: RagBenchmark) -> Iterator[Violation]:
        """Check one file."""
        self.benchmark = record
        if not record.questions:
            yield Violation(("questions",), "there are no questions")
        for name in record.evaluation_criteria.type_weights:
            if name not in get_args(RagType):
                known = ", ".join(get_args(RagType))
                yield Violation(
                    ("evaluation_criteria", "type_weights", name),
                    f"is no type of question; there are {known}",
                )
        for index, entry in enumerate(record.questions):
            steps: Steps = ("questions", index)
            yield from self._identity(entry, steps)
            yield from _at(steps, _question(entry, entry.type or record.benchmark_type))

    def _identity(self, entry: RagQuestionEntry, steps: Steps) -> Iterator[Violation]:
        where = (*steps, "id")
        if not entry.id.strip():
            yield Violation(where, "the id is blank")
            return
        if _CONTROL.search(entry.id):
            yield Violation(where, f"{shown(entry.id)} holds a control character")
        first = self._seen.setdefault(entry.id, self._name)
        if first != self._name:
            yield Violation(where, f"{shown(entry.id)} stands in {first} too")
        elif entry.id in self._own:
            yield Violation(where, f"{shown(entry.id)} stands earlier in this file too")
        self._own.add(entry.id)


def _at(steps: Steps, violations: Iterator[Violation]) -> Iterator[Violation]:
    return (Violation((*steps, *inner), message) for inner, message in violations)


def _question(entry: RagQuestionEntry, kind: RagType | None) -> Iterator[Violation]:
    yield from _not_blank(("question",), entry.question)
    places = set[_Place]()
    for index, evidence in enumerate(entry.required_evidence):
        steps: Steps = ("required_evidence", index)
        yield from _not_blank((*steps, "must_include"), evidence.must_include)
        if (place := _place(evidence)) in places:
            yield Violation(steps, "the same evidence is required twice")
        places.add(place)
    yield from _at(("expected",), _expected(entry.expected))
    yield from _quotes(entry)
    if entry.evidence_location is not None:
        yield from _at(("evidence_location",), _lines(entry.evidence_location))
    if kind is None:
        yield Violation(("type",), "missing, and the file has no benchmark_type")
    else:
        yield from _OF_TYPE[kind](entry)


def _fact(entry: RagQuestionEntry) -> Iterator[Violation]:
    if all(entry.expected[name] is None for name in FACTS):
        yield Violation(("expected",), f"expects nothing; name at least one of {', '.join(FACTS)}")


def _evidence_set(entry: RagQuestionEntry) -> Iterator[Violation]:
    required, least = len(entry.required_evidence), entry.expected.evidence_count_min
    if not required:
        yield Violation(("required_evidence",), "is empty, so nothing can be found")
    elif least is not None and least > required:
        yield Violation(
            ("expected", "evidence_count_min"), f"{least}, but required_evidence holds {required}"
        )


def _conflict_gap(entry: RagQuestionEntry) -> Iterator[Violation]:
    scoring: RagScoring = entry.scoring
    required = scoring.abstention_required
    if None not in (required, entry.should_abstain) and required != entry.should_abstain:
        yield Violation(
            ("scoring", "abstention_required"),
            f"{str(required).lower()} contradicts should_abstain {str(entry.should_abstain).lower()}",
        )
    if scoring.quote_required and entry.required_quote is None:
        yield Violation(("required_quote",), "missing, though scoring.quote_required is true")


_OF_TYPE: Final[dict[RagType, Callable[[RagQuestionEntry], Iterator[Violation]]]] = {
    "fact_exact": _fact,
    "evidence_set": _evidence_set,
    "conflict_gap": _conflict_gap,
}


def _expected(expected: RagExpected) -> Iterator[Violation]:
    if expected.date is not None:
        yield from _date(("date",), expected.date)
    if expected.date_range is not None:
        yield from _at(("date_range",), _date_range(expected.date_range))
    if expected.amount_breakdown == []:
        yield Violation(("amount_breakdown",), "is empty, so nothing is expected")
    for name in ("text_answer", "entity"):
        yield from _not_blank((name,), expected[name])
    for index, point in enumerate(expected.key_points):
        yield from _not_blank(("key_points", index), point)


def _date(steps: Steps, text: str) -> Iterator[Violation]:
    if iso_span(text) is None:
        yield Violation(steps, f"{shown(text)} is no date; write 2020-08-30, or less: 2020-08, 2020")


def _date_range(period: RagDateRange) -> Iterator[Violation]:
    yield from _date(("start",), period.start)
    yield from _date(("end",), period.end)
    start, end = iso_span(period.start), iso_span(period.end)
    if start is not None and end is not None and start[0] > end[1]:
        yield Violation((), f"start {period.start} is after end {period.end}")


def _quotes(entry: RagQuestionEntry) -> Iterator[Violation]:
    yield from _not_blank(("required_quote",), entry.required_quote)
    for index, quote in enumerate(entry.additional_quotes):
        yield from _not_blank(("additional_quotes", index), quote)


def _lines(location: EvidenceLocation) -> Iterator[Violation]:
    if location.lines is not None:
        try:
            line_ranges(location.lines)
        except ValueError as problem:
            yield Violation(("lines",), str(problem))


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


def _not_blank(steps: Steps, text: str | None) -> Iterator[Violation]:
    if text is not None and not text.strip():
        yield Violation(steps, "is blank")


def _place(evidence: RequiredEvidence) -> _Place:
    return evidence.page, evidence.must_include.strip(), evidence.section, evidence.speaker
