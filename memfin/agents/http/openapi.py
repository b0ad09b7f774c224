"""The OpenAPI 3.1 document of the agent protocol, made from the structs that the server decodes with."""

from typing import Any, Final

import msgspec

from memfin.agents.http.describing import content, protocol_document
from memfin.agents.http.protocol import (
    CODES,
    PROTOCOL,
    CommitRequest,
    ErrorAnswer,
    OpenSession,
    SessionOpened,
    TurnAnswer,
    TurnRequest,
)

_ID: Final = {
    "name": "id",
    "in": "path",
    "required": True,
    "description": "The id that the session got when it was opened.",
    "schema": {"type": "string"},
}


class Health(msgspec.Struct):
    """The server is up."""

    status: str
    protocol: int
    version: str
    sessions: int


def openapi_document() -> dict[str, Any]:
    """Return the document as plain data; it is a function of the protocol's version and nothing else."""
    document = protocol_document(
        title="MemFin agent protocol",
        version=PROTOCOL,
        summary="How MemFin evaluates an agent that runs as a service.",
        preface="",
        codes=CODES,
        types=(OpenSession, SessionOpened, TurnRequest, TurnAnswer, CommitRequest, ErrorAnswer, Health),
        paths={
            "/sessions": {
                "post": _operation(
                    "openSession",
                    "Open a session: create the agent of a dialogue.",
                    OpenSession,
                    201,
                    SessionOpened,
                    errors=(400, 401, 409, 413, 415, 500, 503),
                )
            },
            "/sessions/{id}": {
                "delete": _operation(
                    "closeSession", "End a session: the dialogue is over.", None, 204, None, errors=(401, 404)
                ),
                "parameters": [_ID],
            },
            "/sessions/{id}/turns": {
                "post": _operation(
                    "takeTurn",
                    "Ask the agent; the same request again gets the same answer.",
                    TurnRequest,
                    200,
                    TurnAnswer,
                    errors=(400, 401, 404, 409, 413, 415, 500, 503),
                ),
                "parameters": [_ID],
            },
            "/sessions/{id}/commit": {
                "post": _operation(
                    "commitReply",
                    "Put the reply that counts as said into the agent's history.",
                    CommitRequest,
                    204,
                    None,
                    errors=(400, 401, 404, 409, 413, 415, 500, 503),
                ),
                "parameters": [_ID],
            },
            "/healthz": {
                "get": _operation("health", "Say that the server is up.", None, 200, Health, public=True)
            },
        },
    )
    document["components"]["schemas"]["OpenSession"]["properties"]["protocol"] = {"const": PROTOCOL}
    return document


def _operation(
    name: str,
    summary: str,
    body: type | None,
    status: int,
    answer: type | None,
    *,
    errors: tuple[int, ...] = (),
    public: bool = False,
) -> dict[str, Any]:
    operation: dict[str, Any] = {"operationId": name, "summary": summary}
    if public:
        operation["security"] = [{}]
    if body is not None:
        operation["requestBody"] = {"required": True, "content": content(body)}
    done: dict[str, Any] = {"description": "Done."}
    if answer is not None:
        done["content"] = content(answer)
    failed = {
        str(error): {"description": _ERRORS[error], "content": content(ErrorAnswer)}
        for error in sorted({*errors, 403, 421} | ({408} if body is not None else set()))
    }
    operation["responses"] = {str(status): done, **failed}
    return operation


_ERRORS: Final = {
    400: "The body is not what the call takes.",
    401: "The bearer token is missing or wrong.",
    403: "The request comes from a page of another Origin.",
    404: "The session is not open.",
    409: "The call does not fit the state of the session.",
    408: "The body did not come in time.",
    413: "The body is too large.",
    415: "The body is not sent as JSON.",
    421: "The server is not known by this Host.",
    500: "The agent failed, or the server did.",
    503: "Try again, after Retry-After seconds where the header says so.",
}
