"""Parts of server-rendered pages that all applications share: security headers, secrets, language."""

import hmac
import secrets
from collections.abc import Callable
from urllib.parse import parse_qsl

from aiohttp import web

from memfin.hosting import read_body
from memfin.language import LANGUAGES, Language, marked


class Refusal(Exception):  # noqa: N818 - an answer, not a malfunction
    """A request that is not answered with a page; ``status`` is that of HTTP."""

    def __init__(self, status: int, code: str, message: str) -> None:
        del code
        super().__init__(message)
        self.status = status


def not_found() -> Refusal:
    """Return the refusal of what is no run or dialogue of the directory."""
    return Refusal(404, "not_found", marked("There is nothing here."))


def page_headers(policy: str) -> dict[str, str]:
    """Return the headers of every response with a page; ``policy`` extends ``default-src 'none'``."""
    return {
        "Content-Security-Policy": f"default-src 'none'; {policy}; frame-ancestors 'none'; base-uri 'none'",
        "X-Content-Type-Options": "nosniff",
        "X-Frame-Options": "DENY",
        "Referrer-Policy": "same-origin",
        "Cross-Origin-Opener-Policy": "same-origin",
        "Cross-Origin-Resource-Policy": "same-origin",
        "Cache-Control": "no-store",
    }


def language_of(request: web.Request, cookie: str, default: Language = "en") -> Language:
    """Return the language requested now or before, else the browser's preference, else the default."""
    for asked in (request.query.get("lang"), request.cookies.get(cookie)):
        if asked in LANGUAGES:
            return "zh" if asked == "zh" else "en"
    for part in request.headers.get("Accept-Language", "").lower().split(","):
        tag = part.partition(";")[0].strip()
        if tag.partition("-")[0] in LANGUAGES:
            return "zh" if tag.startswith("zh") else "en"
    return default


async def form_fields(
    request: web.Request, refusal: Callable[[int, str, str], Exception]
) -> list[tuple[str, str]]:
    """Return names and values of the fields of a form.

    Raises ``refusal(status, code, message)`` if it comes from another site, or is not a plain form.
    """
    if request.headers.get("Sec-Fetch-Site", "same-origin") not in {"same-origin", "none"}:
        raise refusal(403, "form_expired", "the form is from another site")
    if request.content_type != "application/x-www-form-urlencoded":
        raise refusal(415, "invalid_input", "send the form as application/x-www-form-urlencoded")
    try:
        given = parse_qsl((await read_body(request)).decode(), keep_blank_values=True)
    except ValueError as problem:
        raise refusal(400, "invalid_input", "the form cannot be read") from problem
    # browsers end lines of a form with CR LF
    return [(name, value.replace("\r\n", "\n")) for name, value in given]


def fresh_secret() -> str:
    """Return 256 random bits as text."""
    return secrets.token_urlsafe(32)


def same(one: str, other: str) -> bool:
    """Compare secrets in constant time."""
    return hmac.compare_digest(
        one.encode("utf-8", "surrogateescape"), other.encode("utf-8", "surrogateescape")
    )
