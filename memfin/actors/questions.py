"""Stages of the RAG suite: source, askers, scorer, judging and totals of a benchmark's questions."""

from collections.abc import Awaitable, Callable, Collection, Sequence
from typing import Any, Final, NamedTuple

import msgspec

from memfin.actors.aggregator import Totals
from memfin.actors.base import Source, Stage
from memfin.actors.channels import Wires, send
from memfin.actors.judge_pool import Judging
from memfin.actors.messages import Commit, encode, utc_now
from memfin.client.errors import EndpointDown
from memfin.contracts import Counters, JudgeFailure, ModelUsage, Record
from memfin.contracts.progress import QuestionDone, QuestionStarted
from memfin.contracts.rag import (
    RAG_SCHEMA_VERSION,
    RagAnswer,
    RagJudgeControls,
    RagJudged,
    RagJudgement,
    RagJudgeRequest,
    RagQuestion,
    RagResult,
    RagVerdict,
)
from memfin.contracts.reading import decode
from memfin.errors import UsageError
from memfin.journal import RAG_ANSWERS, RAG_JUDGEMENTS, RAG_RESULTS, CommittedDialog, Entry
from memfin.judges.protocol import JudgeResult
from memfin.rag.aggregation import RagState
from memfin.rag.judging import RagControl, RagVotes, judge_request, rag_control_result, rag_control_warnings
from memfin.rag.scoring import DocumentIndex, QuestionScore, score_failure, score_question
from memfin.rag.systems.under_test import Asked, SystemUnderTest
from memfin.sandbox.references import describe
from memfin.sandbox.thread import CallThread

LONG_TEXT: Final = 20_000
"""Minimum characters of an answer that is scored in a worker thread, so that the loop does not wait."""


QuestionTask = tuple[int, RagQuestion]
"""Position of a question in the benchmark, from 1, and the question."""


class QuestionAnswered(NamedTuple):
    """A question with the outcome of asking it."""

    question_index: int
    question: RagQuestion
    asked: Asked


class QuestionScored(Record):
    """A question and its result, with its retries and the usage of a language model.

    ``recorded`` says that the run directory holds the answer already. Once a judge has read it,
    ``judgements`` are the votes that a language model gave.
    """

    question: RagQuestion
    result: RagResult
    retries: int = 0
    usage: ModelUsage | None = None
    recorded: bool = False
    judgements: list[RagJudgement] = []

    def commit(self) -> Commit:
        """Return the commit of an answer before judging."""
        return Commit(self._entry(RAG_ANSWERS)._replace(kind="replay"), answers=1)

    def commit_result(self) -> Commit:
        """Return the commit of a result without judging."""
        return Commit(self._entry(RAG_RESULTS), answers=1, event=self._done(), completed=self)

    def commit_judged(self, failures: int) -> Commit:
        """Return the commit of a judged result; ``failures`` judgements failed."""
        result = self.result
        rows = {RAG_RESULTS: [encode(result)], RAG_JUDGEMENTS: [*map(encode, self.judgements)]}
        entry = Entry("judged", result.question_index, result.id, rows, judge_failures=failures)
        return Commit(entry, event=self._done(), completed=self)

    def _entry(self, file: str) -> Entry:
        result = self.result
        return Entry(
            "result",
            result.question_index,
            result.id,
            {file: [encode(result)]},
            status="ok" if result.error is None else "failed",
            retries=self.retries,
            usage=self.usage,
        )

    def _done(self) -> QuestionDone:
        result = self.result
        return QuestionDone(
            ts="",
            run_id=result.run_id,
            question_id=result.id,
            question_index=result.question_index,
            type=result.type,
            passed=result.passed,
            score=result.score,
            max_score=result.max_score,
            latency_ms=result.latency_ms,
            error=result.error,
        )


QuestionWires = Wires[QuestionTask, QuestionAnswered, QuestionScored]


class QuestionSource(Source):
    """Source of questions for the askers, and of committed results for the aggregator.

    ``ready`` is awaited before the first question goes out, and not at all when every one is answered.
    Answers that an earlier process has committed and that no judge has read go to the judge pool.
    """

    def __init__(
        self,
        source: str,
        questions: Collection[QuestionTask],
        ready: Callable[[], Awaitable[None]],
        wires: QuestionWires,
    ) -> None:
        self._tasks = wires.tasks.sender()
        self._committed, self._unjudged = wires.committed.sender(), wires.scored.sender()
        super().__init__("source", self._tasks, self._committed, self._unjudged)
        self._source = source
        self._questions = questions
        self._ready = ready
        self._directory = wires.directory

    async def run(self) -> None:
        """Send every question.

        Raises:
            UsageError: the system cannot be made, or these are not the questions that the run has asked.
        """
        done = self._directory.committed
        lost = len(done)
        if lost and (lost := lost - sum(done.get(number) is not None for number, _ in self._questions)):
            raise UsageError(
                f"{self._source}: {lost} questions that the run has asked are missing; start a new run"
            )
        if len(done) < len(self._questions):
            await self._ready()
        for number, question in self._questions:
            self._count_received()
            known = done.get(number)
            if known is None:
                await send(self._tasks, (number, question))
            else:
                channel = self._committed if known.judged else self._unjudged
                await send(channel, await self._recorded(question, known))
            self._count_sent()

    async def _recorded(self, question: RagQuestion, known: CommittedDialog) -> QuestionScored:
        """Return the recorded result, checked against the question at its position."""
        lines = await self._directory.read(known)
        result = decode(lines.rows[0] if lines.rows else lines.trace, RagResult)
        if (result.id, result.question) != (question.id, question.question):
            raise UsageError(
                f"{self._source}: question {known.dataset_index} is not {known.dialog_id!r}, which the run "
                "has asked at this position; start a new run"
            )
        return QuestionScored(
            question=question,
            result=result,
            retries=known.retries,
            usage=known.usage,
            recorded=True,
            judgements=[decode(line, RagJudgement) for line in lines.judgements],
        )


class Asker(Stage[QuestionTask]):
    """Actor that asks questions; ``workers_dialog`` of them share one inbox and the system."""

    def __init__(self, worker_id: int, system: SystemUnderTest, wires: QuestionWires) -> None:
        self._outbox, self._events = wires.answered.sender(), wires.events.sender()
        super().__init__(f"asker-{worker_id}", wires.tasks.receiver(), self._outbox, self._events)
        self._worker_id = worker_id
        self._system = system
        self._run_id = wires.run_id

    async def handle(self, message: QuestionTask) -> None:
        """Ask one question."""
        number, question = message
        started = QuestionStarted(
            ts=utc_now(),
            run_id=self._run_id,
            question_id=question.id,
            question_index=number,
            worker_id=self._worker_id,
        )
        await send(self._events, started)
        try:
            asked = await self._system.ask(question)
        except EndpointDown as problem:
            self.report_down(problem)
            self.leave()
            return
        await send(self._outbox, QuestionAnswered(number, question, asked))
        self._sent += 1

    def drain(self) -> None:
        """Ask nothing more; the current question may be answered."""
        self.draining = True


class QuestionScorer(Stage[QuestionAnswered]):
    """Actor that scores answers by the rules of `memfin.rag.scoring`.

    Answers are hostile text and rules may be wrong: a rule that fails costs its question, not the run.
    Where answers are ``judged``, they go to the trace writer before they wait for the judge.
    """

    def __init__(self, index: DocumentIndex | None, wires: QuestionWires, *, judged: bool) -> None:
        self._outbox, self._commits = wires.scored.sender(), wires.commits.sender()
        super().__init__("scorer", wires.answered.receiver(), self._outbox, self._commits)
        self._run_id = wires.run_id
        self._board = wires.board
        self._index = index
        self._judged = judged
        self._thread = CallThread("memfin-scorer")

    async def handle(self, message: QuestionAnswered) -> None:
        """Score one answer."""
        result, asked = await self._result(message), message.asked
        scored = QuestionScored(
            question=message.question, result=result, retries=asked.retries, usage=asked.usage
        )
        if self._judged:
            await send(self._commits, scored.commit())
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
            error, score = await self._scored(question, asked.answer)
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
        self, question: RagQuestion, answer: RagAnswer
    ) -> tuple[str | None, QuestionScore | None]:
        """Return an error and no score, or no error and the score."""
        evidence, quotes = [each.text for each in answer.evidence], [each.quote for each in answer.citation]
        texts = [answer.answer, *evidence, *quotes]
        try:
            if sum(map(len, texts)) > LONG_TEXT:
                return None, await self._thread.call(score_question, question, answer, self._index)
            return None, score_question(question, answer, self._index)
        except Exception as problem:  # noqa: BLE001 - see the class
            line = f"could not be scored, please report this: {describe(problem)}"
        self._board.warn(f"question {question.id} {line}")
        return line, None


class QuestionJudging(Judging[QuestionScored, RagJudgeRequest, RagVerdict]):
    """Judging of answers; a question on which the system failed has none.

    Without a judge, whose name is None then, results are complete with their scores.
    """

    def __init__(
        self,
        run_id: str,
        judge: str | None = None,
        index: DocumentIndex | None = None,
        controls: Sequence[RagControl] = (),
    ) -> None:
        self.controls = [control.request for control in controls]
        self._controls = controls
        self._run_id = run_id
        self._judge = judge
        self._index = index

    def requests(self, message: QuestionScored) -> list[RagJudgeRequest]:
        """Return the request of an answer."""
        answer = message.result.answer
        if answer is None or self._index is None or self._judge is None:
            return []
        return [judge_request(message.question, answer, self._index)]

    def judged(
        self,
        message: QuestionScored,
        requests: Sequence[RagJudgeRequest],
        results: Sequence[JudgeResult[RagVerdict]],
    ) -> Commit:
        """Return the question with the verdict or its failure in the result, and the votes."""
        if self._judge is None:
            return message.commit_result()
        if not results:
            return message.commit_judged(0)
        request, (outcome, votes), result = requests[0], results[0], message.result
        pages = [page.number for page in request.pages]
        judged = RagJudged(judge=self._judge, pages=pages, pages_left_out=request.pages_left_out)
        if isinstance(outcome, RagVerdict):
            judged = judged.replace(**dict(outcome))
        else:
            judged = judged.replace(error=outcome.reason, declined=outcome.declined)
        asked: Any = {"run_id": result.run_id, "id": result.id, "question_index": result.question_index}
        judgements = [RagJudgement(**dict(vote), **asked, judge=self._judge) for vote in votes]
        scored = message.replace(result=result.replace(judge=judged), judgements=judgements)
        return scored.commit_judged(int(isinstance(outcome, JudgeFailure)))

    def failed(self, message: QuestionScored, reason: str) -> Commit:
        """Return the question with a failed judgement."""
        result = message.result.replace(judge=RagJudged(judge=self._judge or "", error=reason))
        return message.replace(result=result).commit_judged(1)

    def name(self, message: QuestionScored) -> str:
        """Return the id of the question."""
        return message.result.id

    def control_report(self, results: Sequence[tuple[int, JudgeResult[RagVerdict]]]) -> RagJudgeControls:
        """Return the report on controls, answers of known quality."""
        judged = [rag_control_result(self._controls[place], result) for place, result in results]
        warnings = rag_control_warnings(judged)
        return RagJudgeControls(
            run_id=self._run_id, judge=self._judge or "", controls=judged, warnings=warnings
        )


class QuestionTotals(Totals[QuestionScored]):
    """Sums of a benchmark and statistics of its questions."""

    def __init__(self) -> None:
        self.state = RagState()
        self._votes = RagVotes()
        super().__init__(self._votes)

    def add(self, committed: QuestionScored) -> None:
        """Add a committed question."""
        result = committed.result
        self.state.add(result)
        self.turns[result.status or ("ok" if result.error is None else "error")] += 1
        self.rows += 1
        self.retries += committed.retries
        if result.judge is not msgspec.UNSET:
            self.judged.count(result.judge.error, result.judge.declined)
            self._votes.add(committed.judgements)
        if result.error is None and result.latency_ms is not None:
            self.latencies.add(result.latency_ms)
        self._add_usage(committed.usage, recorded=committed.recorded)

    def counters(self) -> Counters:
        """Return the counters of the run manifest: a question counts as a dialogue of one turn."""
        total = self.turns.total()
        return Counters(
            total_dialogs=total,
            valid_dialogs=total,
            failed_dialogs=total - self.turns["ok"],
            total_turn_pairs=total,
        )
