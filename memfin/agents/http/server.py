"""Server of the agent protocol for a Python agent, and its sessions.

Ten lines make a service of an agent::

    from memfin.agents.http import serve

    class MyAgent:
        def __init__(self, session, observer):
            self.observer = observer

        async def reply(self, user_text):
            return "..."

    serve(MyAgent, port=8765)

``memfin run --agent http://127.0.0.1:8765`` then evaluates it.
"""

import asyncio
import os
import secrets
import time
from collections.abc import AsyncIterator, Callable, Iterable
from typing import Any, Final, NamedTuple

import anyio
from aiohttp import web

from memfin.agents.calls import AgentCalls, TransportError, asked_pause
from memfin.agents.http.hosting import Refusal, json_answer, protocol_application, read_json, require_token
from memfin.agents.http.protocol import (
    API_KEY,
    PROTOCOL,
    CommitRequest,
    Observations,
    OpenSession,
    SessionOpened,
    TurnAnswer,
    TurnRequest,
    openapi_document,
)
from memfin.agents.observer import Observed, TurnObserver
from memfin.agents.protocol import AgentFactory, AgentReply
from memfin.errors import UsageError
from memfin.hosting import run
from memfin.sandbox.calls import CallFailed, CallTimedOut
from memfin.sandbox.references import describe, one_line

DEFAULT_PORT: Final = 8765
MAX_SESSIONS: Final = 1024
MAX_BODY_BYTES: Final = 16 * 1024 * 1024  # a line of a dataset is no longer
# Seconds: for an agent's ``close``, without a call until a session is closed, between two sweeps for those.
CLOSE_LIMIT: Final = 10.0
IDLE_LIMIT: Final = 3600.0
MAX_SWEEP_INTERVAL: Final = 60.0


def refusal_of(problem: Exception, observations: Observations | None = None) -> Refusal:
    """Return the answer to a failed call into an agent."""
    if isinstance(problem, CallTimedOut):
        return Refusal(500, "agent_timed_out", one_line(str(problem)), observations=observations)
    if isinstance(problem, TransportError | ConnectionError):
        after = asked_pause(problem) or None
        message = one_line(str(problem)) if isinstance(problem, TransportError) else describe(problem)
        return Refusal(503, "agent_unreachable", message, retry_after=after, observations=observations)
    return Refusal(500, "agent_failed", one_line(str(problem)), observations=observations)


class AgentSession:
    """One agent behind the server; its calls never overlap: a new turn ends the one that still runs."""

    def __init__(self, request: OpenSession) -> None:
        self.session = request.session
        self.calls = AgentCalls(request.session.dialog_id)
        self._limit = request.turn_timeout
        self._observer = TurnObserver()
        self._entry = asyncio.Lock()
        self._turn: _Turn | None = None
        self._committed: CommitRequest | None = None
        self._latest = 0
        self.last_use = 0.0

    async def open(self, factory: Callable[..., Any]) -> None:
        """Create the agent; raise `Refusal` when that fails."""
        try:
            await self.calls.open(factory, self.session, self._observer, self._limit)
        except (CallFailed, TransportError, ConnectionError) as problem:
            raise refusal_of(problem) from problem

    @property
    def busy(self) -> bool:
        """True while a turn is being answered."""
        return self._turn is not None and not self._turn.task.done()

    async def turn(self, request: TurnRequest) -> TurnAnswer:
        """Return the agent's answer, the same for a turn sent again, or raise `Refusal`."""
        async with self._entry:
            turn = self._turn
            if turn is None or turn.request != request:
                asked = self._latest if turn is not None else self._latest - 1
                if request.turn <= max(asked, self._committed.turn if self._committed else 0):
                    raise Refusal(409, "turn_conflict")
                await self._end_turn()
                self._latest = request.turn
                turn = self._turn = _Turn(request, asyncio.create_task(self._ask(request)))
        await asyncio.wait([turn.task])  # which leaves it running when this caller goes away
        if turn.task.cancelled():
            raise Refusal(409, "turn_conflict", "the turn was ended by a later call")
        outcome = turn.task.result()
        if isinstance(outcome, Refusal):
            if outcome.status == 503 and self._turn is turn:  # noqa: PLR2004 - sent again, it is asked again
                self._turn = None
            raise outcome
        return outcome

    async def commit(self, request: CommitRequest) -> None:
        """Put a reply into the agent's history, once however often it is sent, or raise `Refusal`."""
        if not self.calls.has_commit:
            raise Refusal(409, "no_commit")
        async with self._entry:
            if request == self._committed:
                return
            if request.turn < self._latest or (self._committed and self._committed.turn == request.turn):
                raise Refusal(409, "turn_conflict")
            await self._end_turn()
            self._latest = request.turn
            if not self.calls.stuck:
                try:
                    await self.calls.commit(request.assistant_text, self._limit)
                except (CallFailed, TransportError, ConnectionError) as problem:
                    raise refusal_of(problem) from problem
            self._committed = request

    async def close(self) -> None:
        """End a running turn and close the agent; a failure to close is ignored."""
        await self._end_turn()
        try:
            await self.calls.close(min(CLOSE_LIMIT, self._limit))
        except (CallFailed, TransportError, ConnectionError):
            return  # the caller is gone or going

    async def _end_turn(self) -> None:
        if self._turn is not None and not self._turn.task.done():
            self._turn.task.cancel()
            await asyncio.wait([self._turn.task])

    async def _ask(self, request: TurnRequest) -> TurnAnswer | Refusal:
        token = self._observer.begin(request.turn)
        try:
            try:
                reply = await self.calls.reply(request.user_text, self._limit)
            except (CallFailed, TransportError, ConnectionError) as problem:
                return refusal_of(problem, _observations(self._observer.collect()))
            return _answer(reply, self._observer.collect(reply))
        finally:
            self._observer.end(token)


class _Turn(NamedTuple):
    request: TurnRequest
    task: "asyncio.Task[TurnAnswer | Refusal]"


def _observations(observed: Observed) -> Observations:
    fields = {name: observed[name] for name in Observed.__struct_fields__ if name not in ("error", "usage")}
    return Observations(observation_error=observed.error, **fields)


def _answer(reply: AgentReply, observed: Observed) -> TurnAnswer:
    return TurnAnswer(text=reply.text, usage=observed.usage, **dict(_observations(observed)))


class AgentService:
    """The calls of the protocol on the open sessions, and the limits of these.

    There are ``max_sessions`` at most, and none stays idle for longer than ``idle_limit`` seconds.
    """

    def __init__(
        self, factory: Callable[..., Any], max_sessions: int, idle_limit: float, clock: Callable[[], float]
    ) -> None:
        self._factory = factory
        self._max_sessions = max_sessions
        self._idle_limit = idle_limit
        self._clock = clock
        self._sessions: dict[str, AgentSession] = {}
        self._opening: dict[AgentSession, str] = {}
        self._closed = False

    def health(self) -> dict[str, int]:
        """Return the fields of ``/healthz``."""
        return {"protocol": PROTOCOL, "sessions": len(self._sessions)}

    async def open(self, request: web.Request) -> web.Response:
        """Create an agent; an open session with the same session id is replaced."""
        asked = await read_json(request, OpenSession)
        if asked.protocol != PROTOCOL:
            message = f"this server speaks version {PROTOCOL} of the protocol, not {asked.protocol}"
            raise Refusal(400, "unsupported_protocol", message)
        wanted = asked.session.session_id
        for key in [key for key, each in self._sessions.items() if each.session.session_id == wanted]:
            await self._close(key)
        await self._expire()
        if self._closed or len(self._sessions) + len(self._opening) >= self._max_sessions:
            raise Refusal(503, "too_many_sessions", retry_after=1.0)
        # An earlier request for it, whose caller is gone, may still be creating its agent.
        self._opening = {each: name for each, name in self._opening.items() if name != wanted}
        session = AgentSession(asked)
        self._opening[session] = wanted
        kept = False
        try:
            await session.open(self._factory)
            kept = self._opening.pop(session, None) is not None and not self._closed
            if not kept:
                raise Refusal(409, "turn_conflict", "the session was opened again, or the server stops")
        finally:
            self._opening.pop(session, None)
            if not kept:
                with anyio.CancelScope(shield=True):
                    await session.close()
        key = secrets.token_urlsafe(18)
        self._sessions[key] = session
        session.last_use = self._clock()
        return json_answer(201, SessionOpened(protocol=PROTOCOL, id=key, has_commit=session.calls.has_commit))

    async def turn(self, request: web.Request) -> web.Response:
        """Ask an agent."""
        session = self._find(request)
        try:
            return json_answer(200, await session.turn(await read_json(request, TurnRequest)))
        finally:
            session.last_use = self._clock()  # the time that a turn took is no idleness

    async def commit(self, request: web.Request) -> web.Response:
        """Put a reply into the history of an agent."""
        session = self._find(request)
        await session.commit(await read_json(request, CommitRequest))
        return web.Response(status=204)

    async def close(self, request: web.Request) -> web.Response:
        """Close a session."""
        self._find(request)
        await self._close(request.match_info["id"])
        return web.Response(status=204)

    async def stop(self, _: web.Application) -> None:
        """Close every agent, all at once; the turns that still run are ended and answered."""
        keys, self._closed = list(self._sessions), True
        async with anyio.create_task_group() as group:
            for key in keys:
                group.start_soon(self._close, key)

    async def sweeping(self, _: web.Application) -> AsyncIterator[None]:
        """Close idle sessions while the application runs."""

        async def sweep() -> None:
            while True:
                await asyncio.sleep(min(MAX_SWEEP_INTERVAL, self._idle_limit / 2))
                await self._expire()

        task = asyncio.create_task(sweep(), name="memfin-agent-server-sweep")
        yield
        task.cancel()
        await asyncio.wait([task])

    def _find(self, request: web.Request) -> AgentSession:
        """Return the session of a call and count it as used; raise `Refusal` for an unknown one."""
        session = self._sessions.get(request.match_info["id"])
        if session is None:
            raise Refusal(404, "unknown_session")
        session.last_use = self._clock()
        return session

    async def _close(self, key: str) -> None:
        if (session := self._sessions.pop(key, None)) is not None:
            await session.close()

    async def _expire(self) -> None:
        oldest = self._clock() - self._idle_limit
        for key, session in list(self._sessions.items()):
            if session.last_use < oldest and not session.busy:
                await self._close(key)


def application(
    agent_factory: AgentFactory | Callable[..., Any],
    *,
    host: str = "127.0.0.1",
    names: Iterable[str] = (),
    token: str | None = None,
    max_sessions: int = MAX_SESSIONS,
    idle_limit: float = IDLE_LIMIT,
    max_body_bytes: int = MAX_BODY_BYTES,
    clock: Callable[[], float] = time.monotonic,
) -> web.Application:
    """Return an aiohttp application that serves an agent; it may be a sub-application of another.

    Args:
        agent_factory: called once per dialogue; agents may be plain or asynchronous.
        host: the address that the application is going to listen on.
        names: further names under which it may be asked for, as in a network or behind a proxy.
        token: the bearer token that callers must show; None asks for none.
        max_sessions: dialogues open at a time, at most; further ones are answered with 503.
        idle_limit: seconds without a call after which a session is closed.
        max_body_bytes: bytes of a request's body, at most.
        clock: a monotonic clock in seconds.

    Raises:
        UsageError: the factory cannot be called.
    """
    if not callable(agent_factory):
        raise UsageError(f"agent factory: expected a callable, got {type(agent_factory).__name__}")
    service = AgentService(agent_factory, max_sessions, idle_limit, clock)
    app = protocol_application(
        openapi_document(), service.health, host=host, names=names, token=token, max_body_bytes=max_body_bytes
    )
    app.router.add_post("/sessions", service.open)
    app.router.add_post("/sessions/{id}/turns", service.turn)
    app.router.add_post("/sessions/{id}/commit", service.commit)
    app.router.add_delete("/sessions/{id}", service.close)
    app.on_shutdown.append(service.stop)
    app.cleanup_ctx.append(service.sweeping)
    return app


def serve(
    agent_factory: AgentFactory | Callable[..., Any],
    *,
    host: str = "127.0.0.1",
    port: int = DEFAULT_PORT,
    token: str | None = None,
    **options: Any,
) -> None:
    """Serve an agent until SIGINT or SIGTERM; prints one line with the address when it is ready.

    Args:
        agent_factory: as for `application`.
        host: address to listen on.
        port: port to listen on; 0 takes a free one, which the line names.
        token: bearer token; None takes it from ``MEMFIN_AGENT_API_KEY``, if that is set.
        options: ``names``, ``max_sessions``, ``idle_limit`` and ``max_body_bytes`` of `application`.

    Raises:
        UsageError: the address cannot be listened on, or is open to the network without a token.
    """
    token = token or os.environ.get(API_KEY) or None
    require_token("agent", host, token)
    app = application(agent_factory, host=host, token=token, **options)
    anyio.run(run, app, "agent", host, port)
