"""Repair: a copy of a damaged run with every commit that is provably intact."""

import os
import shutil
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path
from typing import NamedTuple

import msgspec

from memfin.errors import UsageError
from memfin.journal.artifacts import FIRST_ARTIFACTS, MANIFEST
from memfin.journal.commits import COMMITS, CommitRecord, decode_line
from memfin.journal.disk import Disk, refuse_links
from memfin.journal.layout import DATASET
from memfin.journal.lock import LOCK
from memfin.journal.recovery import OpenFiles, check_part, is_row_file
from memfin.journal.rewrite import WORKSHOP, copy_journal


class Dropped(NamedTuple):
    """A part of the damaged run that the copy lacks."""

    file: str
    offset: int
    message: str

    def __str__(self) -> str:
        return f"{self.file}: offset {self.offset}: {self.message}"


class Repaired(NamedTuple):
    """Counts of the copied commits, and the parts that the copy lacks."""

    replays: int
    judgements: int
    dropped: tuple[Dropped, ...]


def repair(source: Path, target: Path, disk: Disk | None = None) -> Repaired:
    """Write a repaired copy of a run directory; the original is only read.

    A replay is kept when its record and its trace are as they were written, a judgement when its
    replay is kept and its own record and rows are sound. The copy is a run that was interrupted,
    which ``memfin resume`` completes; when nothing had to be dropped, it is complete as it is.

    Raises:
        UsageError: there is no run, another process is writing to it, or ``target`` exists.
        OSError: the file system refuses.
    """
    disk = disk or Disk()
    if not (source / COMMITS).is_file():
        raise UsageError(f"run {source}: has no {COMMITS}, so its valid rows are unknown")
    refuse_links(source)
    if (source / WORKSHOP / "complete").exists():
        raise UsageError(f"run {source}: is half rewritten; memfin resume completes that first")
    _refuse_busy(disk, source)
    try:
        disk.mkdir(target)
    except FileExistsError:
        raise UsageError(f"{target}: exists already; name a directory to create") from None
    try:
        return _copy(disk, source, target)
    except OSError:
        shutil.rmtree(target, ignore_errors=True)  # so that the same command can be given again
        raise


def _copy(disk: Disk, source: Path, target: Path) -> Repaired:
    with OpenFiles(disk, source) as files:
        sieve = _RecordFilter(files)
        copy_journal(disk, files, sieve.sound_records(), target)
    dropped = tuple(sieve.dropped)
    for path in sorted(source.iterdir()):
        if not path.is_file() or path.name.startswith("."):
            continue
        kept = path.name in (DATASET, *FIRST_ARTIFACTS)
        if kept or not (dropped or path.name == COMMITS or is_row_file(path.name)):
            data = path.read_bytes()
            cut = dropped and path.name == MANIFEST
            disk.write_whole(target / path.name, _unended(data) if cut else data)
    disk.fsync_directory(target)
    return Repaired(len(sieve.kept), len(sieve.judged), dropped)


def _refuse_busy(disk: Disk, source: Path) -> None:
    with suppress(FileNotFoundError), disk.opening(source / LOCK, os.O_RDONLY) as descriptor:
        if not disk.lock(descriptor):
            raise UsageError(f"run {source}: is in use; wait for it to end, or stop it first")


def _unended(data: bytes) -> bytes:
    """Return a manifest without the fields of the run's end; other or damaged content unchanged."""
    try:
        manifest = msgspec.json.decode(data)
    except (msgspec.DecodeError, UnicodeDecodeError):
        return data
    if not isinstance(manifest, dict) or "ended_at" not in manifest:
        return data
    return msgspec.json.format(msgspec.json.encode({**manifest, "ended_at": None}), indent=2) + b"\n"


class _RecordFilter:
    """Filter for the intact records of a journal.

    Attributes:
        kept: dialogues whose replay went through.
        judged: dialogues whose judgement went through.
        dropped: the parts left out.
    """

    def __init__(self, files: OpenFiles) -> None:
        self._files = files
        self.kept: set[int] = set()
        self.judged: set[int] = set()
        self.dropped: list[Dropped] = []

    def sound_records(self) -> Iterator[CommitRecord]:
        """Yield every record that is intact together with its rows, each commit of a dialogue once."""
        offset = 0
        ends = dict.fromkeys(self._files.rows, 0)
        for line in self._files.log_lines():
            record = decode_line(line)
            if record is None:
                self._drop(COMMITS, offset, "a damaged line")
            else:
                for part in record.parts:
                    ends[part.file] = max(ends.get(part.file, 0), part.offset + part.length)
                if self._is_sound(record, offset):
                    yield record
            offset += len(line)
        for name, end in ends.items():
            size = self._files.size(name)
            if size > end:
                self._drop(name, end, f"{size - end} bytes without an intact record")

    def _is_sound(self, record: CommitRecord, offset: int) -> bool:
        if record.kind == "opened":
            return True
        what = f"{record.kind} of dialogue {record.dialog_id!r}"
        known = self.judged if record.kind == "judged" else self.kept
        if record.dataset_index in known:
            return self._drop(COMMITS, offset, f"{what}: a duplicate")
        if record.kind == "judged" and record.dataset_index not in self.kept:
            return self._drop(COMMITS, offset, f"{what}: its replay is lost")
        for part in record.parts:
            if problem := check_part(self._files.read(part), part):
                return self._drop(part.file, part.offset, f"{what}: {problem}")
        known.add(record.dataset_index)
        return True

    def _drop(self, file: str, offset: int, message: str) -> bool:
        self.dropped.append(Dropped(file, offset, message))
        return False
