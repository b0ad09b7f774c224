"""The parts that the OpenAPI 3.1 documents of MemFin's own protocols have in common."""

from collections.abc import Iterable, Mapping
from typing import Any, Final

import msgspec

from memfin.agents.http.protocol import API_KEY

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

    Args:
        title: of the document.
        version: of the protocol.
        summary: one sentence.
        preface: what the description says before it lists the codes of errors.
        codes: what each code of an error means.
        types: the structs that `content` names in the paths.
        paths: the operations by path, but for that of the document itself.
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
