"""The aiohttp application of the viewer: routes, access, and pages made in worker threads."""

import hashlib
import hmac
import secrets
import sqlite3
from collections.abc import Callable, Mapping
from functools import cache, partial
from importlib.resources import files
from typing import Any, Final, TypeVar
from urllib.parse import quote

import anyio
import anyio.to_thread
from aiohttp import web
from jinja2 import Environment, Template

from memfin.errors import MemfinError
from memfin.hosting import Handler, HostCheck
from memfin.language import Language, current_language, marked, tr, use_language
from memfin.report.render import environment
from memfin.text.lines import one_line, visible
from memfin.web.pages import Refusal, language_of, not_found, page_headers, same
from memfin.web.view.beside import Beside
from memfin.web.view.filters import Page
from memfin.web.view.live import Snapshot, Streams
from memfin.web.view.views import Views

HEADERS: Final = page_headers(
    "script-src 'self'; style-src 'self'; img-src 'self'; connect-src 'self'; form-action 'self'"
)
TOKEN_COOKIE: Final = "memfin_view"  # noqa: S105 - the name of a cookie
LANGUAGE_COOKIE: Final = "memfin_view_lang"
MAX_THREADS: Final = 4
"""Pages made at a time; further ones wait."""

_TEMPLATES: Final = files("memfin") / "data" / "templates"
_ASSETS: Final = {
    "style.css": ("text/css", ("report.css", "view/style.css", "view/live.css")),
    "view.js": ("text/javascript", ("view/view.js",)),
    "htmx.js": ("text/javascript", ("view/vendor/htmx.min.js", "view/vendor/hx-sse.min.js")),
    "label.css": ("text/css", ("view/label/label.css",)),
    "label.js": ("text/javascript", ("view/label/label.js",)),
    "icon.svg": ("image/svg+xml", ("view/icon.svg",)),
}
ASSETS: Final = frozenset(_ASSETS)
"""Names of the files that pages use."""
_YEAR: Final = 31_536_000
_FUNCTIONS: Final = {"quote": partial(quote, safe=""), "flat": one_line}

T = TypeVar("T")

View = Callable[..., Page]
"""Makes a page of a query and the fields of a path."""


def view_application(
    views: Views,
    *,
    host: str = "127.0.0.1",
    names: tuple[str, ...] = (),
    token: str | None = None,
    language: Language = "en",
) -> web.Application:
    """Return an aiohttp application with the pages of some runs.

    ``host`` is the address that it will listen on, ``names`` are further host names, as behind a proxy,
    ``token`` is required of every visitor, ``language`` is for browsers that ask for no known one.
    """
    pages = Pages(language)
    app = pages_application(pages, host=host, names=names, token=token)
    for path, view in page_routes(views):
        app.router.add_get(path, pages.handler(view))
    streams = Streams()
    app.on_shutdown.append(streams.stop)
    app.router.add_get("/runs/{run}/events", pages.events(streams, views))
    return app


def page_routes(views: Views) -> tuple[tuple[str, View], ...]:
    """Return the paths of the pages with their views; the static export follows them too."""
    beside = Beside(*views.sources)
    return (
        ("/", views.runs),
        ("/runs/{run}", views.run),
        ("/runs/{run}/turns", views.turns),
        ("/runs/{run}/dialogs/{dialog:[^/]+}", views.dialog),
        ("/compare", beside.overview),
        ("/compare/dialogs/{dialog:[^/]+}", beside.dialog),
    )


def pages_application(
    pages: "Pages", *, host: str, names: tuple[str, ...], token: str | None, cookie: str = TOKEN_COOKIE
) -> web.Application:
    """Return an application with the checks of access and the assets of pages, and no page yet.

    ``cookie`` is the name of the one that holds the token.
    """
    checks = [pages.problems, HostCheck(host, names).middleware(Refusal)]
    app = web.Application(middlewares=checks if token is None else [*checks, _token_check(token, cookie)])
    for name in _ASSETS:
        app.router.add_get(f"/{name}", _asset)
    return app


def render(template: str, values: Mapping[str, Any], other_address: str | None) -> str:
    """Return a page in the current language.

    ``other_address`` is its address in the other language; None makes a page that needs no server, for which
    templates have the flag ``static``.
    """
    return _template(template).render(
        **values,
        **_FUNCTIONS,
        static=other_address is None,
        other=other_language(),
        other_address=other_address,
    )


def other_language() -> Language:
    """Return the language that a page is not in."""
    return "en" if current_language() == "zh" else "zh"


def problem_words(problem: Exception) -> str:
    """Return the text of the page of a failure."""
    match problem:
        case web.HTTPNotFound():
            return tr(str(not_found()))
        case Refusal():
            return tr(str(problem))
        case web.HTTPException():
            return problem.reason
        case _:
            return one_line(str(problem), 500)


class Pages:
    """Renders the templates in the visitor's language."""

    def __init__(self, language: Language) -> None:
        self._language: Language = language
        self._limiter: anyio.CapacityLimiter | None = None

    def handler(self, view: View) -> Handler:
        """Return the handler of a page, which a thread makes."""

        async def handle(request: web.Request) -> web.StreamResponse:
            return await self._run(self._page, request, view)

        return handle

    def events(self, streams: Streams, views: Views) -> Handler:
        """Return the handler of the events of a run that goes on."""

        async def handle(request: web.Request) -> web.StreamResponse:
            run = request.match_info["run"]

            async def read() -> Snapshot | None:
                return await self._run(views.live_state, run)

            async def render() -> str:
                return await self._run(self._fragment, request, views.live_part, run)

            await render()  # an address without a run is answered with a page
            return await streams.send(request, read, render, HEADERS)

        return handle

    async def _run(self, call: Callable[..., T], *args: Any) -> T:
        if self._limiter is None:
            self._limiter = anyio.CapacityLimiter(MAX_THREADS)
        return await anyio.to_thread.run_sync(call, *args, limiter=self._limiter)

    def _fragment(self, request: web.Request, view: View, run: str) -> str:
        with use_language(language_of(request, LANGUAGE_COOKIE, self._language)):
            return render(*view(request.query, run), None)

    def _page(self, request: web.Request, view: View) -> web.Response:
        with use_language(language_of(request, LANGUAGE_COOKIE, self._language)):
            return self._rendered(request, *view(request.query, **request.match_info))

    def _rendered(
        self, request: web.Request, template: str, values: Mapping[str, Any], status: int = 200
    ) -> web.Response:
        text = render(template, values, _here(request, {**request.query, "lang": other_language()}))
        response = web.Response(text=text, status=status, content_type="text/html", headers=HEADERS)
        if (asked := request.query.get("lang")) in ("en", "zh"):
            response.set_cookie(LANGUAGE_COOKIE, asked, httponly=True, samesite="Strict", max_age=_YEAR)
        return response

    @property
    def problems(self) -> Any:
        """The middleware that answers every failure with a page."""

        @web.middleware
        async def middleware(request: web.Request, handler: Handler) -> web.StreamResponse:
            try:
                return await handler(request)
            except (Refusal, web.HTTPException, MemfinError, OSError, sqlite3.Error) as problem:
                return self._problem(request, problem)

        return middleware

    def _problem(self, request: web.Request, problem: Exception) -> web.Response:
        with use_language(language_of(request, LANGUAGE_COOKIE, self._language)):
            status = problem.status if isinstance(problem, Refusal | web.HTTPException) else 500
            response = self._rendered(request, "problem", {"words": problem_words(problem)}, status)
        if isinstance(problem, web.HTTPMethodNotAllowed):
            response.headers["Allow"] = problem.headers["Allow"]
        return response


def _token_check(token: str, name: str) -> Any:
    """Return the middleware that asks for a token, once in the address and then in a cookie."""
    cookie = hmac.digest(secrets.token_bytes(32), token.encode(), hashlib.sha256).hex()

    @web.middleware
    async def middleware(request: web.Request, handler: Handler) -> web.StreamResponse:
        if same(request.query.get("token", ""), token):
            query = {name: value for name, value in request.query.items() if name != "token"}
            response = web.Response(status=303, headers={**HEADERS, "Location": _here(request, query)})
            response.set_cookie(name, cookie, httponly=True, samesite="Strict", secure=request.secure)
            return response
        bearer = request.headers.get("Authorization", "").removeprefix("Bearer ").strip()
        if not (same(request.cookies.get(name, ""), cookie) or same(bearer, token)):
            raise Refusal(
                401, "unauthorized", marked("Open the address with the token that the command printed.")
            )
        return await handler(request)

    return middleware


@cache
def _environment() -> Environment:
    """Return the templates' environment, in which texts are escaped, invisible characters too."""
    return environment().overlay(finalize=lambda value: visible(value) if type(value) is str else value)


def _template(name: str) -> Template:
    return _environment().get_template(f"view/{name}.html.j2")


def _here(request: web.Request, query: Mapping[str, str]) -> str:
    """Return the address of a request on this server with another query."""
    return f"/{str(request.rel_url.with_query(query)).lstrip('/')}"


async def _asset(request: web.Request) -> web.Response:
    name = request.path.removeprefix("/")
    return web.Response(text=asset_text(name), content_type=_ASSETS[name][0], headers=HEADERS)


@cache
def asset_text(name: str) -> str:
    """Return the text of a style sheet, script or icon of `ASSETS`."""
    return "\n".join((_TEMPLATES / part).read_text("utf-8") for part in _ASSETS[name][1])
