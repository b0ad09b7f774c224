"""Small blocking jobs in one thread: all that came up meanwhile are done in a single visit to it."""

import asyncio
import threading
from collections.abc import Callable
from contextlib import suppress
from functools import partial
from queue import SimpleQueue
from typing import Any, TypeVar

T = TypeVar("T")

_Job = tuple[Callable[[], Any], "asyncio.Future[Any]"]
_Visits = SimpleQueue[Callable[[], None] | None]


class Batches:
    """Does jobs off the event loop, in the order in which they came.

    A visit to a thread costs more than a small file does. While the thread is busy, jobs gather; the
    more there are, the less each of them costs. A job whose caller has gone is done all the same. The thread
    is a daemon: one that hangs in the file system cannot keep the process alive.
    """

    def __init__(self, name: str) -> None:
        self._name = name
        self._waiting: list[_Job] = []
        self._busy = False
        self._visits: _Visits | None = None

    async def do(self, job: Callable[[], T]) -> T:
        """Return what the job returns; what it raises is raised here."""
        loop = asyncio.get_running_loop()
        outcome: asyncio.Future[T] = loop.create_future()
        self._waiting.append((job, outcome))
        if not self._busy:
            self._busy = True
            loop.call_soon(self._start, loop)
        return await outcome

    def close(self) -> None:
        """End the thread once it has done what it was given; later jobs get another one."""
        if self._visits is not None:
            self._visits.put(None)
            self._visits = None

    def _start(self, loop: asyncio.AbstractEventLoop) -> None:
        jobs, self._waiting = self._waiting, []
        if self._visits is None:
            self._visits = SimpleQueue()
            threading.Thread(target=_serve, args=(self._visits,), name=self._name, daemon=True).start()
        self._visits.put(partial(self._work, loop, jobs))

    def _work(self, loop: asyncio.AbstractEventLoop, jobs: list[_Job]) -> None:
        results: list[tuple[Any, BaseException | None]] = []
        for job, _ in jobs:
            try:
                results.append((job(), None))
            except Exception as problem:  # noqa: BLE001 - raised again where the caller waits
                results.append((None, problem))
        with suppress(RuntimeError):  # the loop is closed: nobody waits any more
            loop.call_soon_threadsafe(partial(self._settle, loop, jobs, results))

    def _settle(
        self,
        loop: asyncio.AbstractEventLoop,
        jobs: list[_Job],
        results: list[tuple[Any, BaseException | None]],
    ) -> None:
        for (_, outcome), (value, problem) in zip(jobs, results, strict=True):
            if outcome.done():
                continue
            if problem is None:
                outcome.set_result(value)
            else:
                outcome.set_exception(problem)
        self._busy = bool(self._waiting)
        if self._waiting:
            self._start(loop)


def _serve(visits: _Visits) -> None:
    while (visit := visits.get()) is not None:
        visit()
