"""Values of the asked kind in the sentences of passages that were found."""

import math
import re
from collections.abc import Iterator
from typing import Final, NamedTuple

from memfin.rag.extraction.dates import PartialDate, find_dates, find_ranges
from memfin.rag.extraction.facts import Fact, find_facts
from memfin.rag.extraction.normalize import plain
from memfin.rag.systems.builtin.passages import Sentence
from memfin.rag.systems.builtin.people import Names, organizations_in, places_in
from memfin.rag.systems.builtin.question import Kind, Question, asks_same
from memfin.rag.systems.builtin.search import Hit, PassageIndex
from memfin.rag.systems.builtin.words import Unit
from memfin.text.numbers import number_value

Value = float | str | PartialDate | tuple[PartialDate, PartialDate] | tuple[float, ...]

LOOKED_AT: Final = 4
NEAR: Final = 0.6
"""Passages that values are taken from: the best ones, no worse than this share of the first."""

_SHARE_OF_SENTENCE: Final = 0.5
_SAME_KIND: Final = 0.2
_ASKED: Final = 0.45
_FIRST: Final = 0.06
_TOTAL: Final = re.compile(r"总共|一共|合计|总计|共计|共|加起来|in total|altogether|total", re.IGNORECASE)
_TOTAL_BONUS: Final = 0.3
_ORDINAL: Final = re.compile(r"第([一二三四五六七八九十]|\d+)(?:次|笔|回|趟)")
_REFERS: Final = re.compile("[当那][天日]")


class Candidate(NamedTuple):
    """A value, the sentence that has it, and how well that fits the question."""

    value: Value
    sentence: Sentence
    hit: Hit
    score: float


def candidates(
    question: Question, hits: list[Hit], units: list[Unit], index: PassageIndex, names: Names
) -> list[Candidate]:
    """Return the values of the asked kind near the question, best first."""
    found: list[Candidate] = []
    floor = NEAR * hits[0].score if hits else 0.0
    for hit in _preferred(question, hits)[:LOOKED_AT]:
        if hit.score < floor:
            break
        sides = ((hit.passage.said, 1.0), (hit.passage.asked if hit.passage.is_pair else (), _ASKED))
        for sentences, weight in sides:
            for place, sentence in enumerate(sentences):
                share = index.share(sentence.text, units)
                score = hit.score * (1.0 - _SHARE_OF_SENTENCE + _SHARE_OF_SENTENCE * share) * weight
                score += (
                    _SAME_KIND if hit.passage.is_pair and asks_same(question, hit.passage.question) else 0.0
                )
                score += _FIRST if place == 0 else 0.0
                totals = _totals(question, sentence.text, names)
                found.extend(
                    Candidate(value, sentence, hit, score + (_TOTAL_BONUS if value in totals else 0.0))
                    for value in _values(question, sentence.text, names)
                    if not _is_asked(value, question)
                )
    found.sort(key=lambda each: -each.score)
    return found


def _preferred(question: Question, hits: list[Hit]) -> list[Hit]:
    """Return the hits anew, those first whose own question asks for the same kind of thing."""
    found = [
        hit._replace(score=hit.score + _SAME_KIND)
        if hit.passage.is_pair and asks_same(question, hit.passage.question)
        else hit
        for hit in hits
    ]
    return sorted(found, key=lambda hit: (-hit.score, hit.number))


def _totals(question: Question, text: str, names: Names) -> tuple[Value, ...]:
    """Return the values that a sentence calls a total: the first one behind such a word."""
    cue = _TOTAL.search(text) if question.total else None
    return tuple(_values(question, text[cue.end() :], names))[:1] if cue else ()


def has_value(question: Question, text: str, names: Names) -> bool:
    """Say whether a sentence has a value of the asked kind."""
    return any(not _is_asked(value, question) for value in _values(question, text, names))


def _is_asked(value: Value, question: Question) -> bool:
    """Say whether the question names the value itself, so that it cannot be the answer."""
    if isinstance(value, str):
        return value in question.text
    if isinstance(value, float):
        return any(fact.value == value for fact in find_facts(question.text, names=False))
    return isinstance(value, PartialDate) and any(
        value == found.date for found in find_dates(plain(question.text))
    )


def _values(question: Question, text: str, names: Names) -> Iterator[Value]:
    kind: Kind = question.kind
    words = plain(text)
    if kind in ("date", "range"):
        yield from _dates(kind, words)
    elif kind == "person":
        yield from (name for name in names.persons_in(words))
    elif kind == "place":
        yield from places_in(words)
    elif kind == "organization":
        yield from organizations_in(words)
    elif kind == "breakdown":
        amounts = tuple(
            fact.value
            for fact in find_facts(words, names=False)
            if fact.kind == "amount" and isinstance(fact.value, float)
        )
        if amounts:
            yield _without_total(amounts, words)
    else:
        yield from _figures(question, words)


def _without_total(amounts: tuple[float, ...], words: str) -> tuple[float, ...]:
    """Return the parts of a sum without the sum itself, where a sentence names that beside them."""
    if _TOTAL.search(words) is None:
        return amounts
    for place, amount in enumerate(amounts):
        rest = amounts[:place] + amounts[place + 1 :]
        if len(rest) > 1 and math.isclose(sum(rest), amount):
            return rest
    return amounts


def summed(text: str) -> float | None:
    """Return what the sums of money in a sentence make together, None where there are not several."""
    if _TOTAL.search(text):
        return None
    amounts = [
        fact.value
        for fact in find_facts(plain(text), names=False)
        if fact.kind == "amount" and isinstance(fact.value, float)
    ]
    if len(amounts) > 2 and math.isclose(max(amounts), sum(amounts) / 2):  # noqa: PLR2004 - the sum and its parts
        return max(amounts)
    return sum(amounts) if len(amounts) > 1 else None


def _figures(question: Question, words: str) -> Iterator[Value]:
    kind = question.kind
    for fact in find_facts(words, names=False):
        value = fact.value
        if kind == "clock" and fact.kind == "time":
            yield words
        elif isinstance(value, float | str) and _is_wanted(question, fact):
            yield value
    if kind == "count" and any(f"一{unit}" in words for unit in question.units if unit):
        yield 1.0  # which only counts as an article elsewhere
    if kind == "count" and question.units & {"次", "笔"}:
        ordinals = [number_value(each) or 0.0 for each in _ORDINAL.findall(words)]
        if len(ordinals) > 1:
            yield float(max(ordinals))


def _is_wanted(question: Question, fact: Fact) -> bool:
    if question.kind in ("amount", "id"):
        return fact.kind == question.kind
    if question.kind != "count":
        return False
    if fact.kind == "share":
        return "比例" in question.text
    if fact.kind not in ("count", "number"):
        return False
    if question.units:
        return fact.unit in question.units
    return fact.kind == "count"


def _dates(kind: Kind, words: str) -> Iterator[Value]:
    dates = find_dates(words)
    if kind == "range":
        for period in find_ranges(words, dates):
            yield period.first, period.last
        return
    for found in dates:
        if not words[found.end :].startswith(("之前", "以前", "之后", "以后", "前", "后")) or len(dates) == 1:
            yield found.date
