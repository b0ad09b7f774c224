"""Comparison of an answer's typed values and abstention with the expected ones (spec section 9)."""

import math
from collections import Counter
from collections.abc import Callable, Sequence
from functools import partial
from typing import Any, Final, NamedTuple

import msgspec

from memfin.contracts.rag import RagAnswer, RagDateRange, RagQuestion
from memfin.rag.extraction import answers
from memfin.rag.extraction.facts import PartialDate, parse_date
from memfin.rag.extraction.normalize import contains, fold, load_patterns, plain
from memfin.text.clauses import clauses

INEXACT_SHARE: Final = 0.01  # how far an amount may be off without ``numeric_exact``
MAX_SHOWN_CANDIDATES: Final = 8
MAX_SHOWN_TEXT: Final = 200

_TYPED: Final = ("amount", "amount_breakdown", "date", "date_range", "count", "boolean", "entity")
_PATTERNS: Final = load_patterns("fields")


class Given(NamedTuple):
    """An answer with its question, the facts of its text, and its stance."""

    question: RagQuestion
    answer: RagAnswer
    read: answers.ReadAnswer
    stance: answers.Abstention

    def contradicts(self, values: Sequence[Any], *, agrees: bool) -> bool:
        """Return True if the text gives values other than a field's, apart from those of the question."""
        return bool(values) and not agrees and not {fact.value for fact in self.read.asked}.issuperset(values)


def has_typed_answer(answer: RagAnswer) -> bool:
    """Return True if the answer fills a typed field other than free ``text``."""
    return any(getattr(answer, name) is not None for name in _TYPED)


def stance(answer: RagAnswer, question: str) -> answers.Abstention:
    """Return the abstention of an answer: a typed field decides, then ``abstained``, then its words."""
    if has_typed_answer(answer):
        return answers.Abstention(abstains=False, source="typed_answer")
    if answer.abstained is not None:
        return answers.Abstention(abstains=answer.abstained, source="declared")
    found = answers.recognize_abstention(answer.answer, question)
    if found.reason == "empty" and answer.text:
        found = answers.recognize_abstention(answer.text, question)
    return found


class Match(NamedTuple):
    """The value that an answer gives for a field, its source, and the reason why it does not match."""

    got: Any
    reason: str | None = None
    source: str = "field"
    candidates: Sequence[Any] = ()


def matches(given: Given) -> list[dict[str, Any]]:
    """Return a record for every typed field that the question expects."""
    expected = given.question.expected
    records: list[dict[str, Any]] = []
    for name, compare in _FIELDS.items():
        wanted = expected.breakdown() if name == "amount_breakdown" else expected[name]
        if wanted is None:
            continue
        match = compare(given, wanted)
        record = {"field": name, "matched": match.reason is None, "expected": msgspec.to_builtins(wanted)}
        record |= {"got": match.got, "source": match.source}
        if match.reason:
            record["reason"] = match.reason
        if len(match.candidates) > 1:
            record["candidates"] = list(match.candidates)[:MAX_SHOWN_CANDIDATES]
        records.append(record)
    return records


def _differs(same: object) -> str | None:
    return None if same else "differs"


def _extracted(
    chosen: answers.Chosen[Any],
    same: Callable[[Any], bool],
    shown: Callable[[Any], Any] = lambda value: value,
) -> Match:
    """Compare the value chosen from the text of an answer."""
    candidates = tuple(map(shown, chosen.candidates))
    if chosen.value is None:
        return Match(None, chosen.reason, "answer", candidates)
    return Match(shown(chosen.value), _differs(same(chosen.value)), "answer", candidates)


def _same(got: float, expected: float, *, exact: bool) -> bool:
    return math.isclose(got, expected, rel_tol=1e-9 if exact else INEXACT_SHARE, abs_tol=1e-6)


def _amount(given: Given, expected: float) -> Match:
    exact = given.question.scoring.numeric_exact
    got = given.answer.amount
    if got is None:
        chosen = answers.choose_amount(given.read)
        return _extracted(chosen, lambda value: _same(value, expected, exact=exact))
    values = [fact.value for fact in answers.amounts(given.read) if fact.kind == "amount"]
    agrees = any(_same(value, got, exact=True) for value in (*values, sum(values)))
    if given.contradicts(values, agrees=agrees):
        return Match(got, "contradicts_text", candidates=values)
    return Match(got, _differs(_same(got, expected, exact=exact)))


def _breakdown(given: Given, expected: Sequence[float]) -> Match:
    def same(got: Sequence[float]) -> bool:
        counted, wanted = (Counter(round(value, 4) for value in values) for values in (got, expected))
        return counted == wanted or (
            not given.question.scoring.numeric_exact
            and len(got) == len(expected)
            and all(_same(a, b, exact=False) for a, b in zip(sorted(got), sorted(expected), strict=True))
        )

    got = given.answer.amount_breakdown
    if got is None:
        return _extracted(answers.choose_breakdown(given.read), same, list)
    return Match(list(got), _differs(same(got)))


def _date_matches(got: PartialDate | None, expected: PartialDate, *, exact: bool) -> bool:
    if got is None or exact:
        return got == expected
    return got.agrees(expected) and not (got.month is None and expected.month is not None)


def _date(given: Given, text: str) -> Match:
    expected = parse_date(text)
    if expected is None:
        return Match(None, "expected_unreadable", "answer")
    same = partial(_date_matches, expected=expected, exact=given.question.scoring.date_exact)
    if given.answer.date is None:
        return _extracted(answers.choose_date(given.read), same, PartialDate.iso)
    got = parse_date(given.answer.date)
    if got is None:
        return Match(given.answer.date, "unreadable")
    values = [date for date in answers.dates(given.read) if date.day is not None]
    if given.contradicts(values, agrees=any(date.agrees(got) for date in values)):
        return Match(got.iso(), "contradicts_text")
    return Match(got.iso(), _differs(same(got)))


def _range(given: Given, expected: RagDateRange) -> Match:
    exact, period = given.question.scoring.date_exact, given.answer.date_range
    first, last = parse_date(expected.start), parse_date(expected.end)
    if first is None or last is None:
        return Match(None, "expected_unreadable", "answer")
    if period is None:
        chosen = answers.choose_range(given.read)
        if chosen.value is None:
            return Match(None, chosen.reason, "answer")
        got: tuple[PartialDate | None, PartialDate | None] = chosen.value
    else:
        got = (parse_date(period.start or ""), parse_date(period.end or ""))
    same = all(_date_matches(end, wish, exact=exact) for end, wish in zip(got, (first, last), strict=True))
    shown = {name: end and end.iso() for name, end in zip(("start", "end"), got, strict=True)}
    return Match(shown, _differs(same), "answer" if period is None else "field")


def _count(given: Given, expected: int) -> Match:
    got, unit = given.answer.count, given.read.unit
    if got is None:
        return _extracted(answers.choose_count(given.read), lambda value: value == expected)
    values = {fact.value for fact in answers.counts(given.read) if fact.kind == "count" and fact.unit == unit}
    if unit and values and float(got) not in values:
        return Match(got, "contradicts_text")
    return Match(got, _differs(got == expected))


def _boolean(given: Given, expected: object) -> Match:
    got = given.answer.boolean
    if got is None:
        if given.stance.abstains:
            return Match(None, "abstains", "answer")
        if (got := answers.polarity(_words(given), given.question.question)) is None:
            return Match(None, "undecided", "answer")
        return Match(got, _differs(got is expected), "answer")
    shown = plain(given.answer.answer)
    lead = False if _PATTERNS["not_done"].match(shown) else answers.leading_polarity(shown)
    if lead is not None and answers.polarity(shown, given.question.question) is not got:
        return Match(got, "contradicts_text")
    return Match(got, _differs(got is expected))


def _text(given: Given, expected: str) -> Match:
    answer = given.answer
    source, got = ("answer", answer.answer) if answer.text is None else ("field", answer.text)
    return Match(got[:MAX_SHOWN_TEXT], _missing(expected, got, alone=False), source)


def _entity(given: Given, expected: str) -> Match:
    got = given.answer.entity
    if got is not None:
        bare, wanted = (fold(_PATTERNS["title"].sub("", name.strip())) for name in (got, expected))
        return Match(got, _differs(bare == wanted or fold(got) == fold(expected)))
    reason = _missing(expected, _words(given), alone=True)
    return Match(expected if reason is None else None, reason, "answer")


def _words(given: Given) -> str:
    answer = given.answer
    return answer.answer if answer.text is None else f"{answer.answer}\n{answer.text}"


def _missing(expected: str, text: str, *, alone: bool) -> str | None:
    """Return the reason why a text does not give the expected words as its answer, or None.

    ``alone``: they may not be one of several that are listed or left open (甲、乙; 甲或乙).
    """
    expected, shown = (answers.negated_once(plain(each)) for each in (expected, text))
    needle, shown = fold(expected), _PATTERNS["echo_of_no"].sub("", shown)
    if not needle or not contains(needle, fold(shown)):
        return "not_mentioned"
    reasons = [
        _denial(expected, clause, alone=alone) for clause in clauses(shown) if contains(needle, fold(clause))
    ]
    return None if None in reasons or not reasons else reasons[-1]


def _denial(expected: str, clause: str, *, alone: bool) -> str | None:
    words = plain(expected)
    if answers.signs_of_not_knowing(clause) and not answers.signs_of_not_knowing(words):
        return "nothing_known_of_it"
    place = clause.casefold().find(words.casefold())
    before, after = (clause[:place], clause[place + len(words) :]) if place >= 0 else ("", "")
    if _PATTERNS["denied"].search(before):
        return "denied"
    is_listed = _PATTERNS["or_before"].search(before) or _PATTERNS["or_after"].match(after)
    return "one_of_several" if alone and is_listed else None


_FIELDS: Final[dict[str, Callable[[Given, Any], Match]]] = {
    "amount_total": _amount,
    "amount_breakdown": _breakdown,
    "date": _date,
    "date_range": _range,
    "count": _count,
    "text_answer": _text,
    "boolean_answer": _boolean,
    "entity": _entity,
}
