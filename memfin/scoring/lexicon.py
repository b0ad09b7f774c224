"""Lexicons: pattern families kept as data.

A lexicon is a TOML file in ``memfin/data/lexicons``. Its ``[[rule]]`` entries each name the ``value``
they speak for, a ``pattern`` over normalized text (``patterns.expand`` explains its shorthands), the
context guards that silence it, and ``examples`` and ``counter_examples`` that are its tests.
"""

import hashlib
import tomllib
from collections.abc import Callable
from functools import cache
from importlib.resources import files
from typing import Final, TypeVar

import msgspec

from memfin.errors import UsageError
from memfin.scoring import causes, language, stances
from memfin.scoring.language import Analysis

T = TypeVar("T")
Guard = Callable[[Analysis, int, int], bool]

GUARDS: Final[dict[str, Guard]] = {
    "negated": language.negated,
    "quoted": language.quoted,
    "attributed": language.attributed,
    "reported": language.reported,
    "questioned": language.questioned,
    "conditional": language.conditional,
    "refuted": language.refuted,
    "rate_driven": causes.rate_driven,
    "wished": stances.wished,
    "left_open": stances.left_open,
    "refused": stances.refused,
    "already_dealt": stances.already_dealt,
    "in_exercise": stances.in_exercise,
    "insured": stances.insured,
    "no_source": stances.no_source,
    "warned_off": stances.warned_off,
}

_LEXICONS: Final = files("memfin") / "data" / "lexicons"


class RuleEntry(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """One ``[[rule]]`` of a lexicon file, as written."""

    id: str
    value: str
    pattern: str
    examples: list[str]
    counter_examples: list[str]
    guards: list[str] | None = None


class LexiconFile(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """A lexicon file: what its rules speak about, their usual guards, and the rules."""

    field: str
    guards: list[str]
    rule: list[RuleEntry]


def read_table(name: str, form: type[T]) -> T:
    """Read ``name.toml`` of the lexicon directory into a struct or mapping type.

    Raises:
        UsageError: The file is missing, no TOML, or not of that form.
    """
    try:
        return msgspec.convert(tomllib.loads(_read(f"{name}.toml").decode()), form)
    except (tomllib.TOMLDecodeError, msgspec.ValidationError) as error:
        raise UsageError(f"lexicon {name}.toml: {error}") from error


@cache
def word_classes() -> dict[str, list[str]]:
    """Return the word classes of ``words.toml``: alternatives of regular expressions by name."""
    return read_table("words", dict[str, list[str]])


@cache
def load_lexicon(name: str) -> LexiconFile:
    """Read and check one lexicon of ``memfin/data/lexicons``, such as ``risk_tags``.

    Raises:
        UsageError: The file is missing, no TOML, not in the form above, or names an unknown guard.
    """
    lexicon = read_table(name, LexiconFile)
    used = set(lexicon.guards).union(*(rule.guards or () for rule in lexicon.rule))
    if unknown := sorted(used - GUARDS.keys()):
        raise UsageError(f"lexicon {name}.toml: unknown guard {unknown[0]}; known: {', '.join(GUARDS)}")
    return lexicon


@cache
def _hashes() -> dict[str, str]:
    names = sorted(item.name for item in _LEXICONS.iterdir() if item.name.endswith(".toml"))
    return {name: hashlib.sha256(_read(name)).hexdigest() for name in names}


def lexicon_hashes() -> dict[str, str]:
    """Return the SHA-256 of every lexicon file by name: what the detectors of this run know.

    A process reads its lexicons once, and hashes them once.
    """
    return dict(_hashes())


def _read(name: str) -> bytes:
    try:
        return (_LEXICONS / name).read_bytes()
    except FileNotFoundError:
        raise UsageError(f"lexicon {name}: not part of this installation") from None
