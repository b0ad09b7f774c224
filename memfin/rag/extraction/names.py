"""Bare names of people, places and firms in a text that another text does not contain."""

import re
from collections.abc import Iterator
from itertools import chain, pairwise
from typing import Final

from memfin.rag.extraction.facts import ORDINARY_PAIRS, Fact
from memfin.rag.extraction.normalize import fold, load_patterns, tables

_ORDINARY: Final = re.compile("|".join(sorted(tables()["ordinary"]["words"].split(), key=len, reverse=True)))
_NAMES: Final = load_patterns("names", surnames=tables()["facts"]["fragments"]["surnames"][0][1:-1])
_REACH: Final = 9  # characters before a name that are looked at
_BLANK: Final = "丨"  # a Chinese character that no word has
_PAIR: Final = 2
_LATIN: Final = re.compile("[a-z]+")


class KnownWords:
    """Words of a folded text, prepared for looking up names in it."""

    def __init__(self, folded: str, beside: "KnownWords | None" = None) -> None:
        self._text, self._beside = folded, beside
        self._pairs = frozenset(map("".join, pairwise(folded)))
        self._latin = frozenset(_LATIN.findall(folded))

    def __contains__(self, words: str) -> bool:
        folded = fold(words)
        found = folded in (self._pairs if len(folded) == _PAIR else self._text)
        return found or (self._beside is not None and words in self._beside)

    def has_latin(self, word: str) -> bool:
        """Return True if each Latin part of a word is a word of the text."""
        parts = _LATIN.findall(word.lower())
        return self._latin.issuperset(parts) or (self._beside is not None and self._beside.has_latin(word))


def unknown_names(text: str, known: KnownWords) -> Iterator[Fact]:
    """Yield the bare names in a `plain` text that ``known`` does not contain.

    A name of a person is known by two characters, after a role by all, one in English by all its words.
    """
    listed = (each.span() for each in _NAMES["listed"].finditer(text) if each[0] not in known)
    finders = (finder(text, known) for finder in (_people, _places, _firms, _english))
    for start, end in chain(listed, *finders):
        yield Fact("name", text[start:end], start, end)


def _people(text: str, known: KnownWords) -> Iterator[tuple[int, int]]:
    """Yield surnames with given names, by what stands before them and by the characters of given names."""
    in_words = {at for word in _NAMES["idle"].finditer(text) for at in range(word.start() + 1, word.end())}
    done = 0
    for match in _NAMES["surname"].finditer(text):
        start = match.start()
        before, first = text[max(0, start - _REACH) : start], text[start : start + 2]
        if start < done or start in in_words or first in ORDINARY_PAIRS:
            continue
        has_role = _NAMES["role"].search(before) is not None
        rules = ["by_itself"] if has_role or start - 1 in in_words or _NAMES["before"].search(before) else []
        if not _NAMES["common_surname"].match(text, start):
            rules += ["by_role"] * has_role + ["by_end"] * bool(_NAMES["alone"].search(before))
        found = next((name for rule in rules if (name := _NAMES[rule].match(text, start))), None)
        if found and (found[0] if has_role else first) not in known:
            done = found.end()
            yield found.span()


def _places(text: str, known: KnownWords) -> Iterator[tuple[int, int]]:
    """Yield places whose last character with the word for their kind does not stand in the known text."""
    for stem, head in _stems(text, "place"):
        if len(stem) > 1 and stem[-1] + head[0] not in known:
            yield head.start() - len(stem), head.end()


def _firms(text: str, known: KnownWords) -> Iterator[tuple[int, int]]:
    """Yield firms with two characters that neither are an ordinary word nor stand in the known text."""
    for stem, head in _stems(text, "firm"):
        known_at = {at for at in range(len(stem) - 1) if stem[at : at + 2] in known}
        rest = [mark if known_at.isdisjoint((at, at - 1)) else _BLANK for at, mark in enumerate(stem)]
        if any(_BLANK not in pair for pair in pairwise(_NAMES["firm"].sub(_blank, "".join(rest)))):
            yield head.start() - len(stem), head.end()


def _stems(text: str, kind: str) -> Iterator[tuple[str, re.Match[str]]]:
    """Yield the kinds of places in a text with the words before them that may be a name."""
    text = _NAMES[f"no_{kind}"].sub(lambda word: "\0" * len(word[0]), text)
    words = _ORDINARY.sub(_blank, text) if kind == "firm" else text
    for head in _NAMES[kind].finditer(text):
        yield _NAMES["stop"].split(words[max(0, head.start() - _REACH) : head.start()])[-1], head


def _blank(word: re.Match[str]) -> str:
    return _BLANK * len(word[0])


def _english(text: str, known: KnownWords) -> Iterator[tuple[int, int]]:
    """Yield runs of capitalized words; the first word of a sentence is a name if another one follows."""
    for match in _NAMES["english"].finditer(text):
        begins = _NAMES["begins"].search(text[max(0, match.start() - _REACH) : match.start()])
        is_actor = _NAMES["acts"].match(text, match.end())
        run = match[0].removesuffix("'s").split()[1 if begins and not is_actor else 0 :]
        unknown = (word for word in run if not known.has_latin(word))
        if not all(map(_NAMES["no_english"].fullmatch, unknown)) and not _NAMES["no_run"].match(match[0]):
            yield match.span()
