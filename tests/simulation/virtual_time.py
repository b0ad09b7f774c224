"""An event loop whose clock jumps to the next timer, whose threads are none, and whose order is drawn.

What a run does on it follows from a seed alone: no time passes while it waits, functions that belong
to a thread run on the loop after a drawn delay, one after another a thread, and tasks that are ready
at the same time take their steps in a drawn order.
"""

import asyncio
import random
import selectors
import time
from collections.abc import Callable, Coroutine
from typing import Any
from weakref import WeakKeyDictionary

import pytest

from memfin.runtime.watchdog import LoopWatchdog
from memfin.sandbox.thread import CallThread

LONGEST = 7200.0
"""Virtual seconds after which a run is taken for one that does not end."""

MOST_STEPS = 200_000
"""Rounds of the loop after which a run is taken for one that turns in a circle."""


class StuckError(Exception):
    """The run cannot go on: everything waits and no timer is set, or it goes on for ever."""


class _JumpingSelector(selectors.SelectSelector):
    """Waits by moving the loop's clock."""

    loop: "VirtualLoop"

    def select(self, timeout: float | None = None) -> list[Any]:
        if timeout is None:
            raise StuckError("everything waits and nothing is to come")
        self.loop.pass_time(timeout)
        return []


class VirtualLoop(asyncio.SelectorEventLoop):
    """The loop; ``delay`` draws how many seconds a function takes in a thread."""

    def __init__(
        self, draw: random.Random, delay: Callable[[object], float], *, shuffling: bool = True
    ) -> None:
        self._now = 0.0
        self._drift = 0.0
        self._rounds = 0
        self._born = 0
        self._draw = draw
        self._delay = delay
        self._shuffling = shuffling
        self._thread_free: dict[object, float] = {}
        self.steps = 0
        self._interrupt: tuple[int, Callable[[], object]] | None = None
        selector = _JumpingSelector()
        super().__init__(selector)
        selector.loop = self
        self._ages: WeakKeyDictionary[asyncio.Task[Any], int] = WeakKeyDictionary()

    def time(self) -> float:
        return self._now

    def perf_counter(self) -> float:
        """Return the time with that for computing, so that work in slices is cut at drawn places."""
        self._drift += self._draw.random() * 0.0004
        return self._now + self._drift

    def pass_time(self, seconds: float) -> None:
        self._now += max(0.0, seconds)
        self._rounds += 1
        if self._now > LONGEST:
            raise StuckError(f"not at its end after {self._now:.0f} virtual seconds")
        if self._rounds > MOST_STEPS:
            raise StuckError(f"not at its end after {self._rounds} rounds of the loop")

    def _write_to_self(self) -> None:
        """Nobody waits in a real select."""

    def call_at_step(self, step: int, callback: Callable[[], object]) -> None:
        """Call a function before the step of that number that any task takes."""
        self._interrupt = step, callback

    def _run_once(self) -> None:
        if self._shuffling:
            self._shuffle()
        ready = self._ready  # type: ignore[attr-defined] # as below
        places = [place for place, handle in enumerate(ready) if _is_step(handle)]
        if self._interrupt is not None and self.steps < self._interrupt[0] <= self.steps + len(places):
            step, callback = self._interrupt
            ready.insert(places[step - self.steps - 1], asyncio.Handle(callback, (), self))
        self.steps += len(places)
        super()._run_once()  # type: ignore[misc] # asyncio's own, which typeshed does not know

    def create_task(self, *args: Any, **kwargs: Any) -> asyncio.Task[Any]:
        task = super().create_task(*args, **kwargs)
        self._born += 1
        self._ages[task] = self._born
        return task

    def _shuffle(self) -> None:
        """Deal the places of ready task steps anew; other callbacks keep theirs, as asyncio promises.

        Those cancelled together became ready in the order of a set, which is no seed's doing.
        """
        ready = self._ready  # type: ignore[attr-defined] # as above
        places = [place for place, handle in enumerate(ready) if _is_step(handle)]
        if len(places) > 1:
            handles = sorted((ready[place] for place in places), key=self._age)
            self._draw.shuffle(handles)
            for place, handle in zip(places, handles, strict=True):
                ready[place] = handle

    def _age(self, handle: asyncio.Handle) -> int:
        return self._ages[handle._callback.__self__]  # type: ignore[attr-defined] # as above

    def run_in_executor(  # type: ignore[override] # a future of this loop is what asyncio's gives, too
        self, executor: Any, func: Callable[..., Any], *args: Any
    ) -> asyncio.Future[Any]:
        return self.in_thread(executor, func, *args)

    def in_thread(self, thread: object, func: Callable[..., Any], *args: Any) -> asyncio.Future[Any]:
        """Run a function on the loop as if in a thread: after its earlier calls and a drawn delay."""
        future: asyncio.Future[Any] = self.create_future()

        def work() -> None:
            try:
                result = func(*args)
            except BaseException as problem:  # noqa: BLE001 - handed to the awaiting task
                if not future.done():
                    future.set_exception(problem)
            else:
                if not future.done():
                    future.set_result(result)

        end = max(self._now, self._thread_free.get(thread, 0.0)) + self._delay(thread)
        self._thread_free[thread] = end
        self.call_at(end, work)
        return future


def _is_step(handle: asyncio.Handle) -> bool:
    callback = handle._callback  # type: ignore[attr-defined] # as above
    return isinstance(getattr(callback, "__self__", None), asyncio.Task)


async def _call(thread: CallThread, func: Callable[..., Any], *args: Any) -> Any:
    loop = asyncio.get_running_loop()
    assert isinstance(loop, VirtualLoop)
    return await loop.in_thread(thread, func, *args)


async def _do_nothing(*arguments: object) -> None:
    pass


def run_in(loop: VirtualLoop, main: Coroutine[Any, Any, Any]) -> BaseException | None:
    """Run to the end, or until something stops the loop; return what the coroutine raised.

    A loop that something stops is a machine that is off; its tasks are unwound.

    Raises:
        StuckError: it cannot come to its end.
    """
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(time, "perf_counter", loop.perf_counter)
        patch.setattr(CallThread, "call", _call)
        patch.setattr(LoopWatchdog, "__aenter__", _do_nothing)  # it looks at real time from a real thread
        patch.setattr(LoopWatchdog, "__aexit__", _do_nothing)
        asyncio.set_event_loop(loop)
        task = loop.create_task(main, name="simulated run")
        task.add_done_callback(lambda _: loop.stop())
        loop.run_forever()
        if not task.done():
            turn_off(loop, task)
            return None
        if task.cancelled():
            return asyncio.CancelledError()
        return task.exception()


def turn_off(loop: VirtualLoop, main: asyncio.Task[Any]) -> None:
    """Unwind the tasks of a machine that is off: nothing that they do has an effect any more."""
    main.cancel()
    while tasks := asyncio.all_tasks(loop):
        done = asyncio.wait(tasks, timeout=LONGEST / 10)
        waiting = loop.create_task(done)
        waiting.add_done_callback(lambda _: loop.stop())
        while not waiting.done():  # whatever else stops the loop now
            loop.run_forever()
        if waiting.result()[1]:
            raise StuckError(f"tasks do not end: {[task.get_name() for task in asyncio.all_tasks(loop)]}")
    if not main.cancelled():
        main.exception()  # of no interest, but asyncio wants it looked at
