"""Typed values and abstention of an answer against the expected ones (spec section 9)."""

import math
import re
from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from typing import Any, Final, NamedTuple

from memfin.contracts.rag import RagAnswer, RagQuestion
from memfin.rag.extraction.answers import (
    Told,
    amounts,
    choose_amount,
    choose_breakdown,
    choose_count,
    choose_date,
    choose_range,
    counts,
    dates,
    leading_polarity,
    polarity,
    recognize_abstention,
    signs_of_not_knowing,
)
from memfin.rag.extraction.dates import PartialDate, parse_date
from memfin.rag.extraction.normalize import contains, fold, plain
from memfin.text.clauses import clauses


class Stance(NamedTuple):
    """Whether an answer abstains, who says so (``declared``, ``text``, ``typed_answer``), and how."""

    abstains: bool
    source: str
    sign: str | None = None
    reason: str | None = None

    def details(self) -> dict[str, Any]:
        """Return what is recorded of it."""
        return {
            "abstained": self.abstains,
            "source": self.source,
            **({"sign": self.sign} if self.sign else {}),
            **({"reason": self.reason} if self.reason else {}),
        }


def has_typed_answer(answer: RagAnswer) -> bool:
    """Say whether the answer fills a typed field; free ``text`` may say anything and is none."""
    return any(
        value is not None
        for value in (
            answer.amount,
            answer.amount_breakdown,
            answer.date,
            answer.date_range,
            answer.count,
            answer.boolean,
            answer.entity,
        )
    )


def stance(answer: RagAnswer, question: str) -> Stance:
    """Say whether an answer abstains.

    Who fills a typed field answers, whatever else is said. Otherwise ``abstained`` decides where it is given,
    and the answer's words where it is not.
    """
    if has_typed_answer(answer):
        return Stance(abstains=False, source="typed_answer")
    if answer.abstained is not None:
        return Stance(abstains=answer.abstained, source="declared")
    found = recognize_abstention(answer.answer, question)
    if not found.abstains and found.reason == "empty" and answer.text:
        found = recognize_abstention(answer.text, question)
    return Stance(found.abstains, "text", found.sign, found.reason)


NOT_EXACT: Final = 0.01
"""The share by which an amount may be off where ``numeric_exact`` is false."""


class Match(NamedTuple):
    """One expected field: what was expected, what the answer gives, from where, and why it does not match."""

    field: str
    matched: bool
    expected: Any
    got: Any
    source: str
    reason: str | None = None
    candidates: Sequence[Any] = ()

    def details(self) -> dict[str, Any]:
        """Return what is recorded of it."""
        return {
            "field": self.field,
            "matched": self.matched,
            "expected": self.expected,
            "got": self.got,
            "source": self.source,
            **({"reason": self.reason} if self.reason and not self.matched else {}),
            **({"candidates": list(self.candidates)[:_SHOWN]} if len(self.candidates) > 1 else {}),
        }


class Given(NamedTuple):
    """What the fields of an answer are read from."""

    question: RagQuestion
    answer: RagAnswer
    told: Told
    stance: Stance

    @property
    def words(self) -> str:
        """The answer's text and its ``text`` field."""
        return self.answer.answer if self.answer.text is None else f"{self.answer.answer}\n{self.answer.text}"


_SHOWN: Final = 8
_TITLE: Final = re.compile(r"(?:先生|女士|小姐|同志)$|[(（].*[)）]$|^(?:mr|mrs|ms|dr)\.?\s", re.IGNORECASE)
_DENIED: Final = re.compile(
    r"(?:不是|并非|而非|不[在叫姓住]|不位于|不属于|没有|不会是|\bnot|\bnever|n't|rather than|instead of)"
    r"\s?(?:the\s)?$",
    re.IGNORECASE,
)
_NOT_DONE: Final = re.compile(r"(?:从?未|从?没有?|并没有?|并未)(?!来|必|[忘错否少不没问])[\u4e00-\u9fff]")
_OR_BEFORE: Final = re.compile(r"(?:或者?|还是|、|/|\bor)\s?$", re.IGNORECASE)
_OR_AFTER: Final = re.compile(r"\s?(?:或者?|还是|、|/|or\b)", re.IGNORECASE)


def _same(got: float, expected: float, *, exact: bool) -> bool:
    return math.isclose(got, expected, rel_tol=1e-9 if exact else NOT_EXACT, abs_tol=1e-6)


def _match(
    field: str, expected: Any, got: Any, source: str, *, same: bool, candidates: Sequence[Any] = ()
) -> Match:
    return Match(field, same, expected, got, source, "differs", candidates)


def _missing(field: str, expected: Any, reason: str, candidates: Sequence[Any] = ()) -> Match:
    return Match(
        field,
        matched=False,
        expected=expected,
        got=None,
        source="answer",
        reason=reason,
        candidates=candidates,
    )


def _amount(given: Given) -> Match:
    expected = given.question.expected.amount_total
    exact = given.question.scoring.numeric_exact
    field = "amount_total"
    got = given.answer.amount
    if got is None:
        chosen = choose_amount(given.told)
        if chosen.value is None:
            return _missing(field, expected, chosen.reason, chosen.candidates)
        same = _same(chosen.value, expected or 0.0, exact=exact)
        return _match(field, expected, chosen.value, "answer", same=same, candidates=chosen.candidates)
    said = [
        float(fact.value)
        for fact in amounts(given.told)
        if fact.kind == "amount" and isinstance(fact.value, float)
    ]
    if said and not any(_same(value, got, exact=True) for value in (*said, sum(said))):
        asked = {fact.value for fact in given.told.asked}
        if not asked.issuperset(said):
            return Match(
                field,
                matched=False,
                expected=expected,
                got=got,
                source="field",
                reason="contradicts_text",
                candidates=said,
            )
    return _match(field, expected, got, "field", same=_same(got, expected or 0.0, exact=exact))


def _breakdown(given: Given) -> Match:
    expected = given.question.expected.breakdown() or ()
    got: Sequence[float] | None = given.answer.amount_breakdown
    source = "field"
    if got is None:
        chosen = choose_breakdown(given.told)
        if chosen.value is None:
            return _missing("amount_breakdown", list(expected), chosen.reason)
        got, source = chosen.value, "answer"
    exact = given.question.scoring.numeric_exact
    same = Counter(map(_cents, got)) == Counter(map(_cents, expected)) or (
        not exact
        and len(got) == len(expected)
        and all(_same(a, b, exact=False) for a, b in zip(sorted(got), sorted(expected), strict=True))
    )
    return _match("amount_breakdown", list(expected), list(got), source, same=same)


def _cents(value: float) -> float:
    return round(value, 4)


def _date_matches(got: PartialDate, expected: PartialDate, *, exact: bool) -> bool:
    if exact:
        return got == expected
    return got.agrees(expected) and not (got.month is None and expected.month is not None)


def _date(given: Given) -> Match:
    text = given.question.expected.date or ""
    expected = parse_date(text)
    exact = given.question.scoring.date_exact
    if expected is None:
        return _missing("date", text, "expected_unreadable")
    if given.answer.date is None:
        chosen = choose_date(given.told)
        shown = tuple(date.iso() for date in chosen.candidates)
        if chosen.value is None:
            return _missing("date", text, chosen.reason, shown)
        same = _date_matches(chosen.value, expected, exact=exact)
        return _match("date", text, chosen.value.iso(), "answer", same=same, candidates=shown)
    got = parse_date(given.answer.date)
    if got is None:
        return Match(
            "date", matched=False, expected=text, got=given.answer.date, source="field", reason="unreadable"
        )
    said = [date for date in dates(given.told) if date.day is not None]
    asked = {fact.value for fact in given.told.asked}
    if said and not any(date.agrees(got) for date in said) and not asked.issuperset(said):
        return Match(
            "date", matched=False, expected=text, got=got.iso(), source="field", reason="contradicts_text"
        )
    return _match("date", text, got.iso(), "field", same=_date_matches(got, expected, exact=exact))


def _range(given: Given) -> Match:
    wanted = given.question.expected.date_range
    first, last = (parse_date(wanted.start), parse_date(wanted.end)) if wanted else (None, None)
    shown = {"start": wanted.start, "end": wanted.end} if wanted else None
    if first is None or last is None:
        return _missing("date_range", shown, "expected_unreadable")
    source, period = "field", given.answer.date_range
    if period is None:
        chosen = choose_range(given.told)
        if chosen.value is None:
            return _missing("date_range", shown, chosen.reason)
        got: tuple[PartialDate | None, PartialDate | None] = chosen.value.first, chosen.value.last
        source = "answer"
    else:
        got = (parse_date(period.start or ""), parse_date(period.end or ""))
    exact = given.question.scoring.date_exact
    same = all(
        end is not None and _date_matches(end, wish, exact=exact)
        for end, wish in zip(got, (first, last), strict=True)
    )
    told = {name: None if end is None else end.iso() for name, end in zip(("start", "end"), got, strict=True)}
    return _match("date_range", shown, told, source, same=same)


def _count(given: Given) -> Match:
    expected = given.question.expected.count
    got = given.answer.count
    if got is None:
        chosen = choose_count(given.told)
        if chosen.value is None:
            return _missing("count", expected, chosen.reason, chosen.candidates)
        return _match(
            "count",
            expected,
            chosen.value,
            "answer",
            same=chosen.value == expected,
            candidates=chosen.candidates,
        )
    unit = given.told.unit
    said = {fact.value for fact in counts(given.told) if unit and fact.kind == "count" and fact.unit == unit}
    if said and float(got) not in said:
        return Match(
            "count", matched=False, expected=expected, got=got, source="field", reason="contradicts_text"
        )
    return _match("count", expected, got, "field", same=got == expected)


def _boolean(given: Given) -> Match:
    expected = given.question.expected.boolean_answer
    got = given.answer.boolean
    shown = plain(given.answer.answer)
    lead = False if _NOT_DONE.match(shown) else leading_polarity(shown)
    if got is None:
        got = None if given.stance.abstains else polarity(given.words)
        if got is None:
            return _missing("boolean_answer", expected, "abstains" if given.stance.abstains else "undecided")
        return _match("boolean_answer", expected, got, "answer", same=got is expected)
    if lead is not None and lead is not got:
        return Match(
            "boolean_answer",
            matched=False,
            expected=expected,
            got=got,
            source="field",
            reason="contradicts_text",
        )
    return _match("boolean_answer", expected, got, "field", same=got is expected)


def _mentioned(expected: str, text: str, *, alone: bool) -> str | None:
    """Return why a text does not give the expected words as its answer; None when it does.

    ``alone``: they may not be one of several that are listed or left open (甲、乙; 甲或乙).
    """
    needle, shown = fold(expected), plain(text)
    if not needle or not contains(needle, fold(shown)):
        return "not_mentioned"
    reason = None
    for clause in clauses(shown):
        if not contains(needle, fold(clause)):
            continue
        reason = _denial(expected, clause, alone=alone)
        if reason is None:
            return None
    return reason


def _denial(expected: str, clause: str, *, alone: bool) -> str | None:
    if signs_of_not_knowing(clause) and not signs_of_not_knowing(plain(expected)):
        return "nothing_known_of_it"
    place = clause.casefold().find(plain(expected).casefold())
    before, after = clause[: max(place, 0)], clause[place + len(plain(expected)) :] if place >= 0 else ""
    if _DENIED.search(before):
        return "denied"
    return "one_of_several" if alone and (_OR_BEFORE.search(before) or _OR_AFTER.match(after)) else None


def _text(given: Given) -> Match:
    expected = given.question.expected.text_answer or ""
    source, got = (
        ("answer", given.answer.answer) if given.answer.text is None else ("field", given.answer.text)
    )
    reason = _mentioned(expected, got, alone=False)
    return Match("text_answer", reason is None, expected, got[:_LONG], source, reason)


def _entity(given: Given) -> Match:
    expected = given.question.expected.entity or ""
    got = given.answer.entity
    if got is not None:
        same = fold(_TITLE.sub("", got.strip())) == fold(_TITLE.sub("", expected.strip()))
        return _match("entity", expected, got, "field", same=same or fold(got) == fold(expected))
    reason = _mentioned(expected, given.words, alone=True)
    return Match("entity", reason is None, expected, expected if reason is None else None, "answer", reason)


_LONG: Final = 200
_FIELDS: Final[tuple[tuple[str, Callable[[Given], Match]], ...]] = (
    ("amount_total", _amount),
    ("amount_breakdown", _breakdown),
    ("date", _date),
    ("date_range", _range),
    ("count", _count),
    ("text_answer", _text),
    ("boolean_answer", _boolean),
    ("entity", _entity),
)


def matches(given: Given) -> Iterator[Match]:
    """Yield one match for every typed field that the question expects."""
    expected = given.question.expected
    for name, compare in _FIELDS:
        if getattr(expected, name) is not None:
            yield compare(given)
