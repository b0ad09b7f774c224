"""The actors of a benchmark run: who sends what to whom, over channels of which size."""

from collections.abc import Collection, Mapping
from typing import Any, Final, NamedTuple

import anyio

from memfin.actors.aggregator import Aggregator
from memfin.actors.asker import Asker
from memfin.actors.base import EventSender
from memfin.actors.question_scorer import QuestionScorer
from memfin.actors.question_source import QuestionSource
from memfin.actors.question_totals import QuestionTotals
from memfin.actors.questions import QuestionAnswered, QuestionLedger, QuestionScored, QuestionTask
from memfin.actors.trace_writer import INBOX, TraceWriter
from memfin.contracts import BenchConfig, Counters, RunStats
from memfin.contracts.rag import RagQuestion, RagSummary
from memfin.contracts.rag_summary import SUMMARY, summary_pieces
from memfin.errors import UsageError
from memfin.journal import RAG_RESULTS, Paper, RunDirectory
from memfin.rag.results import individual_results
from memfin.rag.scoring import DocumentIndex
from memfin.rag.systems.under_test import SystemUnderTest
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


class QuestionPipeline(Pipeline[RagSummary]):
    """The source, the askers, the scorer, the trace writer and the aggregator."""

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
        self.scorer = QuestionScorer(
            run_id, inputs.document_index, inbox=answered_out, outbox=scored_in, events=events.clone()
        )
        self.writer = TraceWriter(
            directory,
            QuestionLedger(run_id),
            interval=config.fsync_interval,
            size=config.fsync_turns,
            inbox=scored_out,
            outbox=committed_in,
            events=events.clone(),
        )
        self._totals = QuestionTotals()
        self.aggregator = Aggregator(self._totals, inbox=committed_out)

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
        """Return what depends on time."""
        totals = self._totals
        return RunStats(
            run_id=measured.run_id,
            wall_seconds=measured.wall_seconds,
            turn_latency_ms=totals.latency(),
            turns_by_status=dict(sorted(totals.questions.items())),
            dialogs_by_status={},
            skips_by_reason={},
            turn_retries=totals.retries,
            abandoned_calls=self._inputs.system.abandoned,
            actors=measured.actors,
            usage=totals.usage_of_run(measured.usage),
            agent_parameters=measured.agent_parameters,
        )

    def papers(self, summary: RagSummary) -> Mapping[str, Paper]:
        """Return the summary, which lists the results that are committed."""
        return {SUMMARY: summary_pieces(summary, individual_results(self._results))}
