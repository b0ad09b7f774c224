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
import hmac
import ipaddress
import os
import signal
import sys
import threading
import time
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import suppress
from typing import Any, Final, TypeVar

import anyio
import msgspec
from aiohttp import web

from memfin import __version__
from memfin.agents.http.openapi import openapi_document
from memfin.agents.http.protocol import (
    API_KEY,
    PROTOCOL,
    CommitRequest,
    ErrorAnswer,
    OpenSession,
    Problem,
    SessionOpened,
    TurnRequest,
)
from memfin.agents.http.sessions import Refusal, SessionTable
from memfin.agents.protocol import AgentFactory
from memfin.contracts import Record
from memfin.errors import UsageError
from memfin.foreign.references import describe, one_line

R = TypeVar("R", bound=Record)
Handler = Callable[[web.Request], Awaitable[web.StreamResponse]]

DEFAULT_PORT: Final = 8765
MOST_SESSIONS: Final = 1024
IDLE_LIMIT: Final = 3600.0
"""Seconds after which a session that nobody calls is closed."""
LARGEST_BODY: Final = 16 * 1024 * 1024
"""Bytes of a request; a line of a dataset is no longer."""
LONGEST_SWEEP: Final = 60.0
SHUTDOWN_LIMIT: Final = 15.0
"""Seconds: how often idle sessions are looked for, and what a shutdown may take."""

_OPEN_PATHS: Final = frozenset({"/openapi.json", "/healthz"})


def application(
    agent_factory: AgentFactory | Callable[..., Any],
    *,
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
    service = _Service(agent_factory, table, token)
    app = web.Application(client_max_size=largest_body, middlewares=[_json_errors, service.authorized])
    app.router.add_get("/openapi.json", service.document, allow_head=False)
    app.router.add_get("/healthz", service.health, allow_head=False)
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
    **limits: Any,
) -> None:
    """Serve an agent until SIGINT or SIGTERM; prints one line with the address when it is ready.

    Args:
        agent_factory: as for `application`.
        host: address to listen on.
        port: port to listen on; 0 takes a free one, which the line names.
        token: bearer token; None takes it from ``MEMFIN_AGENT_API_KEY``, if that is set.
        limits: ``most_sessions``, ``idle_limit`` and ``largest_body`` of `application`.

    Raises:
        UsageError: the address cannot be listened on, or is open to the network without a token.
    """
    token = token or os.environ.get(API_KEY) or None
    if token is None and not _is_loopback(host):
        raise UsageError(
            f"agent server on {host}: anyone in the network could use the agent; set {API_KEY} to a token"
        )
    anyio.run(_serve, application(agent_factory, token=token, **limits), host, port)


async def _serve(app: web.Application, host: str, port: int) -> None:
    runner = web.AppRunner(app, access_log=None, shutdown_timeout=SHUTDOWN_LIMIT)
    await runner.setup()
    try:
        try:
            await web.TCPSite(runner, host, port).start()
        except OSError as problem:
            raise UsageError(f"agent server on {host}:{port}: {problem.strerror or problem}") from problem
        address, actual = runner.addresses[0][:2]
        shown = f"[{address}]" if ":" in address else address
        sys.stdout.write(f"memfin agent server: http://{shown}:{actual}\n")
        sys.stdout.flush()
        await _stop_requested()
    finally:
        with anyio.CancelScope(shield=True):
            await runner.cleanup()


async def _stop_requested() -> None:
    """Wait for SIGINT or SIGTERM; outside the main thread, where Python hands out none, for ever."""
    if threading.current_thread() is not threading.main_thread():
        await anyio.sleep_forever()
    with anyio.open_signal_receiver(signal.SIGINT, signal.SIGTERM) as signals:
        async for _ in signals:
            return


def _is_loopback(host: str) -> bool:
    if host == "localhost":
        return True
    try:
        return ipaddress.ip_address(host).is_loopback
    except ValueError:
        return False


class _Service:
    """The handlers of the protocol's calls."""

    def __init__(self, factory: Callable[..., Any], table: SessionTable, token: str | None) -> None:
        self._factory = factory
        self._table = table
        self._token = token
        self._document = msgspec.json.encode(openapi_document())

    @property
    def authorized(self) -> Any:
        @web.middleware
        async def middleware(request: web.Request, handler: Handler) -> web.StreamResponse:
            if self._token is not None and not _is_public(request):
                shown = request.headers.get("Authorization", "").encode("utf-8", "surrogateescape")
                if not hmac.compare_digest(shown, f"Bearer {self._token}".encode()):
                    raise Refusal(401, "unauthorized")
            return await handler(request)

        return middleware

    async def document(self, request: web.Request) -> web.Response:
        del request
        return web.Response(body=self._document, content_type="application/json")

    async def health(self, request: web.Request) -> web.Response:
        del request
        return _answer(
            200, {"status": "ok", "protocol": PROTOCOL, "version": __version__, "sessions": len(self._table)}
        )

    async def open(self, request: web.Request) -> web.Response:
        asked = await _read(request, OpenSession)
        if asked.protocol != PROTOCOL:
            message = f"this server speaks version {PROTOCOL} of the protocol, not {asked.protocol}"
            raise Refusal(400, "unsupported_protocol", message)
        key, session = await self._table.open(self._factory, asked)
        return _answer(201, SessionOpened(protocol=PROTOCOL, id=key, has_commit=session.calls.has_commit))

    async def turn(self, request: web.Request) -> web.Response:
        key = request.match_info["id"]
        session = self._table.find(key)
        try:
            return _answer(200, await session.turn(await _read(request, TurnRequest)))
        finally:
            self._table.touch(key)  # the time that a turn took is no idleness

    async def commit(self, request: web.Request) -> web.Response:
        session = self._table.find(request.match_info["id"])
        await session.commit(await _read(request, CommitRequest))
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


def _is_public(request: web.Request) -> bool:
    route = request.match_info.route.resource
    return route is not None and any(route.canonical.endswith(path) for path in _OPEN_PATHS)


async def _read(request: web.Request, kind: type[R]) -> R:
    if request.content_type != "application/json":
        raise Refusal(415, "invalid_request", "send the body as application/json")
    body = await request.read()
    try:
        return msgspec.json.decode(body, type=kind)
    except msgspec.ValidationError as problem:
        raise Refusal(400, "invalid_request", one_line(str(problem))) from problem
    except (msgspec.DecodeError, UnicodeDecodeError, RecursionError) as problem:
        raise Refusal(400, "invalid_json", one_line(str(problem))) from problem


def _answer(status: int, content: object, headers: dict[str, str] | None = None) -> web.Response:
    return web.Response(
        status=status,
        body=msgspec.json.encode(content),
        content_type="application/json",
        headers=headers,
    )


@web.middleware
async def _json_errors(request: web.Request, handler: Handler) -> web.StreamResponse:
    """Answer whatever goes wrong with an `ErrorAnswer`."""
    try:
        return await handler(request)
    except Refusal as problem:
        refusal = problem
    except web.HTTPRequestEntityTooLarge:
        refusal = Refusal(413, "too_large")
    except web.HTTPException as problem:
        codes = {404: "not_found", 405: "method_not_allowed"}
        refusal = Refusal(problem.status, codes.get(problem.status, "invalid_request"), problem.reason)
    except Exception as problem:  # noqa: BLE001 - the caller learns of it, the server goes on
        refusal = Refusal(500, "internal", describe(problem))
    headers: dict[str, str] = {}
    if refusal.retry_after is not None:
        headers["Retry-After"] = str(max(1, round(refusal.retry_after)))
    if refusal.status == 401:  # noqa: PLR2004 - which asks for the way to authorize
        headers["WWW-Authenticate"] = "Bearer"
    error = Problem(code=refusal.code, message=str(refusal))
    return _answer(refusal.status, ErrorAnswer(error=error, **dict(refusal.observations)), headers or None)
