"""What a run knows of the foreign code that it calls: who has the loop now, which threads there are."""

import time
from collections.abc import Callable
from contextvars import ContextVar
from typing import Final, NamedTuple, Protocol

PRUNED: Final = 256
"""Threads from which on the ended ones are forgotten."""


class Callee(NamedTuple):
    """Who is called: ``what`` it is, such as ``agent``, and which one, such as a dialogue's id."""

    what: str
    name: str


class Joinable(Protocol):
    """A thread that can be told to end and waited for."""

    @property
    def alive(self) -> bool:
        """Whether it has not ended yet."""
        ...

    def stop(self) -> None:
        """Tell it to end."""

    def join(self, limit: float) -> None:
        """Wait at most ``limit`` seconds for its end, and not at all while a call is stuck in it."""


class CallWatch:
    """The calls of one run into foreign code.

    Attributes:
        on_loop: whose coroutine runs on the event loop at this moment. A thread may read it while
            the loop stands still.
        on_swallowed: called on the loop when a call has ignored its cancellation.
    """

    def __init__(self, on_swallowed: Callable[[Callee], None] | None = None) -> None:
        self.on_loop: Callee | None = None
        self.on_swallowed = on_swallowed
        self._threads: list[Joinable] = []

    def add_thread(self, thread: Joinable) -> None:
        """Note a thread that was started for the run."""
        if len(self._threads) >= PRUNED:
            self._threads = [each for each in self._threads if each.alive]
        self._threads.append(thread)

    def end_threads(self, limit: float) -> None:
        """End all threads of the run; wait ``limit`` seconds at most, and for none that is stuck."""
        for thread in self._threads:
            thread.stop()
        due = time.monotonic() + limit
        for thread in self._threads:
            thread.join(max(0.0, due - time.monotonic()))


WATCH: Final[ContextVar[CallWatch | None]] = ContextVar("memfin_call_watch", default=None)
"""The watch of the run that a task belongs to; tasks that the run starts inherit it."""
