"""Reading requests: a body of bounded size, time and depth, decoded strictly."""

from typing import Final, TypeVar

import msgspec
from aiohttp import web

from memfin.contracts.base import Record
from memfin.hosting import read_body
from memfin.memory.records import is_deeper
from memfin.sandbox.references import one_line
from memfin.web.memory.problems import Problem

R = TypeVar("R", bound=Record)

MAX_BODY_BYTES: Final = 1 << 20
"""Maximum bytes of a request's body."""
MAX_DEPTH: Final = 32
"""Maximum nesting of objects and arrays."""


async def read_json(request: web.Request, kind: type[R]) -> R:
    """Return a request's body.

    Raises:
        Problem: it is not JSON, too deep, or violates the struct.
        HTTPException: it is too large or too slow.
    """
    if request.content_type != "application/json":
        raise Problem(415, "unsupported_media_type", "send the body as application/json")
    if request.headers.get("Content-Encoding", "identity").lower() != "identity":
        raise Problem(415, "unsupported_media_type", "send the body without content encoding")
    body = await read_body(request)
    try:
        plain = msgspec.json.decode(body)
    except (msgspec.DecodeError, UnicodeDecodeError) as problem:
        raise Problem(400, "invalid_json", one_line(str(problem))) from problem
    except RecursionError as problem:
        raise too_deep() from problem
    if is_deeper(plain, MAX_DEPTH):
        raise too_deep()
    try:
        return msgspec.convert(plain, kind)
    except msgspec.ValidationError as problem:
        raise Problem(400, "invalid_input", one_line(str(problem))) from problem


def too_deep() -> Problem:
    """Return the problem of data nested too deep."""
    return Problem(400, "too_deep", f"more than {MAX_DEPTH} objects and arrays within each other")
