"""The application of the pages, mounted by the service at their prefix."""

from collections.abc import Callable
from datetime import datetime

from aiohttp import web

from memfin.memory.telemetry import MemoryTelemetry
from memfin.web.memory.endpoints import Dependencies
from memfin.web.memory.pages.auth import Auth, page_problems
from memfin.web.memory.pages.endings import ENDINGS, Endings
from memfin.web.memory.pages.sessions import Sessions
from memfin.web.memory.pages.views import Views


def pages_application(
    deps: Dependencies, telemetry: MemoryTelemetry, clock: Callable[[], datetime], *, secure_cookies: bool
) -> web.Application:
    """Return the pages as an application."""
    app = web.Application(middlewares=[page_problems])
    auth = Auth(deps, Sessions(clock), secure=secure_cookies)
    views = Views(deps, telemetry)
    endings = Endings(deps, auth)
    for path, name, handler in (
        ("/", "homePage", views.home),
        ("/style.css", "styleSheet", views.style),
        ("/goodbye", "goodbyePage", endings.goodbye),
        ("/sign-in", "signInPage", auth.sign_in_page),
        ("/consent", "consentPage", auth.view(views.consent)),
        ("/settings", "settingsPage", auth.view(views.settings)),
        ("/remembered", "rememberedPage", auth.view(endings.remembered)),
        ("/export", "exportPage", auth.view(views.export)),
        ("/account/delete", "deleteAccountPage", auth.view(endings.account)),
    ):
        app.router.add_route("GET", path, handler, name=name)
    for path, name, handler in (
        ("/sign-in", "signIn", auth.sign_in),
        ("/sign-out", "signOut", auth.form(auth.sign_out)),
        ("/consent", "grantForm", auth.form(views.grant)),
        ("/profile", "profileForm", auth.form(views.save)),
        ("/account/delete", "deleteAccountForm", auth.form(endings.delete_account)),
    ):
        app.router.add_route("POST", path, handler, name=name)
    for ending in ENDINGS:
        app.router.add_route("GET", ending.path, auth.view(endings.page(ending)), name=f"{ending.name}Page")
        app.router.add_route("POST", ending.path, auth.form(endings.form(ending)), name=f"{ending.name}Form")
    return app
