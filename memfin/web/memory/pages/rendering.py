"""Rendering of page templates: everything is escaped, and nothing but the service's own style is loaded."""

from datetime import UTC, datetime
from functools import cache
from typing import Any, Final

from aiohttp import web
from jinja2 import Environment, FunctionLoader, StrictUndefined
from markupsafe import Markup

from memfin.contracts.memory import DriftRecord, Feedback
from memfin.web.memory.pages.sessions import Session
from memfin.web.memory.pages.texts import COOKIE, language_of, packaged, texts
from memfin.web.pages import page_headers

PREFIX: Final = "/memory"
HEADERS: Final = page_headers("style-src 'self'; form-action 'self'")
FORM_FIELD: Final = "form_secret"


def page(
    request: web.Request,
    name: str,
    *,
    status: int = 200,
    session: Session | None = None,
    form_secret: str = "",
    **values: Any,
) -> web.Response:
    """Return a page in the visitor's language.

    Args:
        request: the request to answer.
        name: name of the template, without its suffix.
        status: HTTP status.
        session: the session of a visitor who is signed in; its secret is in every form.
        form_secret: the secret in every form without a session.
        values: for the template.
    """
    language = language_of(request)
    words = texts(language)
    secret = form_secret if session is None else session.form_secret

    def csrf() -> Markup:
        return Markup('<input type="hidden" name="{}" value="{}">').format(FORM_FIELD, secret)

    shown = {"done": request.query.get("done"), "problem": None, **values}
    body = (
        _environment()
        .get_template(f"{name}.html.j2")
        .render(t=words, lang=language, page=name, here=request.path, session=session, csrf=csrf, **shown)
    )
    response = web.Response(text=body, status=status, content_type="text/html", headers=HEADERS)
    if request.query.get("lang") == language:
        response.set_cookie(
            COOKIE, language, path=PREFIX, httponly=True, samesite="Strict", max_age=31_536_000
        )
    return response


def problem_text(request: web.Request, code: str) -> str:
    """Return the text of a page about a problem."""
    problems = texts(language_of(request))["problems"]
    return str(problems.get(code, problems["internal"]))


@cache
def _environment() -> Environment:
    environment = Environment(
        loader=FunctionLoader(packaged),
        autoescape=True,
        undefined=StrictUndefined,
        trim_blocks=True,
        lstrip_blocks=True,
    )
    environment.filters |= {"date": _date, "about": _about}
    return environment


def _date(moment: datetime) -> str:
    """Return a time as people read it in both languages."""
    return f"{moment.astimezone(UTC):%Y-%m-%d %H:%M} UTC"


def _about(record: Feedback | DriftRecord) -> str:
    """Return the name of the object that a record is about."""
    named = (record.cognition_object.get(name) for name in ("name", "asset", "theme", "event", "symbol"))
    reference = record.related_object_ref if isinstance(record, Feedback) else record.object_ref
    return next((each for each in named if isinstance(each, str) and each), reference)
