"""``artefacts.json``, the index of an uploaded run."""

import re
from typing import Annotated, Final, Literal

import msgspec

from memfin.contracts.base import Count, Record

INDEX: Final = "artefacts.json"

FILE_NAME: Final = re.compile(r"^(?!\.)[^/\\\x00-\x1f\x7f]{1,255}\Z")
"""The names that files of an uploaded run may have: no path parts, not hidden."""


class StoredFile(Record):
    """One file of an uploaded run, with its size in bytes."""

    name: Annotated[str, msgspec.Meta(pattern=FILE_NAME.pattern)]
    size: Count
    sha256: Annotated[str, msgspec.Meta(pattern=r"^[0-9a-f]{64}\Z")]


class StoredRun(Record):
    """The index of an uploaded run, written after every file in it was read back.

    ``run_id`` and ``started_at`` are those of the run's manifest: they tell runs of the same name apart.
    """

    format: Literal[1]
    run_id: str
    started_at: str
    memfin_version: str
    files: list[StoredFile]
