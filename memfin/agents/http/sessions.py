"""The server's side of a dialogue: an agent, its turns in order, and how long it may idle."""

import asyncio
import secrets
from collections.abc import Callable
from typing import Any

import anyio

from memfin.agents.calls import AgentCalls, TransportError, asked_pause
from memfin.agents.http.protocol import (
    CODES,
    CommitRequest,
    Observations,
    OpenSession,
    TurnAnswer,
    TurnRequest,
)
from memfin.agents.observer import ObservationError, Observed, TurnObserver, check
from memfin.agents.protocol import AgentReply
from memfin.contracts import ModelUsage
from memfin.sandbox.calls import CallFailed, CallTimedOut
from memfin.sandbox.references import describe, one_line

CLOSE_LIMIT = 10.0
"""Seconds that an agent's ``close`` may take."""


class Refusal(Exception):  # noqa: N818 - an answer of the protocol, not a malfunction
    """A call that is answered with an error: its status, code, message and what was observed."""

    def __init__(
        self,
        status: int,
        code: str,
        message: str | None = None,
        *,
        retry_after: float | None = None,
        observations: Observations | None = None,
    ) -> None:
        super().__init__(message or CODES[code])
        self.status = status
        self.code = code
        self.retry_after = retry_after
        self.observations = observations or Observations()


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
    """One agent behind the server; `open` it first, `close` it in the end.

    The calls of one agent never overlap: a new turn ends the one that still runs, as a time-out does
    where the agent lives in MemFin's own process.
    """

    def __init__(self, request: OpenSession) -> None:
        self.session = request.session
        self.calls = AgentCalls(request.session.dialog_id)
        self._limit = request.turn_timeout
        self._observer = TurnObserver()
        self._entry = asyncio.Lock()
        self._turn: _Turn | None = None
        self._committed: CommitRequest | None = None
        self._latest = 0

    async def open(self, factory: Callable[..., Any]) -> None:
        """Create the agent; raise `Refusal` when that fails."""
        try:
            await self.calls.open(factory, self.session, self._observer, self._limit)
        except (CallFailed, TransportError, ConnectionError) as problem:
            raise refusal_of(problem) from problem

    @property
    def busy(self) -> bool:
        """Whether a turn is being answered."""
        return self._turn is not None and not self._turn.task.done()

    async def turn(self, request: TurnRequest) -> TurnAnswer:
        """Return the agent's answer; the same turn again gets the same answer, asked once.

        Raises:
            Refusal: the turn is over or has other words, or the agent failed.
        """
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
        """Put a reply into the agent's history, once however often it is sent.

        Raises:
            Refusal: the agent has no ``commit``, the turn is over, or the agent failed.
        """
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


class _Turn:
    """A turn that is being answered or was: the latest one."""

    def __init__(self, request: TurnRequest, task: "asyncio.Task[TurnAnswer | Refusal]") -> None:
        self.request = request
        self.task = task


def _observations(observed: Observed) -> Observations:
    return Observations(
        recall=observed.recall,
        tools=observed.tools,
        compliance=observed.compliance,
        profile_snapshot=observed.profile_snapshot,
        observation_error=observed.error,
    )


def _answer(reply: AgentReply, observed: Observed) -> TurnAnswer:
    usage: ModelUsage | None = None
    error = observed.error or reply.observation_error
    if reply.usage is not None:
        try:
            usage = check("usage", ModelUsage, reply.usage)
        except ObservationError as problem:
            error = error or one_line(str(problem))
    observations = _observations(observed).replace(observation_error=error)
    return TurnAnswer(text=reply.text, usage=usage, **dict(observations))


class SessionTable:
    """The open sessions by id, no more than ``most`` of them, none idle for longer than ``idle_limit``.

    Times are seconds of ``clock``, a monotonic one.
    """

    def __init__(self, most: int, idle_limit: float, clock: Callable[[], float]) -> None:
        self._most = most
        self._idle_limit = idle_limit
        self._clock = clock
        self._sessions: dict[str, AgentSession] = {}
        self._last_use: dict[str, float] = {}
        self._opening: dict[object, str] = {}
        self._closed = False

    def __len__(self) -> int:
        return len(self._sessions)

    async def open(self, factory: Callable[..., Any], request: OpenSession) -> tuple[str, AgentSession]:
        """Create an agent and return it with its id; one of the same session id is replaced.

        Raises:
            Refusal: there are too many sessions, the agent could not be created, or the session was
                opened again meanwhile.
        """
        wanted = request.session.session_id
        for key in [key for key, each in self._sessions.items() if each.session.session_id == wanted]:
            await self.close(key)
        await self.expire()
        if self._closed or len(self._sessions) + len(self._opening) >= self._most:
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
        self._last_use[key] = self._clock()
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
            self._last_use[key] = self._clock()

    async def close(self, key: str) -> None:
        """Close a session; nothing happens for one that is not open."""
        session = self._sessions.pop(key, None)
        self._last_use.pop(key, None)
        if session is not None:
            await session.close()

    async def expire(self) -> None:
        """Close what has idled for too long; a session with a turn in progress does not idle."""
        oldest = self._clock() - self._idle_limit
        for key, last_use in list(self._last_use.items()):
            if last_use < oldest and key in self._sessions and not self._sessions[key].busy:
                await self.close(key)

    async def close_all(self) -> None:
        """Close every session, all at once."""
        keys, self._closed = list(self._sessions), True
        async with anyio.create_task_group() as group:
            for key in keys:
                group.start_soon(self.close, key)
