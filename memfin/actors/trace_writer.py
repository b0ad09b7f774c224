"""The trace writer: the only actor that touches the run directory's rows."""

from typing import Final, Generic, TypeVar

import anyio
from anyio.streams.memory import MemoryObjectReceiveStream, MemoryObjectSendStream

from memfin.actors.base import Stage, EventSender
from memfin.actors.channels import send, waiting
from memfin.actors.commit_encoder import CommitEncoder
from memfin.journal import RunDirectory

M = TypeVar("M")
C = TypeVar("C")

INBOX: Final = 32
"""Messages that wait for the writer at most: what comes in during one synchronisation of the disk."""

SNAPSHOTS: Final = 16 << 20
"""Bytes of agents' snapshots with which a group is closed."""


class TraceWriter(Stage[M], Generic[M, C]):
    """Commits what is answered and judged in groups, and announces what is complete on disk.

    A group is closed ``interval`` seconds after its first message, or once it holds ``size`` turns:
    synchronising the disk costs as much for one dialogue as for many. While it writes, its inbox
    fills, then the judges wait, then the replayers: a slow disk slows the run and never fills the
    memory. A dialogue's replay comes before its judgement, and is committed no later. The suite's
    ``encoder`` turns messages into commits. When the run is cancelled, the open group and the inbox are
    committed once, shielded.

    Attributes:
        turns: how many answers it has brought to the journal.
    """

    def __init__(
        self,
        directory: RunDirectory,
        encoder: CommitEncoder[M, C],
        *,
        interval: float,
        size: int,
        inbox: MemoryObjectReceiveStream[M],
        outbox: MemoryObjectSendStream[C],
        events: EventSender,
    ) -> None:
        super().__init__("trace_writer", inbox, outbox, events)
        self._directory = directory
        self._ledger = encoder
        self._interval = interval
        self._size = size
        self._outbox = outbox
        self._events = events
        self._group: list[M] = []
        self.turns = 0

    async def handle(self, message: M) -> None:
        """Commit a group that begins with the message, and announce what it completes."""
        try:
            await self._gather(message)
            await self._commit()
        except anyio.get_cancelled_exc_class():
            self._group += waiting(self._messages, INBOX)
            with anyio.CancelScope(shield=True):
                await self._write()
            raise

    async def _gather(self, message: M) -> None:
        """Fill the group with the message and those that come while it is open."""
        room, space = self._size, SNAPSHOTS
        with anyio.move_on_after(self._interval):
            while True:
                self._group.append(message)
                weight = self._ledger.weigh(message)
                room -= weight.turns
                space -= weight.snapshot
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
                self._count_received()

    async def _write(self) -> list[M]:
        """Commit the group and return it; it is written to its end even when cancelled meanwhile."""
        group, self._group = self._group, []
        self.turns += sum(map(self._ledger.answered, group))
        await self._directory.commit(*self._ledger.write(group))
        return group

    async def _commit(self) -> None:
        """Commit the group, then announce the dialogues and questions that it completes."""
        group = await self._write()
        self._done += len(group) - 1  # the first is counted by the loop
        for message in group:
            completed = self._ledger.completed(message)
            if completed is not None:
                event, committed = completed
                await send(self._events, event)
                await send(self._outbox, committed)
                self._sent += 1
