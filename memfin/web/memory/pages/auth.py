"""Authentication of the pages: cookies, sessions, and forms protected against forgery (CSRF)."""

import hmac
import secrets
from collections.abc import Awaitable, Callable, Mapping
from typing import Final

from aiohttp import web
from yarl import URL

from memfin.hosting import Handler
from memfin.web.memory.endpoints import Dependencies
from memfin.web.memory.pages.rendering import FORM_FIELD, HEADERS, PREFIX, page, problem_text
from memfin.web.memory.pages.sessions import MAX_AGE, Session, Sessions
from memfin.web.memory.problems import Problem, problem_of
from memfin.web.pages import form_fields, fresh_secret, same

SESSION_COOKIE: Final = "memfin_session"
FORM_COOKIE: Final = "memfin_form"
_SIGN_IN: Final = f"{PREFIX}/sign-in"

Form = Mapping[str, str]
View = Callable[[web.Request, Session], Awaitable[web.StreamResponse]]
FormView = Callable[[web.Request, Session, Form], Awaitable[web.StreamResponse]]


class Auth:
    """Signing in with an access token, and out again.

    With ``secure`` the cookies are for TLS and this very host alone, which their names have browsers check.
    """

    def __init__(self, deps: Dependencies, sessions: Sessions, *, secure: bool = False) -> None:
        self._deps = deps
        self._sessions = sessions
        self._secure = secure
        self._key = secrets.token_bytes(32)
        self._path = "/" if secure else PREFIX
        prefix = "__Host-" if secure else ""
        self._session_cookie = f"{prefix}{SESSION_COOKIE}"
        self._form_cookie = f"{prefix}{FORM_COOKIE}"

    def view(self, view: View) -> Handler:
        """Return the handler of a page for people who are signed in."""

        async def handle(request: web.Request) -> web.StreamResponse:
            session = await self._session(request)
            return see_other(_SIGN_IN) if session is None else await view(request, session)

        return handle

    def form(self, view: FormView) -> Handler:
        """Return the handler of a form of such a page."""

        async def read(request: web.Request, session: Session) -> web.StreamResponse:
            return await view(request, session, await read_form(request, session.form_secret))

        return self.view(read)

    async def sign_in_page(self, request: web.Request) -> web.StreamResponse:
        """Ask for the access token."""
        if await self._session(request) is not None:
            return see_other(f"{PREFIX}/settings")
        return self._asking(request)

    async def sign_in(self, request: web.Request) -> web.StreamResponse:
        """Begin a session for the person of a token."""
        form = await read_form(request, self._sign_in_secret(request.cookies.get(self._form_cookie, "")))
        token = form.get("token", "").strip()
        user_id = await self._deps.do(self._deps.tokens.user_of, token)
        if user_id is None:
            return self._asking(request, wrong=True)
        key = self._sessions.begin(user_id, token.split("_")[1])
        newcomer = (await self._deps.do(self._deps.store.consent_on_file, user_id)).data is None
        response = see_other(f"{PREFIX}/{'consent' if newcomer else 'settings'}")
        self._set(request, response, self._session_cookie, key)
        self._set(request, response, self._form_cookie, "")
        return response

    async def sign_out(self, request: web.Request, _: Session, __: Form) -> web.StreamResponse:
        """End the session."""
        return self.leave(request, see_other(_SIGN_IN))

    def leave(self, request: web.Request, response: web.Response) -> web.Response:
        """End the session with a response."""
        self._sessions.end(request.cookies[self._session_cookie])
        self._set(request, response, self._session_cookie, "")
        return response

    async def _session(self, request: web.Request) -> Session | None:
        """Return the session of a visitor; a revoked token ends it."""
        key = request.cookies.get(self._session_cookie, "")
        session = self._sessions.find(key)
        if session is not None and not await self._deps.do(self._deps.tokens.holds, session.token_id):
            self._sessions.end(key)
            return None
        return session

    def _asking(self, request: web.Request, *, wrong: bool = False) -> web.Response:
        cookie = fresh_secret()
        words = problem_text(request, "unknown_token") if wrong else None
        response = page(
            request,
            "sign_in",
            status=401 if wrong else 200,
            form_secret=self._sign_in_secret(cookie),
            problem=words,
        )
        self._set(request, response, self._form_cookie, cookie)
        return response

    def _sign_in_secret(self, cookie: str) -> str:
        """Return the form secret that belongs to a cookie, which cannot be computed from it."""
        return hmac.digest(self._key, cookie.encode("utf-8", "surrogateescape"), "sha256").hex()

    def _set(self, request: web.Request, response: web.Response, name: str, value: str) -> None:
        """Set a cookie, or delete it if the value is empty."""
        response.set_cookie(
            name,
            value,
            path=self._path,
            httponly=True,
            samesite="Strict",
            secure=self._secure or request.secure,
            max_age=int(MAX_AGE.total_seconds()) if value else 0,
        )


async def read_form(request: web.Request, secret: str) -> dict[str, str]:
    """Return the fields of a form.

    Raises:
        Problem: it carries another secret, comes from another site, or is not a plain form.
    """
    form = dict(await form_fields(request, Problem))
    if not same(form.get(FORM_FIELD, ""), secret):
        raise Problem(403, "form_expired", "the form is too old")
    return form


def see_other(path: str) -> web.Response:
    """Return a redirect to another page (303)."""
    return web.Response(status=303, headers={**HEADERS, "Location": str(URL(path))})


@web.middleware
async def page_problems(request: web.Request, handler: Handler) -> web.StreamResponse:
    """Answer errors on pages with a page."""
    try:
        return await handler(request)
    except Exception as failure:  # noqa: BLE001 - the visitor learns of it, the service goes on
        problem = problem_of(failure)
        response = page(
            request, "problem", status=problem.status, problem=problem_text(request, problem.code)
        )
        response.headers.update(problem.headers)
        return response
