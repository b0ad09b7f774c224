"""Open endpoints: health, counters and the OpenAPI description."""

from collections.abc import Sequence
from functools import cached_property

import msgspec
from aiohttp import web
from prometheus_client import CollectorRegistry

from memfin.hosting import metrics_answer
from memfin.version import __version__
from memfin.web.memory.bodies import Health
from memfin.web.memory.openapi import openapi_document
from memfin.web.memory.problems import json_answer
from memfin.web.memory.routes import Route


class OpenCalls:
    """The handlers of the calls that need no token."""

    def __init__(self, routes: Sequence[Route], registry: CollectorRegistry) -> None:
        self._registry = registry
        self._routes = routes

    @cached_property
    def _document(self) -> msgspec.Raw:
        """The OpenAPI document, made when it is first asked for."""
        return msgspec.Raw(msgspec.json.encode(openapi_document(self._routes)))

    def add_to(self, app: web.Application) -> None:
        """Add the handlers to an application."""
        for path, handler in (
            ("/healthz", self._health),
            ("/metrics", self._metrics),
            ("/openapi.json", self._openapi),
        ):
            app.router.add_get(path, handler, allow_head=False, name=path.strip("/").partition(".")[0])

    async def _health(self, request: web.Request) -> web.Response:
        del request
        return json_answer(200, Health(status="ok", version=__version__))

    async def _metrics(self, request: web.Request) -> web.Response:
        del request
        return metrics_answer(self._registry)

    async def _openapi(self, request: web.Request) -> web.Response:
        del request
        return json_answer(200, self._document)
