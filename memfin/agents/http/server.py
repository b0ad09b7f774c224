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
from contextlib import suppress
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
from memfin.agents.observer import Observed, TurnObserver, check_usage
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
    """Return how a failed call into an agent is answered."""
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
        """Return whether a turn is being answered."""
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
        """End what runs and close the agent; its failure at that is nobody's loss."""
        await self._end_turn()
        try:
            await self.calls.close(min(CLOSE_LIMIT, self._limit))
        except (CallFailed, TransportError, ConnectionError):
            return  # the caller is gone or going; there is nobody to tell

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
    fields = dict(observed)
    return Observations(observation_error=fields.pop("error"), **fields)


def _answer(reply: AgentReply, observed: Observed) -> TurnAnswer:
    usage, error = check_usage(reply)
    observations = _observations(observed).replace(observation_error=observed.error or error)
    return TurnAnswer(text=reply.text, usage=usage, **dict(observations))


class SessionTable:
    """The open sessions by id: ``max_sessions`` at most, none idle for longer than ``idle_limit`` seconds."""

    def __init__(self, max_sessions: int, idle_limit: float, clock: Callable[[], float]) -> None:
        self._max_sessions = max_sessions
        self._idle_limit = idle_limit
        self._clock = clock
        self._sessions: dict[str, AgentSession] = {}
        self._opening: dict[object, str] = {}
        self._closed = False

    def __len__(self) -> int:
        return len(self._sessions)

    async def open(self, factory: Callable[..., Any], request: OpenSession) -> tuple[str, AgentSession]:
        """Create an agent and return it with its id, or raise `Refusal`; the same session id is replaced."""
        wanted = request.session.session_id
        for key in [key for key, each in self._sessions.items() if each.session.session_id == wanted]:
            await self.close(key)
        await self.expire()
        if self._closed or len(self._sessions) + len(self._opening) >= self._max_sessions:
            raise Refusal(503, "too_many_sessions", retry_after=1.0)
        # An earlier request for it, whose caller is gone, may still be creating its agent.
        self._opening = {each: name for each, name in self._opening.items() if name != wanted}
        session = AgentSession(request)
        self._opening[session] = wanted
        kept = False
        try:
            await session.open(factory)
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
        self.touch(key)
        return key, session

    def find(self, key: str) -> AgentSession:
        """Return an open session and count it as used; raise `Refusal` for an unknown one."""
        session = self._sessions.get(key)
        if session is None:
            raise Refusal(404, "unknown_session")
        self.touch(key)
        return session

    def touch(self, key: str) -> None:
        """Count a session as used now, if it is open."""
        if key in self._sessions:
            self._sessions[key].last_use = self._clock()

    async def close(self, key: str) -> None:
        """Close a session; nothing happens for one that is not open."""
        session = self._sessions.pop(key, None)
        if session is not None:
            await session.close()

    async def expire(self) -> None:
        """Close what has idled for too long; a session with a turn in progress does not idle."""
        oldest = self._clock() - self._idle_limit
        for key, session in list(self._sessions.items()):
            if session.last_use < oldest and not session.busy:
                await self.close(key)

    async def close_all(self) -> None:
        """Close every session, all at once."""
        keys, self._closed = list(self._sessions), True
        async with anyio.create_task_group() as group:
            for key in keys:
                group.start_soon(self.close, key)


def application(
    agent_factory: AgentFactory | Callable[..., Any],
    *,
    host: str = "127.0.0.1",
    names: Iterable[str] = (),
    token: str | None = None,
    most_sessions: int = MAX_SESSIONS,
    idle_limit: float = IDLE_LIMIT,
    largest_body: int = MAX_BODY_BYTES,
    clock: Callable[[], float] = time.monotonic,
) -> web.Application:
    """Return an aiohttp application that serves an agent; it may be a sub-application of another.

    Args:
        agent_factory: called once per dialogue; agents may be plain or asynchronous.
        host: the address that the application is going to listen on.
        names: further names under which it may be asked for, as in a network or behind a proxy.
        token: the bearer token that callers must show; None asks for none.
        most_sessions: dialogues open at a time, at most; further ones are answered with 503.
        idle_limit: seconds without a call after which a session is closed.
        largest_body: bytes of a request's body, at most.
        clock: a monotonic clock in seconds.

    Raises:
        UsageError: the factory cannot be called.
    """
    if not callable(agent_factory):
        raise UsageError(f"agent factory: expected a callable, got {type(agent_factory).__name__}")
    table = SessionTable(most_sessions, idle_limit, clock)
    service = _Service(agent_factory, table)
    app = protocol_application(
        openapi_document(),
        lambda: {"protocol": PROTOCOL, "sessions": len(table)},
        host=host,
        names=names,
        token=token,
        largest_body=largest_body,
    )
    app.router.add_post("/sessions", service.open)
    app.router.add_post("/sessions/{id}/turns", service.turn)
    app.router.add_post("/sessions/{id}/commit", service.commit)
    app.router.add_delete("/sessions/{id}", service.close)
    app.on_shutdown.append(service.stop)
    app.cleanup_ctx.append(service.sweeping(min(MAX_SWEEP_INTERVAL, idle_limit / 2)))
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
        options: ``names``, ``most_sessions``, ``idle_limit`` and ``largest_body`` of `application`.

    Raises:
        UsageError: the address cannot be listened on, or is open to the network without a token.
    """
    token = token or os.environ.get(API_KEY) or None
    require_token("agent", host, token)
    app = application(agent_factory, host=host, token=token, **options)
    anyio.run(run, app, "agent", host, port)


class _Service:
    """The handlers of the protocol's calls."""

    def __init__(self, factory: Callable[..., Any], table: SessionTable) -> None:
        self._factory = factory
        self._table = table

    async def open(self, request: web.Request) -> web.Response:
        asked = await read_json(request, OpenSession)
        if asked.protocol != PROTOCOL:
            message = f"this server speaks version {PROTOCOL} of the protocol, not {asked.protocol}"
            raise Refusal(400, "unsupported_protocol", message)
        key, session = await self._table.open(self._factory, asked)
        return json_answer(201, SessionOpened(protocol=PROTOCOL, id=key, has_commit=session.calls.has_commit))

    async def turn(self, request: web.Request) -> web.Response:
        key = request.match_info["id"]
        session = self._table.find(key)
        try:
            return json_answer(200, await session.turn(await read_json(request, TurnRequest)))
        finally:
            self._table.touch(key)  # the time that a turn took is no idleness

    async def commit(self, request: web.Request) -> web.Response:
        session = self._table.find(request.match_info["id"])
        await session.commit(await read_json(request, CommitRequest))
        return web.Response(status=204)

    async def close(self, request: web.Request) -> web.Response:
        key = request.match_info["id"]
        self._table.find(key)
        await self._table.close(key)
        return web.Response(status=204)

    def sweeping(self, interval: float) -> Callable[[web.Application], AsyncIterator[None]]:
        async def context(app: web.Application) -> AsyncIterator[None]:
            del app
            task = asyncio.create_task(self._sweep(interval), name="memfin-agent-server-sweep")
            yield
            task.cancel()
            with suppress(asyncio.CancelledError):
                await task

        return context

    async def stop(self, app: web.Application) -> None:
        """Close every agent; the turns that still run are ended and answered."""
        del app
        await self._table.close_all()

    async def _sweep(self, interval: float) -> None:
        while True:
            await asyncio.sleep(interval)
            await self._table.expire()
