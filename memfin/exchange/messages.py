"""Messages, tools and recalls from inputs and outputs in the shapes that frameworks record."""

import ast
import contextlib
import math
import warnings
from collections.abc import Iterable, Mapping, Sequence
from typing import Any, Final

import msgspec

from memfin.contracts import RecallItem, RecallTrace, ToolTrace
from memfin.exchange.conversations import Part

_ROLES: Final[Mapping[str, str]] = {
    **dict.fromkeys(("user", "human"), "user"),
    **dict.fromkeys(("assistant", "ai", "model"), "assistant"),
    **{role: role for role in ("system", "developer", "tool", "function")},
}
_NO_TEXTS: Final = ("tool", "function", "image", "input_image", "audio", "input_audio", "file", "reasoning")
_INSIDE: Final = (
    *("messages", "message", "choices", "generations", "data", "kwargs", "args", "input", "inputs"),
    *("query", "question", "prompt", "user_input", "output", "outputs", "answer", "response", "reply"),
    *("result", "text", "content", "value"),
)
"""Keys of an object that may hold messages or a text, by preference."""

_DOCUMENT_TEXTS: Final = ("content", "page_content", "pageContent", "text", "chunk", "document", "value")
_DOCUMENT_IDS: Final = ("id", "document_id", "doc_id", "id_", "node_id", "chunk_id")
_DOCUMENT_SCORES: Final = ("score", "relevance_score", "similarity")


def json_value(value: object) -> Any:
    """Return the value of a JSON text; a text that is none, and what is no text, as it is."""
    if not isinstance(value, str):
        return value
    try:
        return msgspec.json.decode(value)
    except (msgspec.DecodeError, RecursionError):
        return value


def list_of(value: object) -> list[Any]:
    """Return a list, also of its JSON or Python text; an empty one for anything else."""
    value = json_value(value)
    if isinstance(value, str):
        with (
            contextlib.suppress(ValueError, SyntaxError, MemoryError, RecursionError),
            warnings.catch_warnings(),
        ):
            warnings.simplefilter("ignore")
            value = ast.literal_eval(value)
    return value if isinstance(value, list) else []


def text_of(value: object) -> str:
    """Return a text as it is, nothing as an empty one, and anything else as JSON."""
    if value is None or isinstance(value, str):
        return value or ""
    return msgspec.json.encode(value).decode()


def objects(value: object) -> list[Mapping[str, Any]]:
    """Return the objects in a list, or in the JSON text of one."""
    found = json_value(value)
    return [each for each in found if isinstance(each, Mapping)] if isinstance(found, list) else []


def content_of(message: Mapping[str, Any]) -> str:
    """Return the text parts of a message, a line each."""
    parts = message.get("parts", message.get("content"))
    if not isinstance(parts, list):
        return text_of(parts)
    texts = (
        part if isinstance(part, str) else part.get("content", part.get("text"))
        for part in parts
        if isinstance(part, str)
        or (isinstance(part, Mapping) and str(part.get("type", "text")).endswith("text"))
    )
    return "\n".join(text for text in texts if isinstance(text, str))


def messages_in(value: object, role: str) -> list[tuple[str, str]]:
    """Return the roles and texts of the messages in an input or output; ``role`` is that of a bare text.

    1. A text, or the JSON text of anything below.
    2. A message with a role, or with a type that is one; its text may be empty.
    3. A list of messages, texts or parts of content.
    4. An object with one of these within, under a usual key or the only one.
    """
    found = json_value(value)
    if isinstance(found, list):
        return [message for each in found for message in messages_in(each, role)]
    if not isinstance(found, Mapping):
        text = value if isinstance(value, str) else ""
        return [(role, text)] if text.strip() else []
    kind = str(found.get("role") or found.get("type") or "").lower()
    if "role" in found or kind in _ROLES:
        inner = found["data"] if isinstance(found.get("data"), Mapping) else found
        return [(_ROLES.get(kind, kind), content_of(inner))]
    if kind.startswith(_NO_TEXTS):
        return []
    inside = [key for key in _INSIDE if found.get(key)] or (list(found) if len(found) == 1 else [])
    for key in inside:
        first = key in ("choices", "generations") and isinstance(found[key], list) and found[key]
        if messages := messages_in(found[key][0] if first else found[key], role):
            return messages
    return []


def turn_part(
    inputs: Sequence[tuple[str, str]],
    outputs: Sequence[tuple[str, str]],
    *,
    error: object = None,
    whole: bool = False,
    history: bool = False,
) -> Part:
    """Return the part of a span that answers the last user message; with ``history`` it has those before."""
    users = [text for role, text in inputs if role == "user" and text]
    after = _rounds([("user", ""), *outputs])[-1]
    return Part(
        kind="turn",
        user=users[-1] if users else None,
        asks=not inputs or inputs[-1][0] == "user",
        reply=after[1] or None,
        error=text_of(error) or None,
        history=_rounds(inputs)[:-1] if history else [],
        whole=whole,
    )


def _rounds(messages: Iterable[tuple[str, str]]) -> list[tuple[str, str]]:
    """Return the texts of users and the replies to each; those in a row are one."""
    rounds: list[tuple[list[str], list[str]]] = []
    for role, text in messages:
        if role == "user" and (not rounds or rounds[-1][1]):
            rounds.append(([], []))
        if rounds and role in ("user", "assistant") and text:
            rounds[-1][role == "assistant"].append(text)
    return [("\n".join(user), "\n".join(reply)) for user, reply in rounds]


def tool_part(name: str, args: object, result: object, latency_ms: float, error: object) -> Part:
    """Return the part of a call of a tool."""
    return Part(
        kind="tool",
        tool=ToolTrace(
            tool_name=name,
            args=arguments(args),
            result_excerpt=text_of(result),
            latency_ms=latency_ms if latency_ms >= 0 else None,
            error=text_of(error) or None,
        ),
    )


def arguments(value: object) -> dict[str, Any] | str:
    """Return arguments as an object where they are one, else as text."""
    found = json_value(value)
    return found if isinstance(found, dict) else text_of(value)


def recall_part(query: object, found: object, source: str | None = None) -> Part:
    """Return the part of a search: its documents are in a list, or in the first list of an object."""
    queries = [text for _, text in messages_in(query, "user") if text]
    value = json_value(found)
    if isinstance(value, Mapping):
        value = next((each for each in value.values() if isinstance(each, list)), [value])
    documents = value if isinstance(value, list) else [value] if value else []
    items = [item for each in documents if (item := _recalled(each, source)) is not None]
    return Part(kind="recall", recall=RecallTrace(query=queries[-1] if queries else "", items=items))


def _recalled(found: object, source: str | None) -> RecallItem | None:
    """Return a document: a text, an object, one within an object, or a pair with its score."""
    match found:
        case [document, int() | float() as rated]:
            found = {"document": document, "score": rated}
    if not isinstance(found, Mapping):
        return RecallItem(content=text_of(found), source=source) if found else None
    for key in ("document", "node"):
        if isinstance(inner := found.get(key), Mapping):
            found = {**found, **inner}
    texts, ids, scores = (
        [found[key] for key in keys if found.get(key) is not None]
        for keys in (_DOCUMENT_TEXTS, _DOCUMENT_IDS, _DOCUMENT_SCORES)
    )
    score = scores[0] if scores and type(scores[0]) in (int, float) and math.isfinite(scores[0]) else None
    return RecallItem(
        content=text_of(texts[0]) if texts else "",
        item_id=text_of(ids[0]) if ids else None,
        score=score,
        source=source,
    )
