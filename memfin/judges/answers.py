"""The answer that a judge has to give: its JSON schema, and the strict reading of what came.

The model answers with numbers of rubric items and constraints, not with their words, so that no
untrusted text stands in the schema, and nothing outside the given lists can be answered.
"""

import json
import re
from collections.abc import Sequence
from functools import lru_cache
from typing import Any, Final, Literal

import msgspec

from memfin.contracts import ComplianceLabel, JudgeRequest, Verdict
from memfin.judges.variants import Variant
from memfin.scoring.risk import CANONICAL_TAGS, EXTENSION_TAGS

RISK_TAGS: Final = tuple(
    tag for tag in (*CANONICAL_TAGS, *EXTENSION_TAGS) if tag != "risk_disclosure_present"
)
"""The tags a judge may find disclosed; the one left out is only ever required."""

LABELS: Final[tuple[ComplianceLabel, ...]] = ("compliant", "minor_violation", "severe_violation")

ResponseFormat = Literal["json_schema", "json_object_schema", "json_object", "text"]
"""How an answer is asked for; ``json_object_schema`` is the form of the Python server of llama.cpp."""

LONGEST_REASON: Final = 1000
"""Characters of a reason that are kept."""

LONGEST_ANSWER: Final = 65_536
"""Characters of an answer; a verdict has some hundred."""

_THINK: Final = "<think>"
_THOUGHT: Final = "</think>"

_SHOWN: Final = 60
"""Characters of a bad answer that an error shows."""

_MOST_DIGITS: Final = 20

_BLOCK: Final = re.compile(r"```(?:json)?\s*\n(.*)\n\s*```", re.DOTALL)


class InvalidAnswer(ValueError):  # noqa: N818 - names the event in the record
    """The model answered something that is no verdict; the text says why in one line."""


class Answer(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """The answer as the model writes it."""

    reason: str
    compliance: ComplianceLabel
    risk_tags: list[str]
    score: int | float
    satisfied: list[str] | msgspec.UnsetType = msgspec.UNSET
    contradicted: list[str] | msgspec.UnsetType = msgspec.UNSET


@lru_cache(maxsize=256)
def answer_schema(rubric: int, constraints: int) -> dict[str, Any]:
    """Return the JSON schema of an answer on so many rubric items and constraints; leave it as it is.

    It uses only what strict decoding on servers supports: a list to which nothing can belong is left
    out of the schema, since an empty enumeration is none.
    """
    properties: dict[str, Any] = {"reason": {"type": "string"}}
    if rubric:
        properties["satisfied"] = _list_of(_numbers("R", rubric))
    if constraints:
        properties["contradicted"] = _list_of(_numbers("C", constraints))
    properties["risk_tags"] = _list_of(RISK_TAGS)
    properties["compliance"] = {"type": "string", "enum": list(LABELS)}
    properties["score"] = {"type": "integer", "enum": [1, 2, 3, 4, 5]}
    return {
        "type": "object",
        "properties": properties,
        "required": list(properties),
        "additionalProperties": False,
    }


def response_format(form: ResponseFormat, schema: dict[str, Any]) -> dict[str, Any] | None:
    """Return the ``response_format`` of a request, None where the prompt alone asks for JSON."""
    if form == "json_schema":
        return {"type": form, "json_schema": {"name": "verdict", "strict": True, "schema": schema}}
    if form == "json_object_schema":
        return {"type": "json_object", "schema": schema}
    return {"type": form} if form == "json_object" else None


def read_answer(text: str, request: JudgeRequest, variant: Variant) -> Verdict:
    """Return the verdict that an answer holds, its numbers resolved to the request's own texts.

    The whole text is one JSON object; a Markdown code block around it is allowed, since models that
    are asked for JSON by the prompt alone like to put one there. Before it a reasoning model may have put
    its thoughts, as one block ``<think>...</think>`` at the very beginning. Nothing is guessed or repaired.

    Raises:
        InvalidAnswer: it is anything else.
    """
    stripped = _without_thoughts(text.strip())
    if len(stripped) > LONGEST_ANSWER:
        raise InvalidAnswer(f"the answer has {len(stripped)} characters, over {LONGEST_ANSWER}")
    block = _BLOCK.fullmatch(stripped)
    value = _document(block.group(1) if block else stripped)
    try:
        answer = msgspec.convert(value, Answer)
        msgspec.json.encode(answer)  # refuses text that cannot be written, such as half a surrogate pair
    except (msgspec.ValidationError, ValueError, RecursionError) as problem:
        raise InvalidAnswer(f"the answer is no verdict: {problem}") from problem
    if answer.score not in range(1, 6):  # 5.0 is a whole number to JSON Schema, and to Python
        raise InvalidAnswer(f"the answer is no verdict: score {answer.score} is not a whole number 1 to 5")
    return Verdict(
        score=float(answer.score),
        rubric_items=_named("satisfied", answer.satisfied, "R", request.rubric_required, variant.rubric),
        reason=answer.reason[:LONGEST_REASON],
        compliance=answer.compliance,
        contradicted_constraints=_named(
            "contradicted", answer.contradicted, "C", request.constraints, variant.constraints
        ),
        risk_tags=_known(answer.risk_tags),
    )


def _without_thoughts(text: str) -> str:
    """Take off the one block of thoughts that an answer may begin with."""
    if not text.startswith(_THINK):
        return text
    thoughts, end, rest = text.partition(_THOUGHT)
    if not end:
        raise InvalidAnswer(f"the answer begins with {_THINK} and never ends that: {_excerpt(thoughts)}")
    return rest.strip()


def _document(text: str) -> Any:
    """Return the one JSON value that a text is."""
    if not text:
        raise InvalidAnswer("the answer holds no verdict: nothing stands where the JSON should be")
    try:
        return json.loads(
            text, object_pairs_hook=_once_each, parse_constant=_no_number, parse_int=_whole_number
        )
    except InvalidAnswer:
        raise
    except RecursionError as problem:
        raise InvalidAnswer("the answer is no verdict: it is nested too deeply") from problem
    except json.JSONDecodeError as problem:
        if problem.msg == "Extra data":
            rest = _excerpt(text[problem.pos :])
            raise InvalidAnswer(f"the answer is no verdict: after its JSON comes {rest}") from problem
        raise InvalidAnswer(
            f"the answer is not JSON: {problem.msg} at character {problem.pos}; it begins {_excerpt(text)}"
        ) from problem


def _excerpt(text: str) -> str:
    shown = " ".join(text[: 4 * _SHOWN].split())
    return repr(shown if len(shown) <= _SHOWN else f"{shown[:_SHOWN]}...")


def _whole_number(digits: str) -> int:
    if len(digits) > _MOST_DIGITS:
        raise InvalidAnswer(f"the answer is no verdict: it holds a number of {len(digits)} digits")
    return int(digits)


def _numbers(letter: str, count: int) -> list[str]:
    return [f"{letter}{number}" for number in range(1, count + 1)]


def _list_of(values: Sequence[str]) -> dict[str, Any]:
    return {"type": "array", "items": {"type": "string", "enum": list(values)}}


def _once_each(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    found = dict(pairs)
    if len(found) < len(pairs):
        raise InvalidAnswer("the answer is no verdict: a name stands twice in an object")
    return found


def _no_number(name: str) -> None:
    raise InvalidAnswer(f"the answer is no verdict: {name} is no number of JSON")


def _named(
    field: str,
    numbers: list[str] | msgspec.UnsetType,
    letter: str,
    items: Sequence[str],
    order: Sequence[int],
) -> list[str]:
    """Return the items that the numbers stand for, in the request's order."""
    if numbers is msgspec.UNSET:
        if items:
            raise InvalidAnswer(f"the answer is no verdict: {field} is missing")
        return []
    places = dict(zip(_numbers(letter, len(order)), order, strict=True))
    unknown = [number for number in numbers if number not in places]
    if unknown:
        raise InvalidAnswer(
            f"the answer is no verdict: {field} names {unknown[0][:40]!r}, which was not given"
        )
    return [items[index] for index in sorted({places[number] for number in numbers})]


def _known(tags: Sequence[str]) -> list[str]:
    unknown = [tag for tag in tags if tag not in RISK_TAGS]
    if unknown:
        raise InvalidAnswer(f"the answer is no verdict: risk_tags names {unknown[0][:40]!r}, which is no tag")
    return sorted(set(tags))
