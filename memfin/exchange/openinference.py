"""Parts of a dialogue in OpenInference attributes."""

from collections.abc import Mapping
from typing import Any, Final

from memfin.exchange.conversations import Part
from memfin.exchange.messages import content_of, list_of, messages_in, recall_part, tool_part, turn_part

KIND: Final = "openinference.span.kind"
SESSION: Final = "session.id"

_TURNS: Final = frozenset({"LLM", "CHAIN", "AGENT"})
_ASIDES: Final = frozenset({"GUARDRAIL", "EVALUATOR"})


def openinference_part(
    attributes: Mapping[str, Any], name: str, error: str | None, latency_ms: float, kind: object = None
) -> Part | None:
    """Return what the trace needs of a span with nested attributes; None where that is nothing."""
    kind = str(kind or value_at(attributes, KIND)).upper()
    given, made = value_at(attributes, "input.value"), value_at(attributes, "output.value")
    if kind in _TURNS:
        inputs, outputs = (
            [
                message
                for each in _items(attributes, f"llm.{side}_messages")
                for message in _message(each, role)
            ]
            for side, role in (("input", "user"), ("output", "assistant"))
        )
        return turn_part(
            inputs or messages_in(given, "user"), outputs or messages_in(made, "assistant"), error=error
        )
    if kind == "TOOL":
        args = value_at(attributes, "tool.parameters") if given is None else given
        return tool_part(str(value_at(attributes, "tool.name") or name), args, made, latency_ms, error)
    if kind == "RETRIEVER":
        return recall_part(given, _items(attributes, "retrieval.documents"))
    return Part(kind="aside") if kind in _ASIDES else None


def _message(found: object, role: str) -> list[tuple[str, str]]:
    """Return a message of a model; its parts of content are each within a ``message_content``."""
    message = mapping_of(mapping_of(found).get("message", found))
    if message.get("contents"):
        parts = [mapping_of(part).get("message_content") for part in message["contents"]]
        message = {**message, "content": content_of({"content": parts})}
    return messages_in({"role": role, **message}, role)


def nested(value: Any) -> Any:
    """Return data with dotted keys as nested objects, and objects with only numbers for keys as lists."""
    if isinstance(value, list):
        return [nested(each) for each in value]
    if not isinstance(value, dict):
        return value
    found: dict[str, Any] = {}
    for key, each in value.items():
        if each is None:
            continue
        *above, last = str(key).split(".")
        place = found
        for name in above:
            inner = place.get(name)
            if not isinstance(inner, dict):
                inner = place[name] = {}
            place = inner
        known, inner = place.get(last), nested(each)
        place[last] = {**known, **inner} if isinstance(known, dict) and isinstance(inner, dict) else inner
    return _listed(found)


def _listed(found: dict[str, Any]) -> Any:
    for key, each in found.items():
        if isinstance(each, dict):
            found[key] = _listed(each)
    if found and all(key.isdecimal() for key in found):
        return [found[key] for key in sorted(found, key=int)]
    return found


def mapping_of(value: object) -> dict[str, Any]:
    """Return an object; one without keys for anything else."""
    return value if isinstance(value, dict) else {}


def value_at(attributes: Mapping[str, Any], path: str) -> Any:
    """Return the value at a dotted path, or None."""
    value: object = attributes
    for name in path.split("."):
        value = mapping_of(value).get(name)
    return value


def _items(attributes: Mapping[str, Any], path: str) -> list[Any]:
    """Return a list; in CSV of a data frame it is its Python text."""
    return [nested(each) for each in list_of(value_at(attributes, path))]
