"""The trace writer: the only actor that touches the run directory's rows."""

from typing import Final

import anyio
import msgspec
from anyio.streams.memory import MemoryObjectReceiveStream, MemoryObjectSendStream

from memfin.actors.base import Actor, EventSender, utc_now
from memfin.actors.channels import send
from memfin.actors.messages import DialogCommitted, DialogJudged, DialogReplayed, ToWriter
from memfin.contracts import BegunDialog, DialogDone
from memfin.journal import DIALOG_TRACE, JUDGEMENTS, TURN_EVAL, Entry, RunDirectory

INBOX: Final = 32
"""Messages that wait for the writer at most: what comes in during one synchronisation of the disk."""

SNAPSHOTS: Final = 16 << 20
"""Bytes of agents' snapshots with which a group is closed."""


class TraceWriter(Actor[ToWriter]):
    """Commits replays and judgements in groups, and announces the dialogues that are complete on disk.

    A group is closed ``interval`` seconds after its first message, or once it holds ``size`` turns:
    synchronising the disk costs as much for one dialogue as for many. While it writes, its inbox
    fills, then the judges wait, then the replayers: a slow disk slows the run and never fills the
    memory. A dialogue's replay comes before its judgement, and is committed no later. Of a dialogue that
    is under way the newest state of a group is recorded, and none if the group holds its replay.

    Attributes:
        turns: how many turns it has committed.
    """

    def __init__(
        self,
        directory: RunDirectory,
        run_id: str,
        *,
        interval: float,
        size: int,
        inbox: MemoryObjectReceiveStream[ToWriter],
        outbox: MemoryObjectSendStream[DialogCommitted],
        events: EventSender,
    ) -> None:
        super().__init__("trace_writer", inbox)
        self._directory = directory
        self._run_id = run_id
        self._interval = interval
        self._size = size
        self._messages = inbox
        self._outbox = outbox
        self._events = events
        self._encode = msgspec.json.Encoder().encode
        self.turns = 0

    async def run(self) -> None:
        """Commit dialogues until the judge pool ends."""
        async with self._messages, self._outbox, self._events:
            async for first in self._messages:
                await self._commit(await self._gather(first))

    async def _gather(self, first: ToWriter) -> list[ToWriter]:
        """Return the first message with those that come while the group is open."""
        group: list[ToWriter] = []
        room, space, message = self._size, SNAPSHOTS, first
        with anyio.move_on_after(self._interval):
            while True:
                self._count_received()
                group.append(message)
                if isinstance(message, BegunDialog):
                    room -= 1
                    space -= len(message.snapshot)
                else:
                    room -= max(1, len(_replayed(message).trace.turns))
                if room <= 0 or space <= 0:
                    break
                try:
                    message = self._messages.receive_nowait()
                except anyio.WouldBlock:
                    try:
                        message = await self._messages.receive()
                    except anyio.EndOfStream:
                        break
                except anyio.EndOfStream:
                    break
        return group

    async def _commit(self, group: list[ToWriter]) -> None:
        begun = {message.dataset_index: message for message in group if isinstance(message, BegunDialog)}
        entries: list[Entry] = []
        for message in group:
            if isinstance(message, DialogReplayed):
                begun.pop(message.trace.dataset_index, None)
            if not isinstance(message, BegunDialog):
                entries.append(self._entry(message))
        await self._directory.commit(entries, list(begun.values()))
        for message in group:
            self._done += 1
            if isinstance(message, BegunDialog):
                continue
            if isinstance(message, DialogReplayed):
                self.turns += len(message.trace.turns)
                continue
            trace = message.replayed.trace
            await send(
                self._events,
                DialogDone(
                    ts=utc_now(),
                    run_id=self._run_id,
                    dialog_id=trace.dialog_id,
                    status=trace.dialog_status,
                    turns=len(trace.turns),
                    dataset_index=trace.dataset_index,
                    skip_reason=trace.skip_reason,
                    error=trace.dialog_error,
                ),
            )
            await send(self._outbox, DialogCommitted(judged=message))
            self._sent += 1

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
