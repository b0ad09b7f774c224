"""The OpenAPI 3.1 document of the agent protocol, made from the structs that the server decodes with."""

from collections.abc import Iterable, Mapping
from typing import Any, Final

import msgspec

from memfin.agents.http.protocol import (
    API_KEY,
    CODES,
    PROTOCOL,
    CommitRequest,
    ErrorAnswer,
    OpenSession,
    SessionOpened,
    TurnAnswer,
    TurnRequest,
)

_REF: Final = "#/components/schemas/{name}"


def protocol_document(
    *,
    title: str,
    version: int,
    summary: str,
    preface: str,
    codes: Mapping[str, str],
    types: Iterable[type],
    paths: Mapping[str, Any],
) -> dict[str, Any]:
    """Return the OpenAPI document of a protocol as plain data.

    ``preface`` begins the description, ``codes`` explains the codes of errors, and ``types`` are the structs
    that `content` names in ``paths``.
    """
    _, schemas = msgspec.json.schema_components(types, ref_template=_REF)
    for schema in schemas.values():
        if "description" in schema:
            schema["description"] = " ".join(schema["description"].split())
    lines = "\n".join(f"- `{code}`: {meaning}" for code, meaning in codes.items())
    return {
        "openapi": "3.1.0",
        "jsonSchemaDialect": "https://json-schema.org/draft/2020-12/schema",
        "info": {
            "title": title,
            "version": str(version),
            "summary": summary,
            "description": (
                f"{preface}Codes of errors, in `error.code`:\n\n{lines}\n\n"
                "429, 502, 503 and 504 ask the caller to try again."
            ),
            "license": {"name": "Apache-2.0", "identifier": "Apache-2.0"},
        },
        "servers": [{"url": "./", "description": "Beside this document."}],
        "security": [{}, {"bearer": []}],
        "paths": {
            **paths,
            "/openapi.json": {
                "get": {
                    "operationId": "openapi",
                    "summary": "This document.",
                    "security": [{}],
                    "responses": {
                        "200": {
                            "description": "The document.",
                            "content": {"application/json": {"schema": {"type": "object"}}},
                        }
                    },
                }
            },
        },
        "components": {
            "schemas": schemas,
            "securitySchemes": {
                "bearer": {
                    "type": "http",
                    "scheme": "bearer",
                    "description": f"The token, which both sides read from {API_KEY}; it may be none.",
                }
            },
        },
    }


def content(kind: type) -> dict[str, Any]:
    """Return the content of a body or an answer in JSON."""
    return {"application/json": {"schema": {"$ref": _REF.format(name=kind.__name__)}}}


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
            "/sessions": {"post": _operation("openSession", OpenSession, 201, SessionOpened, _FAILED)},
            "/sessions/{id}": {
                "delete": _operation("closeSession", None, 204, None, (401, 404)),
                "parameters": [_ID],
            },
            "/sessions/{id}/turns": {
                "post": _operation("takeTurn", TurnRequest, 200, TurnAnswer, (404, *_FAILED)),
                "parameters": [_ID],
            },
            "/sessions/{id}/commit": {
                "post": _operation("commitReply", CommitRequest, 204, None, (404, *_FAILED)),
                "parameters": [_ID],
            },
            "/healthz": {"get": {**_operation("health", None, 200, Health), "security": [{}]}},
        },
    )
    document["components"]["schemas"]["OpenSession"]["properties"]["protocol"] = {"const": PROTOCOL}
    return document


def _operation(
    name: str, body: type | None, status: int, answer: type | None, errors: tuple[int, ...] = ()
) -> dict[str, Any]:
    operation: dict[str, Any] = {"operationId": name, "summary": _SUMMARIES[name]}
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


_FAILED: Final = (400, 401, 409, 413, 415, 500, 503)
_SUMMARIES: Final = {
    "openSession": "Open a session: create the agent of a dialogue.",
    "closeSession": "End a session: the dialogue is over.",
    "takeTurn": "Ask the agent; the same request again gets the same answer.",
    "commitReply": "Put the reply that counts as said into the agent's history.",
    "health": "Say that the server is up.",
}
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
