"""Progress events: one tagged object per line of ``progress_{run_id}.jsonl`` (spec section 4)."""

import msgspec

from memfin.contracts.base import Count, DialogStatus, Finite, Record, SkipReason, TurnStatus
from memfin.contracts.rag import RagType
from memfin.contracts.run import Counters
from memfin.contracts.trace import TurnTrace
from memfin.contracts.turn_eval import TurnEvalRow


class ProgressEvent(Record, tag_field="event"):
    """Base of all events; ``ts`` is UTC in ISO 8601 with ``Z``."""

    ts: str
    run_id: str


class RunStarted(ProgressEvent, tag="run_started"):
    """The run directory exists and the actors are up. ``dialogs`` is None when the source is a stream."""

    dataset_path: str
    dialogs: int | None = None
    agent: str | None = None
    judge: str | None = None
    workers_dialog: int | None = None
    workers_judge: int | None = None


class DialogStarted(ProgressEvent, tag="dialog_started"):
    """A replayer took the dialogue up.

    ``first_turn`` is the turn it is asked first: 1 where it starts from the beginning, a later one
    where its agent continues from a snapshot, and one more than there are where all are answered.
    """

    dialog_id: str
    dataset_index: int
    worker_id: int | None = None
    turns: int | None = None
    first_turn: Count = 1


class TurnDone(ProgressEvent, tag="turn_done"):
    """A turn was answered or failed."""

    dialog_id: str
    turn_pair_id: int
    turn_status: TurnStatus
    latency_ms: Finite | None = None
    error: str | None = None


class DialogDone(ProgressEvent, tag="dialog_done"):
    """The dialogue's rows are on disk."""

    dialog_id: str
    status: DialogStatus
    turns: Count
    dataset_index: int | None = None
    skip_reason: SkipReason | None = None
    error: str | None = None


class JudgeDone(ProgressEvent, tag="judge_done"):
    """The dialogue's turns are judged."""

    dialog_id: str
    judged: Count
    failed: Count


class QuestionStarted(ProgressEvent, tag="question_started"):
    """A question of a benchmark is put to the system under test."""

    question_id: str
    question_index: int
    worker_id: int | None = None


class QuestionDone(ProgressEvent, tag="question_done"):
    """The question's answer and its score are on disk; ``error`` says how the system failed, if it did."""

    question_id: str
    question_index: int
    type: RagType
    passed: bool
    score: Finite
    max_score: Finite
    latency_ms: Finite | None = None
    error: str | None = None


class MetricsDone(ProgressEvent, tag="metrics_done"):
    """The summary is written."""

    turn_rows: Count


class RunFinished(ProgressEvent, tag="run_finished"):
    """All artifacts are complete."""

    total_dialogs: Count
    valid_dialogs: Count
    skipped_dialogs: Count
    failed_dialogs: Count
    total_turn_pairs: Count
    unscored_turn_pairs: Count | msgspec.UnsetType = msgspec.UNSET


class RunInterrupted(ProgressEvent, tag="run_interrupted"):
    """The run ended early; what was committed stays valid."""

    reason: str
    counters: Counters | None = None


class RunResumed(ProgressEvent, tag="run_resumed"):
    """An interrupted run is resumed.

    ``dialogs_done`` dialogues are complete, ``replays_done`` more are answered and not judged yet.
    Of ``dialogs_begun`` more some turns and the agent's state are recorded; ``dialog_started`` says at
    which turn each of them continues.
    ``changed`` names inputs that have changed since the run began, accepted with ``--force``.
    """

    dialogs_done: Count
    replays_done: Count = 0
    dialogs_begun: Count = 0
    dataset_path: str | None = None
    dialogs: int | None = None
    changed: list[str] = []


class Warned(ProgressEvent, tag="warning"):
    """Something a user should look at, that did not stop the run."""

    message: str
    dialog_id: str | None = None


class LiveEvent(ProgressEvent):
    """Base of events that carry records; subscribers get them, the progress log does not."""


class TurnReplayed(LiveEvent, tag="turn_replayed"):
    """A turn was answered or failed; ``turn`` is its trace, which may not be on disk yet."""

    dialog_id: str
    turn_pair_id: int
    user_text: str
    reply: str | None
    turn: TurnTrace


class DialogScored(LiveEvent, tag="dialog_scored"):
    """The dialogue's rows, scored and judged, are on disk."""

    dialog_id: str
    rows: list[TurnEvalRow]


AnyProgressEvent = (
    RunStarted | DialogStarted | TurnDone | DialogDone | JudgeDone | QuestionStarted | QuestionDone
    | MetricsDone | RunFinished | RunInterrupted | RunResumed | Warned
)  # fmt: skip
