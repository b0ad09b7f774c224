"""Reading requests: a body of bounded size, time and depth, decoded strictly."""

import asyncio
from typing import Any, Final, TypeVar

import msgspec
from aiohttp import web

from memfin.contracts.base import Record
from memfin.foreign.references import one_line
from memfin.web.memory.problems import Problem

R = TypeVar("R", bound=Record)

LARGEST_BODY: Final = 1 << 20
"""Bytes."""
SLOWEST_BODY: Final = 30.0
"""Seconds in which a body has to be there."""
DEEPEST: Final = 32
"""Objects and arrays within each other."""


async def read_json(request: web.Request, kind: type[R]) -> R:
    """Return a request's body.

    Raises:
        Problem: it is no JSON, too large, too slow, too deep, or not what the struct says.
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
    if is_deeper(plain, DEEPEST):
        raise too_deep()
    try:
        return msgspec.convert(plain, kind)
    except msgspec.ValidationError as problem:
        raise Problem(400, "invalid_input", one_line(str(problem))) from problem


async def read_body(request: web.Request) -> bytes:
    """Return the bytes of a body, within the limits of size and time."""
    try:
        async with asyncio.timeout(SLOWEST_BODY):
            return await request.read()
    except TimeoutError as problem:
        raise Problem(
            408, "too_slow", "the body did not come in time", headers={"Connection": "close"}
        ) from problem


def is_deeper(value: Any, most: int) -> bool:
    """Say whether plain data has more than so many objects and arrays within each other."""
    level = [value]
    for _ in range(most + 1):
        inner = [
            item
            for each in level
            if isinstance(each, dict | list)
            for item in (each.values() if isinstance(each, dict) else each)
        ]
        if not inner:
            return False
        level = inner
    return any(isinstance(each, dict | list) for each in level) or bool(level)


def too_deep() -> Problem:
    """Return the problem of data nested too deep."""
    return Problem(400, "too_deep", f"more than {DEEPEST} objects and arrays within each other")
