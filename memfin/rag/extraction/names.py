"""Bare names of people, places and firms in a text that another text does not contain."""

import re
from collections.abc import Iterator
from itertools import pairwise
from typing import Final

from memfin.rag.extraction.facts import ORDINARY_PAIRS, Fact
from memfin.rag.extraction.normalize import fold, load_patterns, tables

_ORDINARY: Final = re.compile("|".join(sorted(tables()["ordinary"]["words"].split(), key=len, reverse=True)))
_NAMES: Final = load_patterns("names", surnames=tables()["facts"]["fragments"]["surnames"][0][1:-1])
_REACH: Final = 9  # characters before a name that are looked at
_LATIN: Final = re.compile("[a-z]+")


def unknown_names(text: str, known: str) -> Iterator[Fact]:
    """Yield the bare names in a `plain` text that the folded ``known`` text does not contain.

    A name of a person is known by its first two characters, one in English by all its words.
    """
    for finder in (_people, _listed, _places, _firms):
        for start, end in finder(text, known):
            yield Fact("name", text[start:end], start, end)
    words = frozenset(_LATIN.findall(known))
    for start, end in _english(text, words):
        yield Fact("name", text[start:end], start, end)


def _people(text: str, known: str) -> Iterator[tuple[int, int]]:
    """Yield surnames with given names, by what stands before them and by the characters of given names."""
    inside = {at for word in _NAMES["idle"].finditer(text) for at in range(word.start() + 1, word.end() + 1)}
    ends = {word.end() for word in _NAMES["idle"].finditer(text)}
    done = 0
    for match in _NAMES["surname"].finditer(text):
        start = match.start()
        if start < done or (start in inside and start not in ends):
            continue
        before, first = text[max(0, start - _REACH) : start], text[start : start + 2]
        if first in ORDINARY_PAIRS or fold(first) in known:
            continue
        rules = ["by_role"] if _NAMES["role"].search(before) else []
        rules += ["by_end"] if _NAMES["alone"].search(before) else []
        if _NAMES["common_surname"].match(text, start):
            rules = []
        if start in ends or _NAMES["role"].search(before) or _NAMES["before"].search(before):
            rules.append("by_itself")
        found = next((name for rule in rules if (name := _NAMES[rule].match(text, start))), None)
        if found is not None:
            done = found.end()
            yield found.span()


def _listed(text: str, known: str) -> Iterator[tuple[int, int]]:
    """Yield well-known places and firms, and names such as 张三 and 老王."""
    for pattern in ("well_known", "other_person"):
        yield from (each.span() for each in _NAMES[pattern].finditer(text) if fold(each[0]) not in known)


def _stems(text: str, kind: str) -> Iterator[tuple[str, re.Match[str]]]:
    """Yield the kinds of places in a text with the words before them that may be a name."""
    text = _NAMES[f"no_{kind}"].sub(lambda word: "\0" * len(word[0]), text)
    for head in _NAMES[kind].finditer(text):
        yield _NAMES["stop"].split(text[max(0, head.start() - _REACH) : head.start()])[-1], head


def _places(text: str, known: str) -> Iterator[tuple[int, int]]:
    for stem, head in _stems(text, "place"):
        if len(stem) > 1 and fold(stem[-1] + head[0]) not in known:
            yield head.start() - len(stem), head.end()


def _firms(text: str, known: str) -> Iterator[tuple[int, int]]:
    """Yield firms with two characters that neither are an ordinary word nor stand in the known text."""
    for stem, head in _stems(text, "firm"):
        rest = list(_ORDINARY.sub(lambda word: "\0" * len(word[0]), _NAMES["firm"].sub("\0", stem)))
        for at in range(len(rest) - 1):
            if fold("".join(rest[at : at + 2])) in known:
                rest[at] = "\0"
        if any("\0" not in pair for pair in pairwise(rest)):
            yield head.start() - len(stem), head.end()


def _english(text: str, words: frozenset[str]) -> Iterator[tuple[int, int]]:
    """Yield runs of capitalized words; the first word of a sentence is a name if another one follows."""
    for match in _NAMES["english"].finditer(text):
        run = match[0].split()
        if _NAMES["begins"].search(text[max(0, match.start() - _REACH) : match.start()]):
            run = run if _NAMES["acts"].match(text, match.end()) else run[1:]
        unknown = (word for word in run if not words.issuperset(_LATIN.findall(word.lower())))
        if not all(map(_NAMES["no_english"].fullmatch, unknown)):
            yield match.span()
