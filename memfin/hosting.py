"""HTTP servers on aiohttp: who may ask, limits of time and connections, running until a signal."""

import asyncio
import ipaddress
import logging
import re
import resource
import signal
import sys
import threading
from collections.abc import AsyncIterator, Awaitable, Callable, Coroutine, Iterable
from contextlib import asynccontextmanager, nullcontext
from typing import Any, Final, cast

import anyio
from aiohttp import web

from memfin.errors import UsageError

Handler = Callable[[web.Request], Awaitable[web.StreamResponse]]

LONGEST_WAIT: Final = 10.0
"""Seconds in which the head of a request has to be there, and in which its body has to."""
LINGERING: Final = 2.0
"""Seconds in which what is left of a body is read after the answer, so that the caller gets to see that."""
MOST_CONNECTIONS: Final = 4096
"""Connections at a time; no more than half of the descriptors that the process may have."""
SHUTDOWN_LIMIT: Final = 15.0
"""Seconds that requests under way have to end when the server stops."""

_BACKLOG: Final = 64
_HOST: Final = re.compile(r"(?P<name>\[[0-9A-Fa-f:.]+\]|[A-Za-z0-9._-]+)(?::[0-9]{1,5})?\Z")
_SCHEME: Final = re.compile(r"https?://", re.IGNORECASE)
_LOOPBACK: Final = frozenset({"localhost", "127.0.0.1", "[::1]"})


def is_loopback(host: str) -> bool:
    """Say whether an address to listen on can be reached from this machine alone."""
    if host == "localhost":
        return True
    try:
        return ipaddress.ip_address(host).is_loopback
    except ValueError:
        return False


class HostCheck:
    """Knows the names under which a server may be asked for, and from whose pages.

    On loopback these are those of loopback. On another address it is the address itself, or any literal
    address when the server listens on all: a name of somebody else's that resolves to this machine, as
    in DNS rebinding, is none of them. Further names are given by whoever runs the server.
    """

    def __init__(self, bound: str, names: Iterable[str] = ()) -> None:
        """Take the address that is listened on, and further names, with or without brackets, no port."""
        own = f"[{bound}]" if ":" in bound else bound
        self._names = frozenset(name.lower() for name in (own, *names)) | (
            _LOOPBACK if is_loopback(bound) else frozenset()
        )
        self._any_literal = bound in {"0.0.0.0", "::"}  # noqa: S104 - it is only compared

    def allows(self, header: str) -> bool:
        """Say whether a Host header, port or not, names this server."""
        form = _HOST.match(header)
        if form is None:
            return False
        name = form["name"].lower()
        return name in self._names or (self._any_literal and _is_literal(name))

    def allows_origin(self, header: str) -> bool:
        """Say whether an Origin header is of a page of this server."""
        scheme = _SCHEME.match(header)
        return scheme is not None and self.allows(header[scheme.end() :])

    def middleware(self, refusal: Callable[[int, str, str], Exception]) -> Any:
        """Raise what ``refusal`` makes of status, code and message for a foreign Host or Origin."""

        @web.middleware
        async def host_check(request: web.Request, handler: Handler) -> web.StreamResponse:
            hosts = request.headers.getall("Host", [])
            # a request line with a whole URL has a host of its own
            if len(hosts) != 1 or not self.allows(hosts[0]) or not self.allows(request.host):
                raise refusal(
                    421, "unknown_host", "the server is not known by this Host; allow it when you start it"
                )
            if not all(map(self.allows_origin, request.headers.getall("Origin", []))):
                raise refusal(403, "foreign_origin", "the request comes from a page of another Origin")
            return await handler(request)

        return host_check


def _is_literal(name: str) -> bool:
    try:
        ipaddress.ip_address(name.strip("[]"))
    except ValueError:
        return False
    return True


@asynccontextmanager
async def body_in_time() -> AsyncIterator[None]:
    """Raise `web.HTTPRequestTimeout` when reading a body takes too long."""
    try:
        async with asyncio.timeout(LONGEST_WAIT):
            yield
    except TimeoutError:
        raise web.HTTPRequestTimeout(reason="the body did not come in time") from None


class _Calls:
    """The requests under way; connections without one make room when there are too many."""

    def __init__(self) -> None:
        self._busy: set[object] = set()
        self._none = asyncio.Event()
        self._none.set()

    @web.middleware
    async def middleware(self, request: web.Request, handler: Handler) -> web.StreamResponse:
        self._busy.add(request.protocol)
        self._none.clear()
        try:
            return await handler(request)
        finally:
            self._busy.discard(request.protocol)
            if not self._busy:
                self._none.set()

    async def none(self) -> None:
        """Return when no request is under way."""
        await self._none.wait()

    def has_room(self, server: web.Server) -> bool:
        """Say whether there may be one more connection.

        Where there are too many, the oldest without a request makes room: whoever sends one at once is heard.
        """
        descriptors = resource.getrlimit(resource.RLIMIT_NOFILE)[0]
        connections = server.connections
        if len(connections) < (
            MOST_CONNECTIONS if descriptors < 0 else min(MOST_CONNECTIONS, descriptors // 2)
        ):
            return True
        oldest = next((each for each in connections if each not in self._busy), None)
        if oldest is not None:
            oldest.force_close()
        return oldest is not None


class _Refused(asyncio.Protocol):
    """A connection that is closed at once."""

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        transport.close()


@asynccontextmanager
async def listening(
    app: web.Application,
    what: str,
    host: str,
    port: int,
    *,
    drained: bool = False,
    logger: logging.Logger | None = None,
) -> AsyncIterator[str]:
    """Serve an application within the limits of this module; yields its URL.

    Args:
        app: what is served.
        what: names the server in messages.
        host: address to listen on.
        port: port to listen on; 0 takes a free one.
        drained: whether requests under way are answered before the application is shut down.
        logger: for what aiohttp has to tell.

    Raises:
        UsageError: the address cannot be listened on.
    """
    calls = _Calls()
    app.middlewares.insert(0, calls.middleware)
    app.on_response_prepare.append(_unnamed)
    runner = web.AppRunner(
        app,
        access_log=None,
        logger=logger or logging.getLogger("aiohttp.server"),
        keepalive_timeout=LONGEST_WAIT,  # runs from the connection's begin, too, until there is a whole head
        lingering_time=LINGERING,
        shutdown_timeout=SHUTDOWN_LIMIT,
    )
    await runner.setup()
    try:
        server = cast("web.Server", runner.server)  # which it has from its setup on

        def connection() -> asyncio.Protocol:
            return server() if calls.has_room(server) else _Refused()

        try:
            listener = await asyncio.get_running_loop().create_server(
                connection, host, port, backlog=_BACKLOG
            )
        except OSError as problem:
            raise UsageError(f"{what} server on {host}:{port}: {problem.strerror or problem}") from problem
        address, actual = listener.sockets[0].getsockname()[:2]
        try:
            yield f"http://[{address}]:{actual}" if ":" in address else f"http://{address}:{actual}"
        finally:
            listener.close()
            if drained:  # aiohttp's own shutdown reads no more of a body that is still coming
                with anyio.move_on_after(SHUTDOWN_LIMIT, shield=True):
                    await calls.none()
    finally:
        with anyio.CancelScope(shield=True):
            await runner.cleanup()


async def _unnamed(request: web.Request, response: web.StreamResponse) -> None:
    """Leave out which releases of Python and aiohttp answer."""
    del request
    response.headers["Server"] = "memfin"


async def run(
    app: web.Application,
    what: str,
    host: str,
    port: int,
    *,
    path: str = "",
    beside: Callable[[], Coroutine[Any, Any, object]] = anyio.sleep_forever,
    **options: Any,
) -> None:
    """Serve an application until SIGINT or SIGTERM; prints one line with the address when it is ready.

    Outside the main thread, where Python hands out no signals, it serves for ever.

    Args:
        app: what is served.
        what: names the server in messages.
        host: address to listen on.
        port: port to listen on; 0 takes a free one, which the line names.
        path: what the line adds to the address.
        beside: runs meanwhile, and is cancelled.
        options: of `listening`.

    Raises:
        UsageError: the address cannot be listened on.
    """
    in_main = threading.current_thread() is threading.main_thread()
    with anyio.open_signal_receiver(signal.SIGINT, signal.SIGTERM) if in_main else nullcontext() as signals:
        async with listening(app, what, host, port, **options) as url:
            sys.stdout.write(f"memfin {what} server: {url}{path}\n")
            sys.stdout.flush()
            async with anyio.create_task_group() as tasks:
                tasks.start_soon(beside)
                if signals is None:
                    await anyio.sleep_forever()
                else:
                    await anext(aiter(signals))
                tasks.cancel_scope.cancel()
