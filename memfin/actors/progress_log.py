"""The progress log: every event of a run on disk, and to whoever listens."""

from collections.abc import Callable
from typing import Final

import anyio
import msgspec
from anyio.streams.memory import MemoryObjectReceiveStream

from memfin.actors.base import Actor
from memfin.actors.channels import waiting
from memfin.contracts import ProgressEvent
from memfin.journal import RunDirectory

BATCH: Final = 1024
"""Events written in one go when that many wait."""

LINGER: Final = 0.004
"""Seconds in which events gather before they are written."""

OnEvent = Callable[[ProgressEvent], None]


class ProgressLog(Actor[ProgressEvent]):
    """Appends events to the log in the order they came, then calls the listener with each."""

    def __init__(
        self,
        directory: RunDirectory,
        *,
        inbox: MemoryObjectReceiveStream[ProgressEvent],
        on_event: OnEvent | None,
    ) -> None:
        super().__init__("progress_log", inbox)
        self._directory = directory
        self._events = inbox
        self._on_event = on_event
        self._encoder = msgspec.json.Encoder()

    async def run(self) -> None:
        """Log events until every actor has closed its end."""
        async with self._events:
            async for first in self._events:
                await anyio.sleep(LINGER)
                self._count_received()
                batch = [first, *waiting(self._events, BATCH - 1)]
                self._received += len(batch) - 1
                await self._directory.append_progress([self._encoder.encode(event) for event in batch])
                if self._on_event is not None:
                    for event in batch:
                        self._on_event(event)
                self._done += len(batch)
