"""The answer that a judge has to give: its JSON schema, and the strict reading of what came.

The model answers with numbers of rubric items and constraints, not with their words, so that no
untrusted text stands in the schema, and nothing outside the given lists can be answered.
"""

from collections.abc import Sequence
from functools import lru_cache
from typing import Any, Final

import msgspec

from memfin.contracts import ComplianceLabel, JudgeRequest, Verdict
from memfin.judges.variants import Variant
from memfin.scoring.risk import CANONICAL_TAGS, EXTENSION_TAGS
from memfin.wire.structured import InvalidAnswer, read_document

NAME: Final = "verdict"
"""What an answer is to be, in requests and errors."""

RISK_TAGS: Final = tuple(
    tag for tag in (*CANONICAL_TAGS, *EXTENSION_TAGS) if tag != "risk_disclosure_present"
)
"""The tags a judge may find disclosed; the one left out is only ever required."""

LABELS: Final[tuple[ComplianceLabel, ...]] = ("compliant", "minor_violation", "severe_violation")

LONGEST_REASON: Final = 1000
"""Characters of a reason that are kept."""

LONGEST_ANSWER: Final = 65_536
"""Characters of an answer; a verdict has some hundred."""


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


def read_answer(text: str, request: JudgeRequest, variant: Variant) -> Verdict:
    """Return the verdict that an answer holds, its numbers resolved to the request's own texts.

    The text is one JSON object, see `read_document`; nothing is guessed or repaired.

    Raises:
        InvalidAnswer: it is anything else.
    """
    value = read_document(text, NAME, LONGEST_ANSWER)
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


def _numbers(letter: str, count: int) -> list[str]:
    return [f"{letter}{number}" for number in range(1, count + 1)]


def _list_of(values: Sequence[str]) -> dict[str, Any]:
    return {"type": "array", "items": {"type": "string", "enum": list(values)}}


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
