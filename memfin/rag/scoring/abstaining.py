"""Whether an answer counts as an abstention (spec section 9, ``abstained``)."""

from typing import Any, NamedTuple

from memfin.contracts.rag import RagAnswer
from memfin.rag.extraction.abstention import recognize_abstention


class Stance(NamedTuple):
    """Whether an answer abstains, who says so (``declared``, ``text``, ``typed_answer``), and how."""

    abstains: bool
    source: str
    sign: str | None = None
    reason: str | None = None

    def details(self) -> dict[str, Any]:
        """Return what is recorded of it."""
        return {
            "abstained": self.abstains,
            "source": self.source,
            **({"sign": self.sign} if self.sign else {}),
            **({"reason": self.reason} if self.reason else {}),
        }


def has_typed_answer(answer: RagAnswer) -> bool:
    """Say whether the answer fills a typed field; free ``text`` may say anything and is none."""
    return any(
        value is not None
        for value in (
            answer.amount,
            answer.amount_breakdown,
            answer.date,
            answer.date_range,
            answer.count,
            answer.boolean,
            answer.entity,
        )
    )


def stance(answer: RagAnswer, question: str) -> Stance:
    """Say whether an answer abstains.

    Who fills a typed field answers, whatever else is said. Otherwise ``abstained`` decides where it is given,
    and the answer's words where it is not.
    """
    if has_typed_answer(answer):
        return Stance(abstains=False, source="typed_answer")
    if answer.abstained is not None:
        return Stance(abstains=answer.abstained, source="declared")
    found = recognize_abstention(answer.answer, question)
    if not found.abstains and found.reason == "empty" and answer.text:
        found = recognize_abstention(answer.text, question)
    return Stance(found.abstains, "text", found.sign, found.reason)
