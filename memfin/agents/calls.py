"""Calls into one agent, bounded in time and repeated when they fail on their way; usage of its model."""

import random
import time
from collections.abc import Awaitable, Callable, Mapping
from typing import Any, Final, TypeVar

import anyio
import msgspec

from memfin.agents.protocol import AgentReply, Observer, Session
from memfin.client.errors import EndpointDown, RequestError
from memfin.contracts import ModelUsage
from memfin.sandbox.calls import CallFailed, FactoryCalls, is_async
from memfin.sandbox.references import kind_of, one_line
from memfin.sandbox.thread import CallThread

T = TypeVar("T")

MAX_ASKED_PAUSE: Final = 86_400.0
MAX_SNAPSHOT_BYTES: Final = 4 << 20  # every dialogue under way may have one in memory
KEY_STATUSES: Final = frozenset({401, 403})
REFUSED_STATUSES: Final = KEY_STATUSES | {404}  # all calls of a run would get them
MAX_UNCONNECTED: Final = 5  # calls in a row without a connection, each with its retries
FIRST_BACKOFF: Final = 0.25
MAX_BACKOFF: Final = 8.0
"""Seconds: the first and the longest pause before a retry."""


class TransportError(Exception):
    """A call failed on its way, not in the agent: it may be retried.

    Adapters raise it for connections refused, reset or timed out, and for answers that say so
    (HTTP 429, 502, 503, 504). ``ConnectionError`` counts as one too where a reply is awaited.
    ``retry_after`` is how many seconds the other side asked to be left alone, if it did; ``endpoint`` the
    one to which there was no connection, if it is shared by all agents of the run.
    """

    def __init__(
        self, message: str = "", *, retry_after: float | None = None, endpoint: "AgentEndpoint | None" = None
    ) -> None:
        super().__init__(message)
        self.retry_after = retry_after
        self.endpoint = endpoint


class EndpointRefusal(CallFailed):
    """The endpoint refused a call because of its address, its key or the model's name."""

    def __init__(self, message: str, endpoint: "AgentEndpoint") -> None:
        super().__init__(message)
        self.endpoint = endpoint


class AgentEndpoint:
    """Availability of the endpoint that all agents of a run, or all questions of a benchmark, share.

    Attributes:
        answered: True once it has answered a call otherwise than with an `EndpointRefusal`.
    """

    def __init__(self) -> None:
        self.answered = False
        self._failures = 0
        self._reason = ""
        self._counted_at = 0.0

    def count_answer(self) -> None:
        """Note that the endpoint is there."""
        self.answered = True
        self._failures = 0

    def check_first(self, problem: Exception) -> None:
        """Raise `EndpointDown` for the failure of a call if none has been answered before."""
        if not self.answered:
            raise EndpointDown(str(problem)) from problem

    def error_of(self, problem: RequestError, key_env: str | None) -> TransportError | CallFailed:
        """Return the error of a call for that of its request; a refused key names ``key_env``."""
        text = str(problem)
        status = problem.status if problem.kind == "status" else None  # a provider may withhold with 403
        if status in KEY_STATUSES:
            text += f"; look at {key_env or 'MEMFIN_AGENT_API_KEY (not set)'}"
        unconnected = problem.kind in {"connect", "tls"}
        if status in REFUSED_STATUSES or (unconnected and not problem.retryable):
            return EndpointRefusal(text, self)
        if unconnected:
            return TransportError(text, endpoint=self)
        self.count_answer()
        return (
            TransportError(text, retry_after=problem.retry_after) if problem.retryable else CallFailed(text)
        )

    async def wait_out(self, reason: str, began: float) -> None:
        """Count a call that began at some time and got no connection, and pause before the next.

        Calls that were under way together count once.

        Raises:
            EndpointDown: it was the last of `MAX_UNCONNECTED` in a row that failed for the same reason.
        """
        if reason != self._reason:
            self._failures, self._reason = 0, reason
        if self._failures == 0 or began >= self._counted_at:
            self._failures += 1
            self._counted_at = time.perf_counter()
        if self._failures >= MAX_UNCONNECTED:
            raise EndpointDown(f"{reason}, {self._failures} times in a row")
        await anyio.sleep(min(MAX_BACKOFF, FIRST_BACKOFF * 2**self._failures))


def asked_pause(problem: Exception) -> float:
    """Return the seconds that the other side asked to wait, 0.0 if none or not sensible."""
    try:
        asked: Any = getattr(problem, "retry_after", None)
    except Exception:  # noqa: BLE001 - an agent's own class of error may fail at anything
        return 0.0
    return float(asked) if type(asked) in (int, float) and 0 < asked <= MAX_ASKED_PAUSE else 0.0


def builds_async_agent(factory: object) -> bool:
    """Return True if the factory is a class of asynchronous agents: it may need the loop."""
    return isinstance(factory, type) and is_async(getattr(factory, "reply", None))


class AgentCalls(FactoryCalls):
    """One dialogue's agent, with every call bounded; `open` it first, `close` it in the end.

    Attributes:
        has_commit: True if the agent keeps its history through ``commit``.
        has_snapshots: True if the agent has ``snapshot`` and ``restore``.
        has_carry: True if the agent gives state to the client's next session.
    """

    def __init__(self, name: str) -> None:
        super().__init__("agent", name, passing=(TransportError, ConnectionError))
        self.has_commit = False
        self.has_snapshots = self.has_carry = False
        self._answers_on_loop = False
        self._agent: Any = None

    async def open(
        self, factory: Callable[..., Any], session: Session, observer: Observer, limit: float
    ) -> None:
        """Create the agent within ``limit`` seconds; raise `CallFailed` when that fails."""
        await self.bounded(lambda: self._create(factory, session, observer), limit)

    async def reply(self, user_text: str, limit: float) -> AgentReply:
        """Return the agent's answer; raise `CallFailed`, `CallTimedOut` or a transport error."""
        return await self.bounded(lambda: self._reply(user_text), limit)

    async def ready(self, limit: float) -> bool:
        """Wait at most ``limit`` seconds until the agent can be called; return True if it can.

        It cannot as long as an earlier plain call hangs in the thread that ``reply`` would run in.
        """
        return self._answers_on_loop or await self.freed(limit)

    async def commit(self, assistant_text: str, limit: float) -> None:
        """Put a reply into the agent's history; raise `CallFailed` when that fails."""
        await self.bounded(lambda: self.invoke(self._agent.commit, assistant_text), limit)

    async def snapshot(self, limit: float) -> bytes:
        """Return the agent's state; raise `CallFailed` when it gives none that can be kept.

        A plain ``snapshot`` that hangs keeps its thread; the agent's next plain calls get a new one.
        """
        return await self._state("snapshot", limit)

    async def carry(self, limit: float) -> bytes:
        """Return what the agent keeps for the client's next session; otherwise as `snapshot`."""
        return await self._state("carry", limit)

    async def _state(self, name: str, limit: float) -> bytes:
        try:
            state = await self.bounded(lambda: self.invoke(getattr(self._agent, name)), limit)
        finally:
            if self.stuck:
                self.stop()
                self._thread = CallThread(self._name)
        if not isinstance(state, bytes):
            raise CallFailed(f"{name} returned {kind_of(state)}; expected bytes")
        if len(state) > MAX_SNAPSHOT_BYTES:
            raise CallFailed(f"{name} returned {len(state)} bytes; at most {MAX_SNAPSHOT_BYTES} are kept")
        return bytes(state)

    async def restore(self, state: bytes, limit: float) -> None:
        """Give the agent back its state; raise `CallFailed` when it does not take it."""
        await self.bounded(lambda: self.invoke(self._agent.restore, state), limit)

    async def _create(self, factory: Callable[..., Any], session: Session, observer: Observer) -> None:
        agent = await self.make(factory, session, observer, on_loop=builds_async_agent(factory))
        if not callable(getattr(agent, "reply", None)):
            raise CallFailed(f"the factory returned {kind_of(agent)}; expected an object with a reply method")
        self.has_commit = callable(getattr(agent, "commit", None))
        self.has_snapshots = callable(getattr(agent, "snapshot", None)) and callable(
            getattr(agent, "restore", None)
        )
        self.has_carry = callable(getattr(agent, "carry", None))
        self._answers_on_loop = is_async(agent.reply)
        self._agent = agent

    async def _reply(self, user_text: str) -> AgentReply:
        return as_reply(await self.invoke(self._agent.reply, user_text, on_loop=self._answers_on_loop))


def as_reply(value: object) -> AgentReply:
    """Convert the returned value of an agent to an `AgentReply`; raise `CallFailed` when it is none."""
    if isinstance(value, str):
        reply = AgentReply(text=value)
    elif isinstance(value, AgentReply):
        reply = value
    elif isinstance(value, Mapping):
        known = {name: value[name] for name in AgentReply.__struct_fields__ if name in value}
        if "text" not in known:
            raise CallFailed("the agent returned an object without text; expected str or AgentReply")
        reply = AgentReply(**known)
    else:
        raise CallFailed(f"the agent returned {kind_of(value)}; expected str or AgentReply")
    if not isinstance(reply.text, str):
        raise CallFailed(f"the agent returned a reply whose text is {kind_of(reply.text)}; expected str")
    try:
        reply.text.encode()
    except UnicodeEncodeError as problem:
        raise CallFailed(
            f"the reply holds a lone surrogate at character {problem.start} and cannot be written"
        ) from None
    if (lost := reply.observation_error) is not None:
        text = str.__str__(lost) if isinstance(lost, str) else f"observation_error is {kind_of(lost)}"
        reply = reply.replace(observation_error=one_line(text))
    # A subclass of str, such as a template library's safe text, cannot be written either.
    return reply if type(reply.text) is str else reply.replace(text=str.__str__(reply.text))


async def with_retries(
    call: Callable[[float], Awaitable[T]],
    *retried: type[TransportError | ConnectionError],
    limit: float,
    retries: int,
    first_pause: float,
    on_retry: Callable[[], None],
    admit: Callable[[], Awaitable[float]] | None = None,
) -> T:
    """Make a call until it succeeds, and return its result; it gets the seconds left of ``limit``.

    It is made again after one of the ``retried`` errors, ``retries`` times at most, after a pause that
    doubles and is drawn at random, and is no shorter than the other side asked for. An error whose pause
    would go past the limit is raised, as is any other.

    ``admit`` waits until an attempt may start and returns the seconds, which are no part of the limit.

    A call that gets no connection to an `AgentEndpoint` is made again, with its retries and its limit, until
    the endpoint is given up.

    Raises:
        EndpointDown: it is, or the first call of the run to it has shown that none will succeed.
    """
    for attempts_left in range(MAX_UNCONNECTED, -1, -1):
        began = time.perf_counter()
        try:
            return await _within_limit(call, retried, limit, retries, first_pause, on_retry, admit)
        except TransportError as problem:
            if problem.endpoint is None or attempts_left == 0:
                raise
            on_retry()
            await problem.endpoint.wait_out(str(problem), began)
    raise AssertionError("the last attempt returns or raises")


async def _within_limit(
    call: Callable[[float], Awaitable[T]],
    retried: tuple[type[TransportError | ConnectionError], ...],
    limit: float,
    retries: int,
    first_pause: float,
    on_retry: Callable[[], None],
    admit: Callable[[], Awaitable[float]] | None,
) -> T:
    deadline = time.perf_counter() + limit
    attempt = 0
    while True:
        if admit is not None:
            deadline += await admit()
        try:
            return await call(deadline - time.perf_counter())
        except (TransportError, ConnectionError, EndpointRefusal) as problem:
            if isinstance(problem, TransportError | EndpointRefusal) and problem.endpoint is not None:
                problem.endpoint.check_first(problem)
            pause = min(MAX_BACKOFF, first_pause * 2**attempt)
            pause *= random.uniform(0.5, 1.0)  # noqa: S311 - jitter, not a secret
            pause = max(pause, asked_pause(problem))
            attempt += 1
            past = attempt > retries or time.perf_counter() + pause >= deadline
            if past or not isinstance(problem, retried):
                raise
            on_retry()
            await anyio.sleep(pause)


_SUMMED: Final = tuple({*ModelUsage.__struct_fields__} - {"model", "first_token_ms"})


class UsageTotal:
    """A sum of `ModelUsage`; ``total`` is None until something was added."""

    def __init__(self) -> None:
        self.total: ModelUsage | None = None
        self._models: set[str | None] = set()

    def add_failed(self, latency_ms: float) -> None:
        """Add a request that brought no answer: what it took in tokens is not known, nor by which model."""
        self._add(ModelUsage(calls=1, unmetered_calls=1, latency_ms=latency_ms))

    def add(self, usage: ModelUsage | dict[str, Any]) -> None:
        """Add what one turn took; what is no usage is left out, as the turn's ``observation_error`` says.

        The total names a model only while all turns name the same one; its ``first_token_ms`` is that
        of what was added last.
        """
        if not isinstance(usage, ModelUsage):
            try:
                usage = msgspec.convert(usage, ModelUsage)
            except msgspec.ValidationError:
                return
        self._models.add(usage.model)
        self._add(usage)

    def _add(self, usage: ModelUsage) -> None:
        total = self.total or ModelUsage()
        self.total = ModelUsage(
            model=next(iter(self._models)) if len(self._models) == 1 else None,
            first_token_ms=usage.first_token_ms,
            **{name: total[name] + usage[name] for name in _SUMMED},
        )

    def of_run(self) -> ModelUsage | None:
        """Return the sum without what only one turn can have."""
        return None if self.total is None else self.total.replace(first_token_ms=None)
