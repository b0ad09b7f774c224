"""Watches the event loop from a thread: an agent that blocks it is named while it does."""

import asyncio
import threading
import time
from collections.abc import Callable
from typing import Final, Self

BEAT: Final = 0.1
PATIENCE: Final = 0.8
"""Seconds between heartbeats, and without one before the loop counts as blocked."""


class LoopWatchdog:
    """Calls ``on_blocked(seconds)`` when the loop stands still, and ``on_deadline(seconds)`` when for long.

    Use as an async context manager inside the loop that it watches. The callbacks run in the
    watchdog's own thread, since the loop cannot run anything at that moment. One that returns False
    is called again, until the loop turns.
    """

    def __init__(
        self,
        on_blocked: Callable[[float], bool | None],
        on_deadline: Callable[[float], bool | None] | None = None,
        deadline: float = float("inf"),
    ) -> None:
        self._on_blocked = on_blocked
        self._on_deadline = on_deadline
        self._deadline = deadline
        self._last_beat = time.monotonic()
        self._stop = threading.Event()
        self._thread = threading.Thread(target=self._watch, name="memfin-watchdog", daemon=True)
        self._timer: asyncio.TimerHandle | None = None

    async def __aenter__(self) -> Self:
        """Start the heartbeat and the thread."""
        self._beat(asyncio.get_running_loop())
        self._thread.start()
        return self

    async def __aexit__(self, *exception: object) -> None:
        """Stop both."""
        if self._timer is not None:
            self._timer.cancel()
        self._stop.set()
        self._thread.join()

    def _beat(self, loop: asyncio.AbstractEventLoop) -> None:
        self._last_beat = time.monotonic()
        self._timer = loop.call_later(BEAT, self._beat, loop)

    def _watch(self) -> None:
        reported = 0.0
        woke = time.monotonic()
        while not self._stop.wait(BEAT):
            now = time.monotonic()
            if now - woke >= PATIENCE:
                # This thread stood still as well: Ctrl-Z, a frozen container. No agent is to blame.
                self._last_beat = now
            woke = now
            silent = now - self._last_beat
            if silent < PATIENCE:
                reported = 0.0
            elif not reported and self._on_blocked(silent) is not False:
                reported = silent
            if silent >= self._deadline and self._on_deadline is not None:
                if self._on_deadline(silent) is False:
                    continue
                return
