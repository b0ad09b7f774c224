"""Bodies, errors and the bearer token of MemFin's own JSON services."""

import hmac
from collections.abc import Callable, Iterable, Mapping
from typing import Any, Final, TypeVar

import msgspec
from aiohttp import web

from memfin.agents.http.protocol import API_KEY, CODES, ErrorAnswer, Observations, Problem
from memfin.contracts import Record
from memfin.errors import UsageError
from memfin.hosting import Handler, HostCheck, is_loopback, read_body
from memfin.sandbox.references import describe, one_line
from memfin.version import __version__

R = TypeVar("R", bound=Record)

_OPEN_PATHS: Final = frozenset({"/openapi.json", "/healthz"})


class Refusal(Exception):  # noqa: N818 - an answer of the protocol, not a malfunction
    """A call that is answered with an error: its status, code, message and what was observed."""

    def __init__(
        self,
        status: int,
        code: str,
        message: str | None = None,
        *,
        retry_after: float | None = None,
        observations: Observations | None = None,
    ) -> None:
        super().__init__(message or CODES[code])
        self.status = status
        self.code = code
        self.retry_after = retry_after
        self.observations = observations or Observations()


def protocol_application(
    document: Mapping[str, Any],
    health: Callable[[], Mapping[str, Any]],
    *,
    host: str,
    names: Iterable[str],
    token: str | None,
    max_body_bytes: int,
) -> web.Application:
    """Return an application with the checks and the public paths of a protocol; its calls are to be added.

    ``document`` is the OpenAPI document, ``health`` gives the fields of ``/healthz`` besides the version.
    """
    encoded = msgspec.Raw(msgspec.json.encode(document))

    async def show_document(request: web.Request) -> web.Response:
        del request
        return json_answer(200, encoded)

    async def show_health(request: web.Request) -> web.Response:
        del request
        return json_answer(200, {"status": "ok", "version": __version__, **health()})

    app = web.Application(
        client_max_size=max_body_bytes,
        middlewares=[_json_errors, HostCheck(host, names).middleware(Refusal), _bearer_middleware(token)],
    )
    app.router.add_get("/openapi.json", show_document, allow_head=False)
    app.router.add_get("/healthz", show_health, allow_head=False)
    return app


def require_token(what: str, host: str, token: str | None) -> None:
    """Raise `UsageError` when a service would be open to the network without a token."""
    if token is None and not is_loopback(host):
        raise UsageError(
            f"{what} server on {host}: anyone in the network could use the {what}; set {API_KEY} to a token"
        )


def _bearer_middleware(token: str | None) -> Any:
    """Return the middleware that requires the bearer token; None admits everyone."""

    @web.middleware
    async def middleware(request: web.Request, handler: Handler) -> web.StreamResponse:
        if token is not None and not _is_public(request):
            shown = request.headers.get("Authorization", "").encode("utf-8", "surrogateescape")
            if not hmac.compare_digest(shown, f"Bearer {token}".encode()):
                raise Refusal(401, "unauthorized")
        return await handler(request)

    return middleware


@web.middleware
async def _json_errors(request: web.Request, handler: Handler) -> web.StreamResponse:
    """Answer whatever goes wrong with an `ErrorAnswer`."""
    try:
        return await handler(request)
    except Refusal as problem:
        refusal = problem
    except web.HTTPRequestEntityTooLarge:
        refusal = Refusal(413, "too_large")
    except web.HTTPException as problem:
        codes = {404: "not_found", 405: "method_not_allowed", 408: "too_slow"}
        refusal = Refusal(problem.status, codes.get(problem.status, "invalid_request"), problem.reason)
    except Exception as problem:  # noqa: BLE001 - the caller learns of it, the server goes on
        refusal = Refusal(500, "internal", describe(problem))
    headers: dict[str, str] = {}
    if refusal.retry_after is not None:
        headers["Retry-After"] = str(max(1, round(refusal.retry_after)))
    if refusal.status == 401:  # noqa: PLR2004 - which asks for the way to authorize
        headers["WWW-Authenticate"] = "Bearer"
    error = Problem(code=refusal.code, message=str(refusal))
    return json_answer(refusal.status, ErrorAnswer(error=error, **dict(refusal.observations)), headers)


async def read_json(request: web.Request, kind: type[R]) -> R:
    """Return the body of a request; raise `Refusal` when it is not what the call takes."""
    if request.content_type != "application/json":
        raise Refusal(415, "invalid_request", "send the body as application/json")
    body = await read_body(request)
    try:
        return msgspec.json.decode(body, type=kind)
    except msgspec.ValidationError as problem:
        raise Refusal(400, "invalid_request", one_line(str(problem))) from problem
    except (msgspec.DecodeError, UnicodeDecodeError, RecursionError) as problem:
        raise Refusal(400, "invalid_json", one_line(str(problem))) from problem


def json_answer(status: int, content: object, headers: dict[str, str] | None = None) -> web.Response:
    """Return an answer of the service."""
    body = msgspec.json.encode(content)
    return web.Response(status=status, body=body, content_type="application/json", headers=headers)


def _is_public(request: web.Request) -> bool:
    route = request.match_info.route.resource
    return route is not None and any(route.canonical.endswith(path) for path in _OPEN_PATHS)
