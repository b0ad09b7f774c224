"""Messages to the writers: commits for the run directory, and warnings for the progress log."""

import asyncio
from collections import deque
from collections.abc import Callable
from contextlib import suppress
from datetime import UTC, datetime
from typing import Any, Final, NamedTuple

import anyio
import msgspec
from anyio.streams.memory import MemoryObjectSendStream

from memfin.contracts import DialogCheckpoint, DialogScored, ProgressEvent, Warned
from memfin.journal import Entry

encode: Final = msgspec.json.Encoder().encode

MAX_WAITING: Final = 1000
"""Maximum number of waiting warnings; later ones replace the oldest."""


def utc_now() -> str:
    """Return the current time in the form of the contracts: UTC, ISO 8601, with ``Z``."""
    return datetime.now(UTC).isoformat(timespec="microseconds").replace("+00:00", "Z")


class Commit(NamedTuple):
    """Data for the trace writer to commit.

    Attributes:
        entry: a finished piece of work.
        checkpoint: the state of a dialogue in progress.
        turns: answered turns, by which the size of a group is bounded.
        answers: answers that nothing has brought to disk before; a run that has any is kept.
        event: progress event of a dialogue or question that the entry completes, sent once it is on disk.
        completed: the message for the aggregator after that.
        scored: makes the event with the rows of a dialogue, for subscribers.
    """

    entry: Entry | None = None
    checkpoint: DialogCheckpoint | None = None
    turns: int = 1
    answers: int = 0
    event: ProgressEvent | None = None
    completed: Any = None
    scored: Callable[[], DialogScored] | None = None


class WarningBoard:
    """Collector of warnings from any thread, before and during a run.

    A warning reaches the log in one of two ways:

    1. once the board is open, through the channel of progress events, in the next round of the loop;
    2. where that channel is full or closed, with the next caller of `take`: the progress log does so with
       every batch, and the run at its end.

    Attributes:
        run_id: the run of the warnings; set before they are taken.
    """

    def __init__(self) -> None:
        self.run_id = ""
        self._waiting: deque[tuple[str, str, str | None]] = deque(maxlen=MAX_WAITING)
        self._loop: asyncio.AbstractEventLoop | None = None
        self._events: MemoryObjectSendStream[ProgressEvent] | None = None
        self._kinds: set[str] = set()

    def warn_once(self, kind: str, message: str, dialog_id: str | None = None) -> None:
        """Leave a warning, the first of its kind only; kinds are few."""
        if kind not in self._kinds:
            self._kinds.add(kind)
            self.warn(message, dialog_id)

    def warn(self, message: str, dialog_id: str | None = None) -> None:
        """Add a warning; never blocks and never fails."""
        self._waiting.append((utc_now(), message, dialog_id))
        if self._loop is not None:
            with suppress(RuntimeError):  # the loop is closed: nobody listens any more
                self._loop.call_soon_threadsafe(self._send)

    def open(self, events: MemoryObjectSendStream[ProgressEvent]) -> None:
        """Send warnings to a channel of the running loop from now on, first the waiting ones."""
        self._loop = asyncio.get_running_loop()
        self._events = events
        self._send()

    def take(self) -> list[Warned]:
        """Return and remove the waiting warnings."""
        return [self._event(self._waiting.popleft()) for _ in range(len(self._waiting))]

    def _send(self) -> None:
        while self._waiting and self._events is not None:
            line = self._waiting.popleft()
            try:
                self._events.send_nowait(self._event(line))
            except (anyio.WouldBlock, anyio.BrokenResourceError, anyio.ClosedResourceError):
                self._waiting.appendleft(line)
                return

    def _event(self, line: tuple[str, str, str | None]) -> Warned:
        ts, message, dialog_id = line
        return Warned(ts=ts, run_id=self.run_id, message=message, dialog_id=dialog_id)
