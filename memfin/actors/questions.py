"""What the actors of the RAG suite send each other, and the ledger that writes questions down."""

from collections.abc import Sequence

import msgspec

from memfin.actors.base import utc_now
from memfin.actors.ledger import Ledger, Weight
from memfin.contracts import BegunDialog, ModelUsage, Record
from memfin.contracts.progress import QuestionDone
from memfin.contracts.rag import RagQuestion, RagResult
from memfin.journal import RAG_RESULTS, Entry
from memfin.rag.systems.under_test import Asked


class QuestionTask(Record):
    """A question to ask; ``question_index`` is its place in the benchmark, from 1."""

    question_index: int
    question: RagQuestion


class QuestionAnswered(Record):
    """A question and what came of it."""

    question_index: int
    question: RagQuestion
    asked: Asked


class QuestionScored(Record):
    """A question's result, with the retries it took and what a language model took for the answer.

    ``recorded`` says that the run directory holds it already.
    """

    result: RagResult
    retries: int = 0
    usage: ModelUsage | None = None
    recorded: bool = False


class QuestionLedger(Ledger[QuestionScored, QuestionScored]):
    """Writes each result down as one commit; one whose system failed can be asked again later."""

    def __init__(self, run_id: str) -> None:
        self._run_id = run_id
        self._encode = msgspec.json.Encoder().encode

    def weigh(self, message: QuestionScored) -> Weight:
        """Return one turn."""
        del message
        return Weight(1)

    def write(self, group: Sequence[QuestionScored]) -> tuple[list[Entry], list[BegunDialog]]:
        """Return a commit for each result; no question is ever under way on disk."""
        return [
            Entry(
                "result",
                message.result.question_index,
                message.result.id,
                {RAG_RESULTS: [self._encode(message.result)]},
                status="ok" if message.result.error is None else "failed",
                retries=message.retries,
                usage=message.usage,
            )
            for message in group
        ], []

    def answered(self, message: QuestionScored) -> int:
        """Return one answer."""
        del message
        return 1

    def completed(self, message: QuestionScored) -> tuple[QuestionDone, QuestionScored]:
        """Return the news of the question."""
        result = message.result
        done = QuestionDone(
            ts=utc_now(),
            run_id=self._run_id,
            question_id=result.id,
            question_index=result.question_index,
            type=result.type,
            passed=result.passed,
            score=result.score,
            max_score=result.max_score,
            latency_ms=result.latency_ms,
            error=result.error,
        )
        return done, message
