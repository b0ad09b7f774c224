"""Calls into untrusted user code, isolated from the run, with time limits.

An agent or a judge may raise, hang, swallow cancellation, block its thread or end the process. Every call
runs in a task of its own outside the runtime's task group, bounded in time. Inside a cancel scope a
swallowed cancellation would be delivered for ever; outside of it the call can be abandoned, counted and
reported.
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

from memfin.errors import UsageError
from memfin.sandbox.references import describe, reference_of
from memfin.sandbox.thread import WATCH, Callee, CallThread, CallWatch

T = TypeVar("T")

CANCEL_GRACE: Final = 0.5
SHORT_GRACE: Final = 0.15
"""Seconds that a cancelled call has to end before it is abandoned: after its time limit, and when the
caller itself is cancelled."""

LATE_CLOSE: Final = 1.0
"""Seconds to wait for an object that its factory is still making, or that is stuck in a plain call."""

LOOP_HINT: Final = " (a plain factory or method runs in a worker thread; make it `async def` to use the loop)"


class CallFailed(Exception):  # noqa: N818 - names the event in the trace
    """The user code broke its contract or raised; the message is one line for the trace."""


class CallTimedOut(CallFailed):
    """The user code did not answer in time."""


def is_async(call: object) -> bool:
    """Return True if calling the object returns an awaitable, as far as its signature shows."""
    while isinstance(call, partial):
        call = call.func
    return inspect.iscoroutinefunction(call) or inspect.iscoroutinefunction(
        getattr(call, "__call__", None)  # noqa: B004 - asks for the method, not for callability
    )


class UserCalls:
    """Calls into one user object, one after another; call `stop` at the end.

    Attributes:
        abandoned: number of calls that ignored their cancellation.
        blocked: seconds for which the last call itself blocked the event loop.
    """

    def __init__(self, what: str, name: str, passing: tuple[type[Exception], ...] = ()) -> None:
        """Prepare; nothing runs yet.

        Args:
            what: the kind of object, for error texts, such as ``agent``.
            name: its name, for the names of its task and thread.
            passing: exceptions that are raised unchanged instead of as `CallFailed`.
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
        """True while an earlier plain call still runs in its thread after its time limit."""
        return self._thread.busy

    async def freed(self, limit: float) -> bool:
        """Wait at most ``limit`` seconds for a stuck plain call; return True if it has returned."""
        if self.stuck:
            with suppress(CallTimedOut):
                await self.bounded(lambda: self._thread.call(lambda: None), limit)
        return not self.stuck

    def stop(self) -> None:
        """End the thread; a stuck one is counted as abandoned and ends when its call returns."""
        if self._thread.busy:
            self.abandoned += 1
        self._thread.stop()

    async def invoke(self, call: Callable[..., Any], *args: Any, on_loop: bool = False) -> Any:
        """Call on the event loop if asynchronous or ``on_loop``, else in the thread."""
        result = call(*args) if on_loop or is_async(call) else await self._thread.call(call, *args)
        return await result if inspect.isawaitable(result) else result

    async def bounded(
        self, start: Callable[[], Coroutine[Any, Any, T]], limit: float, *, short_grace: bool = False
    ) -> T:
        """Await the coroutine of ``start`` for at most ``limit`` seconds and return its result.

        With ``short_grace`` a call over its time limit has `SHORT_GRACE` to end, else `CANCEL_GRACE`.

        Raises:
            CallTimedOut: it did not end in time.
            CallFailed: it raised; the cause is the exception.
        """
        state = _CallState(self._callee)
        task = asyncio.create_task(_isolated(start, state, self._what), name=self._name)
        due = time.perf_counter() + limit
        # A call ends in exactly one of these ways:
        # 1. Within its limit: its result or its exception.
        # 2. The loop was blocked by something else at the limit: the call was not served meanwhile, so it
        #    gets that time back, once.
        # 3. Over its limit, and cancelled within the grace: CallTimedOut.
        # 4. The same, but it swallows the cancellation: `_cancel` closes its coroutine and counts it.
        # 5. The caller is cancelled: as 3 or 4 with the short grace, and the cancellation continues.
        try:
            done = await _finished(task, state, limit)
            if not done:
                done = await _finished(task, state, time.perf_counter() - due)
            if not done:
                await self._cancel(task, state, SHORT_GRACE if short_grace else CANCEL_GRACE)
        except BaseException:
            with anyio.CancelScope(shield=True):
                await self._cancel(task, state, SHORT_GRACE)
            raise
        finally:
            self.blocked = state.stepped
        if not done:
            raise CallTimedOut(f"no answer within {limit:.3g} s")
        return self._outcome(task)

    async def _cancel(self, task: asyncio.Task[Any], state: "_CallState", grace: float) -> None:
        """Cancel the call; if it suppresses that, end its task without resuming it."""
        task.add_done_callback(_retrieve)
        task.cancel()
        if not await _finished(task, state, grace):
            self.abandoned += 1
            state.closed = True
            task.cancel()
            if state.watch.on_swallowed is not None:
                state.watch.on_swallowed(self._callee)
            await _finished(task, state, grace)

    def _outcome(self, task: asyncio.Task[T]) -> T:
        """Return the result of a finished call, or raise its exception as one line for the trace."""
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


class FactoryCalls(UserCalls):
    """Calls into an object made by a factory: `make` first, `close` at the end."""

    def __init__(self, what: str, name: str, passing: tuple[type[Exception], ...] = ()) -> None:
        super().__init__(what, name, passing)
        self._made: Any = None
        self._has_close = False
        self._closes_on_loop = False
        self._late: Any = None
        self._making = False

    async def make(self, factory: Callable[..., Any], *args: Any, on_loop: bool = False) -> Any:
        """Return the object that the factory makes, on the event loop if asynchronous, else in the thread."""
        made = await self._make(factory, *args, on_loop=on_loop)
        close = getattr(made, "close", None)
        self._has_close, self._closes_on_loop = callable(close), is_async(close)
        self._made = made
        return made

    async def close(self, limit: float, *, short_grace: bool = False) -> None:
        """Close the object if it has a ``close``, and end the thread; raise `CallFailed` if that fails."""
        try:
            if self._has_close:
                if self.stuck and not self._closes_on_loop:
                    limit = min(limit, LATE_CLOSE)
                await self.bounded(lambda: self.invoke(self._made.close), limit, short_grace=short_grace)
            elif self._making:
                await self.bounded(self._close_late, min(limit, LATE_CLOSE), short_grace=short_grace)
        finally:
            self.stop()

    async def _make(self, factory: Callable[..., Any], *args: Any, on_loop: bool) -> Any:
        if on_loop or is_async(factory):
            return await self.invoke(factory, *args, on_loop=True)

        def make() -> Any:
            self._late = factory(*args)
            return self._late

        self._making = True  # and stays so when the wait is cancelled, while the thread continues
        try:
            made = await self.invoke(make)
        except Exception:
            self._making = False
            raise
        self._making, self._late = False, None
        return made

    async def _close_late(self) -> None:
        """Close an object whose factory returned after its caller had stopped waiting."""
        await self._thread.call(lambda: None)  # runs after the factory
        close = getattr(self._late, "close", None)
        if callable(close):
            await self.invoke(close)


def check_listener(what: str, call: Callable[..., object]) -> None:
    """Refuse an asynchronous listener, which would never be awaited.

    Raises:
        UsageError: it is.
    """
    if is_async(call) or inspect.isasyncgenfunction(call):
        raise UsageError(
            f"{what}: {reference_of(call)} is asynchronous and would never be awaited; "
            "give a plain function, which may start a task"
        )


class Listener:
    """A plain callback that is dropped after its first error."""

    def __init__(self, name: str, on_failure: Callable[[str], None]) -> None:
        """Prepare; ``on_failure`` gets one line with ``name`` and the error of the dropped listener."""
        self._name = name
        self._on_failure = on_failure
        self._dropped = False

    def tell(self, call: Callable[..., object], *args: object) -> None:
        """Call a function of the listener, unless it was dropped."""
        if self._dropped:
            return
        try:
            result = call(*args)
        except Exception as problem:  # noqa: BLE001 - no error of a listener may end the run
            self._drop(describe(problem))
            return
        if inspect.iscoroutine(result):  # as a lambda around an asynchronous function gives
            result.close()
            self._drop("it returned a coroutine, which is never awaited")

    def _drop(self, why: str) -> None:
        self._dropped = True
        self._on_failure(f"{self._name} failed and is not called any more: {why}")


class _CallState:
    """State of one call.

    ``closed``: the next cancellation ends the task without reaching the call. ``stepped``: seconds that
    the call's own steps took on the loop. ``waiter``: future of the caller; the call sets it with its
    last step, which is one iteration of the loop earlier than the end of its task.
    """

    def __init__(self, callee: Callee) -> None:
        self.callee = callee
        self.watch = WATCH.get() or CallWatch()
        self.closed = False
        self.stepped = 0.0
        self.waiter: asyncio.Future[None] | None = None

    def wake(self) -> None:
        """Wake the caller if it waits."""
        if self.waiter is not None and not self.waiter.done():
            self.waiter.set_result(None)


async def _isolated(start: Callable[[], Coroutine[Any, Any, T]], state: _CallState, what: str) -> T:
    """Run the call; contain exceptions that would end the event loop itself."""
    try:
        return await _stepped(start(), state)
    except SystemExit as stop:
        raise CallFailed(f"the {what} called sys.exit({stop.code!r})") from None
    except KeyboardInterrupt as problem:  # Ctrl-C reaches the loop's own handler, not this call
        raise CallFailed(describe(problem)) from None
    finally:
        state.wake()


@types.coroutine
def _stepped(call: Coroutine[Any, Any, T], state: _CallState) -> Generator[Any, Any, T]:
    """Run a coroutine step by step, so that it can be abandoned at any step."""
    step: Callable[[], Any] = partial(call.send, None)
    watch = state.watch
    while True:
        before, watch.on_loop = watch.on_loop, state.callee
        began = time.perf_counter()
        try:
            waiting_for = step()
        except StopIteration as stop:
            result: T = stop.value
            return result
        finally:
            state.stepped += time.perf_counter() - began
            watch.on_loop = before
        try:
            sent = yield waiting_for
        except BaseException as thrown:
            if state.closed:
                with suppress(BaseException):  # nothing that its finally blocks do can keep it
                    call.close()
                raise
            step = partial(call.throw, thrown)
        else:
            step = partial(call.send, sent)


async def _finished(task: asyncio.Task[Any], state: _CallState, limit: float) -> bool:
    """Wait for the call, at most ``limit`` seconds; quick ones end in the first step without a timer."""
    if not task.done():
        await asyncio.sleep(0)
    if not task.done():
        loop = asyncio.get_running_loop()
        state.waiter = loop.create_future()
        timer = loop.call_later(max(limit, 0.0), state.wake)
        try:
            await state.waiter
        finally:
            timer.cancel()
            state.waiter = None
    return task.done()


def _retrieve(task: asyncio.Task[Any]) -> None:
    """Retrieve the exception of an abandoned call, so that asyncio does not log it."""
    if not task.cancelled():
        task.exception()
