"""Base classes of pipeline stages: life cycle, statistics, and the loop over an inbox."""

from abc import ABC, abstractmethod
from collections.abc import Callable
from typing import Any, Final, Generic, TypeVar

import anyio
from anyio.streams.memory import MemoryObjectReceiveStream, MemoryObjectSendStream

from memfin.actors.channels import messages
from memfin.client.errors import EndpointDown
from memfin.contracts import Record
from memfin.errors import MemfinError

M = TypeVar("M")

MAX_FAILURES: Final = 5
"""Maximum consecutive failures of a stage; the next one ends the run."""

_Channel = MemoryObjectReceiveStream[Any] | MemoryObjectSendStream[Any] | None


class ActorStatistics(Record):
    """Counters of an actor.

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
    """Base class of actors; an actor owns its ends of its channels.

    The ends are closed when it has ended. An actor never touches another actor's state. A run that is to
    end early calls `drain` first and `halt` later.

    Attributes:
        finished: set when the actor has ended.
        cut: True if it left work undone, because it was halted or ended from outside.
        on_given_up: called with the reason when the endpoint that it depends on is given up, if set.
    """

    def __init__(self, name: str, inbox: MemoryObjectReceiveStream[M] | None, *outboxes: _Channel) -> None:
        self.name = name
        self.inbox = inbox
        self.finished = anyio.Event()
        self.cut = False
        self.on_given_up: Callable[[str], None] | None = None
        self._ends = [end for end in (inbox, *outboxes) if end is not None]
        self._halted = False
        self._life: anyio.CancelScope | None = None
        self._received = 0
        self._sent = 0
        self._done = 0
        self._peak = 0

    @abstractmethod
    async def run(self) -> None:
        """Work until everything is done."""

    async def supervised(self) -> None:
        """Run as a task of a group; close the channels and set ``finished`` at any end."""
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
            self.close()
            self.finished.set()

    def close(self) -> None:
        """Close the actor's ends of its channels."""
        for end in self._ends:
            end.close()

    def drain(self) -> None:
        """Start nothing new; most actors only complete the work of others, and end with their inbox."""

    def halt(self) -> None:
        """End now, as if the inbox had ended; the current message is lost."""
        self._halted = True
        if self._life is not None:
            self._life.cancel()

    def report_down(self, problem: EndpointDown) -> None:
        """Report that an endpoint is given up."""
        if self.on_given_up is not None:
            self.on_given_up(str(problem))

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

    def _count_sent(self) -> None:
        """Count the current message as sent."""
        self._done += 1
        self._sent += 1


class Source(Actor[None]):
    """An actor without an inbox that starts the work of a pipeline."""

    def __init__(self, name: str, *outboxes: _Channel) -> None:
        super().__init__(name, None, *outboxes)

    def drain(self) -> None:
        """Start nothing new."""
        self.halt()


class Stage(Actor[M]):
    """An actor that handles the messages of its inbox one after another.

    Where a stage implements `quarantine`, an unexpected exception in `handle` costs that message, and the
    stage continues. More than `MAX_FAILURES` of them in a row end the run, as do the errors that
    MemFin raises itself.

    Attributes:
        draining: set it to end the stage after the current message.
    """

    def __init__(self, name: str, inbox: MemoryObjectReceiveStream[M], *outboxes: _Channel) -> None:
        super().__init__(name, inbox, *outboxes)
        self._messages = inbox
        self.draining = False
        self._leaving = False
        self._failures = 0

    @abstractmethod
    async def handle(self, message: M) -> None:
        """Handle one message."""

    async def finish(self) -> None:
        """Complete the work at the end of the inbox."""

    async def quarantine(self, message: M, problem: Exception) -> None:
        """Replace the result of a failed `handle`; the default raises its error."""
        del message
        raise problem

    async def run(self) -> None:
        """Handle messages until the inbox ends or `leave` is called, then finish."""
        async for message in messages(self._messages):
            self._count_received()
            if self.draining:
                self.leave()
            else:
                await self._handle_or_quarantine(message)
            if self._leaving:
                self.cut = True
                return
            self._done += 1
        await self.finish()

    def leave(self) -> None:
        """End after the current message, without handling the rest of the inbox."""
        self._leaving = True

    async def _handle_or_quarantine(self, message: M) -> None:
        try:
            await self.handle(message)
        except (MemfinError, anyio.BrokenResourceError):
            raise
        except Exception as problem:
            self._failures += 1
            if self._failures > MAX_FAILURES:
                raise
            await self.quarantine(message, problem)
        else:
            self._failures = 0
