"""Recovery: the committed state of a run, and uncommitted bytes to cut."""

import os
from collections.abc import Iterable, Iterator
from contextlib import suppress
from pathlib import Path
from typing import Final, NamedTuple, Self

from memfin.contracts.validity import LABELS
from memfin.errors import UsageError
from memfin.journal.commits import COMMITS, CommitRecord, JournalDamaged, Part, digest, sound_records
from memfin.journal.disk import Disk
from memfin.journal.index import CommitIndex
from memfin.journal.layout import DATASET

_PIECE: Final = 1 << 20
_LONGEST: Final = 64 << 20
"""Maximum bytes of a log line: a record has an id and some numbers."""


class Cut(NamedTuple):
    """Uncommitted bytes at the end of a file, from ``keep`` to ``size``."""

    file: str
    keep: int
    size: int

    def __str__(self) -> str:
        return f"{self.file}: {self.size - self.keep} bytes from offset {self.keep} on, never committed"


class Recovered(NamedTuple):
    """Committed state of a run, and the bytes to cut before it is resumed."""

    committed: CommitIndex
    cuts: tuple[Cut, ...]


def examine(disk: Disk, directory: Path, rows: Iterable[str] | None = None) -> Recovered:
    """Check every commit of a run against its rows; reads all files once, changes nothing.

    ``rows`` are the names of files that hold rows; without them every ``.jsonl`` file counts as one.
    Memory holds the index and the rows of one dialogue at a time.

    Raises:
        JournalDamaged: committed data is missing or changed, or the log is damaged.
        UsageError: there is no commit log.
        OSError: a file cannot be read.
    """
    log = directory / COMMITS
    index, log_end = CommitIndex(), 0
    with OpenFiles(disk, directory, rows) as files:
        if files.get(COMMITS) is None:
            raise UsageError(f"run {directory}: has no {COMMITS}, so its progress is unknown")
        for offset, end, record in sound_records(files.log_lines(), str(log)):
            if problem := index.add(record):
                raise JournalDamaged(str(log), offset, problem)
            for part in record.parts:
                read_part(files, directory, record, part)
            log_end = end
        cuts = tuple(
            Cut(file, keep, size)
            for file, keep in ((COMMITS, log_end), *((file, index.ends.get(file, 0)) for file in files.rows))
            if (size := files.size(file)) > keep
        )
    if not index.seq and any(cut.file != COMMITS for cut in cuts):
        raise JournalDamaged(str(log), 0, "every line is damaged, but there are rows")
    return Recovered(index, cuts)


def log_lines(disk: Disk, descriptor: int) -> Iterator[bytes]:
    """Yield the physical lines of an open file with their line ends; one without an end comes last."""
    offset, held = 0, b""
    while piece := disk.read(descriptor, _PIECE, offset):
        offset += len(piece)
        *lines, held = (held + piece).split(b"\n")
        yield from (line + b"\n" for line in lines)
        if len(held) > _LONGEST:
            yield held
            held = b""
    if held:
        yield held


def check_part(data: bytes, part: Part) -> str | None:
    """Return the defect of the rows of one commit, if any."""
    if len(data) < part.length:
        return f"the file ends at {part.offset + len(data)}, {part.length - len(data)} bytes too early"
    return None if digest(data) == part.digest else "the rows do not match their checksum"


def read_part(files: "OpenFiles", directory: Path, record: CommitRecord, part: Part) -> bytes:
    """Return the rows of a commit in one file.

    Raises:
        JournalDamaged: they are missing or changed.
        OSError: the file cannot be read.
    """
    data = files.read(part)
    missing = files.get(part.file) is None
    problem = "the file is missing" if missing else check_part(data, part)
    if problem is not None:
        what = f"{record.kind} of dialogue {record.dialog_id!r}: {problem}"
        raise JournalDamaged(str(directory / part.file), part.offset, what)
    return data


class OpenFiles:
    """Open log and row files (named in ``rows``) of a run, as far as they exist."""

    def __init__(self, disk: Disk, directory: Path, rows: Iterable[str] | None = None) -> None:
        self._disk = disk
        self._directory = directory
        found = [name for name in disk.names(directory) if is_row_file(name)] if rows is None else rows
        self.rows = tuple(found)
        self._descriptors: dict[str, int] = {}

    def __enter__(self) -> Self:
        """Open the files; raise `OSError` for an existing one that cannot be read."""
        try:
            for name in (COMMITS, *self.rows):
                with suppress(FileNotFoundError):
                    self._descriptors[name] = self._disk.open(self._directory / name, os.O_RDONLY)
        except OSError:
            self.__exit__()
            raise
        return self

    def __exit__(self, *exception: object) -> None:
        """Close the files."""
        for descriptor in self._descriptors.values():
            self._disk.close(descriptor)

    def get(self, name: str) -> int | None:
        """Return the descriptor of a file, None if it does not exist."""
        return self._descriptors.get(name)

    def log_lines(self) -> Iterator[bytes]:
        """Yield the lines of the log, if it exists."""
        log = self.get(COMMITS)
        return iter(()) if log is None else log_lines(self._disk, log)

    def size(self, name: str) -> int:
        """Return the size of a file in bytes, 0 if it does not exist."""
        descriptor = self.get(name)
        return 0 if descriptor is None else self._disk.size(descriptor)

    def read(self, part: Part) -> bytes:
        """Return the rows of a commit, as far as they exist."""
        descriptor = self.get(part.file)
        return b"" if descriptor is None else self._disk.read(descriptor, part.length, part.offset)


def is_row_file(name: str) -> bool:
    """Return True for a possible file of rows; people's labels and a progress log may be beside them."""
    return name.endswith(".jsonl") and name not in ("progress.jsonl", LABELS, DATASET) and name[0] != "."
