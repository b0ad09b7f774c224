"""Events of a run for a host that reads them at its own pace."""

from collections import deque

import anyio

from memfin.contracts import ProgressEvent

BUFFERED = 1024
"""Events that wait for the reader at most, unless the host wants another bound."""


class EventBuffer:
    """A bounded buffer that never makes the writer wait: when it is full, the oldest event goes.

    The newest events, such as `RunFinished`, are always there.

    Attributes:
        dropped: how many events the reader has missed.
    """

    def __init__(self, size: int = BUFFERED) -> None:
        if size < 1:
            raise ValueError("an event buffer holds one event at least")
        self._events: deque[ProgressEvent] = deque(maxlen=size)
        self._news = anyio.Event()
        self._closed = False
        self.dropped = 0

    def put(self, event: ProgressEvent) -> None:
        """Take an event in."""
        self.dropped += len(self._events) == self._events.maxlen
        self._events.append(event)
        self._tell()

    def close(self) -> None:
        """End the reading, once everything is read."""
        self._closed = True
        self._tell()

    async def get(self) -> ProgressEvent | None:
        """Return the next event, waiting for it; None at the end. No event is lost to a cancellation."""
        while not self._events:
            if self._closed:
                return None
            await self._news.wait()
        return self._events.popleft()

    def _tell(self) -> None:
        if self._news.statistics().tasks_waiting:
            self._news.set()
            self._news = anyio.Event()
