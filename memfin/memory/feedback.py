"""Meaning of feedback's ratings and comments, by a dictionary of words (memory design §5.5).

No model reads the words of ``memfin/data/memory/feedback_keywords.toml``, and no profile holds them.
"""

import re
from collections.abc import Mapping
from functools import cache
from typing import Final, Literal, NamedTuple

import msgspec

from memfin.memory.tables import load_table

Sign = Literal[-1, 1]


class Word(NamedTuple):
    """A word of a comment and which side of a topic it takes."""

    topic: str
    sign: Sign
    word: str


class Reading(NamedTuple):
    """The content of a comment: at most one word per topic, and the words that retract an earlier view."""

    words: tuple[Word, ...]
    retraction: str | None


class _Sides(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    positive: list[str]
    negative: list[str]


class Dictionary(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """The whole file."""

    ratings: _Sides
    topics: dict[str, _Sides]
    other: dict[Literal["words"], list[str]]
    retractions: dict[Literal["words"], list[str]]


@cache
def load_dictionary() -> Dictionary:
    """Read the dictionary, once per process."""
    return load_table("feedback_keywords.toml", Dictionary)


def polarity(rating: str) -> Sign | None:
    """Return whether a rating is for (1) or against (-1); None for one that is neither."""
    ratings = load_dictionary().ratings
    if rating in ratings.positive:
        return 1
    return -1 if rating in ratings.negative else None


def read(comment: str | None) -> Reading:
    """Return what a comment says by the dictionary; a topic of which it says both sides is left out."""
    if not comment:
        return Reading((), None)
    retraction = None
    sides: dict[str, dict[Sign, str]] = {}
    for match in _pattern().finditer(" ".join(comment.lower().split())):
        word = match[0]
        meaning = _meanings()[word]
        if meaning is None:
            retraction = retraction or (word if word in load_dictionary().retractions["words"] else None)
        else:
            topic, sign = meaning
            sides.setdefault(topic, {}).setdefault(sign, word)
    words = [
        Word(topic, *next(iter(found.items()))) for topic, found in sorted(sides.items()) if len(found) == 1
    ]
    return Reading(tuple(words), retraction)


@cache
def _meanings() -> Mapping[str, tuple[str, Sign] | None]:
    """Return each word's topic and side; None for words without."""
    dictionary = load_dictionary()
    meanings: dict[str, tuple[str, Sign] | None] = {}
    for topic, sides in dictionary.topics.items():
        meanings.update(dict.fromkeys(sides.positive, (topic, 1)))
        meanings.update(dict.fromkeys(sides.negative, (topic, -1)))
    return meanings | dict.fromkeys([*dictionary.other["words"], *dictionary.retractions["words"]])


_LETTER: Final = "[a-z_']"


@cache
def _pattern() -> re.Pattern[str]:
    words = sorted(_meanings(), key=lambda word: (-len(word), word))
    return re.compile(
        "|".join(
            rf"(?<!{_LETTER}){re.escape(word)}(?!{_LETTER})" if word.isascii() else re.escape(word)
            for word in words
        )
    )
