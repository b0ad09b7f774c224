"""A thread of its own for a foreign object whose methods are plain functions.

The calls of one object never overlap and always come from the same thread, which
keeps thread-bound resources (database connections, event loops of its own) usable. It is a daemon,
so that a call that never returns cannot keep the process alive.
"""

import asyncio
import queue
import threading
from collections.abc import Callable
from contextvars import copy_context
from typing import Any, TypeVar

import anyio

from memfin.sandbox.references import describe
from memfin.sandbox.watch import WATCH

T = TypeVar("T")


class CallThread:
    """Runs plain functions one after another; start is lazy, `stop` does not wait and `join` does.

    A thread that starts in a run belongs to it and is ended with it at the latest.
    """

    def __init__(self, name: str) -> None:
        self._name = name
        self._jobs: queue.SimpleQueue[Callable[[], None] | None] = queue.SimpleQueue()
        self._thread: threading.Thread | None = None
        self._busy = False

    @property
    def busy(self) -> bool:
        """Whether a call is still running, wanted or not."""
        return self._busy

    async def call(self, func: Callable[..., T], *args: Any) -> T:
        """Return ``func(*args)``, run in this thread after all earlier calls.

        Cancelling the wait does not stop a function that already runs; the next call then waits
        for it, under its own time-out.
        """
        loop = asyncio.get_running_loop()
        future: asyncio.Future[T] = loop.create_future()
        context = copy_context()

        def deliver(result: T | None, error: BaseException | None) -> None:
            if future.done():
                return
            if error is None:
                future.set_result(result)  # type: ignore[arg-type] # T may itself admit None
            else:
                future.set_exception(error)

        def job() -> None:
            if future.cancelled():
                return
            result: T | None = None
            error: BaseException | None = None
            self._busy = True
            try:
                result = context.run(func, *args)
            except (StopIteration, KeyboardInterrupt) as problem:
                # A future cannot carry the one; the other, no Ctrl-C in this thread, would stop the loop.
                error = RuntimeError(describe(problem))
            except BaseException as problem:  # noqa: BLE001 - handed to the awaiting task
                error = problem
            self._busy = False  # before the result is known: whoever has it finds the thread free
            try:
                loop.call_soon_threadsafe(deliver, result, error)
            except RuntimeError:  # the loop is closed: nobody waits for this call any more
                return

        if self._thread is None:
            self._start()
        self._jobs.put(job)
        return await future

    async def finish(self, func: Callable[..., T], *args: Any) -> T:
        """Return ``func(*args)`` like `call`, and wait for its end even when cancelled meanwhile."""
        ended: list[T] = []
        with anyio.CancelScope(shield=True):
            ended.append(await self.call(func, *args))
        return ended[0]  # a shielded scope does not end without it, which type checkers cannot know

    def _start(self) -> None:
        self._thread = threading.Thread(target=self._work, name=self._name, daemon=True)
        self._thread.start()
        if (watch := WATCH.get()) is not None:
            watch.add_thread(self)

    def _work(self) -> None:
        while (job := self._jobs.get()) is not None:
            job()

    @property
    def alive(self) -> bool:
        """Whether the thread has started and not ended."""
        return self._thread is not None and self._thread.is_alive()

    def join(self, limit: float) -> None:
        """Wait at most ``limit`` seconds for the end; not at all while a call is stuck in the thread."""
        if self._thread is not None and not self._busy:
            self._thread.join(limit)

    def stop(self) -> None:
        """End the thread after the calls that were handed in; a stuck one keeps it until it returns."""
        if self._thread is not None:
            self._jobs.put(None)
