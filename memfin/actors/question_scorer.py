"""The scorer of the RAG suite: holds answers against what their questions expect."""

from typing import Final

from anyio.streams.memory import MemoryObjectReceiveStream, MemoryObjectSendStream

from memfin.actors.base import EventSender, Stage, utc_now
from memfin.actors.channels import send
from memfin.actors.questions import QuestionAnswered, QuestionScored, ToResults
from memfin.contracts import Warned
from memfin.contracts.rag import RAG_SCHEMA_VERSION, RagAnswer, RagResult
from memfin.rag.scoring import DocumentIndex, QuestionScore, score_failure, score_question
from memfin.sandbox.references import describe
from memfin.sandbox.thread import CallThread

LONG_TEXT: Final = 20_000
"""Characters from which on an answer is read in a worker thread, so that the loop does not wait for it."""


class QuestionScorer(Stage[QuestionAnswered]):
    """Scores each answer; the rules are in `memfin.rag.scoring`.

    Answers are hostile text and rules may be wrong: a rule that fails costs its question, not the run.
    """

    def __init__(
        self,
        run_id: str,
        index: DocumentIndex | None,
        *,
        inbox: MemoryObjectReceiveStream[QuestionAnswered],
        outbox: MemoryObjectSendStream[QuestionScored],
        writer: MemoryObjectSendStream[ToResults] | None,
        events: EventSender,
    ) -> None:
        """Prepare; with a judge after the scorer, answers go to the ``writer`` before they wait for it."""
        super().__init__("scorer", inbox, outbox, writer, events)
        self._run_id = run_id
        self._index = index
        self._outbox = outbox
        self._writer = writer
        self._events = events
        self._thread = CallThread("memfin-scorer")

    async def handle(self, message: QuestionAnswered) -> None:
        """Score one answer."""
        result, asked = await self._result(message), message.asked
        scored = QuestionScored(
            question=message.question, result=result, retries=asked.retries, usage=asked.usage
        )
        if self._writer is not None:
            await send(self._writer, scored)
        await send(self._outbox, scored)
        self._sent += 1

    def close(self) -> None:
        """Close the channels and end the thread."""
        self._thread.stop()
        super().close()

    async def _result(self, message: QuestionAnswered) -> RagResult:
        asked, question = message.asked, message.question
        status, error, score = asked.status, asked.error, None
        if asked.answer is not None:
            error, score = await self._scored(message, asked.answer)
            status = "ok" if error is None else "error"
        if score is None:
            score = score_failure(question, error or asked.status)
        return RagResult(
            schema_version=RAG_SCHEMA_VERSION,
            run_id=self._run_id,
            id=question.id,
            type=question.type,
            question=question.question,
            question_index=message.question_index,
            passed=score.passed,
            score=score.score,
            max_score=score.max_score,
            details=score.details,
            error=error,
            status=status,
            answer=asked.answer,
            latency_ms=asked.latency_ms,
            difficulty=question.metadata.difficulty,
            category=question.metadata.category,
            tags=question.metadata.tags,
        )

    async def _scored(
        self, message: QuestionAnswered, answer: RagAnswer
    ) -> tuple[str | None, QuestionScore | None]:
        """Return what went wrong and no score, or nothing and the score."""
        question = message.question
        try:
            if _length(answer) > LONG_TEXT:
                return None, await self._thread.call(score_question, question, answer, self._index)
            return None, score_question(question, answer, self._index)
        except Exception as problem:  # noqa: BLE001 - see the class
            line = f"could not be scored, please report this: {describe(problem)}"
        warning = f"question {question.id} {line}"
        await send(self._events, Warned(ts=utc_now(), run_id=self._run_id, message=warning))
        return line, None


def _length(answer: RagAnswer) -> int:
    pieces = sum(len(piece.text) for piece in answer.evidence) + sum(
        len(one.quote) for one in answer.citation
    )
    return len(answer.answer) + pieces
