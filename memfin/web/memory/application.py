"""The aiohttp application of the memory service: routes, middlewares, shared dependencies."""

from collections.abc import Callable, Iterable
from datetime import UTC, datetime

from aiohttp import hdrs, web

from memfin.hosting import HostCheck
from memfin.memory.access_tokens import TokenFile
from memfin.memory.reading import Skill
from memfin.memory.store import MemoryStore
from memfin.memory.telemetry import MemoryTelemetry
from memfin.web.memory.calls import ROUTES
from memfin.web.memory.endpoints import Dependencies
from memfin.web.memory.metering import metering
from memfin.web.memory.pages.application import pages_application
from memfin.web.memory.pages.rendering import PREFIX
from memfin.web.memory.pages.views import home
from memfin.web.memory.problems import Problem, json_problems, problem_answer
from memfin.web.memory.requests import MAX_BODY_BYTES
from memfin.web.memory.service import add_open_calls


def memory_application(  # noqa: PLR0913 - each of them stands alone
    store: MemoryStore,
    tokens: TokenFile,
    *,
    telemetry: MemoryTelemetry | None = None,
    host: str = "127.0.0.1",
    names: Iterable[str] = (),
    secure_cookies: bool = False,
    max_body_bytes: int = MAX_BODY_BYTES,
    skills: Iterable[Skill] = (),
    clock: Callable[[], datetime] = lambda: datetime.now(UTC),
) -> web.Application:
    """Return an aiohttp application that serves a memory store.

    Args:
        store: the served store; the caller closes it.
        tokens: the access tokens of users.
        telemetry: the store's counters, shown at ``/metrics``.
        host: the address that the application is going to listen on.
        names: further names under which it may be asked for, as behind a proxy.
        secure_cookies: True to have browsers send the cookies of the pages only through TLS, behind a proxy.
        max_body_bytes: bytes of a request's body, at most.
        skills: the skills of the host, to recommend.
        clock: for the sessions of the pages.
    """
    telemetry = telemetry or MemoryTelemetry()
    deps = Dependencies(store, tokens, tuple(skills))
    app = web.Application(
        client_max_size=max_body_bytes,
        middlewares=[
            metering(telemetry.registry),
            json_problems,
            HostCheck(host, names).middleware(Problem),
        ],
    )
    for route in ROUTES:
        app.router.add_route(
            route.method, route.path, deps.handler(route), name=route.name, expect_handler=_on_expect
        )
    add_open_calls(app, ROUTES, telemetry.registry)
    app.add_subapp(PREFIX, pages_application(deps, telemetry, clock, secure_cookies=secure_cookies))
    app.router.add_get("/", home, allow_head=False, name="root")
    return app


async def _on_expect(request: web.Request) -> web.StreamResponse | None:
    """Answer ``Expect: 100-continue``; refuse any other expectation."""
    if request.headers[hdrs.EXPECT].lower() != "100-continue":
        return problem_answer(Problem(417, "expectation_failed", "only 100-continue can be expected"))
    await request.writer.write(b"HTTP/1.1 100 Continue\r\n\r\n")
    request.writer.output_size = 0  # the answer has not begun
    return None
