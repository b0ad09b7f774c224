"""Metrics of calls by operation: counts and durations, without users, paths and content."""

import time
from collections.abc import Callable
from typing import Any, Final

from aiohttp import web
from prometheus_client import CollectorRegistry, Counter, Histogram

from memfin.hosting import Handler

BUCKETS: Final = (0.001, 0.0025, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1.0, 2.5, 5.0, 10.0)
"""Upper bounds of the histogram, in seconds."""


def metering(registry: CollectorRegistry, clock: Callable[[], float] = time.perf_counter) -> Any:
    """Return the middleware that counts; ``clock`` is monotonic, in seconds."""
    requests = Counter(
        "memfin_memory_http_requests",
        "Calls by operation and status",
        ["operation", "status"],
        registry=registry,
    )
    seconds = Histogram(
        "memfin_memory_http_request_seconds",
        "Duration of calls",
        ["operation"],
        buckets=BUCKETS,
        registry=registry,
    )

    @web.middleware
    async def middleware(request: web.Request, handler: Handler) -> web.StreamResponse:
        begun = clock()
        status = "cancelled"
        try:
            response = await handler(request)
            status = str(response.status)
        finally:
            operation = request.match_info.route.name or "none"
            requests.labels(operation, status).inc()
            seconds.labels(operation).observe(clock() - begun)
        return response

    return middleware
