"""The server side: puts a Python agent behind the agent protocol.

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
import time
from collections.abc import AsyncIterator, Callable, Iterable
from contextlib import suppress
from typing import Any, Final

import anyio
from aiohttp import web

from memfin.agents.http.hosting import json_answer, protocol_application, read_json, require_token
from memfin.agents.http.openapi import openapi_document
from memfin.agents.http.protocol import (
    API_KEY,
    PROTOCOL,
    CommitRequest,
    OpenSession,
    SessionOpened,
    TurnRequest,
)
from memfin.agents.http.sessions import Refusal, SessionTable
from memfin.agents.protocol import AgentFactory
from memfin.errors import UsageError
from memfin.hosting import run

DEFAULT_PORT: Final = 8765
MOST_SESSIONS: Final = 1024
IDLE_LIMIT: Final = 3600.0
"""Seconds after which a session that nobody calls is closed."""
LARGEST_BODY: Final = 16 * 1024 * 1024
"""Bytes of a request; a line of a dataset is no longer."""
LONGEST_SWEEP: Final = 60.0
"""Seconds between two looks for idle sessions, at most."""


def application(
    agent_factory: AgentFactory | Callable[..., Any],
    *,
    host: str = "127.0.0.1",
    names: Iterable[str] = (),
    token: str | None = None,
    most_sessions: int = MOST_SESSIONS,
    idle_limit: float = IDLE_LIMIT,
    largest_body: int = LARGEST_BODY,
    clock: Callable[[], float] = time.monotonic,
) -> web.Application:
    """Return an aiohttp application that serves an agent; it may be a sub-application of another.

    Args:
        agent_factory: called once a dialogue, as ``--agent pkg.module:factory`` would be; agents may
            be plain or asynchronous.
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
    app.cleanup_ctx.append(service.sweeping(min(LONGEST_SWEEP, idle_limit / 2)))
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
