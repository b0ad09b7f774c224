"""What all actors have in common: a name, a run method, statistics."""

from abc import ABC, abstractmethod
from datetime import UTC, datetime
from typing import Generic, TypeVar

import anyio
from anyio.streams.memory import MemoryObjectReceiveStream, MemoryObjectSendStream

from memfin.contracts import ProgressEvent, Record

M = TypeVar("M")


class ActorStatistics(Record):
    """What an actor has done so far.

    ``waiting`` messages stand in its inbox, which holds at most ``capacity``; ``peak_waiting`` is
    the most that the actor itself has seen there.
    """

    name: str
    received: int = 0
    sent: int = 0
    in_progress: int = 0
    waiting: int = 0
    peak_waiting: int = 0
    capacity: float = 0


class Actor(ABC, Generic[M]):
    """One independent part of the runtime; it owns its ends of its channels and closes them.

    An actor ends when its inbox ends; ``finished`` is then set. It never touches another actor's
    state: what it knows came in a message. A run that is to end early tells its actors: `drain`
    first, later `halt`.

    Attributes:
        finished: set when the actor has ended.
        cut: whether it left something undone, because it was told to or because it was ended from outside.
    """

    def __init__(self, name: str, inbox: MemoryObjectReceiveStream[M] | None) -> None:
        self.name = name
        self.inbox = inbox
        self.finished = anyio.Event()
        self.cut = False
        self._halted = False
        self._life: anyio.CancelScope | None = None
        self._received = 0
        self._sent = 0
        self._done = 0
        self._peak = 0

    @abstractmethod
    async def run(self) -> None:
        """Work until the inbox ends, then close what this actor sends on."""

    async def supervised(self) -> None:
        """Run as a task of a group and say so when it has ended, whatever has ended it."""
        try:
            with anyio.CancelScope() as self._life:
                if self._halted:
                    self._life.cancel()
                await self.run()
            self.cut = self.cut or self._life.cancelled_caught
        except BaseException:
            self.cut = True
            raise
        finally:
            self.finished.set()

    def drain(self) -> None:
        """Begin nothing new; most actors only end what others begin, and end with their inbox."""

    def halt(self) -> None:
        """End now, as if the inbox had ended; what the actor has in hand is lost."""
        self._halted = True
        if self._life is not None:
            self._life.cancel()

    def statistics(self) -> ActorStatistics:
        """Return the actor's counts at this moment."""
        inbox = self.inbox.statistics() if self.inbox is not None else None
        return ActorStatistics(
            name=self.name,
            received=self._received,
            sent=self._sent,
            in_progress=self._received - self._done,
            waiting=inbox.current_buffer_used if inbox else 0,
            peak_waiting=self._peak,
            capacity=inbox.max_buffer_size if inbox else 0,
        )

    def _count_received(self) -> None:
        self._received += 1
        if self.inbox is not None:
            self._peak = max(self._peak, self.inbox.statistics().current_buffer_used)


EventSender = MemoryObjectSendStream[ProgressEvent]


def utc_now() -> str:
    """Return the present time as the contract writes it: UTC, ISO 8601, with ``Z``."""
    return datetime.now(UTC).isoformat(timespec="microseconds").replace("+00:00", "Z")
