"""Calls into an agent that nothing the agent does can turn against the run.

An agent may raise, hang, swallow cancellation, block its thread or end the process. Every call
runs in a task of its own outside the runtime's task group, bounded in time: cancellation that is
swallowed would be delivered for ever inside a cancel scope, while a call out here can be left
where it stands, counted, and reported.
"""

import asyncio
import inspect
import types
from collections.abc import Callable, Coroutine, Generator, Mapping
from contextlib import suppress
from functools import partial
from typing import Any, Final, TypeVar

import anyio

from memfin.agents.protocol import AgentReply, Observer, Session
from memfin.agents.worker import AgentThread
from memfin.references import describe

T = TypeVar("T")

CANCEL_GRACE: Final = 0.5
"""Seconds a cancelled call has to end before it is left behind."""

LOOP_HINT: Final = " (a plain factory or method runs in a worker thread; make it `async def` to use the loop)"


class AgentFailure(Exception):  # noqa: N818 - names the event in the trace
    """The agent broke its contract or raised; the text goes into the trace."""


class AgentTimeout(AgentFailure):
    """The agent did not answer in time."""


class TransportError(Exception):
    """A reply failed on its way, not in the agent: such a turn may be retried.

    Adapters raise it for connections refused, reset or timed out, and for answers that say so
    (HTTP 429, 502, 503, 504). ``ConnectionError`` counts as one too.
    """


def is_async(call: object) -> bool:
    """Whether calling the object gives an awaitable, as far as it can be told beforehand."""
    return inspect.iscoroutinefunction(call) or inspect.iscoroutinefunction(
        getattr(call, "__call__", None)  # noqa: B004 - asks for the method, not for callability
    )


def builds_async_agent(factory: object) -> bool:
    """Whether the factory is a class of agents that answer asynchronously: it may need the loop."""
    return isinstance(factory, type) and is_async(getattr(factory, "reply", None))


class AgentCalls:
    """One dialogue's agent, with every call bounded; `open` it first, `close` it in the end.

    Attributes:
        abandoned: calls that ignored their cancellation and were left behind.
        has_commit: whether the agent keeps its history through ``commit``.
    """

    def __init__(self, name: str) -> None:
        self.abandoned = 0
        self.has_commit = False
        self._has_close = False
        self._name = name
        self._thread = AgentThread(f"memfin-agent-{name}")
        self._agent: Any = None

    async def open(
        self, factory: Callable[..., Any], session: Session, observer: Observer, limit: float
    ) -> None:
        """Create the agent within ``limit`` seconds; raise `AgentFailure` when that fails."""
        await self._bounded(lambda: self._create(factory, session, observer), limit)

    @property
    def stuck(self) -> bool:
        """Whether an earlier plain call still runs in its thread although its time is over."""
        return self._thread.busy

    async def reply(self, user_text: str, limit: float) -> AgentReply:
        """Return the agent's answer; raise `AgentFailure`, `AgentTimeout` or a transport error."""
        return await self._bounded(lambda: self._reply(user_text), limit)

    async def commit(self, assistant_text: str, limit: float) -> None:
        """Put a reply into the agent's history; raise `AgentFailure` when that fails."""
        await self._bounded(lambda: self._invoke(self._agent.commit, assistant_text), limit)

    async def close(self, limit: float) -> None:
        """End the session and the thread; raise `AgentFailure` when the agent's close fails."""
        try:
            if self._has_close:
                await self._bounded(lambda: self._invoke(self._agent.close), limit)
        finally:
            if self._thread.busy:
                self.abandoned += 1
            self._thread.stop()

    async def _create(self, factory: Callable[..., Any], session: Session, observer: Observer) -> None:
        agent = await self._invoke(factory, session, observer, on_loop=builds_async_agent(factory))
        if not callable(getattr(agent, "reply", None)):
            raise AgentFailure(f"the factory returned {_kind(agent)}; expected an object with a reply method")
        self.has_commit = callable(getattr(agent, "commit", None))
        self._has_close = callable(getattr(agent, "close", None))
        self._agent = agent

    async def _reply(self, user_text: str) -> AgentReply:
        return as_reply(await self._invoke(self._agent.reply, user_text))

    async def _invoke(self, call: Callable[..., Any], *args: Any, on_loop: bool = False) -> Any:
        """Call a method of the agent where it belongs: on the loop or in the agent's thread."""
        result = call(*args) if on_loop or is_async(call) else await self._thread.call(call, *args)
        return await result if inspect.isawaitable(result) else result

    async def _bounded(self, start: Callable[[], Coroutine[Any, Any, T]], limit: float) -> T:
        leash = _Leash()
        task = asyncio.create_task(_contained(start, leash), name=f"memfin agent {self._name}")
        try:
            done = await _finished(task, limit)
            if not done:
                await self._cancel(task, leash)
        except BaseException:
            with anyio.CancelScope(shield=True):
                await self._cancel(task, leash)
            raise
        if not done:
            raise AgentTimeout(f"no answer within {limit:.3g} s")
        return _outcome(task)

    async def _cancel(self, task: asyncio.Task[Any], leash: "_Leash") -> None:
        """Cancel the call; when it swallows that, end its task without asking it again."""
        task.add_done_callback(_retrieve)
        task.cancel()
        if not await _finished(task, CANCEL_GRACE):
            self.abandoned += 1
            leash.cut = True
            task.cancel()
            await _finished(task, CANCEL_GRACE)


class _Leash:
    """Once cut, the call gets nothing delivered any more: its next cancellation ends its task."""

    cut = False


async def _contained(start: Callable[[], Coroutine[Any, Any, T]], leash: _Leash) -> T:
    """Run the call; what would leave the event loop itself, past every task, ends here."""
    try:
        return await _led(start(), leash)
    except SystemExit as stop:
        raise AgentFailure(f"the agent called sys.exit({stop.code!r})") from None


@types.coroutine
def _led(call: Coroutine[Any, Any, T], leash: _Leash) -> Generator[Any, Any, T]:
    """Run a coroutine step by step, so that it can be left where it stands."""
    step: Callable[[], Any] = partial(call.send, None)
    while True:
        try:
            waiting_for = step()
        except StopIteration as stop:
            result: T = stop.value
            return result
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


def as_reply(value: object) -> AgentReply:
    """Return what an agent gave back as an `AgentReply`; raise `AgentFailure` when it is none."""
    if isinstance(value, str):
        reply = AgentReply(text=value)
    elif isinstance(value, AgentReply):
        reply = value
    elif isinstance(value, Mapping):
        known = {name: value[name] for name in AgentReply.__struct_fields__ if name in value}
        if "text" not in known:
            raise AgentFailure("the agent returned an object without text; expected str or AgentReply")
        reply = AgentReply(**known)
    else:
        raise AgentFailure(f"the agent returned {_kind(value)}; expected str or AgentReply")
    if not isinstance(reply.text, str):
        raise AgentFailure(f"the agent returned a reply whose text is {_kind(reply.text)}; expected str")
    try:
        reply.text.encode()
    except UnicodeEncodeError as problem:
        raise AgentFailure(
            f"the reply holds a lone surrogate at character {problem.start} and cannot be written"
        ) from None
    # A subclass of str, such as a template library's safe text, cannot be written either.
    return reply if type(reply.text) is str else reply.replace(text=str.__str__(reply.text))


async def _finished(task: asyncio.Task[Any], limit: float) -> bool:
    """Wait for the call, at most ``limit`` seconds; the first step spares quick ones the machinery."""
    if not task.done():
        await asyncio.sleep(0)
    if not task.done():
        await asyncio.wait((task,), timeout=max(limit, 0.0))
    return task.done()


def _outcome(task: asyncio.Task[T]) -> T:
    """Return the result of a finished call, with its exception told in the trace's words."""
    if task.cancelled():
        raise AgentFailure("the agent cancelled its own call")
    error = task.exception()
    if error is None:
        return task.result()
    if isinstance(error, AgentFailure | TransportError | ConnectionError):
        raise error
    line = describe(error)
    hint = LOOP_HINT if isinstance(error, RuntimeError) and "event loop" in line else ""
    raise AgentFailure(line + hint) from error


def _retrieve(task: asyncio.Task[Any]) -> None:
    """Take the exception of a call nobody waits for, so that asyncio does not log it."""
    if not task.cancelled():
        task.exception()


def _kind(value: object) -> str:
    return "None" if value is None else f"an object of type {type(value).__name__}"
