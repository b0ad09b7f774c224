"""What validation finds: a place in a file and what is wrong there."""

import re
from pathlib import Path
from typing import Final, NamedTuple

import msgspec

from memfin.contracts.reading import shown

Steps = tuple[str | int, ...]
"""The way from the top of a JSON value to a part of it: field names and list indices."""

_PLAIN_NAME: Final = re.compile(r"[\w-]+")


class Violation(NamedTuple):
    """A part of one record that breaks the contract."""

    steps: Steps
    message: str


class Finding(msgspec.Struct, frozen=True, kw_only=True):
    """One violation in a file. ``line`` counts from 1; ``path`` begins with ``$``, the record."""

    file: str
    line: int
    path: str
    message: str

    def __str__(self) -> str:
        """Return the finding as ``file:line: path: message``."""
        return f"{self.file}:{self.line}: {self.path}: {self.message}"


def file_text(path: str | Path) -> str:
    """Write a file's path so that it can be printed; bytes that are no UTF-8 are escaped."""
    return str(path).encode(errors="backslashreplace").decode()


def path_text(steps: Steps) -> str:
    """Write steps as a path such as ``$.turns[3].text``; unusual names are quoted and escaped."""
    parts = (
        f"[{step}]"
        if isinstance(step, int)
        else f".{step}"
        if _PLAIN_NAME.fullmatch(step)
        else f"[{shown(step)}]"
        for step in steps
    )
    return "$" + "".join(parts)
