"""Findings: defects and their places in files."""

import re
from pathlib import Path
from typing import Final, NamedTuple

import msgspec

from memfin.contracts.reading import shown

Steps = tuple[str | int, ...]
"""The path from the top of a JSON value to a part of it: field names and list indices."""

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


def finding(file: str | Path, message: str, steps: Steps = (), line: int = 1) -> Finding:
    """Return the finding at a part of a record; bytes of the file's path that are not UTF-8 are escaped."""
    return Finding(file=file_text(file), line=line, path=path_text(steps), message=message)


def file_text(path: str | Path) -> str:
    """Return a printable form of a file's path; bytes that are not UTF-8 are escaped."""
    return str(path).encode(errors="backslashreplace").decode()


def path_text(steps: Steps) -> str:
    """Return steps as a path such as ``$.turns[3].text``; unusual names are quoted and escaped."""
    text = "$"
    for step in steps:
        if isinstance(step, int):
            text += f"[{step}]"
        else:
            text += f".{step}" if _PLAIN_NAME.fullmatch(step) else f"[{shown(step)}]"
    return text
