"""Channels between stages that avoid the event loop where possible.

A memory stream's own ``send`` and ``receive`` give way to other tasks each time, which costs more than most
messages take to handle. Here only a full or an empty channel and the end of a slice of time do.
"""

import time
from collections.abc import AsyncIterator, Callable
from typing import Final, Generic, TypeVar

import anyio
import anyio.lowlevel
from anyio.streams.memory import MemoryObjectReceiveStream, MemoryObjectSendStream

from memfin.actors.messages import Commit, WarningBoard
from memfin.contracts import ProgressEvent
from memfin.journal import RunDirectory

M = TypeVar("M")
T = TypeVar("T")
A = TypeVar("A")
R = TypeVar("R")

SLICE: Final = 0.0005
"""Seconds that a stage works on waiting messages before it gives way: two or three turns' worth."""

INBOX: Final = 32
"""Commits that wait for the trace writer at most: what comes in during one synchronisation of the disk."""

EVENTS: Final = 2048
"""Progress events that wait for the log at most."""


class Channel(Generic[M]):
    """A bounded channel; every user gets its own ends."""

    def __init__(self, size: int) -> None:
        self._sender, self._receiver = anyio.create_memory_object_stream[M](size)

    def sender(self) -> MemoryObjectSendStream[M]:
        """Return a sending end, to be closed by its owner."""
        return self._sender.clone()

    def receiver(self) -> MemoryObjectReceiveStream[M]:
        """Return a receiving end, to be closed by its owner."""
        return self._receiver.clone()

    def close(self) -> None:
        """Close the original ends, so that the channel ends with those given to stages."""
        self._sender.close()
        self._receiver.close()


class Wires(Generic[T, A, R]):
    """Channels and shared objects of one pipeline.

    Attributes:
        tasks: from the source to the workers.
        answered: from the workers to the scorer.
        scored: from the scorer to the judge pool.
        commits: to the trace writer.
        committed: to the aggregator.
        events: to the progress log.
        board: takes warnings.
        wants: returns True for kinds of live events that anyone has subscribed to.
    """

    def __init__(
        self,
        run_id: str,
        directory: RunDirectory,
        board: WarningBoard,
        *,
        room: int,
        tasks: int = 0,
        wants: Callable[[type[ProgressEvent]], bool] = lambda _: False,
    ) -> None:
        """Create the channels; at most ``room`` messages wait between two stages, and ``tasks`` tasks."""
        self.run_id = run_id
        self.directory = directory
        self.board = board
        self.wants = wants
        self.tasks = Channel[T](tasks)
        self.answered = Channel[A](room)
        self.scored = Channel[R](room)
        self.commits = Channel[Commit](INBOX)
        self.committed = Channel[R](room)
        self.events = Channel[ProgressEvent](EVENTS)

    def close(self) -> None:
        """Close the ends that were not given to a stage."""
        for channel in (self.tasks, self.answered, self.scored, self.commits, self.committed, self.events):
            channel.close()


async def send(channel: MemoryObjectSendStream[M], message: M) -> None:
    """Put a message into the channel; wait only while the channel is full.

    Raises:
        BrokenResourceError: the receivers have gone; when they went because everything is cancelled,
            the cancellation comes first.
    """
    try:
        try:
            channel.send_nowait(message)
        except anyio.WouldBlock:
            await channel.send(message)
    except anyio.BrokenResourceError:
        for _ in range(2):  # a scope's cancellation comes round once in each round of the loop
            await anyio.lowlevel.checkpoint()
        raise


async def messages(channel: MemoryObjectReceiveStream[M]) -> AsyncIterator[M]:
    """Yield the messages of a channel; give way to the event loop at least every `SLICE` seconds."""
    resumed = time.perf_counter()
    while True:
        try:
            message = channel.receive_nowait()
        except anyio.EndOfStream:
            return
        except anyio.WouldBlock:
            try:
                message = await channel.receive()
            except anyio.EndOfStream:
                return
            resumed = time.perf_counter()
        yield message
        if time.perf_counter() - resumed > SLICE:
            await anyio.lowlevel.checkpoint()
            resumed = time.perf_counter()


def waiting(channel: MemoryObjectReceiveStream[M], limit: int) -> list[M]:
    """Return the messages that are waiting in the channel, up to ``limit``."""
    found: list[M] = []
    while len(found) < limit:
        try:
            found.append(channel.receive_nowait())
        except (anyio.WouldBlock, anyio.EndOfStream):
            break
    return found
