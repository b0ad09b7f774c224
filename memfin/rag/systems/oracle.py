"""Oracle: the RAG system that answers from the ground truth, the upper bound of a benchmark."""

from typing import Final

from memfin.contracts.rag import RagAnswer, RagAnswerRange, RagCitation, RagEvidence, RagQuestion
from memfin.rag.systems.protocol import KnownSystem
from memfin.version import __version__

_DECLINED: Final = "原文没有给出答案，无法回答。"


class Oracle(KnownSystem):
    """Answers each question as its file expects it; scores 100 % where the file is sound."""

    reference = model = "oracle"
    version = __version__
    sees_truth = True

    async def query(self, question: RagQuestion) -> RagAnswer:
        """Answer a question with the expected answer."""
        return right_answer(question)


def right_answer(question: RagQuestion) -> RagAnswer:
    """Return the answer that the benchmark expects to a question."""
    if question.type == "conflict_gap":
        return _conflict_gap(question)
    expected = question.expected
    required = question.required_evidence
    breakdown = expected.breakdown()
    period = expected.date_range
    quotes = list(dict.fromkeys((each.page, each.must_include) for each in required))
    words = expected.key_points or [text for _, text in quotes] or [expected.text_answer or "-"]
    return RagAnswer(
        answer="；".join(words),
        amount=expected.amount_total,
        amount_breakdown=list(breakdown) if breakdown is not None else None,
        date=expected.date,
        date_range=None if period is None else RagAnswerRange(start=period.start, end=period.end),
        count=expected.count,
        text=expected.text_answer,
        boolean=expected.boolean_answer,
        entity=expected.entity,
        evidence=[RagEvidence(page=page, text=text) for page, text in quotes],
        citation=[RagCitation(page=page, quote=text) for page, text in quotes],
        abstained=False,
    )


def _conflict_gap(question: RagQuestion) -> RagAnswer:
    place = question.evidence_location
    quotes = [text for text in (question.required_quote, *question.additional_quotes) if text]
    words = "；".join(quotes)
    return RagAnswer(
        answer=f"{_DECLINED}{words}" if question.should_abstain else words or question.question,
        citation=[RagCitation(page=None if place is None else place.page, quote=text) for text in quotes],
        abstained=question.should_abstain,
    )
