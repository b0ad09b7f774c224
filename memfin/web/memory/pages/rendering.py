"""Rendering of page templates: everything is escaped, and nothing but the service's own style is loaded."""

from functools import cache
from typing import Any, Final

from aiohttp import web
from jinja2 import Environment, FunctionLoader, StrictUndefined
from markupsafe import Markup

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
    form_secret: str = "",
    signed_in: bool = False,
    **values: Any,
) -> web.Response:
    """Return a page in the visitor's language.

    Args:
        request: the request to answer.
        name: name of the template, without its suffix.
        status: HTTP status.
        form_secret: for every form on the page.
        signed_in: whether the visitor has a session.
        values: for the template.
    """
    language = language_of(request)
    words = texts(language)

    def csrf() -> Markup:
        return Markup('<input type="hidden" name="{}" value="{}">').format(FORM_FIELD, form_secret)

    shown = {"done": None, "problem": None, **values}
    body = (
        _environment()
        .get_template(f"{name}.html.j2")
        .render(t=words, lang=language, page=name, here=request.path, session=signed_in, csrf=csrf, **shown)
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
    return Environment(
        loader=FunctionLoader(packaged),
        autoescape=True,
        undefined=StrictUndefined,
        trim_blocks=True,
        lstrip_blocks=True,
    )
