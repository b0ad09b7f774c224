"""Turn log: checkpoints of dialogues in progress, for resuming them within a dialogue.

A checkpoint without turns has what the client's session before left to one that is still to begin.

No result depends on it: a damaged record costs its dialogue the turns after it, never the run. The file is
rewritten without records of committed replays whenever it has grown to several times what is needed, and
removed when no dialogue is under way.
"""

from collections.abc import Container, Iterable, Iterator
from contextlib import suppress
from pathlib import Path
from typing import Final

import msgspec

from memfin.contracts import DialogCheckpoint, TurnTrace
from memfin.journal.commits import sealed, unsealed
from memfin.journal.disk import APPEND, Disk
from memfin.journal.recovery import log_lines

TURNS: Final = "turns.log"

ROOM: Final = 4 << 20
GROWTH: Final = 4
"""The file is rewritten when it is larger than ``ROOM`` bytes and ``GROWTH`` times what it was after
the last rewriting: so often that it stays small, so seldom that it costs next to nothing."""

_Place = tuple[int, int]
"""Offset and length of a record."""


class _DialogRecords:
    """Positions of the records of one dialogue, and its last recorded turn."""

    def __init__(self, dialog_id: str) -> None:
        self.dialog_id = dialog_id
        self.pieces: list[_Place] = []
        self.turns = 0
        self.last: TurnTrace | None = None


class CheckpointLog:
    """Log of dialogues in progress; all methods run in the journal's thread.

    They raise `OSError` where the file system refuses.

    Attributes:
        damage: the defects of the file found by recovery, one line each.
    """

    def __init__(self, directory: Path, disk: Disk) -> None:
        self.damage: tuple[str, ...] = ()
        self._path = directory / TURNS
        self._directory = directory
        self._disk = disk
        self._file: int | None = None
        self._size = 0
        self._least = 0
        self._begun: dict[int, _DialogRecords] = {}

    def __len__(self) -> int:
        return len(self._begun)

    def recover(self, done: Container[int]) -> None:
        """Load the records of an earlier process for dialogues whose replay is not ``done``.

        On return the file holds only these, durably.
        """
        if not self._path.exists():
            return
        self._file = self._disk.open(self._path, APPEND)
        damage: list[str] = []
        for offset, line, record in turn_records(self._disk, self._file):
            if record is None:
                damage.append(f"offset {offset}: a damaged line")
            elif record.dataset_index not in done:
                self._take_in(record, (offset, len(line)))
        self.damage = tuple(damage)
        self._size = self._disk.size(self._file)
        self._rewrite()

    def _take_in(self, record: DialogCheckpoint, piece: _Place) -> None:
        begun = self._begun.get(record.dataset_index)
        if begun is None or not record.turns_before:
            begun = self._begun[record.dataset_index] = _DialogRecords(record.dialog_id)
        if begun.turns == record.turns_before:  # else the one in between is damaged
            begun.pieces.append(piece)
            begun.turns += len(record.turns)
        elif not begun.pieces:
            del self._begun[record.dataset_index]

    def forget(self) -> None:
        """Remove the records of an earlier process."""
        self._disk.unlink(self._path)

    def append(self, dialogs: Iterable[DialogCheckpoint]) -> None:
        """Record the progress of dialogues; it is on the medium on return."""
        if self._size > max(ROOM, GROWTH * self._least):
            self._rewrite()
        known: list[tuple[DialogCheckpoint, _DialogRecords, _Place]] = []
        lines: list[bytes] = []
        size = self._size
        for dialog in dialogs:
            begun = self._continued(dialog)
            new = dialog.replace(turns=dialog.turns[begun.turns :], turns_before=begun.turns)
            line = _line(new.replace(carried=None) if begun.turns else new)  # the first record has it
            known.append((dialog, begun, (size, len(line))))
            lines.append(line)
            size += len(line)
        file = self._opened()
        try:
            self._disk.write_all(file, b"".join(lines))
            self._disk.fsync(file)
        except OSError:
            with suppress(OSError):
                self._disk.truncate(file, self._size)
            raise
        self._size = size
        for dialog, begun, piece in known:
            begun.pieces.append(piece)
            begun.turns, begun.last = len(dialog.turns), dialog.turns[-1] if dialog.turns else None
            self._begun[dialog.dataset_index] = begun

    def _continued(self, dialog: DialogCheckpoint) -> _DialogRecords:
        """Return the dialogue's records if its turns continue them; none if it started again."""
        begun = self._begun.get(dialog.dataset_index)
        if begun is None or begun.last is None or begun.turns >= len(dialog.turns):
            return _DialogRecords(dialog.dialog_id)
        # The very turn, not an equal one: answers to the same question may be alike in all but the state.
        return begun if dialog.turns[begun.turns - 1] is begun.last else _DialogRecords(dialog.dialog_id)

    def release(self, dataset_indices: Iterable[int]) -> None:
        """Forget dialogues whose replay is committed; the next rewriting removes their bytes."""
        for dataset_index in dataset_indices:
            self._begun.pop(dataset_index, None)

    def read(self, dataset_index: int) -> DialogCheckpoint | None:
        """Return all turns of a dialogue with the newest state; None without an intact one."""
        begun = self._begun.get(dataset_index)
        found = self._joined(begun) if begun is not None else None
        if begun is not None and found is not None and found.turns:
            begun.last = found.turns[-1]
        return found

    def _joined(self, begun: _DialogRecords) -> DialogCheckpoint | None:
        turns: list[TurnTrace] = []
        found: DialogCheckpoint | None = None
        for offset, length in begun.pieces:
            record = _record(self._disk.read(self._opened(), length, offset))
            if record is None or record.turns_before != len(turns):
                break  # changed since it was recovered
            turns += record.turns
            found = record if found is None else record.replace(carried=found.carried)
        return None if found is None else found.replace(turns=turns, turns_before=0)

    def _rewrite(self) -> None:
        """Replace the file by one with only the dialogues in progress."""
        if not self._begun:
            self._remove()
            return
        moved: dict[int, _DialogRecords] = {}
        self._disk.write_whole(self._path, self._copy(moved))
        self._disk.fsync_directory(self._directory)
        self._close_file()
        self._begun = moved
        self._size = self._least = sum(length for begun in moved.values() for _, length in begun.pieces)

    def _copy(self, moved: dict[int, _DialogRecords]) -> Iterator[bytes]:
        """Yield each dialogue as one record and its position in ``moved``; memory holds one at a time."""
        size = 0
        for dataset_index, begun in self._begun.items():
            whole = self._joined(begun)
            if whole is None:
                continue
            line = _line(whole)
            copy = moved[dataset_index] = _DialogRecords(begun.dialog_id)
            copy.pieces, copy.turns = [(size, len(line))], len(whole.turns)
            copy.last = begun.last if copy.turns == begun.turns else None
            size += len(line)
            yield line

    def _remove(self) -> None:
        self._close_file()
        self._disk.unlink(self._path)
        self._size = self._least = 0

    def _opened(self) -> int:
        """Return the open file; the name of a new one is synchronised to the medium first."""
        if self._file is None:
            new = not self._size
            self._file = self._disk.open(self._path, APPEND)
            if new:
                self._disk.fsync_directory(self._directory)
        return self._file

    def _close_file(self) -> None:
        if self._file is not None:
            file, self._file = self._file, None
            self._disk.close(file)

    def close(self) -> None:
        """Close the file, and remove it if no dialogue needs it."""
        self._close_file()
        if self._size and not self._begun:
            with suppress(OSError):  # the rest concerns no dialogue in progress
                self._disk.unlink(self._path)


def turn_records(disk: Disk, file: int) -> Iterator[tuple[int, bytes, DialogCheckpoint | None]]:
    """Yield offset, line and record of every line of an open turn log; None for a damaged record.

    A last line without its end was never completed and is left out.
    """
    offset = 0
    for line in log_lines(disk, file):
        if line.endswith(b"\n"):
            yield offset, line, _record(line)
        offset += len(line)


def _line(dialog: DialogCheckpoint) -> bytes:
    return sealed(msgspec.json.encode(dialog))


def _record(line: bytes) -> DialogCheckpoint | None:
    """Return the record of an intact line; None for a damaged one or one that holds nothing."""
    body = unsealed(line)
    if body is None:
        return None
    try:
        record = _DECODER.decode(body)
    except msgspec.DecodeError:
        return None
    return record if record.turns or record.carried is not None else None


_DECODER: Final = msgspec.json.Decoder(DialogCheckpoint)
