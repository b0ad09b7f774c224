"""Which literals to scan for, so that a pattern need only be tried where it can match.

Every alternative of a pattern has pieces that each of its matches contains. The rarest set of literals
among them is what one Aho-Corasick pass looks for; the widths of the other pieces bound the window
around a literal in which the alternative is tried.
"""

import math
from collections.abc import Iterator
from collections.abc import Set as AbstractSet
from functools import cache
from itertools import accumulate, islice, product
from typing import Final, NamedTuple

from memfin.errors import UsageError
from memfin.scoring.patterns.expressions import late
from memfin.scoring.patterns.frequencies import rate
from memfin.scoring.patterns.syntax import (
    LOOK_AROUND,
    SPECIAL,
    WORD_EDGE,
    branches_of,
    elements_of,
    inner,
    is_empty,
    is_optional,
    unquantified,
)

_OPEN_REPETITION: Final = 24
_MOST_LITERALS: Final = 600
_WIDEST_RANGE: Final = 9
_RANGE: Final = late("(.)-(.)")
_NOTHING: Final = frozenset(("",))
_LITERAL: Final = late(r"[^\\.^$*+?{}\[\]|()]+")

_LONG_ENOUGH: Final = 5
# The expected hits a reply from which on a literal need not be rarer.
_RARE_ENOUGH: Final = 0.01
# Beginnings of words are less rare than counts over little text make believe.
_SHORTEST_LATIN: Final = 6
# To try a pattern at one place is cheaper than to search for it.
_AT_ITS_HEAD: Final = 0.8


class Branch(NamedTuple):
    """One alternative of a pattern, with the literals of which every match of it contains one.

    ``before`` bounds how far in front of the literal a match begins, in characters; with 0 every match
    begins with the literal.
    """

    pattern: str
    literals: frozenset[str]
    before: int


def forget() -> None:
    """Drop what was kept while a pattern was taken apart; the next one has little in common with it."""
    for kept in (_exact, _heads, _required, _shortened, _width, rate, branches_of, elements_of, unquantified):
        kept.cache_clear()


def branches(pattern: str) -> list[Branch]:
    """Split an expanded pattern into its alternatives and find the literals to scan for.

    Raises:
        UsageError: An alternative has no literal that all its matches contain.
    """
    found = []
    for alternative in _distributed(pattern):
        elements = elements_of(alternative)
        options = list(_options(elements))
        if not options:
            raise UsageError(f"lexicon pattern {alternative!r}: nothing in it is certain to occur")
        reaches = [
            (literals, sum(map(_width, elements[: start + 1] if inside else elements[:start])))
            for literals, start, inside in options
        ]
        literals, before = min(reaches, key=lambda reach: _cost(reach[0]) * (1 if reach[1] else _AT_ITS_HEAD))
        found.append(Branch(alternative, frozenset(map(_shortened, literals)), before))
    return found


@cache
def _shortened(literal: str) -> str:
    """Return the shortest beginning of a literal that is rare enough: the fewer there are, the better."""
    shortest = _SHORTEST_LATIN if literal.isascii() else 1
    heads = islice(accumulate(literal), shortest - 1, None)
    return next((head for head in heads if rate(head) <= _RARE_ENOUGH), literal)


def _distributed(pattern: str) -> Iterator[str]:
    """Yield the alternatives of a pattern; look-arounds beside a group go to each alternative in it."""
    for branch in branches_of(pattern):
        elements = elements_of(branch)
        solid = [index for index, element in enumerate(elements) if not is_empty(element)]
        group = elements[solid[0]] if len(solid) == 1 else ""
        words = branches_of(inner(group)) if group.startswith("(?:") and group.endswith(")") else ()
        if len(words) <= 1 or all(_LITERAL.fullmatch(word) for word in words):
            yield branch
            continue
        head, tail = "".join(elements[: solid[0]]), "".join(elements[solid[0] + 1 :])
        for word in words:
            yield from _distributed(f"{head}(?:{word}){tail}" if head or tail else word)


def _options(elements: tuple[str, ...]) -> Iterator[tuple[frozenset[str], int, bool]]:
    """Yield sets of literals of which any match contains one.

    With each set goes the element where the literal begins, and whether it may begin inside of it.
    """
    exact = [_exact(element) for element in elements]
    for start, element in enumerate(elements):
        # What begins behind a word is longer, and so rarer, with the word.
        if not (start and _is_one_word(exact[start - 1])):
            for literals in _beginnings(elements[start:]):
                yield literals, start, False
        if literals := _required(element):
            yield literals, start, True


def _beginnings(elements: tuple[str, ...]) -> Iterator[frozenset[str]]:
    """Yield ever longer sets of strings with one of which each match of the elements begins."""
    strings, ended = _NOTHING, frozenset[str]()
    for element in elements:
        exact = _exact(element)
        heads = _heads(element) if exact is None else exact
        if heads is None:
            # It may be left out: a match goes on with its first strings, or with what comes behind it.
            body, quantifier = unquantified(element)
            begun = _joined(strings, _heads(body)) if is_optional(quantifier) else None
            if begun is None:
                return
            ended |= begun
            continue
        longer = _joined(strings, heads)
        if longer is None or len(longer) + len(ended) > _MOST_LITERALS:
            return
        strings = longer
        if "" not in strings:
            yield strings | ended
            if exact is None or min(map(len, strings)) >= _LONG_ENOUGH:
                return


def _is_one_word(strings: frozenset[str] | None) -> bool:
    return strings is not None and len(strings) == 1 and strings != _NOTHING


def _joined(heads: frozenset[str] | None, tails: frozenset[str] | None) -> frozenset[str] | None:
    """Return every head followed by every tail, or None when unknown or too many."""
    if heads is None or tails is None or len(heads) * len(tails) > _MOST_LITERALS:
        return None
    return frozenset(map("".join, product(heads, tails)))


@cache
def _exact(element: str) -> frozenset[str] | None:
    """Return everything the element matches, when that is a small set of strings; else None."""
    if element == WORD_EDGE or element.startswith(LOOK_AROUND):
        return _NOTHING
    body, quantifier = unquantified(element)
    if quantifier not in ("", "?"):
        return None
    found = _exact_group(inner(body)) if body.startswith("(") else _exact_sign(body)
    return found | _NOTHING if found is not None and quantifier else found


@cache
def _heads(element: str) -> frozenset[str] | None:
    """Return strings with one of which each match of the element begins; None when unknown."""
    body, quantifier = unquantified(element)
    if is_optional(quantifier):
        return None
    if not body.startswith("("):
        return _exact_sign(body)
    found: frozenset[str] = frozenset()
    for branch in branches_of(inner(body)):
        # The first set will do: longer ones are many.
        strings = next(_beginnings(elements_of(branch)), None)
        if strings is None:
            return None
        found |= strings
    return found if len(found) <= _MOST_LITERALS else None


def _exact_group(pattern: str) -> frozenset[str] | None:
    found: frozenset[str] = frozenset()
    for branch in branches_of(pattern):
        strings: frozenset[str] | None = _NOTHING
        for element in elements_of(branch):
            strings = _joined(strings, _exact(element))
        if strings is None:
            return None
        found |= strings
    return found


def _exact_sign(body: str) -> frozenset[str] | None:
    if body.startswith("["):
        return None if body[1] == "^" or "\\" in body else _members(body[1:-1])
    if body.startswith("\\"):
        return None if body[1].isalnum() else frozenset(body[1])
    return None if body in SPECIAL else frozenset(body)


def _members(signs: str) -> frozenset[str] | None:
    """Return the characters of a set such as ``a1-5``; None for a wide range."""
    plain = _RANGE.sub("", signs)
    found = set(plain)
    for first, last in _RANGE.findall(signs):
        if ord(last) - ord(first) > _WIDEST_RANGE:
            return None
        found.update(map(chr, range(ord(first), ord(last) + 1)))
    return frozenset(found)


@cache
def _required(element: str) -> frozenset[str]:
    """Return literals of which any match of the element contains one; empty when there are none."""
    body, quantifier = unquantified(element)
    if not body.startswith("(") or is_empty(body) or is_optional(quantifier):
        return frozenset()
    found: set[str] = set()
    for branch in branches_of(inner(body)):
        options = [literals for literals, _, _ in _options(elements_of(branch))]
        if not options:
            return frozenset()
        found |= min(options, key=_cost)
    return frozenset(found)


def _cost(literals: AbstractSet[str]) -> float:
    return math.fsum(map(rate, literals))  # the same whatever the order of a set


@cache
def _width(element: str) -> int:
    """Return the greatest number of characters the element matches (an estimate for open repetition)."""
    if is_empty(element):
        return 0
    body, quantifier = unquantified(element)
    if not body.startswith("("):
        return _repeats(quantifier)
    widths = (sum(map(_width, elements_of(branch))) for branch in branches_of(inner(body)))
    return max(widths) * _repeats(quantifier)


def _repeats(quantifier: str) -> int:
    if quantifier.startswith(("*", "+")):
        return _OPEN_REPETITION
    if quantifier.startswith("{"):
        return int(quantifier.strip("{}?").split(",")[-1] or _OPEN_REPETITION)
    return 1
