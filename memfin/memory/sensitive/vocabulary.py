"""The gate's data: labels, units, key patterns (``memfin/data/memory/sensitive.toml``)."""

import re
import tomllib
from bisect import bisect_right
from functools import cache
from importlib.resources import files
from typing import Final, Literal

import msgspec

from memfin.memory.sensitive.view import View

Topic = Literal["identity", "passport", "social", "card", "phone", "wallet", "private", "phrase", "order"]
"""What a label may be about."""

_CLOSE: Final = 16
"""Characters between a label and its identifier, at most."""

_SENTENCE_END: Final = re.compile(r"[。!?;]")


class Amounts(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """Units behind a number, signs before one."""

    units: list[str]
    signs: list[str]


class Email(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """Endings of names that are no domains, and endings of well-known domains."""

    not_domains: frozenset[str]
    common_domains: frozenset[str]


class Names(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """Surnames of one character, and words before a name."""

    surnames: str
    labels: list[str]


class Vocabulary(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """The whole file."""

    labels: dict[Topic, list[str]]
    amounts: Amounts
    email: Email
    api_keys: dict[str, str]
    names: Names


@cache
def load_vocabulary() -> Vocabulary:
    """Read the gate's data, once a process."""
    source = files("memfin").joinpath("data", "memory", "sensitive.toml")
    return msgspec.convert(tomllib.loads(source.read_text("utf-8")), Vocabulary)


@cache
def ordinary_pairs() -> frozenset[str]:
    """Return pairs of characters that stand side by side in much of ordinary Chinese.

    The file holds one word for each first character: that character, and all that follow it.
    """
    source = files("memfin").joinpath("data", "memory", "ordinary_pairs.txt")
    return frozenset(word[0] + second for word in source.read_text("utf-8").split() for second in word[1:])


def alternatives(words: list[str]) -> str:
    """Return a pattern for any of the words; words of Latin letters match whole words only."""
    return "|".join(
        rf"(?<![a-z]){re.escape(word)}(?![a-z])"
        if word.isascii() and word.replace(" ", "").isalpha()
        else re.escape(word)
        for word in sorted(words, key=len, reverse=True)
    )


@cache
def _labels(topic: Topic) -> re.Pattern[str]:
    return re.compile(alternatives(load_vocabulary().labels[topic]))


def labelled(view: View, at: int, topic: Topic, reach: int = _CLOSE) -> bool:
    """Say whether a label of the topic stands up to ``reach`` characters before a place, in its sentence."""
    ends = view.label_ends.get(topic)
    if ends is None:
        ends = view.label_ends[topic] = [label.end() for label in _labels(topic).finditer(view.lower)]
    number = bisect_right(ends, at)
    return (
        number > 0
        and at - ends[number - 1] <= reach
        and _SENTENCE_END.search(view.lower, ends[number - 1], at) is None
    )
