"""The application of the pages, mounted by the service at their prefix."""

from collections.abc import Callable
from datetime import datetime

from aiohttp import web

from memfin.memory.telemetry import MemoryTelemetry
from memfin.web.memory.endpoints import Dependencies
from memfin.web.memory.pages.auth import Auth, page_problems
from memfin.web.memory.pages.sessions import Sessions
from memfin.web.memory.pages.views import Views


def pages_application(
    deps: Dependencies, telemetry: MemoryTelemetry, clock: Callable[[], datetime], *, secure_cookies: bool
) -> web.Application:
    """Return the pages as an application."""
    app = web.Application(middlewares=[page_problems])
    auth = Auth(deps, Sessions(clock), secure=secure_cookies)
    views = Views(deps, telemetry)
    for path, name, handler in (
        ("/", "homePage", views.home),
        ("/style.css", "styleSheet", views.style),
        ("/sign-in", "signInPage", auth.sign_in_page),
        ("/consent", "consentPage", auth.view(views.consent)),
        ("/settings", "settingsPage", auth.view(views.settings)),
        ("/export", "exportPage", auth.view(views.export)),
    ):
        app.router.add_route("GET", path, handler, name=name)
    for path, name, handler in (
        ("/sign-in", "signIn", auth.sign_in),
        ("/sign-out", "signOut", auth.form(auth.sign_out)),
        ("/consent", "grantForm", auth.form(views.grant)),
        ("/preferences/{name}", "changeForm", auth.form(views.change)),
        ("/preferences/{name}/delete", "deleteForm", auth.form(views.delete)),
        ("/scopes/{scope}/revoke", "revokeScopeForm", auth.form(views.revoke_scope)),
        ("/revoke", "revokeForm", auth.form(views.revoke)),
        ("/threads/{thread_id}/forget", "forgetForm", auth.form(views.forget)),
    ):
        app.router.add_route("POST", path, handler, name=name)
    return app
