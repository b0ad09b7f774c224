"""The actors of a benchmark run: who sends what to whom, over channels of which size."""

from collections.abc import Callable, Collection, Mapping, Sequence
from typing import Any, Final, NamedTuple

import anyio
from anyio.streams.memory import MemoryObjectReceiveStream, MemoryObjectSendStream

from memfin.actors.aggregator import Aggregator
from memfin.actors.asker import Asker
from memfin.actors.base import EventSender
from memfin.actors.commit_encoder import CommitEncoder
from memfin.actors.judge_pool import JudgePool
from memfin.actors.question_judging import QuestionJudging
from memfin.actors.question_scorer import QuestionScorer
from memfin.actors.question_source import QuestionSource
from memfin.actors.question_totals import QuestionTotals
from memfin.actors.questions import (
    JudgedQuestionEncoder,
    QuestionAnswered,
    QuestionEncoder,
    QuestionScored,
    QuestionTask,
    ToResults,
)
from memfin.actors.trace_writer import INBOX, TraceWriter
from memfin.contracts import BenchConfig, Counters, RunStats
from memfin.contracts.rag import RagQuestion, RagSummary
from memfin.contracts.rag_judgement import RagJudgeRequest
from memfin.contracts.rag_summary import SUMMARY, summary_pieces
from memfin.contracts.rag_verdict import RagVerdict
from memfin.errors import UsageError
from memfin.journal import RAG_JUDGE_CONTROLS, RAG_RESULTS, Artifact, RunDirectory
from memfin.judges import Notices
from memfin.rag.aggregation import individual_results
from memfin.rag.judging import RagControl, RagJudge
from memfin.rag.scoring import DocumentIndex
from memfin.rag.systems.under_test import SystemUnderTest
from memfin.runtime.outputs import pretty_json
from memfin.runtime.suite import Measured, Pipeline

QUESTIONS: Final = 16
"""Questions that wait between two actors at most."""


class QuestionInputs(NamedTuple):
    """What the actors need to know of the plan; questions come with their places in the benchmark."""

    config: BenchConfig
    run_id: str
    source: str
    questions: Collection[tuple[int, RagQuestion]]
    document_index: DocumentIndex | None
    system: SystemUnderTest
    about: dict[str, Any]
    judging: "QuestionJudge | None" = None


class QuestionJudge(NamedTuple):
    """What reads the answers besides the formulas, and what it needs for that."""

    judge: RagJudge
    notices: Notices
    document_index: DocumentIndex
    controls: Sequence[RagControl]


_Pool = JudgePool[QuestionScored, RagJudgeRequest, RagVerdict, ToResults]


class QuestionPipeline(Pipeline[RagSummary]):
    """The source, the askers, the scorer, perhaps the judge pool, the trace writer and the aggregator."""

    def __init__(self, inputs: QuestionInputs, directory: RunDirectory, events: EventSender) -> None:
        self._inputs = inputs
        self._results = directory.path / RAG_RESULTS
        config, run_id = inputs.config, inputs.run_id
        tasks_in, tasks_out = anyio.create_memory_object_stream[QuestionTask](
            min(config.workers_dialog, QUESTIONS)
        )
        answered_in, answered_out = anyio.create_memory_object_stream[QuestionAnswered](QUESTIONS)
        scored_in, scored_out = anyio.create_memory_object_stream[QuestionScored](INBOX)
        committed_in, committed_out = anyio.create_memory_object_stream[QuestionScored](QUESTIONS)
        source = QuestionSource(
            inputs.source,
            inputs.questions,
            ready=inputs.system.open,
            directory=directory,
            tasks=tasks_in,
            committed=committed_in.clone(),
            unjudged=scored_in.clone(),
        )
        askers = [
            Asker(
                worker_id,
                inputs.system,
                run_id,
                inbox=tasks_out.clone(),
                outbox=answered_in.clone(),
                events=events.clone(),
            )
            for worker_id in range(config.workers_dialog)
        ]
        tasks_out.close()
        answered_in.close()
        self.producers = (source, *askers)
        self._judge_pool: _Pool | None = None
        to_writer: tuple[CommitEncoder[Any, QuestionScored], MemoryObjectReceiveStream[Any]]
        to_writer = QuestionEncoder(run_id), scored_out
        answers_in: MemoryObjectSendStream[ToResults] | None = None
        if inputs.judging is not None:
            judged_in, judged_out = anyio.create_memory_object_stream[ToResults](INBOX)
            answers_in = judged_in.clone()
            self._judge_pool = _pool(inputs, inputs.judging, scored_out, judged_in, events)
            self.judges = (self._judge_pool,)
            to_writer = JudgedQuestionEncoder(run_id), judged_out
        self.scorer = QuestionScorer(
            run_id,
            inputs.document_index,
            inbox=answered_out,
            outbox=scored_in,
            writer=answers_in,
            events=events.clone(),
        )
        encoder, inbox = to_writer
        self.writer = TraceWriter(
            directory,
            encoder,
            interval=config.fsync_interval,
            size=config.fsync_turns,
            inbox=inbox,
            outbox=committed_in,
            events=events.clone(),
        )
        self._totals = QuestionTotals()
        self.aggregator = Aggregator(self._totals, inbox=committed_out)

    def on_given_up(self, tell: Callable[[str], None]) -> None:
        """Have ``tell`` called with the reason when the judge is given up as down."""
        if self._judge_pool is not None:
            self._judge_pool.on_given_up = tell

    @property
    def counters(self) -> Counters:
        """The counters of the run manifest, of what is committed so far."""
        return self._totals.counters()

    @property
    def rows(self) -> int:
        """How many questions are committed."""
        return self._totals.questions.total()

    def summary(self) -> RagSummary:
        """Return what the answers are worth.

        Raises:
            UsageError: there was no question.
        """
        if not self.rows:
            raise UsageError(f"{self._inputs.source}: holds no question")
        return self._totals.state.summary(self._inputs.run_id, **self._inputs.about)

    def stats(self, measured: Measured) -> RunStats:
        """Return what depends on time, and what the judge did."""
        totals, pool = self._totals, self._judge_pool
        return RunStats(
            run_id=measured.run_id,
            wall_seconds=measured.wall_seconds,
            turn_latency_ms=totals.latency(),
            turns_by_status=dict(sorted(totals.questions.items())),
            dialogs_by_status={},
            skips_by_reason={},
            judged_turns=totals.judged.turns,
            judge_failures=totals.judged.failed,
            judge_declined=dict(sorted(totals.judged.declined.items())),
            judge_failure_reasons=totals.judged.reasons(),
            judge=pool.judge_statistics(totals.judge) if pool is not None else None,
            turn_retries=totals.retries,
            abandoned_calls=self._inputs.system.abandoned,
            actors=measured.actors,
            usage=totals.usage_of_run(measured.usage),
            agent_parameters=measured.agent_parameters,
        )

    def artifacts(self, summary: RagSummary) -> Mapping[str, Artifact]:
        """Return the summary, which lists the committed results, and what a judge made of its controls."""
        controls = self._judge_pool.controls if self._judge_pool is not None else None
        return {
            **({RAG_JUDGE_CONTROLS: pretty_json(controls)} if controls is not None else {}),
            SUMMARY: summary_pieces(summary, individual_results(self._results)),
        }


def _pool(
    inputs: QuestionInputs,
    judging: QuestionJudge,
    scored: MemoryObjectReceiveStream[QuestionScored],
    judged: MemoryObjectSendStream[ToResults],
    events: EventSender,
) -> _Pool:
    judge = judging.judge
    return JudgePool(
        judge,
        QuestionJudging(inputs.run_id, judge.name, judging.document_index, judging.controls),
        inputs.config.workers_judge,
        inputs.run_id,
        notices=judging.notices,
        inbox=scored,
        outbox=judged,
        events=events.clone(),
    )
