"""What the actors send each other; every message is immutable and owned by its receiver."""

from memfin.contracts import (
    DialogCheckpoint,
    Dialog,
    DialogTrace,
    Judgement,
    ModelUsage,
    Record,
    TurnEvalRow,
)


class DialogTask(Record):
    """A valid dialogue to replay; ``begun`` is how far it came in an earlier process."""

    dataset_index: int
    dialog: Dialog
    begun: DialogCheckpoint | None = None


class DialogReplayed(Record):
    """A dialogue's trace; ``dialog`` is None for a skipped line of the dataset.

    ``usage`` is what the replies said that a language model took. ``recorded`` says that the run directory
    holds the trace already.
    """

    trace: DialogTrace
    dialog: Dialog | None
    retries: int = 0
    abandoned: int = 0
    usage: ModelUsage | None = None
    recorded: bool = False


ToScorer = DialogReplayed


class DialogScored(Record):
    """A dialogue with its rows, before judgement."""

    replayed: DialogReplayed
    rows: list[TurnEvalRow]


class DialogJudged(Record):
    """A dialogue with its final rows, and what an LLM judge said of them."""

    replayed: DialogReplayed
    rows: list[TurnEvalRow]
    judge_failures: int = 0
    judgements: list[Judgement] = []


ToWriter = DialogCheckpoint | DialogReplayed | DialogJudged


class DialogCommitted(Record):
    """A dialogue whose trace and rows are on disk."""

    judged: DialogJudged
