"""The words of questions and passages: index terms, synonyms, what a question asks besides its words."""

import hashlib
import re
import tomllib
from collections.abc import Iterable, Mapping
from functools import cache, lru_cache
from pathlib import Path
from types import MappingProxyType
from typing import Final, NamedTuple

from memfin.agents.bm25 import terms
from memfin.rag.extraction.normalize import plain

_DATA: Final = Path(__file__).parents[3] / "data" / "rag" / "builtin.toml"

_SUFFIX: Final = re.compile(r"(?<=[a-z]{3})(?:ies|ing|ed|es|s|ly)\Z")
_FIRST_HAN: Final = "\u2e80"
_HAN: Final = re.compile(r"[\u3400-\u9fff]")
_PRONOUN: Final = re.compile(r"[他她]|\b(?:he|she|him|her|they|them)\b")
_PRONOUN_SHARE: Final = 0.6
_PERSON_SHARE: Final = 0.5
_PAIR_SHARE: Final = 0.6
_SINGLE_SHARE: Final = 0.4
"""How much count a pronoun against the name, and a name, a pair of characters and a single one against a
known word."""


class Vocabulary(NamedTuple):
    """The shipped words and patterns; ``kinds`` in the order in which they are tried."""

    groups: tuple[tuple[str, ...], ...]
    surnames: frozenset[str]
    idle: re.Pattern[str]
    idle_english: frozenset[str]
    kinds: Mapping[str, re.Pattern[str]]
    signs: Mapping[str, re.Pattern[str]]
    topics: Mapping[str, re.Pattern[str]]
    sha256: str


class Unit(NamedTuple):
    """A part of a question that a passage may meet, by any of its forms.

    ``share`` is how much it counts against others. A ``person`` is half there where a passage says he or she.
    """

    forms: tuple[str, ...]
    share: float = 1.0
    person: bool = False


@cache
def vocabulary() -> Vocabulary:
    """Return the shipped words."""
    content = _DATA.read_bytes()
    data = tomllib.loads(content.decode())
    groups = tuple(tuple(str(word) for word in group) for group in data["synonyms"])
    tables = {
        table: MappingProxyType({name: _any_of(patterns) for name, patterns in data[table].items()})
        for table in ("kinds", "signs", "topics")
    }
    return Vocabulary(
        groups=groups,
        surnames=frozenset(data["surnames"]),
        idle=_any_of(data["idle"]),
        idle_english=frozenset(data["idle_english"].split()),
        kinds=tables["kinds"],
        signs=tables["signs"],
        topics=tables["topics"],
        sha256=hashlib.sha256(content).hexdigest(),
    )


def shown(text: str) -> str:
    """Return the form of a text in which words are looked for."""
    return plain(text).lower()


def index_terms(text: str) -> list[str]:
    """Return the terms by which a passage is found: pairs of Chinese characters and single ones, words."""
    words, idle = shown(text), vocabulary().idle_english
    return [
        *(_stem(term) for term in terms(words) if term not in idle and not _is_single(term)),
        *_HAN.findall(words),
    ]


def units_of(question: str, implied: tuple[str, ...] = (), names: tuple[str, ...] = ()) -> list[Unit]:
    """Return what a passage should hold to answer the question.

    ``implied`` are names that go without saying, as that of the person who is interviewed; ``names`` are
    those of other persons in the question.
    """
    rest = shown(question)
    for name in implied:
        rest = rest.replace(name.lower(), " ")
    units, rest = _known_units(rest, names)
    rest = vocabulary().idle.sub(" ", rest)
    for term in dict.fromkeys(terms(rest)):
        if term < _FIRST_HAN:
            if term not in vocabulary().idle_english:
                units.append(Unit((term,)))
        elif len(term) > 1:
            units.append(Unit((term,), share=_PAIR_SHARE))
    units.extend(Unit((mark,), share=_SINGLE_SHARE) for mark in dict.fromkeys(_HAN.findall(rest)))
    return units


def _known_units(rest: str, names: tuple[str, ...]) -> tuple[list[Unit], str]:
    """Return the units of names and of words with synonyms, and what is left of the question."""
    units: list[Unit] = []
    for name in names:
        if name.lower() in rest:
            units.append(Unit((name.lower(),), share=_PERSON_SHARE, person=True))
            rest = rest.replace(name.lower(), " ")
    for group in vocabulary().groups:
        present = [word for word in sorted(group, key=len, reverse=True) if _has(rest, word)]
        for word in present:
            rest = _without(rest, word)
        units.extend(Unit(group) for _ in present[:1])
    return units, rest


def met(unit: Unit, text: str) -> float:
    """Return how much of a unit a text, as `shown`, meets: 1 where it has one of the forms."""
    if any(_has(text, form) for form in unit.forms):
        return 1.0
    return _PRONOUN_SHARE if unit.person and _PRONOUN.search(text) else 0.0


def unit_terms(unit: Unit) -> list[str]:
    """Return the index terms of all forms of a unit."""
    return [_stem(term) for form in unit.forms for term in terms(form)]


def joined(texts: Iterable[str]) -> str:
    """Return sentences in one piece, with a blank between those in Latin letters."""
    whole = ""
    for text in texts:
        blank = " " if whole and text and whole[-1] < _FIRST_HAN and text[0] < _FIRST_HAN else ""
        whole += blank + text
    return whole


def _any_of(patterns: list[str]) -> re.Pattern[str]:
    return re.compile("|".join(patterns))


def _is_single(term: str) -> bool:
    return len(term) == 1 and term >= _FIRST_HAN


def _has(text: str, word: str) -> bool:
    return word in text if word >= _FIRST_HAN else _pattern(word).search(text) is not None


def _without(text: str, word: str) -> str:
    return text.replace(word, " ") if word >= _FIRST_HAN else _pattern(word).sub(" ", text)


@lru_cache(maxsize=4096)
def _pattern(word: str) -> re.Pattern[str]:
    if word[0].isdigit():
        return re.compile(rf"(?<![\d.]){re.escape(word)}(?!\d)")
    return re.compile(rf"\b{re.escape(_stem(word))}(?:ies|ing|ed|es|s|ly|d)?\b")


def _stem(term: str) -> str:
    return _SUFFIX.sub("", term) if term < _FIRST_HAN else term
