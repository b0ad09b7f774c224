"""RAG protocol over HTTP, version 1: messages, OpenAPI document, client, and server.

A question is posted to the service's address, its answer comes back. Messages are JSON objects; unknown
fields are ignored by both sides::

    POST {"question": "..."} -> 200 QueryAnswer

Errors are answered with a `QueryError` and a status of 400 or more. Ten lines make a service of a system::

    from memfin.rag.http import serve

    class MyRag:
        def __init__(self, document):
            self.document = document

        async def query(self, question):
            return {"answer": "...", "citation": [{"page": 1, "quote": "..."}]}

    serve(MyRag, document="interview.md", port=8766)

``memfin bench --rag http://127.0.0.1:8766/query`` then asks it.
"""

import os
from collections.abc import AsyncIterator, Callable, Iterable
from functools import partial
from pathlib import Path
from typing import Any, Final

import anyio
import msgspec
from aiohttp import web

from memfin.agents.calls import TransportError, asked_pause
from memfin.agents.http.hosting import Refusal, json_answer, protocol_application, read_json, require_token
from memfin.agents.http.protocol import API_KEY, protocol_document
from memfin.agents.http.protocol import CODES as AGENT_CODES
from memfin.hosting import run
from memfin.rag.document import Document, load_document
from memfin.rag.systems.http import QueryAnswer, QueryError, QueryRequest
from memfin.rag.systems.under_test import load_system
from memfin.sandbox.calls import CallFailed, CallTimedOut
from memfin.sandbox.references import describe, one_line

PROTOCOL: Final = 1

PATH: Final = "/query"  # where MemFin's own server answers; the root does so too
_SHARED: Final = (
    "invalid_json invalid_request unauthorized not_found method_not_allowed too_large too_slow unknown_host "
    "foreign_origin"
)
CODES: Final = {
    **{code: AGENT_CODES[code] for code in _SHARED.split()},
    "system_failed": "the system broke its contract or raised; the message is its error",
    "system_timed_out": "the system did not answer within the server's limit",
    "system_unreachable": "what the system depends on could not be reached; send again",
    "internal": "the server failed",
}
"""The codes of errors that MemFin's own server uses."""


class Health(msgspec.Struct):
    """The server is up."""

    status: str
    protocol: int
    version: str


def openapi_document() -> dict[str, Any]:
    """Return the OpenAPI 3.1 document of the protocol, made from the structs that the server decodes with."""
    return protocol_document("rag", CODES, (QueryRequest, QueryAnswer, QueryError, Health))


DEFAULT_PORT: Final = 8766
TIMEOUT: Final = 600.0  # seconds for a question; the caller usually gives up earlier
MAX_BODY_BYTES: Final = 1024 * 1024  # of a request


def application(
    system_factory: Callable[..., Any] | object,
    *,
    document: Document | str | Path | None = None,
    host: str = "127.0.0.1",
    names: Iterable[str] = (),
    token: str | None = None,
    timeout: float = TIMEOUT,
    max_body_bytes: int = MAX_BODY_BYTES,
) -> web.Application:
    """Return an aiohttp application that serves a RAG system; it may be a sub-application of another.

    Args:
        system_factory: as ``--rag pkg.module:factory`` would name it; it is called when the server starts. A
            reference such as ``builtin`` or a system itself will do, too.
        document: what the factory is called with, or where that is read from.
        host: the address that the application is going to listen on.
        names: further names under which it may be asked for, as in a network or behind a proxy.
        token: the bearer token that callers must show; None asks for none.
        timeout: seconds that the system may take for a question.
        max_body_bytes: bytes of a request's body, at most.

    Raises:
        UsageError: the system is none, or the document cannot be read.
    """
    loaded = document if isinstance(document, Document | None) else load_document(Path(document))
    system = load_system(system_factory, document=loaded)

    async def running(_: web.Application) -> AsyncIterator[None]:
        await system.open()
        yield
        await system.close()

    async def query(request: web.Request) -> web.Response:
        asked = await read_json(request, QueryRequest)
        try:
            reply = await system.query(asked.question, timeout)
        except (CallFailed, TransportError, ConnectionError) as problem:
            raise _refusal(problem) from problem
        return json_answer(200, QueryAnswer(**dict(reply.answer), usage=reply.usage))

    app = protocol_application(
        openapi_document(),
        lambda: {"protocol": PROTOCOL},
        host=host,
        names=names,
        token=token,
        max_body_bytes=max_body_bytes,
    )
    app.router.add_post(PATH, query)
    app.router.add_post("/", query)
    app.cleanup_ctx.append(running)
    return app


def serve(
    system_factory: Callable[..., Any] | object,
    *,
    document: Document | str | Path | None = None,
    host: str = "127.0.0.1",
    port: int = DEFAULT_PORT,
    token: str | None = None,
    **options: Any,
) -> None:
    """Serve a RAG system until SIGINT or SIGTERM; prints one line with the address when it is ready.

    Args:
        system_factory: as for `application`.
        document: as for `application`.
        host: address to listen on.
        port: port to listen on; 0 takes a free one, which the line names.
        token: bearer token; None takes it from ``MEMFIN_AGENT_API_KEY``, if that is set.
        options: ``names``, ``timeout`` and ``max_body_bytes`` of `application`.

    Raises:
        UsageError: the address cannot be listened on, or is open to the network without a token; or the
            system cannot be made.
    """
    token = token or os.environ.get(API_KEY) or None
    require_token("rag", host, token)
    app = application(system_factory, document=document, host=host, token=token, **options)
    anyio.run(partial(run, path=PATH), app, "rag", host, port)


def _refusal(problem: Exception) -> Refusal:
    """Return the answer to a question on which the system failed."""
    if isinstance(problem, CallFailed):
        code = "system_timed_out" if isinstance(problem, CallTimedOut) else "system_failed"
        return Refusal(500, code, one_line(str(problem)) or "CallFailed")
    message = one_line(str(problem)) if isinstance(problem, TransportError) else ""
    after = asked_pause(problem) or None
    return Refusal(503, "system_unreachable", message or describe(problem), retry_after=after)
