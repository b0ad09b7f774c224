"""Virtual clock for tests of waiting tasks: it moves only in `FakeClock.run`."""

import asyncio
import heapq
import itertools
import math
from collections.abc import Callable

import anyio
from anyio.lowlevel import checkpoint

from memfin.client.limiter import Clock


class FakeTimer:
    def __init__(self, callback: Callable[[], None]) -> None:
        self.callback: Callable[[], None] | None = callback

    def cancel(self) -> None:
        self.callback = None


class FakeClock(Clock):
    """Calls back in the order of time; `run` moves it from event to event while tasks work."""

    def __init__(self) -> None:
        self.time = 1000.0
        self._timers: list[tuple[float, int, FakeTimer]] = []
        self._numbers = itertools.count()

    def now(self) -> float:
        return self.time

    def call_later(self, delay: float, callback: Callable[[], None]) -> FakeTimer:
        assert delay >= 0
        timer = FakeTimer(callback)
        heapq.heappush(self._timers, (self.time + delay, next(self._numbers), timer))
        return timer

    @property
    def pending(self) -> int:
        """How many timers are still going to call back."""
        return sum(timer.callback is not None for _, _, timer in self._timers)

    async def wait(self, event: asyncio.Event, seconds: float) -> None:
        timer = None if seconds == math.inf else self.call_later(seconds, event.set)
        try:
            await event.wait()
        finally:
            if timer is not None:
                timer.cancel()

    async def sleep(self, seconds: float) -> None:
        """Wait by this clock."""
        await self.wait(asyncio.Event(), seconds)

    async def run(self, seconds: float) -> None:
        """Let so many seconds pass; tasks get as far as they can at every moment."""
        end = self.time + seconds
        await settle()
        while self._timers and self._timers[0][0] <= end:
            at, _, timer = heapq.heappop(self._timers)
            if timer.callback is None:
                continue
            self.time = max(self.time, at)
            timer.callback()
            await settle()
        self.time = end


async def settle() -> None:
    """Let every task run until all of them wait."""
    for _ in range(6):  # else `wait_all_tasks_blocked` sleeps for a tenth of a second
        await checkpoint()
    await anyio.wait_all_tasks_blocked()
