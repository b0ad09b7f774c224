"""The answer that a model has to give: its JSON schema, and the reading of what came."""

from typing import Any, Final, NamedTuple

import msgspec

from memfin.client.structured import InvalidAnswer, read_document
from memfin.contracts.rag import RagAnswer

NAME: Final = "answer"
"""What an answer is to be, in requests and errors."""

LONGEST_ANSWER: Final = 262_144
"""Characters of an answer."""

_PAGE: Final = {"type": ["integer", "null"]}


def _object(**properties: Any) -> dict[str, Any]:
    return {
        "type": "object",
        "properties": properties,
        "required": list(properties),
        "additionalProperties": False,
    }


_QUOTES: Final = {
    "evidence": {"type": "array", "items": _object(page=_PAGE, text={"type": "string"})},
    "citation": {"type": "array", "items": _object(page=_PAGE, quote={"type": "string"})},
}

SCHEMA: Final[dict[str, Any]] = _object(
    answer={"type": "string"},
    abstained={"type": "boolean"},
    amount={"type": ["number", "null"]},
    amount_breakdown={"anyOf": [{"type": "array", "items": {"type": "number"}}, {"type": "null"}]},
    date={"type": ["string", "null"]},
    date_range={
        "anyOf": [
            _object(start={"type": ["string", "null"]}, end={"type": ["string", "null"]}),
            {"type": "null"},
        ]
    },
    count={"type": ["integer", "null"]},
    boolean={"type": ["boolean", "null"]},
    entity={"type": ["string", "null"]},
    text={"type": ["string", "null"]},
    **_QUOTES,
)
"""The JSON schema of an answer, within what strict decoding on servers supports."""

_FIELDS: Final = {field.name: field for field in msgspec.structs.fields(RagAnswer)}


class ModelAnswer(NamedTuple):
    """An answer; ``dropped`` are the fields that were malformed, ``plain`` tells words without JSON."""

    answer: RagAnswer
    dropped: tuple[str, ...] = ()
    plain: bool = False


def read_answer(text: str) -> ModelAnswer:
    """Return the answer that a model's words hold.

    They are one JSON object, as `read_document` takes it. A field that is not what the contract says is
    left out: what is missing is extracted from the words of the answer, as for any system. Words that are no
    JSON object, or one without an answer, are the answer as they stand: nothing of them is repaired.
    """
    try:
        value = read_document(text, NAME, LONGEST_ANSWER)
    except InvalidAnswer:
        return ModelAnswer(RagAnswer(answer=text.strip()), plain=True)
    if not isinstance(value, dict) or not isinstance(value.get("answer"), str):
        return ModelAnswer(RagAnswer(answer=text.strip()), plain=True)
    kept: dict[str, Any] = {}
    dropped: list[str] = []
    for name, field in _FIELDS.items():
        if value.get(name) is None:
            continue
        try:
            kept[name] = msgspec.convert(value[name], field.type)
            msgspec.json.encode(kept[name])  # refuses text that cannot be written
        except (msgspec.ValidationError, ValueError, OverflowError, RecursionError):
            kept.pop(name, None)
            dropped.append(name)
    if "answer" not in kept:  # half a surrogate pair
        return ModelAnswer(RagAnswer(answer=text.strip().encode("utf-8", "replace").decode()), plain=True)
    return ModelAnswer(RagAnswer(**kept), tuple(dropped))
