"""The words of constraints: what can be forbidden, asset classes, preferences.

The vocabulary is data (``memfin/data/lexicons/constraints.toml``); this module reads and checks it.
"""

import re
import tomllib
from collections.abc import Iterator
from functools import cache
from importlib.resources import files
from typing import Final, Literal

import msgspec

from memfin.errors import UsageError

_FILE: Final = "constraints.toml"
_DEALING: Final = re.compile(r"(?<![a-z-])(?:buy|sell)(?:ing)?(?![a-z-])(?! now pay)(?! short)")
_SAME: Final = {
    "buy": ("purchase", "pick up"),
    "buying": ("purchasing", "picking up"),
    "sell": ("offload", "unload", "dump"),
    "selling": ("offloading", "unloading"),
}
"""What an entry that says buy or sell holds for as well."""


class Term(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """A practice or asset that a constraint can forbid; the file's head describes the fields."""

    id: str
    kind: Literal["practice", "asset"]
    names: list[str]
    examples: list[str]
    counter_examples: list[str]
    described: list[str] = []
    words: list[str] = []
    acts: list[str] = []
    frames: list[list[list[str]]] = []
    includes: list[str] = []
    exact: bool = False
    exact_names: list[str] = []


class Entry(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """An asset class or a preference with the words for it."""

    id: str
    words: list[str]
    examples: list[str]
    counter_examples: list[str]


class Vocabulary(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """The whole file."""

    blockers: list[str]
    companies: list[str]
    all_in: list[str]
    share_signs: list[str]
    holding: list[str]
    terms: list[Term]
    classes: list[Entry]
    preferences: list[Entry]

    def term(self, name: str) -> Term | None:
        """Return the term of that id, or None."""
        return next((term for term in self.terms if term.id == name), None)

    def closure(self, name: str) -> frozenset[str]:
        """Return the id with the ids of all narrower terms; an unknown name stands for itself."""
        found: set[str] = set()
        waiting = [name]
        while waiting:
            current = waiting.pop()
            if current in found:
                continue
            found.add(current)
            term = self.term(current)
            if term is not None:
                waiting.extend(term.includes)
        return frozenset(found)


@cache
def load_vocabulary() -> Vocabulary:
    """Read the constraint lexicon.

    Raises:
        UsageError: The file is missing or not in the form that its head describes.
    """
    try:
        text = (files("memfin") / "data" / "lexicons" / _FILE).read_text("utf-8")
        vocabulary = msgspec.convert(tomllib.loads(text), Vocabulary)
    except (OSError, tomllib.TOMLDecodeError, msgspec.ValidationError) as error:
        raise UsageError(f"lexicon {_FILE}: {error}") from error
    vocabulary = msgspec.structs.replace(
        vocabulary,
        terms=[_in_full(term) for term in vocabulary.terms],
        all_in=[*vocabulary.all_in, *_put_in(vocabulary.all_in)],
    )
    known = {term.id for term in vocabulary.terms}
    for term in vocabulary.terms:
        if missing := [name for name in term.includes if name not in known]:
            raise UsageError(f"lexicon {_FILE}: term {term.id} includes unknown {missing[0]}")
    return vocabulary


def _put_in(all_in: list[str]) -> Iterator[str]:
    """Yield the wordings behind the verb with which another entry may begin: put the whole account."""
    for words in all_in:
        if words.startswith(("all ", "the whole ", "your ", "every ", "the entire ", "the full ")):
            yield from (f"{verb} {words}" for verb in ("put", "invest", "deploy"))


def _in_full(term: Term) -> Term:
    """Return the term with every entry in all verbs of dealing: purchase the dip, offload puts."""
    return msgspec.structs.replace(
        term,
        names=_worded(term.names),
        words=_worded(term.words),
        acts=_worded(term.acts),
        frames=[[_worded(words) for words in groups] for groups in term.frames],
    )


def _worded(entries: list[str]) -> list[str]:
    return list(dict.fromkeys(word for entry in entries for word in (entry, *_wordings(entry))))


def _wordings(entry: str) -> Iterator[str]:
    for match in _DEALING.finditer(entry):
        for verb in _SAME[match[0]]:
            # By itself it is said of prices too.
            if entry != match[0] or " " not in verb:
                yield entry[: match.start()] + verb + entry[match.end() :]
