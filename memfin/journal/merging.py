"""Merging of journals: commits of several complete runs read by line of the dataset, and written as one."""

import os
from array import array
from collections.abc import Sequence
from contextlib import ExitStack
from pathlib import Path
from typing import Final, NamedTuple, Self

from memfin.errors import UsageError
from memfin.journal.commits import (
    COMMITS,
    FORMAT,
    CommitRecord,
    JournalDamaged,
    decode_line,
    encode_record,
    sound_records,
)
from memfin.journal.disk import APPEND, Disk
from memfin.journal.index import CommitIndex, CommittedDialog, CommittedLines, Piece
from memfin.journal.layout import DIALOGUES
from memfin.journal.recovery import OpenFiles, read_part

GROUP: Final = 4 << 20
"""Bytes of rows that are written at a time."""

_FIELDS: Final = 5
"""Numbers of a dialogue in `JournalReader`: journal from 1, offset and length of both its log lines."""


class MergedDialog(NamedTuple):
    """The commits of one dialogue: records, their rows, and both as the index and the lines of a run."""

    records: Sequence[CommitRecord]
    rows: Sequence[Sequence[bytes]]
    known: CommittedDialog
    lines: CommittedLines


class JournalReader:
    """Reader of the journals of complete runs of dialogues, together those of one dataset.

    Opening it reads the logs alone; rows are checked against their checksums when they are read. Memory holds
    five numbers per line of the dataset, and the index of one log at a time while it is opened.

    Attributes:
        dialogs: number of dialogues in all journals.
    """

    def __init__(self, disk: Disk, directories: Sequence[Path]) -> None:
        self.dialogs = 0
        self._disk = disk
        self._directories = directories
        self._files: list[OpenFiles] = []
        self._places = array("q")
        self._stack = ExitStack()

    def __enter__(self) -> Self:
        """Open and check all logs.

        Raises:
            JournalDamaged: a log is damaged, or its file of rows shorter than it says.
            UsageError: a dialogue is not judged, there are bytes that were never committed, or a line of the
                dataset is in two journals.
            OSError: a file cannot be read.
        """
        with ExitStack() as stack:
            for number, directory in enumerate(self._directories):
                files = stack.enter_context(OpenFiles(self._disk, directory, DIALOGUES.files))
                self._files.append(files)
                self._add(number, directory, files)
            self._stack = stack.pop_all()
        return self

    def __exit__(self, *exception: object) -> None:
        """Close all files."""
        self._stack.close()

    def _add(self, number: int, directory: Path, files: OpenFiles) -> None:
        index, log_end, log = CommitIndex(), 0, str(directory / COMMITS)
        for offset, end, record in sound_records(files.log_lines(), log):
            if problem := index.add(record):
                raise JournalDamaged(log, offset, problem)
            if record.kind != "opened":
                self._note(number, record, offset, end - offset)
            log_end = end
        self.dialogs += len(index)
        for name, end in ((COMMITS, log_end), *((name, index.ends.get(name, 0)) for name in files.rows)):
            size = files.size(name)
            if size < end:
                raise JournalDamaged(str(directory / name), size, f"{end - size} committed bytes are missing")
            if size > end:
                raise UsageError(
                    f"{directory / name}: offset {end}: {size - end} bytes were never committed; memfin "
                    f"resume {directory} cuts them"
                )
        if index.judged < len(index):
            judged = f"{index.judged} of {len(index)} dialogues are judged"
            raise UsageError(f"run {directory}: {judged}; memfin resume {directory} goes on with it")

    def _note(self, number: int, record: CommitRecord, offset: int, length: int) -> None:
        """Keep the place of a dialogue's record."""
        place = record.dataset_index * _FIELDS
        if place >= len(self._places):
            self._places.frombytes(bytes(self._places.itemsize * (place + _FIELDS - len(self._places))))
        owner = self._places[place]
        if owner not in (0, number + 1):
            raise UsageError(
                f"run {self._directories[number]}: dialogue {record.dialog_id!r} of line "
                f"{record.dataset_index} is in {self._directories[owner - 1]}, too"
            )
        self._places[place] = number + 1
        at = place + (1 if record.kind == "replay" else 3)
        self._places[at], self._places[at + 1] = offset, length

    def read(self, dataset_index: int) -> MergedDialog | None:
        """Return the dialogue of a line of the dataset, checked; None if no journal has it.

        Raises:
            JournalDamaged: its rows are missing or changed.
            OSError: a file cannot be read.
        """
        place = dataset_index * _FIELDS
        if place >= len(self._places) or not self._places[place]:
            return None
        owner, *lines = self._places[place : place + _FIELDS]
        directory, files = self._directories[owner - 1], self._files[owner - 1]
        replay = self._record(directory, files, lines[0], lines[1])
        judged = self._record(directory, files, lines[2], lines[3])
        records = replay, judged
        rows = [[read_part(files, directory, each, part) for part in each.parts] for each in records]
        return MergedDialog(records, rows, _known(replay, judged), _lines(judged, rows))

    def _record(self, directory: Path, files: OpenFiles, offset: int, length: int) -> CommitRecord:
        log = files.get(COMMITS)
        record = None if log is None else decode_line(self._disk.read(log, length, offset))
        if record is None:
            raise JournalDamaged(str(directory / COMMITS), offset, "this line has changed since it was read")
        return record


def _known(replay: CommitRecord, judged: CommitRecord) -> CommittedDialog:
    part = replay.parts[0]
    return CommittedDialog(
        replay.dataset_index,
        replay.dialog_id,
        replay.status,
        Piece(part.file, part.offset, part.length),
        judged=True,
        retries=replay.retries,
        abandoned=replay.abandoned,
        judge_failures=judged.judge_failures,
        usage=replay.usage,
    )


def _lines(judged: CommitRecord, rows: Sequence[Sequence[bytes]]) -> CommittedLines:
    found: dict[bool, list[bytes]] = {True: [], False: []}
    for part, data in zip(judged.parts, rows[1], strict=True):
        found[part.file in DIALOGUES.rows] += data.removesuffix(b"\n").split(b"\n")
    return CommittedLines(rows[0][0].removesuffix(b"\n"), found[True], found[False])


class JournalCopy:
    """Writer of a new journal from records and rows of others, with the same bytes for the same order.

    Nothing is durable before `finish`: whoever is killed before it begins again in an empty directory.
    """

    def __init__(self, disk: Disk, directory: Path, artifacts: dict[str, str]) -> None:
        """Create the files; ``artifacts`` are the checksums of the run's settings and manifest."""
        self._disk = disk
        self._directory = directory
        self._files: dict[str, int] = {}
        self._ends: dict[str, int] = {}
        self._rows: dict[str, list[bytes]] = {}
        self._log: list[bytes] = []
        self._seq = self._group = 1
        self._held = 0
        for name in (COMMITS, *DIALOGUES.rows):
            self._file(name)
        opened = CommitRecord(seq=1, group=1, kind="opened", format=FORMAT, artifacts=artifacts)
        self._log.append(encode_record(opened))

    def append(self, dialog: MergedDialog) -> bool:
        """Add the commits of a dialogue; return True if the group was full and is written."""
        for record, rows in zip(dialog.records, dialog.rows, strict=True):
            parts = []
            for part, data in zip(record.parts, rows, strict=True):
                end = self._ends.get(part.file, 0)
                parts.append(part.replace(offset=end))
                self._ends[part.file] = end + len(data)
                self._rows.setdefault(part.file, []).append(data)
                self._held += len(data)
            self._seq += 1
            moved = record.replace(seq=self._seq, group=self._group + 1, parts=tuple(parts))
            self._log.append(encode_record(moved))
        if full := self._held >= GROUP:
            self._write()
        return full

    def _write(self) -> None:
        for name, pieces in (*self._rows.items(), (COMMITS, self._log)):
            self._disk.write_all(self._file(name), b"".join(pieces))
        self._rows, self._log = {}, []
        self._group, self._held = self._seq, 0

    def _file(self, name: str) -> int:
        if name not in self._files:
            self._files[name] = self._disk.open(self._directory / name, APPEND | os.O_EXCL)
        return self._files[name]

    def finish(self) -> None:
        """Write the rest; all rows are on the medium on return, the names once the directory is."""
        self._write()
        for descriptor in self._files.values():
            self._disk.fsync(descriptor)

    def close(self) -> None:
        """Close all files."""
        files, self._files = self._files, {}
        for descriptor in files.values():
            self._disk.close(descriptor)
