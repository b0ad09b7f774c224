"""Messages between the stages of a pipeline; every message is immutable and owned by its receiver."""

from datetime import UTC, datetime
from typing import Any, Final, NamedTuple

import msgspec

from memfin.contracts import (
    Dialog,
    DialogCheckpoint,
    DialogDone,
    DialogTrace,
    Judgement,
    ModelUsage,
    ProgressEvent,
    Record,
    TurnEvalRow,
)
from memfin.journal import DIALOG_TRACE, JUDGEMENTS, TURN_EVAL, Entry

encode: Final = msgspec.json.Encoder().encode


def utc_now() -> str:
    """Return the present time as the contract writes it: UTC, ISO 8601, with ``Z``."""
    return datetime.now(UTC).isoformat(timespec="microseconds").replace("+00:00", "Z")


class Commit(NamedTuple):
    """Something that the trace writer puts on disk.

    Attributes:
        entry: a finished piece of work.
        checkpoint: how far a dialogue under way is.
        turns: answered turns, by which the size of a group is bounded.
        answers: answers that nothing has brought to disk before; a run that has any is kept.
        event: progress event of a dialogue or question that the entry completes, sent once it is on disk.
        completed: what the aggregator then gets.
    """

    entry: Entry | None = None
    checkpoint: DialogCheckpoint | None = None
    turns: int = 1
    answers: int = 0
    event: ProgressEvent | None = None
    completed: Any = None


class DialogTask(Record):
    """A valid dialogue to replay; ``begun`` is how far it came in an earlier process."""

    dataset_index: int
    dialog: Dialog
    begun: DialogCheckpoint | None = None


class DialogReplayed(Record):
    """A dialogue's trace; ``dialog`` is None for a skipped line of the dataset.

    ``usage`` is what a language model took, as the replies report it. ``recorded`` says that the run
    directory holds the trace already.
    """

    trace: DialogTrace
    dialog: Dialog | None
    retries: int = 0
    abandoned: int = 0
    usage: ModelUsage | None = None
    recorded: bool = False

    def commit(self) -> Commit:
        """Return the commit of the trace."""
        trace = self.trace
        entry = Entry(
            "replay",
            trace.dataset_index,
            trace.dialog_id,
            {DIALOG_TRACE: [encode(trace)]},
            status=trace.dialog_status,
            retries=self.retries,
            abandoned=self.abandoned,
            usage=self.usage,
        )
        return Commit(entry, turns=max(1, len(trace.turns)), answers=len(trace.turns))


class DialogScored(Record):
    """A dialogue with its rows, before judgement."""

    replayed: DialogReplayed
    rows: list[TurnEvalRow]


class DialogJudged(Record):
    """A dialogue with its final rows and the votes of an LLM judge."""

    replayed: DialogReplayed
    rows: list[TurnEvalRow]
    judge_failures: int = 0
    judgements: list[Judgement] = []

    def commit(self) -> Commit:
        """Return the commit of the rows and votes."""
        trace = self.replayed.trace
        entry = Entry(
            "judged",
            trace.dataset_index,
            trace.dialog_id,
            {TURN_EVAL: [*map(encode, self.rows)], JUDGEMENTS: [*map(encode, self.judgements)]},
            judge_failures=self.judge_failures,
        )
        done = DialogDone(
            ts="",
            run_id=trace.run_id,
            dialog_id=trace.dialog_id,
            status=trace.dialog_status,
            turns=len(trace.turns),
            dataset_index=trace.dataset_index,
            skip_reason=trace.skip_reason,
            error=trace.dialog_error,
        )
        return Commit(entry, turns=max(1, len(trace.turns)), event=done, completed=self)
