"""Reading of several complete journals as one: the commits of a dialogue by the line of the dataset."""

from array import array
from collections.abc import Sequence
from contextlib import ExitStack
from functools import partial
from pathlib import Path
from typing import Final, NamedTuple, Self

from memfin.errors import UsageError
from memfin.journal.commits import (
    COMMITS,
    CommitRecord,
    Entry,
    JournalDamaged,
    decode_line,
    entry_of,
    sound_records,
)
from memfin.journal.disk import Disk
from memfin.journal.index import CommitIndex, CommittedDialog, CommittedLines, Piece
from memfin.journal.layout import DIALOGUES
from memfin.journal.recovery import OpenFiles, read_part

_FIELDS: Final = 5
"""Numbers of a dialogue in `JournalReader`: journal from 1, offset and length of both its log lines."""


class MergedDialog(NamedTuple):
    """The commits of one dialogue: what writes them again, and what the index and the files know of it."""

    entries: Sequence[Entry]
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
        entries = [entry_of(each, partial(read_part, files, directory, each)) for each in (replay, judged)]
        return MergedDialog(entries, _known(replay, judged), _lines(*entries))

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


def _lines(replay: Entry, judged: Entry) -> CommittedLines:
    found: dict[bool, list[bytes]] = {True: [], False: []}
    for file, lines in judged.rows.items():
        found[file in DIALOGUES.rows] += lines
    ((trace,),) = replay.rows.values()
    return CommittedLines(trace, found[True], found[False])
