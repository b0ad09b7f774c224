"""The application of the pages, for the service to put at their prefix."""

from collections.abc import Callable
from datetime import datetime

from aiohttp import web

from memfin.memory.telemetry import MemoryTelemetry
from memfin.web.memory.endpoints import Desk
from memfin.web.memory.pages.door import Door, page_problems
from memfin.web.memory.pages.sessions import Sessions
from memfin.web.memory.pages.views import Views


def pages_application(
    desk: Desk, telemetry: MemoryTelemetry, clock: Callable[[], datetime], *, secure_cookies: bool
) -> web.Application:
    """Return the pages as an application."""
    app = web.Application(middlewares=[page_problems])
    door = Door(desk, Sessions(clock), secure=secure_cookies)
    views = Views(desk, telemetry)
    for path, name, handler in (
        ("/", "homePage", views.home),
        ("/style.css", "styleSheet", views.style),
        ("/sign-in", "signInPage", door.sign_in_page),
        ("/consent", "consentPage", door.view(views.consent)),
        ("/settings", "settingsPage", door.view(views.settings)),
        ("/export", "exportPage", door.view(views.export)),
    ):
        app.router.add_route("GET", path, handler, name=name)
    for path, name, handler in (
        ("/sign-in", "signIn", door.sign_in),
        ("/sign-out", "signOut", door.form(door.sign_out)),
        ("/consent", "grantForm", door.form(views.grant)),
        ("/preferences/{name}", "changeForm", door.form(views.change)),
        ("/preferences/{name}/delete", "deleteForm", door.form(views.delete)),
        ("/scopes/{scope}/revoke", "revokeScopeForm", door.form(views.revoke_scope)),
        ("/revoke", "revokeForm", door.form(views.revoke)),
        ("/threads/{thread_id}/forget", "forgetForm", door.form(views.forget)),
    ):
        app.router.add_route("POST", path, handler, name=name)
    return app
