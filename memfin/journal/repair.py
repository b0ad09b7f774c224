"""Repair: a copy of a damaged run that holds every commit which is provably as it was written."""

import os
import shutil
from collections.abc import Iterator
from pathlib import Path
from typing import NamedTuple

import msgspec

from memfin.errors import UsageError
from memfin.journal.artifacts import FIRST_ARTIFACTS
from memfin.journal.commits import COMMITS, CommitRecord, decode_line
from memfin.journal.disk import Disk, refuse_links
from memfin.journal.lock import LOCK
from memfin.journal.recovery import OpenFiles, check_part, is_row_file, log_lines
from memfin.journal.rewrite import WORKSHOP, copy_journal


class Dropped(NamedTuple):
    """Something of the damaged run that its copy does not hold."""

    file: str
    offset: int
    message: str

    def __str__(self) -> str:
        return f"{self.file}: offset {self.offset}: {self.message}"


class Repaired(NamedTuple):
    """Counts of what the copy holds, and a list of what it does not."""

    replays: int
    judgements: int
    dropped: tuple[Dropped, ...]


def repair(source: Path, target: Path, disk: Disk | None = None) -> Repaired:
    """Write a repaired copy of a run directory; the original is read and never touched.

    A replay is kept when its record and its trace are as they were written, a judgement when its
    replay is kept and its own record and rows are sound. The copy is a run that was interrupted,
    which ``memfin resume`` completes; when nothing had to be dropped, it is complete as it is.

    Raises:
        UsageError: there is no run, another process is writing to it, or ``target`` exists.
        OSError: the file system refuses.
    """
    disk = disk or Disk()
    if not (source / COMMITS).is_file():
        raise UsageError(f"run {source}: has no {COMMITS}, so that nothing says which rows are sound")
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
        sieve = _Sieve(disk, files)
        copy_journal(disk, files, sieve.sound_records(), target)
    dropped = tuple(sieve.dropped)
    artifacts = [
        path for path in sorted(source.iterdir()) if path.is_file() and not path.name.startswith(".")
    ]
    for path in artifacts:
        if path.name in FIRST_ARTIFACTS or not (dropped or path.name == COMMITS or is_row_file(path.name)):
            data = path.read_bytes()
            disk.write_whole(target / path.name, _unended(data) if dropped else data)
    disk.fsync_directory(target)
    return Repaired(sieve.replays, sieve.judgements, dropped)


def _refuse_busy(disk: Disk, source: Path) -> None:
    try:
        descriptor = disk.open(source / LOCK, os.O_RDONLY)
    except FileNotFoundError:
        return  # a copy that left it behind
    try:
        if not disk.lock(descriptor):
            raise UsageError(f"run {source}: is in use; wait for it to end, or stop it first")
    finally:
        disk.close(descriptor)


def _unended(data: bytes) -> bytes:
    """Return a manifest without its end; any other content, and a damaged one, as it is."""
    try:
        manifest = msgspec.json.decode(data)
    except (msgspec.DecodeError, UnicodeDecodeError):
        return data
    if not isinstance(manifest, dict) or "ended_at" not in manifest:
        return data
    return msgspec.json.format(msgspec.json.encode({**manifest, "ended_at": None}), indent=2) + b"\n"


class _Sieve:
    """Lets the sound records of a journal through and remembers what it holds back."""

    def __init__(self, disk: Disk, files: OpenFiles) -> None:
        self._disk = disk
        self._files = files
        self._kept: set[int] = set()
        self._judged: set[int] = set()
        self.dropped: list[Dropped] = []

    @property
    def replays(self) -> int:
        """Number of replays that went through."""
        return len(self._kept)

    @property
    def judgements(self) -> int:
        """Number of judgements that went through."""
        return len(self._judged)

    def sound_records(self) -> Iterator[CommitRecord]:
        """Yield every record that is sound together with its rows, each commit of a dialogue once."""
        offset = 0
        ends = dict.fromkeys(self._files.rows, 0)
        log = self._files.get(COMMITS)
        for line in log_lines(self._disk, log) if log is not None else ():
            record = decode_line(line)
            if record is None:
                self.dropped.append(Dropped(COMMITS, offset, "a line that is not as it was written"))
            else:
                for part in record.parts:
                    ends[part.file] = max(ends.get(part.file, 0), part.offset + part.length)
                if self._is_sound(record, offset):
                    yield record
            offset += len(line)
        for name, end in ends.items():
            size = self._files.size(name)
            if size > end:
                self.dropped.append(Dropped(name, end, f"{size - end} bytes that no sound record speaks of"))

    def _is_sound(self, record: CommitRecord, offset: int) -> bool:
        if record.kind == "opened":
            return True
        what = f"{record.kind} of dialogue {record.dialog_id!r}"
        known = self._judged if record.kind == "judged" else self._kept
        if record.dataset_index in known:
            self.dropped.append(Dropped(COMMITS, offset, f"{what}: a second one"))
            return False
        if record.kind == "judged" and record.dataset_index not in self._kept:
            self.dropped.append(Dropped(COMMITS, offset, f"{what}: its replay is lost"))
            return False
        for part in record.parts:
            if problem := check_part(self._files.read(part), part):
                self.dropped.append(Dropped(part.file, part.offset, f"{what}: {problem}"))
                return False
        known.add(record.dataset_index)
        return True
