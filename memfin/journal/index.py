"""Index of a commit log: progress of every dialogue, and positions of its rows."""

import sys
from collections.abc import Iterator
from typing import NamedTuple

from memfin.contracts import DialogStatus, ModelUsage
from memfin.journal.commits import CommitRecord, Part


class Piece(NamedTuple):
    """A range of bytes in a file of rows."""

    file: str
    offset: int
    length: int


class CommittedDialog(NamedTuple):
    """A dialogue with a committed replay; ``judged`` is True if its rows are committed, too.

    ``rows`` are where they stand, and where the votes of a language model do, by file. A question
    counts as a dialogue whose ``trace`` is its result, committed with its score. Where a judge reads the
    answers, the trace is the answer and the row the result.
    """

    dataset_index: int
    dialog_id: str
    status: DialogStatus | None
    trace: Piece
    judged: bool = False
    rows: tuple[Piece, ...] = ()
    retries: int = 0
    abandoned: int = 0
    judge_failures: int = 0
    usage: ModelUsage | None = None


class CommittedLines(NamedTuple):
    """Lines of one dialogue: its trace, its rows, and the votes of a language model."""

    trace: bytes
    rows: list[bytes]
    judgements: list[bytes]


class CommitIndex:
    """Dialogues of a run by line of the dataset; memory holds ids and offsets, no text.

    Attributes:
        ends: the committed size of every file of rows.
        seq: the number of the last record.
        artifacts: the checksums of the run's artifacts by the names of their files.
    """

    def __init__(self) -> None:
        self.ends: dict[str, int] = {}
        self.seq = 0
        self.artifacts: dict[str, set[str]] = {}
        self._dialogs: dict[int, CommittedDialog] = {}

    def __len__(self) -> int:
        return len(self._dialogs)

    def __iter__(self) -> Iterator[CommittedDialog]:
        return iter(self._dialogs.values())

    def get(self, dataset_index: int) -> CommittedDialog | None:
        """Return the commits of the dialogue on a line of the dataset."""
        return self._dialogs.get(dataset_index)

    @property
    def judged(self) -> int:
        """Number of complete dialogues."""
        return sum(dialog.judged for dialog in self)

    def add(self, record: CommitRecord) -> str | None:
        """Add a record; return its conflict with the earlier ones, if any."""
        ends = dict(self.ends)
        for part in record.parts:
            if part.offset != ends.get(part.file, 0):
                return f"record {record.seq} does not continue {part.file} at the end of the previous one"
            ends[part.file] = part.offset + part.length
        problem = self._enter(record)
        if problem is None:
            self.ends = ends
            self.seq = record.seq
        return problem

    def _enter(self, record: CommitRecord) -> str | None:
        pieces = [_piece(part) for part in record.parts]
        known = self._dialogs.get(record.dataset_index)
        name = f"dialogue {record.dialog_id!r} of line {record.dataset_index}"
        match record.kind:
            case "opened":
                for artifact, check in record.artifacts.items():
                    self.artifacts.setdefault(artifact, set()).add(check)
                return None
            case "replay" | "result":
                if known is not None or not pieces:
                    lacks = "without a trace" if record.kind == "replay" else "without its line"
                    return f"record {record.seq} commits {name} " + ("again" if known else lacks)
                known = CommittedDialog(
                    record.dataset_index,
                    record.dialog_id,
                    record.status,
                    pieces[0],
                    judged=record.kind == "result",
                    retries=record.retries,
                    abandoned=record.abandoned,
                    usage=record.usage,
                )
            case "judged":
                if known is None or known.judged:
                    return f"record {record.seq} judges {name} " + ("again" if known else "before its replay")
                known = known._replace(
                    judged=True,
                    rows=tuple(pieces),
                    judge_failures=record.judge_failures,
                )
        self._dialogs[record.dataset_index] = known
        return None


def _piece(part: Part) -> Piece:
    return Piece(sys.intern(part.file), part.offset, part.length)
