"""The aiohttp application of the labelling pages: routes, readers' names, forms of this server alone."""

from collections.abc import Callable
from typing import Any, Final
from urllib.parse import quote, unquote

from aiohttp import web

from memfin.hosting import Handler
from memfin.language import Language, marked, use_language
from memfin.web.label.views import LabelViews, Redirect, Shown, reader_name
from memfin.web.pages import Refusal, form_fields, language_of
from memfin.web.view.application import HEADERS, LANGUAGE_COOKIE, Pages, pages_application

READER_COOKIE: Final = "memfin_label_reader"
TOKEN_COOKIE: Final = "memfin_label"  # noqa: S105 - the name of a cookie
_YEAR: Final = 31_536_000

View = Callable[..., Shown | Redirect]


def label_application(
    views: LabelViews,
    *,
    host: str = "127.0.0.1",
    names: tuple[str, ...] = (),
    token: str | None = None,
    language: Language = "en",
) -> web.Application:
    """Return an aiohttp application with the pages on which a run is labelled.

    ``host`` is the address that it is going to listen on, ``names`` are further names under which it may be
    asked for. ``token`` is required of every visitor, None for none. ``language`` is that of visitors whose
    browser asks for no known one.
    """
    pages = _LabelPages(language, views.reader)
    app = pages_application(pages, host=host, names=names, token=token, cookie=TOKEN_COOKIE)
    app.router.add_get("/", pages.page(views.home, anonymous=True))
    app.router.add_post("/reader", pages.form(views.sign_in, anonymous=True))
    app.router.add_get("/next", pages.page(views.resume))
    app.router.add_post("/open", pages.form(views.open_turn))
    app.router.add_get("/agreement", pages.page(views.agreement))
    for kind, page, form in (
        ("turns", views.turn, views.save_turn),
        ("adjudicate", views.adjudication, views.adjudicate),
    ):
        path = f"/{kind}/{{dialog:[^/]+}}/{{turn:[0-9]{{1,9}}}}"
        app.router.add_get(path, pages.page(page))
        app.router.add_post(path, pages.form(form))
    return app


class _LabelPages(Pages):
    """Pages for readers who have given a name; forms are accepted from these pages only.

    A form needs no secret, which a restart of the server would invalidate: the browser names the page that
    sent it (Origin), and other sites' requests carry no cookie (SameSite).
    """

    def __init__(self, language: Language, reader: str | None) -> None:
        super().__init__(language)
        self._reader = reader

    def page(self, view: View, *, anonymous: bool = False) -> Handler:
        """Return the handler of a page; without a name a visitor is asked for one."""

        async def handle(request: web.Request) -> web.StreamResponse:
            reader = self._name(request)
            if not reader and not anonymous:
                return _see_other(Redirect("/"))
            return await self._run(self._shown, request, view, reader)

        return handle

    def form(self, view: View, *, anonymous: bool = False) -> Handler:
        """Return the handler of a form."""

        async def handle(request: web.Request) -> web.StreamResponse:
            origin = request.headers.get("Origin", "")
            if origin.partition("://")[2] != request.host:
                raise Refusal(403, "foreign_origin", marked("The form is from another site."))
            fields = await form_fields(request, Refusal)
            reader = self._name(request)
            if not reader and not anonymous:
                raise Refusal(403, "no_reader", marked("Give your name first, on the page of the run."))
            return await self._run(self._shown, request, view, reader, fields)

        return handle

    def _name(self, request: web.Request) -> str:
        return self._reader or reader_name(unquote(request.cookies.get(READER_COOKIE, ""))) or ""

    def _shown(self, request: web.Request, view: View, *given: Any) -> web.Response:
        with use_language(language_of(request, LANGUAGE_COOKIE, self._language)):
            answer = view(*given, **request.match_info)
            if isinstance(answer, Redirect):
                return _see_other(answer)
            return self._rendered(request, f"label/{answer.template}", answer.values, answer.status)


def _see_other(answer: Redirect) -> web.Response:
    response = web.Response(status=303, headers={**HEADERS, "Location": answer.path})
    if answer.reader is not None:
        cookie = quote(answer.reader, safe="")
        age = _YEAR if cookie else 0
        response.set_cookie(READER_COOKIE, cookie, httponly=True, samesite="Strict", max_age=age)
    return response
