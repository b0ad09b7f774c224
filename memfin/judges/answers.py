"""The answer that a judge has to give: its JSON schema, and the strict reading of what came.

The model answers with numbers of rubric items and constraints, not with their words, so that no
untrusted text stands in the schema, and nothing outside the given lists can be answered.
"""

from collections.abc import Sequence
from functools import lru_cache
from typing import Any, Final

import msgspec

from memfin.client.structured import InvalidAnswer, read_document
from memfin.contracts import ComplianceLabel, JudgeRequest, Verdict
from memfin.judges.variants import Variant
from memfin.scoring.risk import CANONICAL_TAGS, EXTENSION_TAGS

NAME: Final = "verdict"
"""What an answer is to be, in requests and errors."""

RISK_TAGS: Final = tuple(
    tag for tag in (*CANONICAL_TAGS, *EXTENSION_TAGS) if tag != "risk_disclosure_present"
)
"""The tags a judge may find disclosed; the one left out is only ever required."""

_TAGS: Final = frozenset(RISK_TAGS)

LABELS: Final[tuple[ComplianceLabel, ...]] = ("compliant", "minor_violation", "severe_violation")

SCORES: Final = range(1, 6)

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


_DECODER: Final = msgspec.json.Decoder(Answer)
_ALWAYS: Final = 6
"""Texts in every answer: the names ``reason``, ``compliance``, ``risk_tags`` and ``score``, two values."""


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
    properties["score"] = {"type": "integer", "enum": list(SCORES)}
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
    answer = _plain_answer(text) or _any_answer(text)
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


def _plain_answer(text: str) -> Answer | None:
    """Return the answer that stands there as nearly all do: bare JSON, in order, without an escape.

    It is read at once. Of a name that stands twice that keeps the last, so the quotation marks are counted:
    without escapes every text and every name has two, and what was passed over is missing in the answer.
    """
    if "\\" in text or len(text) > LONGEST_ANSWER:
        return None
    try:
        answer = _DECODER.decode(text)
    except (msgspec.DecodeError, ValueError):
        return None
    lists = [each for each in (answer.satisfied, answer.contradicted) if each is not msgspec.UNSET]
    texts = _ALWAYS + len(lists) + sum(map(len, lists)) + len(answer.risk_tags)
    return answer if text.count('"') == 2 * texts and answer.score in SCORES else None


def _any_answer(text: str) -> Answer:
    """Return the answer, or raise what is wrong with it."""
    value = read_document(text, NAME, LONGEST_ANSWER)
    try:
        answer = msgspec.convert(value, Answer)
        msgspec.json.encode(answer)  # refuses text that cannot be written, such as half a surrogate pair
    except (msgspec.ValidationError, ValueError, RecursionError) as problem:
        raise InvalidAnswer(f"the answer is no verdict: {problem}") from problem
    if answer.score not in SCORES:  # 5.0 is a whole number to JSON Schema, and to Python
        raise InvalidAnswer(f"the answer is no verdict: score {answer.score} is not a whole number 1 to 5")
    return answer


def _numbers(letter: str, count: int) -> list[str]:
    return [f"{letter}{number}" for number in range(1, count + 1)]


def _list_of(values: Sequence[str]) -> dict[str, Any]:
    return {"type": "array", "items": {"type": "string", "enum": list(values)}}


def _named(
    field: str,
    numbers: list[str] | msgspec.UnsetType,
    letter: str,
    items: Sequence[str],
    order: tuple[int, ...],
) -> list[str]:
    """Return the items that the numbers stand for, in the request's order."""
    if numbers is msgspec.UNSET:
        if items:
            raise InvalidAnswer(f"the answer is no verdict: {field} is missing")
        return []
    places = _places(letter, order)
    unknown = [number for number in numbers if number not in places]
    if unknown:
        raise InvalidAnswer(
            f"the answer is no verdict: {field} names {unknown[0][:40]!r}, which was not given"
        )
    return [items[index] for index in sorted({places[number] for number in numbers})]


@lru_cache(maxsize=256)
def _places(letter: str, order: tuple[int, ...]) -> dict[str, int]:
    """Return which item each number stands for; leave it as it is."""
    return dict(zip(_numbers(letter, len(order)), order, strict=True))


def _known(tags: Sequence[str]) -> list[str]:
    unknown = [tag for tag in tags if tag not in _TAGS]
    if unknown:
        raise InvalidAnswer(f"the answer is no verdict: risk_tags names {unknown[0][:40]!r}, which is no tag")
    return sorted(set(tags))
