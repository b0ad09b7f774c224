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
from jinja2 import Environment

from memfin.errors import MemfinError
from memfin.hosting import Handler, HostCheck
from memfin.language import Language, current_language, marked, tr, use_language
from memfin.report.render import environment
from memfin.text.lines import one_line, visible
from memfin.web.pages import language_of, page_headers, same
from memfin.web.view.views import Refusal, Views, not_found

HEADERS: Final = page_headers("script-src 'self'; style-src 'self'; img-src 'self'; form-action 'self'")
TOKEN_COOKIE: Final = "memfin_view"  # noqa: S105 - the name of a cookie
LANGUAGE_COOKIE: Final = "memfin_view_lang"
MAX_THREADS: Final = 4
"""Pages made at a time; further ones wait."""

_TEMPLATES: Final = files("memfin") / "data" / "templates"
_ASSETS: Final = {
    "style.css": ("text/css", ("report.css", "view/style.css")),
    "view.js": ("text/javascript", ("view/view.js",)),
    "label.css": ("text/css", ("view/label/label.css",)),
    "label.js": ("text/javascript", ("view/label/label.js",)),
    "icon.svg": ("image/svg+xml", ("view/icon.svg",)),
}
_YEAR: Final = 31_536_000

T = TypeVar("T")


def view_application(
    views: Views,
    *,
    host: str = "127.0.0.1",
    names: tuple[str, ...] = (),
    token: str | None = None,
    language: Language = "en",
) -> web.Application:
    """Return an aiohttp application with the pages of some runs.

    Args:
        views: the pages.
        host: the address that the application is going to listen on.
        names: further names under which it may be asked for, as behind a proxy.
        token: required of every visitor, None for none.
        language: of visitors whose browser asks for no known one.
    """
    pages = Pages(language)
    app = pages_application(pages, host=host, names=names, token=token)
    for path, view in (
        ("/", views.runs),
        ("/runs/{run}", views.run),
        ("/runs/{run}/turns", views.turns),
        ("/runs/{run}/dialogs/{dialog:[^/]+}", views.dialog),
    ):
        app.router.add_get(path, pages.handler(view))
    return app


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


class Pages:
    """Renders the templates in the visitor's language."""

    def __init__(self, language: Language) -> None:
        self._language: Language = language
        self._limiter: anyio.CapacityLimiter | None = None

    def handler(self, view: Callable[..., tuple[str, dict[str, Any]]]) -> Handler:
        """Return the handler of a page, which a thread makes."""

        async def handle(request: web.Request) -> web.StreamResponse:
            return await self._run(self._page, request, view)

        return handle

    async def _run(self, call: Callable[..., T], *args: Any) -> T:
        if self._limiter is None:
            self._limiter = anyio.CapacityLimiter(MAX_THREADS)
        return await anyio.to_thread.run_sync(call, *args, limiter=self._limiter)

    def _page(self, request: web.Request, view: Callable[..., tuple[str, dict[str, Any]]]) -> web.Response:
        with use_language(language_of(request, LANGUAGE_COOKIE, self._language)):
            template, values = view(request.query, **request.match_info)
            return self._rendered(request, template, values)

    def _rendered(
        self, request: web.Request, template: str, values: Mapping[str, Any], status: int = 200
    ) -> web.Response:
        query = {name: value for name, value in request.query.items() if name != "lang"}
        other = "en" if current_language() == "zh" else "zh"
        text = (
            _environment()
            .get_template(f"view/{template}.html.j2")
            .render(
                **values,
                other=other,
                other_address=_here(request, {**query, "lang": other}),
                quote=partial(quote, safe=""),
                flat=one_line,
            )
        )
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
            match problem:
                case web.HTTPNotFound():
                    status, words = 404, tr(str(not_found()))
                case Refusal():
                    status, words = problem.status, tr(str(problem))
                case web.HTTPException():
                    status, words = problem.status, problem.reason
                case _:
                    status, words = 500, one_line(str(problem), 500)
            response = self._rendered(request, "problem", {"words": words}, status)
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


def _here(request: web.Request, query: Mapping[str, str]) -> str:
    """Return the address of a request on this server with another query."""
    return f"/{str(request.rel_url.with_query(query)).lstrip('/')}"


async def _asset(request: web.Request) -> web.Response:
    name = request.path.removeprefix("/")
    return web.Response(text=_asset_text(name), content_type=_ASSETS[name][0], headers=HEADERS)


@cache
def _asset_text(name: str) -> str:
    return "\n".join((_TEMPLATES / part).read_text("utf-8") for part in _ASSETS[name][1])
