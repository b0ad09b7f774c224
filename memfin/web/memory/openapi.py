"""OpenAPI 3.1 document of the memory service, generated from its routes and their structs."""

import inspect
import re
from collections.abc import Mapping, Sequence
from http import HTTPStatus
from typing import Any, Final

import msgspec

from memfin.contracts.base import Record
from memfin.version import __version__
from memfin.web.memory.bodies import ErrorAnswer, Health
from memfin.web.memory.routes import Archive, Route

_REF: Final = "#/components/schemas/{name}"
_JSON: Final = "application/json"
_ID: Final = {"type": "string", "pattern": "^[A-Za-z0-9_-]{1,64}$"}
_IDS: Final[Mapping[str, str]] = {
    "user_id": "The user of the token; any other one is not found.",
    "consent_id": "The consent, as its grant answered.",
    "snapshot_id": "The snapshot to continue from; an id of the host's.",
    "thread_id": "One of the user's threads.",
    "context_id": "One of the thread's contexts.",
    "task_id": "One of the user's tasks.",
    "item_id": "One of the user's items.",
    "feedback_id": "Feedback of the user.",
    "drift_id": "A record of the user's drift log.",
}
_ALWAYS: Final = (401, 403, 408, 421, 500, 503)
_WITH_BODY: Final = (400, 413, 415)
_REASONS: Final[Mapping[int, str]] = {
    400: "The request is invalid.",
    401: "No token, or an unknown one.",
    403: "The consent in force does not allow it, or the request comes from a page of another Origin.",
    404: "It does not exist, or is another user's.",
    408: "The body did not arrive in time.",
    409: "It cannot be undone: a closed thread, contexts no longer used; or the deletion is not confirmed.",
    410: "The account was deleted.",
    413: "The body is too large.",
    415: "The body is not plain JSON.",
    421: "The Host header does not name this service.",
    422: "A text holds something sensitive that is never saved.",
    500: "A fault of the service.",
    503: "The storage failed; try again later.",
}


def openapi_document(routes: Sequence[Route]) -> dict[str, Any]:
    """Return the OpenAPI document as plain data; it depends only on the routes."""
    types: dict[str, type[Record]] = {kind.__name__: kind for kind in (ErrorAnswer, Health)}
    for route in routes:
        for kind in (route.body, route.answer):
            if kind is not None and issubclass(kind, Record):
                types[kind.__name__] = kind
    _, schemas = msgspec.json.schema_components(tuple(types.values()), ref_template=_REF)
    paths: dict[str, dict[str, Any]] = {}
    for route in routes:
        paths.setdefault(route.path, {})[route.method.lower()] = _operation(route)
    for path, item in paths.items():
        if ids := re.findall(r"\{(\w+)\}", path):
            item["parameters"] = [_parameter("path", name, _IDS[name], _ID) for name in ids]
    return {
        "openapi": "3.1.0",
        "jsonSchemaDialect": "https://json-schema.org/draft/2020-12/schema",
        "info": {
            "title": "MemFin memory service",
            "version": __version__,
            "summary": "Memory of agents: data of people, stored by their consent and for a limited time.",
            "license": {"name": "Apache-2.0", "identifier": "Apache-2.0"},
        },
        "servers": [{"url": "./", "description": "The path of this document's directory."}],
        "security": [{"bearer": []}],
        "paths": paths | _SERVICE,
        "components": {
            "schemas": {name: _tidy(schema) for name, schema in sorted(schemas.items())},
            "securitySchemes": {
                "bearer": {
                    "type": "http",
                    "scheme": "bearer",
                    "description": "Printed by `memfin memory token add USER`; acts for that user.",
                }
            },
        },
    }


def _operation(route: Route) -> dict[str, Any]:
    errors = {*_ALWAYS, *route.errors, *(_WITH_BODY if route.body or route.query else ())}
    if "{" in route.path:
        errors.add(404)
    operation: dict[str, Any] = {
        "operationId": route.name,
        "summary": inspect.getdoc(route.work),
        "responses": {
            str(route.status): _response(HTTPStatus(route.status).phrase, route.answer),
            **{str(status): _response(_REASONS[status], ErrorAnswer) for status in sorted(errors)},
        },
    }
    if route.query:
        operation["parameters"] = [
            _parameter("query", field.name, field.description, field.schema, required=field.required)
            for field in route.query
        ]
    if route.body is not None:
        operation["requestBody"] = {"required": True, "content": {_JSON: {"schema": _reference(route.body)}}}
    return operation


def _parameter(
    place: str, name: str, description: str, schema: Mapping[str, Any], *, required: bool = True
) -> dict[str, Any]:
    return {
        "name": name,
        "in": place,
        "required": required,
        "description": description,
        "schema": dict(schema),
    }


def _response(description: str, answer: type[Record | Archive] | None) -> dict[str, Any]:
    if answer is None:
        return {"description": description}
    content: dict[str, Any] = {"application/zip": {"schema": {"type": "string", "format": "binary"}}}
    if issubclass(answer, Record):
        content = {_JSON: {"schema": _reference(answer)}}
    return {"description": description, "content": content}


def _reference(kind: type[Record]) -> dict[str, str]:
    return {"$ref": _REF.format(name=kind.__name__)}


def _tidy(schema: dict[str, Any]) -> dict[str, Any]:
    """Fold a description into one line, and write patterns in the dialect of JSON Schema."""
    if "description" in schema:
        schema["description"] = " ".join(schema["description"].split())
    return {name: _plain(value) for name, value in schema.items()}


def _plain(value: Any) -> Any:
    if isinstance(value, dict):
        return {
            name: item.replace(r"\Z", "$") if name == "pattern" and isinstance(item, str) else _plain(item)
            for name, item in value.items()
        }
    return [_plain(item) for item in value] if isinstance(value, list) else value


def _open(name: str, summary: str, content: dict[str, Any]) -> dict[str, Any]:
    return {
        "get": {
            "operationId": name,
            "summary": summary,
            "security": [],
            "responses": {
                "200": {"description": "OK", "content": content},
                "421": _response(_REASONS[421], ErrorAnswer),
            },
        }
    }


_SERVICE: Final = {
    "/healthz": _open("health", "Return the health of the service.", {_JSON: {"schema": _reference(Health)}}),
    "/metrics": _open(
        "metrics", "The counters, for Prometheus.", {"text/plain": {"schema": {"type": "string"}}}
    ),
    "/openapi.json": _open("openapi", "This document.", {_JSON: {"schema": {"type": "object"}}}),
}
