"""Error responses of the memory service, in one form; everything missing gets the same bytes."""

import logging
from collections.abc import Mapping
from types import TracebackType
from typing import Any, Final

import msgspec
from aiohttp import web

from memfin.errors import RunFault
from memfin.hosting import Handler
from memfin.memory.errors import MemoryRefusal
from memfin.memory.paths import is_id
from memfin.sandbox.references import one_line
from memfin.web.memory.bodies import ErrorAnswer, Fault

_LOG: Final = logging.getLogger("memfin.web.memory")

STATUSES: Final[Mapping[str, int]] = {
    "refused": 400,
    "invalid_input": 400,
    "invalid_id": 400,
    "not_found": 404,
    "profile_consent_required": 403,
    "consent_unreadable": 403,
    "consent_not_in_force": 403,
    "profile_write_refused": 403,
    "thread_closed": 409,
    "account_deleted": 410,
    "sensitive_input": 422,
}
"""The status of each of the store's refusals."""

_CODES: Final[Mapping[int, str]] = {
    405: "method_not_allowed",
    408: "too_slow",
    417: "expectation_failed",
}


class Problem(Exception):  # noqa: N818 - an answer, not a malfunction
    """A call that fails.

    Attributes:
        status: HTTP status.
        code: a stable name.
        details: further plain data.
        headers: headers of the response.
    """

    def __init__(
        self,
        status: int,
        code: str,
        message: str,
        details: Mapping[str, Any] | None = None,
        headers: Mapping[str, str] | None = None,
    ) -> None:
        super().__init__(message)
        self.status = status
        self.code = code
        self.details = dict(details or {})
        self.headers = dict(headers or {})


def not_found() -> Problem:
    """Return the problem for missing data and for another user's."""
    return Problem(404, "not_found", "there is nothing here")


def ids_of(request: web.Request) -> dict[str, str]:
    """Return the parts of a path; raise the same for what is no id as for an unknown one."""
    ids = dict(request.match_info)
    if not all(map(is_id, ids.values())):
        raise not_found()
    return ids


def problem_of(failure: Exception) -> Problem:
    """Return the problem for an exception; faults of the service are logged."""
    match failure:
        case Problem():
            return failure
        case MemoryRefusal(code="not_found") | web.HTTPNotFound():
            return not_found()
        case MemoryRefusal():
            return Problem(STATUSES[failure.code], failure.code, one_line(str(failure)), failure.details)
        case web.HTTPException() | ConnectionError():
            return _problem_of_http(failure)
        case OSError() | RunFault():
            _LOG.error("the storage failed: %s", type(failure).__name__)
            return Problem(503, "storage_failed", "the storage failed; try again later")
        case _:
            # the message of the exception may contain a user's text
            _LOG.error("internal error: %s", type(failure).__name__, exc_info=_without_message(failure))
            return Problem(500, "internal", "internal error")


def _problem_of_http(failure: web.HTTPException | ConnectionError) -> Problem:
    if isinstance(failure, ConnectionError):  # the caller has hung up, and does not see this answer
        return Problem(400, "invalid_request", "the connection was lost")
    if isinstance(failure, web.HTTPRequestEntityTooLarge):
        return Problem(413, "too_large", "the body is too large")
    allowed = failure.headers.get("Allow")
    return Problem(
        failure.status,
        _CODES.get(failure.status, "invalid_request"),
        failure.reason,
        headers={"Allow": allowed} if allowed else None,
    )


def problem_answer(problem: Problem) -> web.Response:
    """Return the response for a problem."""
    fault = Fault(code=problem.code, message=str(problem), details=problem.details)
    return json_answer(problem.status, ErrorAnswer(error=fault), problem.headers)


def json_answer(status: int, content: object, headers: Mapping[str, str] | None = None) -> web.Response:
    """Return a JSON response, neither cached nor sniffed for another type."""
    return web.Response(
        status=status,
        body=msgspec.json.encode(content),
        content_type="application/json",
        headers={"Cache-Control": "no-store", "X-Content-Type-Options": "nosniff", **(headers or {})},
    )


@web.middleware
async def json_problems(request: web.Request, handler: Handler) -> web.StreamResponse:
    """Answer every failure as a problem in JSON."""
    try:
        return await handler(request)
    except Exception as failure:  # noqa: BLE001 - the caller is informed, the service continues
        return problem_answer(problem_of(failure))


def _without_message(failure: Exception) -> tuple[type[Exception], Exception, TracebackType | None]:
    """Return the type and traceback of an exception without its message."""
    return RuntimeError, RuntimeError(type(failure).__name__), failure.__traceback__
