"""The answer that a judge of answers has to give: its JSON schema, and the strict reading of what came."""

from typing import Any, Final

import msgspec

from memfin.client.structured import InvalidAnswer, read_document
from memfin.contracts.rag import RagVerdict
from memfin.judges.reply_grading import MAX_ANSWER, MAX_REASON, NAME

MARKS: Final = ("faithfulness", "answer_correctness")

SCHEMA: Final[dict[str, Any]] = {
    "type": "object",
    "properties": {
        field: schema
        for mark in MARKS
        for field, schema in (
            (f"{mark}_reason", {"type": "string"}),  # first, so that the mark follows from it
            (mark, {"type": "integer", "enum": [1, 2, 3, 4, 5]}),
        )
    },
    "required": [field for mark in MARKS for field in (f"{mark}_reason", mark)],
    "additionalProperties": False,
}
"""The JSON schema of an answer; it holds nothing of the request."""


class Answer(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """The answer as the model writes it."""

    faithfulness_reason: str
    faithfulness: int | float
    answer_correctness_reason: str
    answer_correctness: int | float


def read_answer(text: str) -> RagVerdict:
    """Return the verdict that an answer holds.

    The text is one JSON object, see `read_document`; nothing is guessed or repaired.

    Raises:
        InvalidAnswer: it is anything else.
    """
    value = read_document(text, NAME, MAX_ANSWER)
    try:
        answer = msgspec.convert(value, Answer)
        msgspec.json.encode(answer)  # refuses text that cannot be written, such as half a surrogate pair
    except (msgspec.ValidationError, ValueError, RecursionError) as problem:
        raise InvalidAnswer(f"the answer is no verdict: {problem}") from problem
    for mark in MARKS:
        score = getattr(answer, mark)
        if score not in range(1, 6):  # 5.0 is a whole number to JSON Schema, and to Python
            raise InvalidAnswer(f"the answer is no verdict: {mark} {score} is not a whole number 1 to 5")
    return RagVerdict(
        faithfulness=float(answer.faithfulness),
        answer_correctness=float(answer.answer_correctness),
        faithfulness_reason=answer.faithfulness_reason[:MAX_REASON],
        answer_correctness_reason=answer.answer_correctness_reason[:MAX_REASON],
    )
