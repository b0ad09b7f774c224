"""The trace writer: the only actor that touches the run directory's rows."""

from typing import Final

import anyio
import msgspec
from anyio.streams.memory import MemoryObjectReceiveStream, MemoryObjectSendStream

from memfin.actors.base import Actor, EventSender, utc_now
from memfin.actors.channels import send, waiting
from memfin.actors.messages import DialogCommitted, DialogJudged
from memfin.contracts import DialogDone
from memfin.journal import DIALOG_TRACE, TURN_EVAL, RunDirectory

BATCH: Final = 16
"""Dialogues written in one go when that many wait."""

LINGER: Final = 0.004
"""Seconds in which dialogues gather: a visit to the writer's thread costs more than a dialogue."""


class TraceWriter(Actor[DialogJudged]):
    """Appends traces and rows, dialogue by dialogue, and announces what is on disk.

    While it writes, its inbox fills, then the judges wait, then the replayers: a slow disk slows
    the run and never fills the memory.
    """

    def __init__(
        self,
        directory: RunDirectory,
        run_id: str,
        *,
        inbox: MemoryObjectReceiveStream[DialogJudged],
        outbox: MemoryObjectSendStream[DialogCommitted],
        events: EventSender,
    ) -> None:
        super().__init__("trace_writer", inbox)
        self._directory = directory
        self._run_id = run_id
        self._judged = inbox
        self._outbox = outbox
        self._events = events
        self._encoder = msgspec.json.Encoder()

    async def run(self) -> None:
        """Write dialogues until the judge pool ends."""
        async with self._judged, self._outbox, self._events:
            async for first in self._judged:
                await anyio.sleep(LINGER)
                await self._commit(self._batch(first))

    def _batch(self, first: DialogJudged) -> list[DialogJudged]:
        """Return the first message with those that wait behind it."""
        self._count_received()
        behind = waiting(self._judged, BATCH - 1)
        self._received += len(behind)
        return [first, *behind]

    async def _commit(self, batch: list[DialogJudged]) -> None:
        encode = self._encoder.encode
        await self._directory.append(DIALOG_TRACE, [encode(judged.replayed.trace) for judged in batch])
        await self._directory.append(TURN_EVAL, [encode(row) for judged in batch for row in judged.rows])
        for judged in batch:
            trace = judged.replayed.trace
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
            await send(self._outbox, DialogCommitted(judged=judged))
            self._done += 1
            self._sent += 1
