"""The OpenAPI 3.1 document of the RAG protocol, made from the structs that the server decodes with."""

from typing import Any, Final

import msgspec

from memfin.agents.http.openapi import content, protocol_document
from memfin.rag.http.protocol import CODES, PATH, PROTOCOL, QueryAnswer, QueryError, QueryRequest


class Health(msgspec.Struct):
    """The server is up."""

    status: str
    protocol: int
    version: str


def openapi_document() -> dict[str, Any]:
    """Return the document as plain data; it is a function of the protocol's version and nothing else."""
    return protocol_document(
        title="MemFin RAG protocol",
        version=PROTOCOL,
        summary="How MemFin asks a RAG system that runs as a service.",
        preface=(
            "MemFin posts questions to the very address that it is given; "
            "these paths are of its own server.\n\n"
        ),
        codes=CODES,
        types=(QueryRequest, QueryAnswer, QueryError, Health),
        paths={
            **{
                path: {
                    "post": {
                        "operationId": name,
                        "summary": "Answer a question about the document.",
                        "requestBody": {"required": True, "content": content(QueryRequest)},
                        "responses": {
                            "200": {"description": "The answer.", "content": content(QueryAnswer)},
                            **{
                                str(status): {"description": meaning, "content": content(QueryError)}
                                for status, meaning in _ERRORS.items()
                            },
                        },
                    }
                }
                for path, name in ((PATH, "query"), ("/", "queryAtRoot"))
            },
            "/healthz": {
                "get": {
                    "operationId": "health",
                    "summary": "Say that the server is up.",
                    "security": [{}],
                    "responses": {"200": {"description": "Done.", "content": content(Health)}},
                }
            },
        },
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
