"""One thread per object for plain user functions, and the registry of a run's calls."""

import asyncio
import queue
import threading
import time
from collections.abc import Callable
from contextvars import ContextVar, copy_context
from typing import Any, Final, NamedTuple, TypeVar

import anyio

from memfin.sandbox.references import describe

T = TypeVar("T")


class CallThread:
    """A daemon thread that runs plain functions one after another, started by the first call.

    The calls of one object never overlap and always come from the same thread, which keeps thread-bound
    resources usable (database connections, its own event loops). A call that never returns cannot keep
    the process alive. A thread that starts in a run ends with it at the latest.
    """

    def __init__(self, name: str) -> None:
        self._name = name
        self._jobs: queue.SimpleQueue[Callable[[], None] | None] = queue.SimpleQueue()
        self._thread: threading.Thread | None = None
        self._busy = False

    @property
    def busy(self) -> bool:
        """True while a call is running, even one without a waiting caller."""
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
                # A future cannot carry StopIteration; KeyboardInterrupt (no Ctrl-C here) would stop the loop.
                error = RuntimeError(describe(problem))
            except BaseException as problem:  # noqa: BLE001 - handed to the awaiting task
                error = problem
            self._busy = False  # before the result is delivered, whose receiver finds the thread free
            try:
                loop.call_soon_threadsafe(deliver, result, error)
            except RuntimeError:  # the loop is closed: nobody waits for this call any more
                return

        if self._thread is None:
            self._start()
        self._jobs.put(job)
        return await future

    async def finish(self, func: Callable[..., T], *args: Any) -> T:
        """Return ``func(*args)`` like `call`, and wait for its end even when cancelled."""
        ended: list[T] = []
        with anyio.CancelScope(shield=True):
            ended.append(await self.call(func, *args))
        return ended[0]  # the shielded scope cannot end without it

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
        """True if the thread has started and not ended."""
        return self._thread is not None and self._thread.is_alive()

    def join(self, limit: float) -> None:
        """Wait at most ``limit`` seconds for the end; not at all while a call is running."""
        if self._thread is not None and not self._busy:
            self._thread.join(limit)

    def stop(self) -> None:
        """End the thread after the calls already submitted; do not wait."""
        if self._thread is not None:
            self._jobs.put(None)


PRUNE_AT: Final = 256
"""Number of registered threads at which ended ones are removed."""


class Callee(NamedTuple):
    """The called object: ``what`` it is, such as ``agent``, and its ``name``, such as a dialogue's id."""

    what: str
    name: str


class CallWatch:
    """Registry of the calls of one run into user code.

    Attributes:
        on_loop: the callee whose coroutine runs on the event loop now. Other threads may read it while
            the loop is blocked.
        on_swallowed: called on the loop when a call ignores its cancellation.
    """

    def __init__(self, on_swallowed: Callable[[Callee], None] | None = None) -> None:
        self.on_loop: Callee | None = None
        self.on_swallowed = on_swallowed
        self._threads: list[CallThread] = []

    def add_thread(self, thread: CallThread) -> None:
        """Register a thread that was started for the run."""
        if len(self._threads) >= PRUNE_AT:
            self._threads = [each for each in self._threads if each.alive]
        self._threads.append(thread)

    def end_threads(self, limit: float) -> None:
        """End all threads of the run; wait at most ``limit`` seconds, and not for stuck ones."""
        for thread in self._threads:
            thread.stop()
        due = time.monotonic() + limit
        for thread in self._threads:
            thread.join(max(0.0, due - time.monotonic()))


WATCH: Final[ContextVar[CallWatch | None]] = ContextVar("memfin_call_watch", default=None)
"""The registry of the current run; tasks started by the run inherit it."""
