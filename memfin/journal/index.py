"""What a commit log amounts to: which dialogue is how far, and where its rows stand."""

from collections.abc import Iterator, Mapping
from typing import NamedTuple

from memfin.contracts import DialogStatus, ModelUsage
from memfin.journal.commits import (
    DIALOG_TRACE,
    JUDGEMENTS,
    RAG_ANSWERS,
    RAG_JUDGEMENTS,
    RAG_RESULTS,
    TURN_EVAL,
    CommitRecord,
)

Piece = tuple[int, int]
"""Offset and length in a file."""


class CommittedDialog(NamedTuple):
    """A dialogue whose replay is committed; ``judged`` says that its rows are, too.

    ``rows`` is where they stand in ``turn_eval.jsonl`` and ``judgements`` where what a language model said
    of them does in ``judgements.jsonl``; None where there are none. A question of a benchmark counts as a
    dialogue whose ``trace`` is its line in ``rag_results.jsonl``, and is committed with its score. Where a
    judge reads the answers, the trace is the line in ``rag_answers.jsonl``, the row that in
    ``rag_results.jsonl``, and the judgements are in ``rag_judgements.jsonl``.
    """

    dataset_index: int
    dialog_id: str
    status: DialogStatus | None
    trace: Piece
    judged: bool = False
    rows: Piece | None = None
    judgements: Piece | None = None
    retries: int = 0
    abandoned: int = 0
    judge_failures: int = 0
    usage: ModelUsage | None = None


class CommittedLines(NamedTuple):
    """The lines of one dialogue: its trace, its rows, and what a language model said of them."""

    trace: bytes
    rows: list[bytes]
    judgements: list[bytes]


class CommitIndex:
    """The dialogues of a run by their line in the dataset; memory holds ids and offsets, no text.

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
        """Return what is committed of the dialogue on that line of the dataset."""
        return self._dialogs.get(dataset_index)

    @property
    def judged(self) -> int:
        """How many dialogues are complete."""
        return sum(dialog.judged for dialog in self)

    def add(self, record: CommitRecord) -> str | None:
        """Take one record in; return what is wrong with it in the light of those before, if anything."""
        ends = dict(self.ends)
        for part in record.parts:
            if part.offset != ends.get(part.file, 0):
                return f"record {record.seq} does not continue {part.file} where the one before ended"
            ends[part.file] = part.offset + part.length
        problem = self._enter(record)
        if problem is None:
            self.ends = ends
            self.seq = record.seq
        return problem

    def _enter(self, record: CommitRecord) -> str | None:
        pieces: Mapping[str, Piece] = {part.file: (part.offset, part.length) for part in record.parts}
        known = self._dialogs.get(record.dataset_index)
        name = f"dialogue {record.dialog_id!r} of line {record.dataset_index}"
        match record.kind:
            case "opened":
                for name, check in record.artifacts.items():
                    self.artifacts.setdefault(name, set()).add(check)
                return None
            case "replay":
                trace = pieces.get(DIALOG_TRACE) or pieces.get(RAG_ANSWERS)
                if known is not None or trace is None:
                    return f"record {record.seq} commits {name} " + ("again" if known else "without a trace")
                known = CommittedDialog(
                    record.dataset_index,
                    record.dialog_id,
                    record.status,
                    trace,
                    retries=record.retries,
                    abandoned=record.abandoned,
                    usage=record.usage,
                )
            case "result":
                if known is not None or RAG_RESULTS not in pieces:
                    return f"record {record.seq} commits {name} " + ("again" if known else "without its line")
                known = CommittedDialog(
                    record.dataset_index,
                    record.dialog_id,
                    record.status,
                    pieces[RAG_RESULTS],
                    judged=True,
                    retries=record.retries,
                    abandoned=record.abandoned,
                    usage=record.usage,
                )
            case "judged":
                if known is None or known.judged:
                    return f"record {record.seq} judges {name} " + ("again" if known else "before its replay")
                known = known._replace(
                    judged=True,
                    rows=pieces.get(TURN_EVAL) or pieces.get(RAG_RESULTS),
                    judgements=pieces.get(JUDGEMENTS) or pieces.get(RAG_JUDGEMENTS),
                    judge_failures=record.judge_failures,
                )
        self._dialogs[record.dataset_index] = known
        return None
