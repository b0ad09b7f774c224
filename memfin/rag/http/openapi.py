"""The OpenAPI 3.1 document of the RAG protocol, made from the structs that the server decodes with."""

from typing import Any, Final

import msgspec

from memfin.agents.http.protocol import API_KEY
from memfin.rag.http.protocol import CODES, PATH, PROTOCOL, QueryAnswer, QueryError, QueryRequest

_REF: Final = "#/components/schemas/{name}"


class Health(msgspec.Struct):
    """The server is up."""

    status: str
    protocol: int
    version: str


def openapi_document() -> dict[str, Any]:
    """Return the document as plain data; it is a function of the protocol's version and nothing else."""
    types = (QueryRequest, QueryAnswer, QueryError, Health)
    _, schemas = msgspec.json.schema_components(types, ref_template=_REF)
    for schema in schemas.values():
        if "description" in schema:
            schema["description"] = " ".join(schema["description"].split())
    return {
        "openapi": "3.1.0",
        "jsonSchemaDialect": "https://json-schema.org/draft/2020-12/schema",
        "info": {
            "title": "MemFin RAG protocol",
            "version": str(PROTOCOL),
            "summary": "How MemFin asks a RAG system that runs as a service.",
            "description": _codes(),
            "license": {"name": "Apache-2.0", "identifier": "Apache-2.0"},
        },
        "servers": [{"url": "./", "description": "Beside this document."}],
        "security": [{}, {"bearer": []}],
        "paths": {
            path: {
                "post": {
                    "operationId": name,
                    "summary": "Answer a question about the document.",
                    "requestBody": {"required": True, "content": _content(QueryRequest)},
                    "responses": {
                        "200": {"description": "The answer.", "content": _content(QueryAnswer)},
                        **{
                            str(status): {"description": meaning, "content": _content(QueryError)}
                            for status, meaning in _ERRORS.items()
                        },
                    },
                }
            }
            for path, name in ((PATH, "query"), ("/", "queryAtRoot"))
        }
        | {
            "/healthz": {"get": _public("health", "Say that the server is up.", _content(Health))},
            "/openapi.json": {
                "get": _public(
                    "openapi", "This document.", {"application/json": {"schema": {"type": "object"}}}
                )
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


def _public(name: str, summary: str, content: dict[str, Any]) -> dict[str, Any]:
    return {
        "operationId": name,
        "summary": summary,
        "security": [{}],
        "responses": {"200": {"description": "Done.", "content": content}},
    }


def _content(kind: type) -> dict[str, Any]:
    return {"application/json": {"schema": {"$ref": _REF.format(name=kind.__name__)}}}


def _codes() -> str:
    lines = "\n".join(f"- `{code}`: {meaning}" for code, meaning in CODES.items())
    return (
        "MemFin posts questions to the very address that it is given; these paths are of its own server.\n\n"
        f"Codes of errors, in `error.code`:\n\n{lines}\n\n429, 502, 503 and 504 ask the caller to try again."
    )


_ERRORS: Final = {
    400: "The body is not what the call takes.",
    401: "The bearer token is missing or wrong.",
    403: "The request comes from a page of another Origin.",
    408: "The body did not come in time.",
    413: "The body is too large.",
    415: "The body is not sent as JSON.",
    421: "The server is not known by this Host.",
    500: "The system failed, or the server did.",
    503: "Try again, after Retry-After seconds where the header says so.",
}
