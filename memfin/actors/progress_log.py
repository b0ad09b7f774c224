"""The progress log: every event of a run on disk, and to whoever listens."""

from collections.abc import Callable, Sequence
from typing import Final

import anyio
import msgspec
from anyio.streams.memory import MemoryObjectReceiveStream

from memfin.actors.base import Actor
from memfin.actors.channels import waiting
from memfin.contracts import ProgressEvent, RunFinished
from memfin.journal import RunDirectory

BATCH: Final = 1024
"""Events written in one go when that many wait."""

LINGER: Final = 0.004
"""Seconds in which events gather before they are written."""

OnEvent = Callable[[ProgressEvent], None]


class ProgressLog(Actor[ProgressEvent]):
    """Appends events to the log in the order they came, then calls ``on_event``, which never raises, with each.

    ``late`` is asked each time for events that came up meanwhile, such as the warning that a listener has
    failed; they stand before the end of the run, unless only the end has brought them about.
    """

    def __init__(
        self,
        directory: RunDirectory,
        *,
        inbox: MemoryObjectReceiveStream[ProgressEvent],
        on_event: OnEvent,
        late: Callable[[], Sequence[ProgressEvent]],
    ) -> None:
        super().__init__("progress_log", inbox)
        self._directory = directory
        self._events = inbox
        self._on_event = on_event
        self._late = late
        self._encoder = msgspec.json.Encoder()

    async def run(self) -> None:
        """Log events until every actor has closed its end."""
        async with self._events:
            async for first in self._events:
                await anyio.sleep(LINGER)
                self._count_received()
                batch = [first, *waiting(self._events, BATCH - 1)]
                self._received += len(batch) - 1
                if isinstance(batch[-1], RunFinished):
                    await self._enter(batch[:-1])
                    await self._enter(batch[-1:], ended=True)
                else:
                    await self._enter(batch)
                self._done += len(batch)

    async def _enter(self, events: Sequence[ProgressEvent], *, ended: bool = False) -> None:
        """Log events and tell them; what comes late after the end is logged only."""
        await self._log(events)
        for event in events:
            self._on_event(event)
        while late := self._late():
            await self._log(late)
            for event in () if ended else late:
                self._on_event(event)

    async def _log(self, events: Sequence[ProgressEvent]) -> None:
        if events:
            await self._directory.append_progress([self._encoder.encode(event) for event in events])
