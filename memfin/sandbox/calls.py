"""Calls into foreign code that nothing it does can turn against the run.

An agent or a judge may raise, hang, swallow cancellation, block its thread or end the process. Every
call runs in a task of its own outside the runtime's task group, bounded in time: cancellation that is
swallowed would be delivered for ever inside a cancel scope, while a call out here can be left where
it stands, counted, and reported.
"""

import asyncio
import inspect
import time
import types
from collections.abc import Callable, Coroutine, Generator
from contextlib import suppress
from functools import partial
from typing import Any, Final, TypeVar

import anyio

from memfin.sandbox.references import describe
from memfin.sandbox.thread import CallThread
from memfin.sandbox.watch import WATCH, Callee, CallWatch

T = TypeVar("T")

CANCEL_GRACE: Final = 0.5
HASTY_GRACE: Final = 0.15
"""Seconds a cancelled call has to end before it is left behind: one that is over its time, and one
whose host is itself cancelled."""

LOOP_HINT: Final = " (a plain factory or method runs in a worker thread; make it `async def` to use the loop)"


class CallFailed(Exception):  # noqa: N818 - names the event in the trace
    """The foreign code broke its contract or raised; the text is one line for the trace."""


class CallTimedOut(CallFailed):
    """The foreign code did not answer in time."""


def is_async(call: object) -> bool:
    """Whether calling the object gives an awaitable, as far as it can be told beforehand."""
    while isinstance(call, partial):
        call = call.func
    return inspect.iscoroutinefunction(call) or inspect.iscoroutinefunction(
        getattr(call, "__call__", None)  # noqa: B004 - asks for the method, not for callability
    )


class ForeignCalls:
    """Calls into one foreign object, one after another; `stop` it in the end.

    Attributes:
        abandoned: calls that ignored their cancellation and were left behind.
        blocked: seconds for which the last call held the event loop by itself.
    """

    def __init__(self, what: str, name: str, passing: tuple[type[Exception], ...] = ()) -> None:
        """Prepare; nothing runs yet.

        Args:
            what: what the object is, for error texts, such as ``agent``.
            name: which one it is, for the names of its task and thread.
            passing: exceptions that the caller wants as they are instead of as `CallFailed`.
        """
        self.abandoned = 0
        self.blocked = 0.0
        self._callee = Callee(what, name)
        self._what = what
        self._name = f"memfin-{what}-{name}"
        self._passing: tuple[type[Exception], ...] = (CallFailed, *passing)
        self._thread = CallThread(self._name)

    @property
    def stuck(self) -> bool:
        """Whether an earlier plain call still runs in its thread although its time is over."""
        return self._thread.busy

    async def freed(self, limit: float) -> bool:
        """Wait at most ``limit`` seconds for a plain call that is stuck; return whether it has come back."""
        if self.stuck:
            with suppress(CallTimedOut):
                await self.bounded(lambda: self._thread.call(lambda: None), limit)
        return not self.stuck

    def stop(self) -> None:
        """End the thread; one that is stuck counts as abandoned and goes when its call returns."""
        if self._thread.busy:
            self.abandoned += 1
        self._thread.stop()

    async def invoke(self, call: Callable[..., Any], *args: Any, on_loop: bool = False) -> Any:
        """Call where it belongs: on the loop when it is asynchronous or ``on_loop``, else in the thread."""
        result = call(*args) if on_loop or is_async(call) else await self._thread.call(call, *args)
        return await result if inspect.isawaitable(result) else result

    async def bounded(
        self, start: Callable[[], Coroutine[Any, Any, T]], limit: float, *, hasty: bool = False
    ) -> T:
        """Return what the coroutine of ``start`` returns, within ``limit`` seconds.

        A ``hasty`` call that is over its time has but `HASTY_GRACE` to end.

        Raises:
            CallTimedOut: it did not end in time.
            CallFailed: it raised; the text says what, the cause is the exception.
        """
        leash = _Leash(self._callee)
        task = asyncio.create_task(_contained(start, leash, self._what), name=self._name)
        due = time.perf_counter() + limit
        try:
            done = await _finished(task, leash, limit)
            if not done:
                # Whatever else held the loop, this call was not served meanwhile: it gets that time back.
                done = await _finished(task, leash, time.perf_counter() - due)
            if not done:
                await self._cancel(task, leash, HASTY_GRACE if hasty else CANCEL_GRACE)
        except BaseException:
            with anyio.CancelScope(shield=True):
                await self._cancel(task, leash, HASTY_GRACE)
            raise
        finally:
            self.blocked = leash.stepped
        if not done:
            raise CallTimedOut(f"no answer within {limit:.3g} s")
        return self._outcome(task)

    async def _cancel(self, task: asyncio.Task[Any], leash: "_Leash", grace: float) -> None:
        """Cancel the call; when it swallows that, end its task without asking it again."""
        task.add_done_callback(_retrieve)
        task.cancel()
        if not await _finished(task, leash, grace):
            self.abandoned += 1
            leash.cut = True
            task.cancel()
            if leash.watch.on_swallowed is not None:
                leash.watch.on_swallowed(self._callee)
            await _finished(task, leash, grace)

    def _outcome(self, task: asyncio.Task[T]) -> T:
        """Return the result of a finished call, with its exception told in the trace's words."""
        if task.cancelled():
            raise CallFailed(f"the {self._what} cancelled its own call")
        error = task.exception()
        if error is None:
            return task.result()
        if isinstance(error, self._passing):
            raise error
        line = describe(error)
        hint = LOOP_HINT if isinstance(error, RuntimeError) and "event loop" in line else ""
        raise CallFailed(line + hint) from error


class _Leash:
    """Once cut, the call gets nothing delivered any more: its next cancellation ends its task.

    ``stepped`` is the time in seconds that the call's own steps took on the loop. ``waiter`` is what
    the caller waits for; the call sets it with its last step, which spares the caller a trip around
    the loop against waiting for the task itself. ``watch`` is that of the run.
    """

    def __init__(self, callee: Callee) -> None:
        self.callee = callee
        self.watch = WATCH.get() or CallWatch()
        self.cut = False
        self.stepped = 0.0
        self.waiter: asyncio.Future[None] | None = None

    def wake(self) -> None:
        """Let the caller go on, if it waits."""
        if self.waiter is not None and not self.waiter.done():
            self.waiter.set_result(None)


async def _contained(start: Callable[[], Coroutine[Any, Any, T]], leash: _Leash, what: str) -> T:
    """Run the call; what would leave the event loop itself, past every task, ends here."""
    try:
        return await _led(start(), leash)
    except SystemExit as stop:
        raise CallFailed(f"the {what} called sys.exit({stop.code!r})") from None
    except KeyboardInterrupt as problem:  # Ctrl-C reaches the loop's own handler, not this call
        raise CallFailed(describe(problem)) from None
    finally:
        leash.wake()


@types.coroutine
def _led(call: Coroutine[Any, Any, T], leash: _Leash) -> Generator[Any, Any, T]:
    """Run a coroutine step by step, so that it can be left where it stands."""
    step: Callable[[], Any] = partial(call.send, None)
    watch = leash.watch
    while True:
        before, watch.on_loop = watch.on_loop, leash.callee
        began = time.perf_counter()
        try:
            waiting_for = step()
        except StopIteration as stop:
            result: T = stop.value
            return result
        finally:
            leash.stepped += time.perf_counter() - began
            watch.on_loop = before
        try:
            sent = yield waiting_for
        except BaseException as thrown:
            if leash.cut:
                with suppress(BaseException):  # whatever its finally blocks do now, it is over
                    call.close()
                raise
            step = partial(call.throw, thrown)
        else:
            step = partial(call.send, sent)


async def _finished(task: asyncio.Task[Any], leash: _Leash, limit: float) -> bool:
    """Wait for the call, at most ``limit`` seconds; the first step spares quick ones the machinery."""
    if not task.done():
        await asyncio.sleep(0)
    if not task.done():
        loop = asyncio.get_running_loop()
        leash.waiter = loop.create_future()
        timer = loop.call_later(max(limit, 0.0), leash.wake)
        try:
            await leash.waiter
        finally:
            timer.cancel()
            leash.waiter = None
    return task.done()


def _retrieve(task: asyncio.Task[Any]) -> None:
    """Take the exception of a call nobody waits for, so that asyncio does not log it."""
    if not task.cancelled():
        task.exception()
