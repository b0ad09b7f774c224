"""The one value that an answer gives: an amount, a count, a date, a period, a breakdown (spec section 9).

An answer that lists several candidates has not answered: none of them is taken unless the words say which
one is meant. Candidates that the answer denies (不是50000元), says nothing is known of, or repeats from the
question leave first; then the one named as total or answer counts, the whole before its parts, or the sum.
"""

import math
import re
from collections.abc import Callable, Iterable, Sequence
from functools import cached_property
from typing import Final, Generic, NamedTuple, TypeVar

from memfin.rag.extraction.abstention import signs_of_not_knowing
from memfin.rag.extraction.dates import FoundRange, PartialDate, find_ranges
from memfin.rag.extraction.facts import (
    UNIT_ASKED,
    Fact,
    canonical_unit,
    dates_of,
    facts_in,
    find_facts,
    ordering_masked,
)
from memfin.text.clauses import CLAUSE_MARKS, SENTENCE_MARKS, between_marks
from memfin.text.numbers import NUMERALS

ValueT = TypeVar("ValueT")

_DENIED: Final = re.compile(
    r"(?:不是|并非|而非|而不是|不等于|不到|不足|不止|不只|超过|多于|少于|高于|低于|没有|并没有|未|非)(?:达到?|满)?$"
    r"|\b(?:not|never|rather than|instead of|isn't|wasn't|(?:more|less|fewer) than)\s(?:the\s|in\s|on\s)?$",
    re.IGNORECASE,
)
_NOT_DONE: Final = re.compile(
    r"(?:没有?|未曾?|不曾)(?:给|收|付|支付|退|转|借|还|归还|拿|花|用|取|赔|收到|拿到)(?:了|过)?$"
)
_UNDONE: Final = re.compile(r"没|未|不|\bnot\b|n't\b|\bun\w", re.IGNORECASE)
"""A question about what was not done, which 没有还12万元 answers."""
_INEXACT: Final = re.compile(
    rf"(?<![{NUMERALS}\d])(?<![{NUMERALS}\d][.,，])[{NUMERALS}\d][{NUMERALS}\d.,，]*+\s?"
    r"(?:[多几]|余(?![额款下部])|来(?=[百千万亿元块个人名位次天年]))[百千万亿]*"
)
"""A figure that is not the whole of what is meant: 十几, 20多万, 100余."""
_DENIED_AFTER: Final = re.compile(
    r"(?:的说法)?(?:是|为)?(?:不对|错误|不正确|有误|不实|是错的)|\?\s?(?:no|不)\b", re.IGNORECASE
)
_NAMED: Final = re.compile(
    r"(?:总共|共计|合计|一共|总计|总额|总数|总金额|累计|合共|总和|总量|共有?|答案|最终|结论"
    r"|\btotal(?:l?ing|led)?\b|\bin (?:all|total)\b|\baltogether\b|\banswer\b|\bsum\b)"
    r"[^。;!?\n\d]{0,10}$",
    re.IGNORECASE,
)
_PART: Final = re.compile(
    r"其中|包括|包含|分别|分为|\bof which\b|\bincluding\b|\bnamely\b|\bconsisting of\b", re.IGNORECASE
)
_EITHER: Final = re.compile(
    r"\s*(?:[、,/~-]|或者?|还是|到|至|or|to|and|和|及|与)\s*(?:者|是|可能是|约)?\s*", re.IGNORECASE
)
_BEFORE: Final = 24
_FEWEST_PARTS: Final = 2
_MOST: Final = 100
"""Candidates among which one is looked for; an answer with more lists figures and gives none."""


class Chosen(NamedTuple, Generic[ValueT]):
    """A value, or None with the reason why there is none; ``candidates`` are all that were considered."""

    value: ValueT | None
    reason: str
    candidates: tuple[ValueT, ...] = ()


class Told:
    """An answer's text taken apart once, for every field that is asked of it."""

    def __init__(self, text: str, question: str = "") -> None:
        self.text = ordering_masked(_INEXACT.sub("\0", text))
        self.question = question
        self._known: dict[tuple[int, int], bool] = {}

    @cached_property
    def facts(self) -> list[Fact]:
        """The facts of the answer that it does not deny."""
        return [fact for fact in facts_in(self.text, names=False, indefinite=True) if not self.denies(fact)]

    @cached_property
    def asked(self) -> list[Fact]:
        """The facts of the question."""
        return find_facts(self.question, names=False) if self.question else []

    @cached_property
    def unit(self) -> str | None:
        """The unit that the question asks a count of (几次, how many times), canonical; None for none."""
        match = UNIT_ASKED.search(ordering_masked(self.question))
        return None if match is None else canonical_unit(match["unit"] or match["noun"] or "")

    def denies(self, fact: Fact) -> bool:
        """Say whether the answer denies a fact, or says of it that nothing is known."""
        before = self.text[max(0, fact.start - _BEFORE) : fact.start]
        undone = _NOT_DONE.search(before) and not _UNDONE.search(self.question)
        if undone or _DENIED.search(before) or _DENIED_AFTER.match(self.text, fact.end):
            return True
        span = between_marks(self.text, fact.start, fact.end, CLAUSE_MARKS)
        if span not in self._known:
            self._known[span] = bool(signs_of_not_knowing(self.text[span[0] : span[1]]))
        return self._known[span]


def _single(facts: Sequence[Fact]) -> bool:
    return len({fact.value for fact in facts}) == 1


def _named(told: Told, facts: Sequence[Fact], every: Sequence[Fact]) -> list[Fact]:
    """Return the candidates that the words before them name as total or as the answer."""
    return [
        fact
        for fact in facts
        if _NAMED.search(told.text[max(0, fact.start - _BEFORE) : fact.start])
        and not any(
            other.value != fact.value
            and other.start >= fact.end
            and _EITHER.fullmatch(told.text[fact.end : other.start])
            for other in every
        )
    ]


def _not_asked(told: Told, facts: Sequence[Fact]) -> list[Fact]:
    asked = {fact.value for fact in told.asked}
    return [fact for fact in facts if fact.value not in asked]


def _not_parts(told: Told, facts: Sequence[Fact]) -> list[Fact]:
    kept = []
    for fact in facts:
        start, _ = between_marks(told.text, fact.start, fact.end, SENTENCE_MARKS)
        if not _PART.search(told.text[start : fact.start]):
            kept.append(fact)
    return kept


def _sums(_: Told, facts: Sequence[Fact]) -> list[Fact]:
    """Return the one amount that the others add up to."""
    values = [_value(fact) for fact in facts]
    for place, fact in enumerate(facts):
        rest = values[:place] + values[place + 1 :]
        if len(rest) >= _FEWEST_PARTS and math.isclose(sum(rest), values[place], rel_tol=1e-9):
            return [fact]
    return []


def _value(fact: Fact) -> float:
    return fact.value if isinstance(fact.value, float) else math.nan


_Narrowing = Callable[[Told, Sequence[Fact]], list[Fact]]


def _choose(told: Told, facts: Sequence[Fact], narrowings: Iterable[_Narrowing]) -> Fact | str:
    """Return the one fact that is meant, or the reason why there is none."""
    if not facts:
        return "none_found"
    if _single(facts):
        return facts[0]
    if len(facts) > _MOST:
        return "several_candidates"
    for narrow in narrowings:
        kept = narrow(told, facts)
        if kept and _single(kept):
            return kept[0]
    return "several_candidates"


def _numeric(told: Told, facts: Sequence[Fact], *, sums: bool) -> Chosen[float]:
    def named(told: Told, kept: Sequence[Fact]) -> list[Fact]:
        return _named(told, kept, facts)

    narrowings: list[_Narrowing] = [named, _not_asked, _not_parts]
    if sums:
        narrowings.append(_sums)
    chosen = _choose(told, facts, narrowings)
    values = tuple(dict.fromkeys(_value(fact) for fact in facts))
    if isinstance(chosen, str):
        return Chosen(None, chosen, values)
    return Chosen(_value(chosen), "extracted", values)


def amounts(told: Told) -> list[Fact]:
    """Return the sums of money that an answer gives; bare numbers when it names no unit of money."""
    money = [fact for fact in told.facts if fact.kind in ("amount", "number")]
    kept: list[Fact] = []
    for fact in reversed(money):
        beside = bool(kept) and _EITHER.fullmatch(told.text[fact.end : kept[-1].start]) is not None
        if fact.kind == "amount" or beside:  # 42000或43000元 are two amounts
            kept.append(fact)
    return kept[::-1] or money


def choose_amount(told: Told) -> Chosen[float]:
    """Return the sum of money that an answer gives."""
    return _numeric(told, amounts(told), sums=True)


def choose_breakdown(told: Told) -> Chosen[tuple[float, ...]]:
    """Return the parts that an answer divides a sum into; the sum itself, named or computed, is no part."""
    facts = amounts(told)
    if not facts:
        return Chosen(None, "none_found")
    if len(facts) > _MOST:
        return Chosen(None, "several_candidates")
    outside = _not_parts(told, facts)
    whole = _sums(told, facts) or _named(told, facts, facts) or (outside if len(outside) < len(facts) else [])
    parts = tuple(
        _value(fact) for fact in facts if len(facts) == 1 or fact.value not in [one.value for one in whole]
    )
    return Chosen(parts or None, "extracted" if parts else "none_found")


def counts(told: Told) -> list[Fact]:
    """Return the counts that an answer gives, of the unit that is asked for where it has any."""
    found = [fact for fact in told.facts if fact.kind == "count"]
    if told.unit:
        found = [fact for fact in found if fact.unit == told.unit] or found
    if "第几" not in told.question:
        found = [fact for fact in found if not told.text.startswith("第", fact.start)]
    definite = [fact for fact in found if fact.value != 1 or told.text[fact.start].isdigit()]
    return definite or found or [fact for fact in told.facts if fact.kind == "number"]


def choose_count(told: Told) -> Chosen[float]:
    """Return the number of things that an answer gives."""
    return _numeric(told, counts(told), sums=False)


def dates(told: Told) -> list[PartialDate]:
    """Return the dates that an answer gives, without those that only repeat a part of another one."""
    found = list(dict.fromkeys(found.date for found in dates_of(told.facts)))
    if len(found) > _MOST:
        return found
    return [date for date in found if not any(date != other and date.within(other) for other in found)]


def choose_date(told: Told) -> Chosen[PartialDate]:
    """Return the date that an answer gives."""
    found = dates(told)
    asked = {date.date for date in dates_of(told.asked)}
    kept = found if len(found) == 1 else [date for date in found if date not in asked]
    if len(kept) == 1:
        return Chosen(kept[0], "extracted", tuple(found))
    return Chosen(None, "several_candidates" if kept else "none_found", tuple(found))


def choose_range(told: Told) -> Chosen[FoundRange]:
    """Return the period that an answer gives: the only one in it, or from its first date to its second."""
    found = dates_of(told.facts)
    ranges = {(one.first, one.last): one for one in find_ranges(told.text, found)}
    if len(ranges) == 1:
        return Chosen(next(iter(ranges.values())), "extracted")
    if not ranges and len(found) == _FEWEST_PARTS:
        first, last = (one.date for one in found)
        if last.year is None:
            last = PartialDate(first.year, last.month or first.month, last.day)
        elif first.year is None:
            first = PartialDate(last.year, first.month, first.day)
        return Chosen(FoundRange(first, last, found[0].start, found[1].end), "extracted")
    return Chosen(None, "several_candidates" if found else "none_found")
