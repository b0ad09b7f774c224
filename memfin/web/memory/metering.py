"""Counts and times the service's calls, by operation; no user, no path and no content in it."""

import asyncio
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any, Final

from aiohttp import web
from prometheus_client import CollectorRegistry, Counter, Histogram

from memfin.web.memory.problems import Handler

BUCKETS: Final = (0.001, 0.0025, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1.0, 2.5, 5.0, 10.0)
"""Upper bounds of the histogram, in seconds."""


class Underway:
    """The calls that are under way; use it on the event loop alone."""

    def __init__(self) -> None:
        self._count = 0
        self._none = asyncio.Event()
        self._none.set()

    @contextmanager
    def one(self) -> Iterator[None]:
        """Count a call while it lasts."""
        self._count += 1
        self._none.clear()
        try:
            yield
        finally:
            self._count -= 1
            if not self._count:
                self._none.set()

    async def none(self) -> None:
        """Return when no call is under way."""
        await self._none.wait()


UNDERWAY: Final = web.AppKey("underway", Underway)
"""Where the application keeps them."""


def metering(
    registry: CollectorRegistry, underway: Underway, clock: Callable[[], float] = time.perf_counter
) -> Any:
    """Return the middleware that counts; ``clock`` is monotonic, in seconds."""
    requests = Counter(
        "memfin_memory_http_requests",
        "Calls by operation and status",
        ["operation", "status"],
        registry=registry,
    )
    seconds = Histogram(
        "memfin_memory_http_request_seconds",
        "How long calls took",
        ["operation"],
        buckets=BUCKETS,
        registry=registry,
    )

    @web.middleware
    async def middleware(request: web.Request, handler: Handler) -> web.StreamResponse:
        begun = clock()
        status = "cancelled"
        try:
            with underway.one():
                response = await handler(request)
            status = str(response.status)
        finally:
            operation = request.match_info.route.name or "none"
            requests.labels(operation, status).inc()
            seconds.labels(operation).observe(clock() - begun)
        return response

    return middleware
