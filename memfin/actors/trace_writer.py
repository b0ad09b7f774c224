"""The trace writer: the only actor that touches the run directory's rows."""

from typing import Final, Generic, TypeVar

import anyio
from anyio.streams.memory import MemoryObjectReceiveStream, MemoryObjectSendStream

from memfin.actors.base import Actor, EventSender
from memfin.actors.channels import send
from memfin.actors.ledger import Ledger
from memfin.journal import RunDirectory

M = TypeVar("M")
C = TypeVar("C")

INBOX: Final = 32
"""Messages that wait for the writer at most: what comes in during one synchronisation of the disk."""

SNAPSHOTS: Final = 16 << 20
"""Bytes of agents' snapshots with which a group is closed."""


class TraceWriter(Actor[M], Generic[M, C]):
    """Commits what is answered and judged in groups, and announces what is complete on disk.

    A group is closed ``interval`` seconds after its first message, or once it holds ``size`` turns:
    synchronising the disk costs as much for one dialogue as for many. While it writes, its inbox
    fills, then the judges wait, then the replayers: a slow disk slows the run and never fills the
    memory. A dialogue's replay comes before its judgement, and is committed no later. What a message
    is to the journal, the suite's ``ledger`` says.

    Attributes:
        turns: how many answers it has committed.
    """

    def __init__(
        self,
        directory: RunDirectory,
        ledger: Ledger[M, C],
        *,
        interval: float,
        size: int,
        inbox: MemoryObjectReceiveStream[M],
        outbox: MemoryObjectSendStream[C],
        events: EventSender,
    ) -> None:
        super().__init__("trace_writer", inbox)
        self._directory = directory
        self._ledger = ledger
        self._interval = interval
        self._size = size
        self._messages = inbox
        self._outbox = outbox
        self._events = events
        self.turns = 0

    async def run(self) -> None:
        """Commit what comes until the actor before it ends."""
        async with self._messages, self._outbox, self._events:
            async for first in self._messages:
                await self._commit(await self._gather(first))

    async def _gather(self, first: M) -> list[M]:
        """Return the first message with those that come while the group is open."""
        group: list[M] = []
        room, space, message = self._size, SNAPSHOTS, first
        with anyio.move_on_after(self._interval):
            while True:
                self._count_received()
                group.append(message)
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
        return group

    async def _commit(self, group: list[M]) -> None:
        ledger = self._ledger
        await self._directory.commit(*ledger.write(group))
        for message in group:
            self._done += 1
            self.turns += ledger.answered(message)
            completed = ledger.completed(message)
            if completed is not None:
                event, committed = completed
                await send(self._events, event)
                await send(self._outbox, committed)
                self._sent += 1
