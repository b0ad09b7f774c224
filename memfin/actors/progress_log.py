"""The progress log: every event of a run on disk, and to whoever listens."""

from collections.abc import Callable, Sequence
from typing import Any, Final

import anyio
import msgspec

from memfin.actors.base import Stage
from memfin.actors.channels import Wires, waiting
from memfin.contracts import ProgressEvent, RunFinished

BATCH: Final = 1024
"""Events written in one go when that many wait."""

LINGER: Final = 0.004
"""Seconds in which events gather before they are written."""

OnEvent = Callable[[ProgressEvent], None]


class ProgressLog(Stage[ProgressEvent]):
    """Appends events to the log in their order, then calls ``on_event``, which never raises, with each.

    Warnings that come up meanwhile, such as that a listener has failed, are taken from the warning board each
    time; they stand before the end of the run, unless only the end has brought them about.
    """

    def __init__(self, wires: Wires[Any, Any, Any, Any], on_event: OnEvent) -> None:
        super().__init__("progress_log", wires.events.receiver())
        self._directory = wires.directory
        self._on_event = on_event
        self._board = wires.board
        self._encoder = msgspec.json.Encoder()

    async def handle(self, message: ProgressEvent) -> None:
        """Log an event together with those that come right after it."""
        await anyio.sleep(LINGER)
        batch = [message, *waiting(self._messages, BATCH - 1)]
        if isinstance(batch[-1], RunFinished):
            await self._enter(batch[:-1])
            await self._enter(batch[-1:], ended=True)
        else:
            await self._enter(batch)
        self._received += len(batch) - 1  # the first is counted by the loop
        self._done += len(batch) - 1

    async def _enter(self, events: Sequence[ProgressEvent], *, ended: bool = False) -> None:
        """Log events and pass them on; what comes late after the end is logged only."""
        await self._log(events)
        for event in events:
            self._on_event(event)
        while late := self._board.take():
            await self._log(late)
            for event in () if ended else late:
                self._on_event(event)

    async def _log(self, events: Sequence[ProgressEvent]) -> None:
        if events:
            await self._directory.append_progress([self._encoder.encode(event) for event in events])
