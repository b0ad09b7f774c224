"""Requests of spans in the JSON encoding of OTLP."""

from collections.abc import Mapping, Sequence
from typing import Any


def any_value(value: object) -> dict[str, Any]:
    match value:
        case bool():
            return {"boolValue": value}
        case int():
            return {"intValue": str(value)}
        case float():
            return {"doubleValue": value}
        case list() | tuple():
            return {"arrayValue": {"values": [any_value(each) for each in value]}}
        case Mapping():
            return {"kvlistValue": {"values": key_values(value)}}
        case _:
            return {"stringValue": str(value)}


def key_values(attributes: Mapping[str, Any] | None) -> list[dict[str, Any]]:
    return [{"key": key, "value": any_value(value)} for key, value in (attributes or {}).items()]


def request(spans: Sequence[dict[str, Any]]) -> dict[str, Any]:
    scope = {"scope": {"name": "agent"}, "spans": spans}
    return {"resourceSpans": [{"resource": {"attributes": []}, "scopeSpans": [scope]}]}
