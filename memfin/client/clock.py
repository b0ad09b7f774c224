"""Time as the gate sees it: what o'clock it is, and being woken later."""

import asyncio
from collections.abc import Callable
from typing import Protocol


class Timer(Protocol):
    """Something that is going to happen, unless it is called off."""

    def cancel(self) -> None:
        """Call it off."""
        ...


class Clock(Protocol):
    """A clock with an alarm; tests bring one that moves when they say so."""

    def now(self) -> float:
        """Return the time in seconds since some fixed moment."""
        ...

    def call_later(self, delay: float, callback: Callable[[], None]) -> Timer:
        """Call back in so many seconds."""
        ...


class LoopClock:
    """The running event loop's clock."""

    def now(self) -> float:
        """Return the loop's time."""
        return asyncio.get_running_loop().time()

    def call_later(self, delay: float, callback: Callable[[], None]) -> Timer:
        """Set a timer of the loop."""
        return asyncio.get_running_loop().call_later(delay, callback)
