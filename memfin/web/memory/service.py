"""Open endpoints: health, counters and the OpenAPI description."""

from collections.abc import Sequence
from functools import cache

import msgspec
from aiohttp import web
from prometheus_client import CollectorRegistry

from memfin.hosting import metrics_answer
from memfin.version import __version__
from memfin.web.memory.bodies import Health
from memfin.web.memory.openapi import openapi_document
from memfin.web.memory.problems import json_answer
from memfin.web.memory.routes import Route


def add_open_calls(app: web.Application, routes: Sequence[Route], registry: CollectorRegistry) -> None:
    """Add the calls that need no token to an application."""

    @cache
    def document() -> msgspec.Raw:  # made when it is first asked for
        return msgspec.Raw(msgspec.json.encode(openapi_document(routes)))

    async def healthz(_: web.Request) -> web.Response:
        return json_answer(200, Health(status="ok", version=__version__))

    async def metrics(_: web.Request) -> web.Response:
        return metrics_answer(registry)

    async def openapi(_: web.Request) -> web.Response:
        return json_answer(200, document())

    for path, handler in (("/healthz", healthz), ("/metrics", metrics), ("/openapi.json", openapi)):
        app.router.add_get(path, handler, allow_head=False, name=handler.__name__)
