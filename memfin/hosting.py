"""HTTP servers on aiohttp: checks of Host and Origin, limits of time and connections, shutdown by signals."""

import asyncio
import ipaddress
import os
import re
import resource
import signal
import sys
import threading
from collections.abc import AsyncIterator, Awaitable, Callable, Coroutine, Iterable
from contextlib import asynccontextmanager, nullcontext
from http import HTTPStatus
from typing import TYPE_CHECKING, Any, Final, cast

import anyio
from aiohttp import web

from memfin.errors import UsageError

if TYPE_CHECKING:
    import logging

    from prometheus_client import CollectorRegistry

Handler = Callable[[web.Request], Awaitable[web.StreamResponse]]

MAX_WAIT: Final = 10.0
"""Seconds for the head of a request, and for its body."""
LINGERING: Final = 2.0
"""Seconds for which the rest of a body is read after the answer, so that the caller receives it."""
MAX_CONNECTIONS: Final = 4096
"""Open connections; at most half of the descriptors of the process."""
MAX_HELD: Final = 64 * 1024 * 1024
"""Bytes of incomplete bodies of all callers together."""
SHUTDOWN_LIMIT: Final = 15.0
"""Seconds for requests in progress to end when the server stops."""

_BACKLOG: Final = 64
_SERVER_HEADER: Final = {"Server": "memfin"}
_HOST: Final = re.compile(r"(?P<name>\[[0-9A-Fa-f:.]+\]|[A-Za-z0-9._-]+)(?::[0-9]{1,5})?\Z")
_SCHEME: Final = re.compile(r"https?://", re.IGNORECASE)
_LOOPBACK: Final = frozenset({"localhost", "127.0.0.1", "[::1]"})


def is_loopback(host: str) -> bool:
    """Return True if an address can be reached only from this machine."""
    if host == "localhost":
        return True
    try:
        return ipaddress.ip_address(host).is_loopback
    except ValueError:
        return False


class HostCheck:
    """Check of the Host and Origin headers of requests, against DNS rebinding.

    Allowed are the names of loopback for a server on loopback, otherwise its address, or any literal
    address if it listens on all; and the names that the operator adds.
    """

    def __init__(self, bound: str, names: Iterable[str] = ()) -> None:
        """Take the listening address and further names, without ports."""
        own = f"[{bound}]" if ":" in bound else bound
        self._names = frozenset(name.lower() for name in (own, *names)) | (
            _LOOPBACK if is_loopback(bound) else frozenset()
        )
        self._any_literal = bound in {"0.0.0.0", "::"}  # noqa: S104 - it is only compared

    def allows(self, header: str) -> bool:
        """Return True if a Host header, with or without port, names this server."""
        form = _HOST.match(header)
        if form is None:
            return False
        name = form["name"].lower()
        return name in self._names or (self._any_literal and _is_literal(name))

    def allows_origin(self, header: str) -> bool:
        """Return True if an Origin header names this server."""
        scheme = _SCHEME.match(header)
        return scheme is not None and self.allows(header[scheme.end() :])

    def middleware(self, refusal: Callable[[int, str, str], Exception]) -> Any:
        """Return a middleware that raises ``refusal(status, code, message)`` for another Host or Origin."""

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


class _Bodies:
    """The bodies being read, oldest first."""

    def __init__(self) -> None:
        self._sizes: dict[asyncio.Timeout, int] = {}
        self._total = 0

    def hold(self, reading: asyncio.Timeout, size: int) -> None:
        """Set the size of a body so far; the oldest others time out if the total exceeds the limit."""
        self._total += size - self._sizes.get(reading, 0)
        self._sizes[reading] = size
        while self._total > MAX_HELD and (oldest := next(iter(self._sizes))) is not reading:
            self.release(oldest)
            if not oldest.expired():
                oldest.reschedule(0)

    def release(self, reading: asyncio.Timeout) -> None:
        """Remove a body."""
        self._total -= self._sizes.pop(reading, 0)


_BODIES: Final = web.AppKey("bodies", _Bodies)


async def read_body(request: web.Request) -> bytearray:
    """Return the body of a request, within the limits of time, size and total size.

    Raises:
        HTTPRequestEntityTooLarge: it is larger than ``client_max_size`` of the application.
        HTTPRequestTimeout: it took too long, or newer ones needed its space.
    """
    bodies = request.config_dict.get(_BODIES) or _Bodies()
    body = bytearray()
    reading = asyncio.timeout(MAX_WAIT)
    try:
        async with reading:
            async for chunk in request.content.iter_any():
                body += chunk
                if 0 < request.client_max_size < len(body):
                    raise web.HTTPRequestEntityTooLarge(request.client_max_size, len(body))
                bodies.hold(reading, len(body))
    except TimeoutError:
        raise web.HTTPRequestTimeout(reason="the body did not come in time") from None
    finally:
        bodies.release(reading)
    return body


class _Connections:
    """The open connections of a server, oldest first, and their requests in progress."""

    def __init__(self) -> None:
        self._open: dict[_Connection, None] = {}
        self._requests: dict[object, web.Request] = {}
        self._none = asyncio.Event()
        self._none.set()

    @web.middleware
    async def middleware(self, request: web.Request, handler: Handler) -> web.StreamResponse:
        self._requests[request.protocol] = request
        self._none.clear()
        try:
            return await handler(request)
        finally:
            del self._requests[request.protocol]
            if not self._requests:
                self._none.set()

    async def no_request(self) -> None:
        """Wait until no request is in progress."""
        await self._none.wait()

    def admit(self, connection: "_Connection") -> bool:
        """Accept a connection; at the limit, the oldest one without a complete request is closed for it."""
        descriptors = resource.getrlimit(resource.RLIMIT_NOFILE)[0]
        limit = MAX_CONNECTIONS if descriptors < 0 else min(MAX_CONNECTIONS, descriptors // 2)
        if len(self._open) >= limit:
            oldest = next((each for each in self._open if not self._is_served(each)), None)
            if oldest is None:
                return False
            self.release(oldest)  # at once: others may come before its end is noticed
            oldest.abort()
        self._open[connection] = None
        return True

    def release(self, connection: "_Connection") -> None:
        """Remove a connection."""
        self._open.pop(connection, None)

    def _is_served(self, connection: "_Connection") -> bool:
        request = self._requests.get(connection)
        return request is not None and request.content.is_eof()


class _Connection(web.RequestHandler):
    """A counted connection that never repeats invalid input in answers or logs."""

    __slots__ = ("_connections", "_wire")

    def __init__(self, server: web.Server, connections: _Connections) -> None:
        super().__init__(
            server,
            loop=asyncio.get_running_loop(),
            access_log=cast("logging.Logger", None),  # aiohttp accepts None
            keepalive_timeout=MAX_WAIT,  # also from the beginning until the first head
            lingering_time=LINGERING,
        )
        self._connections = connections

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        self._wire = cast("asyncio.Transport", transport)
        if self._connections.admit(self):
            super().connection_made(transport)
        else:
            self.abort()

    def connection_lost(self, exc: BaseException | None) -> None:
        self._connections.release(self)
        super().connection_lost(exc)

    def abort(self) -> None:
        """Close the connection and drop unsent data."""
        self.force_close()
        self._wire.abort()

    def handle_error(
        self,
        request: web.BaseRequest,
        status: int = 500,
        exc: BaseException | None = None,
        message: str | None = None,
    ) -> web.StreamResponse:
        """Answer errors outside the application, without the input, which may contain a token."""
        del message
        if status >= HTTPStatus.INTERNAL_SERVER_ERROR:
            self.log_exception("internal error: %s", type(exc).__name__)
        if request.writer.output_size > 0:
            raise ConnectionError("the answer has begun")
        response = web.Response(
            status=status, text=f"{status} {HTTPStatus(status).phrase}", headers=_SERVER_HEADER
        )
        response.force_close()
        return response

    def log_exception(self, *args: Any, **kw: Any) -> None:
        """Log without the exception, which may quote the input."""
        del kw
        self.logger.error(*args)


@asynccontextmanager
async def listening(
    app: web.Application, what: str, host: str, port: int, *, drained: bool = False
) -> AsyncIterator[str]:
    """Serve an application within the limits of this module; yields its URL.

    Args:
        app: the application.
        what: name of the server in messages.
        host: address to listen on.
        port: port to listen on; 0 takes a free one.
        drained: answer requests in progress before the application is shut down.

    Raises:
        UsageError: the address cannot be listened on.
    """
    connections = _Connections()
    app[_BODIES] = _Bodies()
    app.middlewares.insert(0, connections.middleware)
    app.on_response_prepare.append(_unnamed)
    runner = web.AppRunner(app, shutdown_timeout=SHUTDOWN_LIMIT)
    await runner.setup()
    try:
        server = cast("web.Server", runner.server)  # which it has from its setup on
        try:
            listener = await asyncio.get_running_loop().create_server(
                lambda: _Connection(server, connections), host, port, backlog=_BACKLOG
            )
        except OSError as problem:
            # asyncio's own words repeat the address
            number = problem.errno or 0
            reason = os.strerror(number) if number > 0 else problem.strerror or problem
            raise UsageError(f"{what} server on {host}:{port}: {reason}") from problem
        address, actual = listener.sockets[0].getsockname()[:2]
        try:
            yield f"http://[{address}]:{actual}" if ":" in address else f"http://{address}:{actual}"
        finally:
            listener.close()
            if drained:  # aiohttp's own shutdown stops reading bodies
                with anyio.move_on_after(SHUTDOWN_LIMIT, shield=True):
                    await connections.no_request()
    finally:
        with anyio.CancelScope(shield=True):
            await runner.cleanup()


async def _unnamed(request: web.Request, response: web.StreamResponse) -> None:
    """Hide the versions of Python and aiohttp."""
    del request
    response.headers.update(_SERVER_HEADER)


def metrics_answer(registry: "CollectorRegistry") -> web.Response:
    """Return the counters of a registry in Prometheus format."""
    from prometheus_client.exposition import (  # noqa: PLC0415 - few servers have counters
        CONTENT_TYPE_LATEST,
        generate_latest,
    )

    return web.Response(
        body=generate_latest(registry),
        headers={
            "Content-Type": CONTENT_TYPE_LATEST,
            "Cache-Control": "no-store",
            "X-Content-Type-Options": "nosniff",
        },
    )


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
    """Serve an application until SIGINT or SIGTERM; print one line with the address when ready.

    Outside the main thread, which gets no signals, it serves for ever.

    Args:
        app: the application.
        what: name of the server in messages.
        host: address to listen on.
        port: port to listen on; 0 takes a free one, which the line names.
        path: added to the address in the line.
        beside: runs meanwhile, and is cancelled at the end.
        options: those of `listening`.

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
