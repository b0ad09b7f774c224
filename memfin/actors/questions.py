"""What the actors of the RAG suite send each other, and the encoder that writes questions down."""

from collections.abc import Sequence
from typing import Final

import msgspec

from memfin.actors.base import utc_now
from memfin.actors.commit_encoder import CommitEncoder, MessageSize
from memfin.contracts import DialogCheckpoint, ModelUsage, Record
from memfin.contracts.progress import QuestionDone
from memfin.contracts.rag import RagJudgement, RagQuestion, RagResult
from memfin.journal import RAG_ANSWERS, RAG_JUDGEMENTS, RAG_RESULTS, Entry
from memfin.journal.commits import CommitKind
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
    """A question and its result, with the retries it took and what a language model took for the answer.

    ``recorded`` says that the run directory holds the answer already. Once a judge has read it,
    ``judgements`` are the votes that a language model gave.
    """

    question: RagQuestion
    result: RagResult
    retries: int = 0
    usage: ModelUsage | None = None
    recorded: bool = False
    judgements: list[RagJudgement] = []


class QuestionJudged(Record):
    """A question whose answer a judge has read, or that has none; ``failures`` judgements failed."""

    scored: QuestionScored
    failures: int = 0


ToResults = QuestionScored | QuestionJudged


class QuestionEncoder(CommitEncoder[QuestionScored, QuestionScored]):
    """Writes each result down as one commit; one whose system failed can be asked again later."""

    def __init__(self, run_id: str) -> None:
        self._run_id = run_id

    def weigh(self, message: QuestionScored) -> MessageSize:
        """Return one turn."""
        del message
        return MessageSize(1)

    def write(self, group: Sequence[QuestionScored]) -> tuple[list[Entry], list[DialogCheckpoint]]:
        """Return a commit for each result; no question is ever under way on disk."""
        return [_answered(message, "result", RAG_RESULTS) for message in group], []

    def answered(self, message: QuestionScored) -> int:
        """Return one answer."""
        del message
        return 1

    def completed(self, message: QuestionScored) -> tuple[QuestionDone, QuestionScored]:
        """Return the news of the question."""
        return _news(message, self._run_id), message


class JudgedQuestionEncoder(CommitEncoder[ToResults, QuestionScored]):
    """Writes each answer down, and in a commit of its own its result once the judge has read it."""

    def __init__(self, run_id: str) -> None:
        self._run_id = run_id

    def weigh(self, message: ToResults) -> MessageSize:
        """Return one turn."""
        del message
        return MessageSize(1)

    def write(self, group: Sequence[ToResults]) -> tuple[list[Entry], list[DialogCheckpoint]]:
        """Return a commit for each answer and for each result."""
        return [
            _judged(message)
            if isinstance(message, QuestionJudged)
            else _answered(message, "replay", RAG_ANSWERS)
            for message in group
        ], []

    def answered(self, message: ToResults) -> int:
        """Return one for an answer."""
        return int(isinstance(message, QuestionScored))

    def completed(self, message: ToResults) -> tuple[QuestionDone, QuestionScored] | None:
        """Return the news of a question that is judged."""
        if not isinstance(message, QuestionJudged):
            return None
        return _news(message.scored, self._run_id), message.scored


_encode: Final = msgspec.json.Encoder().encode


def _answered(message: QuestionScored, kind: CommitKind, file: str) -> Entry:
    result = message.result
    return Entry(
        kind,
        result.question_index,
        result.id,
        {file: [_encode(result)]},
        status="ok" if result.error is None else "failed",
        retries=message.retries,
        usage=message.usage,
    )


def _judged(message: QuestionJudged) -> Entry:
    result = message.scored.result
    return Entry(
        "judged",
        result.question_index,
        result.id,
        {
            RAG_RESULTS: [_encode(result)],
            RAG_JUDGEMENTS: [_encode(judgement) for judgement in message.scored.judgements],
        },
        judge_failures=message.failures,
    )


def _news(scored: QuestionScored, run_id: str) -> QuestionDone:
    result = scored.result
    return QuestionDone(
        ts=utc_now(),
        run_id=run_id,
        question_id=result.id,
        question_index=result.question_index,
        type=result.type,
        passed=result.passed,
        score=result.score,
        max_score=result.max_score,
        latency_ms=result.latency_ms,
        error=result.error,
    )
