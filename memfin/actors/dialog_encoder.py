"""The encoder of dialogues: replay and judgement are commits of their own."""

from collections.abc import Sequence

import msgspec

from memfin.actors.base import utc_now
from memfin.actors.commit_encoder import CommitEncoder, MessageSize
from memfin.actors.messages import DialogCommitted, DialogJudged, DialogReplayed, ToWriter
from memfin.contracts import DialogCheckpoint, DialogDone
from memfin.journal import DIALOG_TRACE, JUDGEMENTS, TURN_EVAL, Entry


class DialogEncoder(CommitEncoder[ToWriter, DialogCommitted]):
    """Writes traces, rows and judgements down.

    Of a dialogue that is under way the newest state of a group is recorded, and none if the group holds
    its replay.
    """

    def __init__(self, run_id: str) -> None:
        self._run_id = run_id
        self._encode = msgspec.json.Encoder().encode

    def weigh(self, message: ToWriter) -> MessageSize:
        """Return the turns of a dialogue, and one for a dialogue under way, whose snapshot takes space."""
        if isinstance(message, DialogCheckpoint):
            return MessageSize(1, len(message.snapshot))
        return MessageSize(max(1, len(_replayed(message).trace.turns)))

    def write(self, group: Sequence[ToWriter]) -> tuple[list[Entry], list[DialogCheckpoint]]:
        """Return the group's commits, and the dialogues that stay under way."""
        begun = {message.dataset_index: message for message in group if isinstance(message, DialogCheckpoint)}
        entries: list[Entry] = []
        for message in group:
            if isinstance(message, DialogReplayed):
                begun.pop(message.trace.dataset_index, None)
            if not isinstance(message, DialogCheckpoint):
                entries.append(self._entry(message))
        return entries, list(begun.values())

    def answered(self, message: ToWriter) -> int:
        """Return the turns of a replay."""
        return len(message.trace.turns) if isinstance(message, DialogReplayed) else 0

    def completed(self, message: ToWriter) -> tuple[DialogDone, DialogCommitted] | None:
        """Return the news of a dialogue that is judged."""
        if not isinstance(message, DialogJudged):
            return None
        trace = message.replayed.trace
        done = DialogDone(
            ts=utc_now(),
            run_id=self._run_id,
            dialog_id=trace.dialog_id,
            status=trace.dialog_status,
            turns=len(trace.turns),
            dataset_index=trace.dataset_index,
            skip_reason=trace.skip_reason,
            error=trace.dialog_error,
        )
        return done, DialogCommitted(judged=message)

    def _entry(self, message: DialogReplayed | DialogJudged) -> Entry:
        encode = self._encode
        if isinstance(message, DialogReplayed):
            return Entry(
                "replay",
                message.trace.dataset_index,
                message.trace.dialog_id,
                {DIALOG_TRACE: [encode(message.trace)]},
                status=message.trace.dialog_status,
                retries=message.retries,
                abandoned=message.abandoned,
                usage=message.usage,
            )
        trace = message.replayed.trace
        return Entry(
            "judged",
            trace.dataset_index,
            trace.dialog_id,
            {
                TURN_EVAL: [encode(row) for row in message.rows],
                JUDGEMENTS: [encode(judgement) for judgement in message.judgements],
            },
            judge_failures=message.judge_failures,
        )


def _replayed(message: DialogReplayed | DialogJudged) -> DialogReplayed:
    return message.replayed if isinstance(message, DialogJudged) else message
