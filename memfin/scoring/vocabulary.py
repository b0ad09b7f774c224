"""Vocabulary of investments: practices and assets to rule out, asset classes, preferences.

The entries are data (``memfin/data/detectors/assets.toml``, whose head describes the fields). This module
reads the file and finds the entries in texts.
"""

import tomllib
from collections.abc import Iterable
from functools import cache, lru_cache
from importlib.resources import files
from typing import Final, Literal, NamedTuple

import msgspec
from ahocorasick_rs import AhoCorasick

from memfin.errors import UsageError

AssetClass = Literal["equity", "bond", "cash", "commodity", "other"]
_FILE: Final = "assets.toml"


class Term(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """A practice or an asset that a constraint can rule out."""

    id: str
    kind: Literal["practice", "asset"]
    names: list[str]
    words: list[str] = []
    hints: list[str] = []
    alone: list[str] = []
    includes: list[str] = []
    asset_class: AssetClass | None = msgspec.field(default=None, name="class")


class Entry(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """A preference or an asset class with its words; a narrower class is ``within`` a wider one."""

    id: str
    words: list[str]
    within: str | None = None


class Vocabulary(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """All entries of the file."""

    blockers: list[str]
    shared: list[str]
    terms: list[Term]
    classes: list[Entry]
    preferences: list[Entry]

    def term(self, name: str) -> Term | None:
        """Return the term of that id, or None."""
        return next((term for term in self.terms if term.id == name), None)

    def closure(self, name: str) -> frozenset[str]:
        """Return the id with the ids of all narrower terms; an unknown name stands for itself."""
        term = self.term(name)
        return frozenset({name}).union(*map(self.closure, term.includes if term else ()))


class Mention(NamedTuple):
    """An entry found at half-open offsets; ``ids`` has several only for the file's shared words."""

    start: int
    end: int
    ids: tuple[str, ...]


class WordFinder:
    """Finder of entries in texts in normal form: leftmost and longest, in linear time.

    Blockers are found as well and drop out, together with every entry inside them. Latin entries match whole
    words, with an optional plural s; a hyphen in the text counts as a blank.
    """

    def __init__(self, words: Iterable[tuple[str, str]], blockers: Iterable[str]) -> None:
        ids: dict[str, tuple[str, ...]] = dict.fromkeys(blockers, ())
        for word, name in words:
            ids[word] = (*ids.get(word, ()), name)
        self._ids: Final = list(ids.values())
        self._automaton: Final = AhoCorasick(list(ids))

    def find(self, text: str) -> list[Mention]:
        """Return the mentions in the order of the text; they do not overlap."""
        text = text.replace("-", " ")
        found = self._automaton.find_matches_as_indexes(text, overlapping=True)
        if not found:
            return []
        whole = [(start, -end, index) for index, start, end in found if _is_whole(text, start, end)]
        mentions: list[Mention] = []
        last = 0
        for start, end, index in sorted(whole):
            if start >= last:
                last = -end
                mentions.append(Mention(start, -end, self._ids[index]))
        return [mention for mention in mentions if mention.ids]


def _is_whole(text: str, start: int, end: int) -> bool:
    """Return whether a match is no part of a longer Latin word; a plural s may follow."""
    after = end + (text[end : end + 1] == "s")
    edges = ((text[max(start - 1, 0) : start], text[start]), (text[end - 1], text[after : after + 1]))
    return not any("a" <= left <= "z" and "a" <= right <= "z" for left, right in edges)


@cache
def load_vocabulary() -> Vocabulary:
    """Read the file of entries.

    Raises:
        UsageError: The file is missing or not in the form that its head describes.
    """
    try:
        text = (files("memfin") / "data" / "detectors" / _FILE).read_text("utf-8")
        return msgspec.convert(tomllib.loads(text), Vocabulary)
    except (OSError, tomllib.TOMLDecodeError, msgspec.ValidationError) as error:
        raise UsageError(f"lexicon {_FILE}: {error}") from error


@lru_cache(maxsize=256)
def finder_of(ids: frozenset[str] | None, *, hints: bool = False) -> WordFinder:
    """Return a finder of the names and words of the terms with these ids; None stands for all terms."""
    vocabulary = load_vocabulary()
    terms = [term for term in vocabulary.terms if ids is None or term.id in ids]
    words = [(word, term.id) for term in terms for word in term.names + term.words]
    words += [(word, term.id) for term in terms for word in term.hints if hints]
    return WordFinder(words, vocabulary.blockers)


def term_finder(*, hints: bool = False) -> WordFinder:
    """Return a finder of the names and words of all terms; for constraints with their hints as well."""
    return finder_of(None, hints=hints)


@cache
def class_finder() -> WordFinder:
    """Return a finder of the asset classes' words."""
    words = ((word, entry.id) for entry in load_vocabulary().classes for word in entry.words)
    return WordFinder(words, load_vocabulary().blockers)
