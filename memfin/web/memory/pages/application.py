"""The application of the pages, mounted by the service at their prefix."""

from collections.abc import Callable
from datetime import datetime

from aiohttp import web

from memfin.memory.telemetry import MemoryTelemetry
from memfin.web.memory.endpoints import Dependencies
from memfin.web.memory.pages.auth import Auth, page_problems
from memfin.web.memory.pages.confirmations import CONFIRMATIONS, Confirmations
from memfin.web.memory.pages.sessions import Sessions
from memfin.web.memory.pages.views import Views, home, style


def pages_application(
    deps: Dependencies, telemetry: MemoryTelemetry, clock: Callable[[], datetime], *, secure_cookies: bool
) -> web.Application:
    """Return the pages as an application."""
    app = web.Application(middlewares=[page_problems])
    auth = Auth(deps, Sessions(clock), secure=secure_cookies)
    views = Views(deps, telemetry)
    confirmations = Confirmations(deps, auth)
    for path, name, handler in (
        ("/", "homePage", home),
        ("/style.css", "styleSheet", style),
        ("/sign-in", "signInPage", auth.sign_in_page),
        ("/consent", "consentPage", auth.view(views.consent)),
        ("/settings", "settingsPage", auth.view(views.settings)),
        ("/remembered", "rememberedPage", auth.view(confirmations.remembered)),
        ("/export", "exportPage", auth.view(views.export)),
        ("/account/delete", "deleteAccountPage", auth.view(confirmations.account)),
    ):
        app.router.add_route("GET", path, handler, name=name)
    for path, name, handler in (
        ("/sign-in", "signIn", auth.sign_in),
        ("/sign-out", "signOut", auth.form(auth.sign_out)),
        ("/consent", "grantForm", auth.form(views.grant)),
        ("/profile", "profileForm", auth.form(views.save)),
        ("/account/delete", "deleteAccountForm", auth.form(confirmations.delete_account)),
    ):
        app.router.add_route("POST", path, handler, name=name)
    for confirmation in CONFIRMATIONS:
        app.router.add_route(
            "GET",
            confirmation.path,
            auth.view(confirmations.page(confirmation)),
            name=f"{confirmation.name}Page",
        )
        app.router.add_route(
            "POST",
            confirmation.path,
            auth.form(confirmations.form(confirmation)),
            name=f"{confirmation.name}Form",
        )
    return app
