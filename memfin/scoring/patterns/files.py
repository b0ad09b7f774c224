"""The files of the lexicons: tables of ``memfin/data/lexicons``, read once a process, and their hashes."""

import hashlib
import tomllib
from functools import cache
from importlib.resources import files
from typing import Final, TypeVar

import msgspec

from memfin.errors import UsageError

T = TypeVar("T")

_LEXICONS: Final = files("memfin") / "data" / "lexicons"


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
