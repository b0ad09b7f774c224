"""Structured output: response formats for one JSON object, and its strict parser."""

import json
import re
from typing import Any, Final, Literal

from memfin.text.lines import one_line

ResponseFormat = Literal["json_schema", "json_object_schema", "json_object", "text"]
"""Format of a request; ``json_object_schema`` is the form of the Python server of llama.cpp."""

FORMATS: Final[tuple[ResponseFormat, ...]] = ("json_schema", "json_object_schema", "json_object", "text")
"""Formats in order of preference; the next one is for servers that refuse one (`REFUSES_FORMAT`)."""

REFUSES_FORMAT: Final = frozenset({400, 422, 501})
"""Statuses by which servers refuse a format."""

_THINK: Final = "<think>"
_THOUGHT: Final = "</think>"

_SHOWN: Final = 60
"""Maximum characters of an invalid answer in an error."""

_MAX_DIGITS: Final = 20

_BLOCK: Final = re.compile(r"```(?:json)?\s*\n(.*)\n\s*```", re.DOTALL)


class InvalidAnswer(ValueError):  # noqa: N818 - names the event in the record
    """The answer is not the requested JSON; the message is one line."""


def response_format(form: ResponseFormat, schema: dict[str, Any], name: str) -> dict[str, Any] | None:
    """Return the ``response_format`` of a request, None where the prompt alone asks for JSON."""
    if form == "json_schema":
        return {"type": form, "json_schema": {"name": name, "strict": True, "schema": schema}}
    if form == "json_object_schema":
        return {"type": "json_object", "schema": schema}
    return {"type": form} if form == "json_object" else None


def read_document(text: str, name: str, longest: int) -> Any:
    """Parse the one JSON value of an answer; ``name`` is its expected kind, such as ``verdict``.

    The whole text is one JSON value; a Markdown code block around it is allowed, since models that
    are asked for JSON by the prompt alone like to put one there. Before it a reasoning model may have put
    its thoughts, as one block ``<think>...</think>`` at the very beginning. Nothing is guessed or repaired.

    Raises:
        InvalidAnswer: it is anything else, or longer than ``longest`` characters.
    """
    text = text.strip()
    if text.startswith(_THINK):
        thoughts, end, text = text.partition(_THOUGHT)
        if not end:
            raise InvalidAnswer(
                f"the answer begins with {_THINK}, which is never closed: {_excerpt(thoughts)}"
            )
        text = text.strip()
    if len(text) > longest:
        raise InvalidAnswer(f"the answer has {len(text)} characters, over {longest}")
    if block := _BLOCK.fullmatch(text):
        text = block[1]
    if not text:
        raise InvalidAnswer(f"the answer has no {name}: the JSON is missing")
    try:
        return json.loads(
            text, object_pairs_hook=_once_each, parse_constant=_no_number, parse_int=_whole_number
        )
    except RecursionError as problem:
        raise InvalidAnswer(f"the answer is not a {name}: it is nested too deeply") from problem
    except json.JSONDecodeError as problem:
        if problem.msg == "Extra data":
            rest = _excerpt(text[problem.pos :])
            raise InvalidAnswer(f"the answer is not a {name}: its JSON is followed by {rest}") from problem
        raise InvalidAnswer(
            f"the answer is not JSON: {problem.msg} at character {problem.pos}; it begins {_excerpt(text)}"
        ) from problem
    except ValueError as problem:  # from the hooks: valid for Python, but invalid or ambiguous JSON
        raise InvalidAnswer(f"the answer is not a {name}: {problem}") from problem


def _once_each(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    found = dict(pairs)
    if len(found) < len(pairs):
        raise ValueError("a name occurs twice in an object")
    return found


def _no_number(constant: str) -> None:
    raise ValueError(f"{constant} is not a number in JSON")


def _whole_number(digits: str) -> int:
    if len(digits) > _MAX_DIGITS:
        raise ValueError(f"it has a number of {len(digits)} digits")
    return int(digits)


def _excerpt(text: str) -> str:
    return repr(one_line(text, _SHOWN))
