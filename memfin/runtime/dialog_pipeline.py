"""The actors of a dialogue run: who sends what to whom, over channels of which size."""

from collections.abc import Callable, Mapping, Sequence
from typing import Any, Final, NamedTuple

import anyio

from memfin.actors.aggregator import Aggregator
from memfin.actors.base import Actor, EventSender
from memfin.actors.dialog_encoder import DialogEncoder
from memfin.actors.dialog_judging import DialogJudging
from memfin.actors.dialog_totals import DialogTotals
from memfin.actors.judge_pool import JudgePool
from memfin.actors.messages import DialogCommitted, DialogScored, ToScorer, ToWriter
from memfin.actors.scorer import Scorer
from memfin.actors.trace_writer import INBOX, TraceWriter
from memfin.contracts import Counters, EvalSummary, RunConfig, RunStats
from memfin.errors import UsageError
from memfin.journal import JUDGE_CONTROLS, Artifact, RunDirectory
from memfin.judges import DialogJudge, Notices
from memfin.judges.controls import Control
from memfin.metrics.aggregate import summary_pieces
from memfin.runtime.outputs import pretty_json
from memfin.runtime.suite import Measured, Pipeline

DIALOGS: Final = 4
"""Dialogues that wait between two actors at most, besides those being worked on."""


class DialogInputs(NamedTuple):
    """What the actors need to know of the plan."""

    config: RunConfig
    run_id: str
    source: str
    dataset_path: str
    fingerprint: str
    judge: DialogJudge | None
    notices: Notices
    controls: Sequence[Control]


class DialogPipeline(Pipeline[EvalSummary]):
    """Replayers or a recorded trace, the scorer, the judge pool, the trace writer and the aggregator."""

    def __init__(
        self,
        inputs: DialogInputs,
        producers: Callable[..., list[Actor[Any]]],
        directory: RunDirectory,
        events: EventSender,
    ) -> None:
        self._inputs = inputs
        config, run_id = inputs.config, inputs.run_id
        replayed_in, replayed_out = anyio.create_memory_object_stream[ToScorer](DIALOGS)
        scored_in, scored_out = anyio.create_memory_object_stream[DialogScored](DIALOGS)
        judged_in, judged_out = anyio.create_memory_object_stream[ToWriter](INBOX)
        committed_in, committed_out = anyio.create_memory_object_stream[DialogCommitted](DIALOGS)
        self.producers = producers(replayed_in, events, judged_in, committed_in, directory)
        replayed_in.close()
        self.scorer = Scorer(
            run_id=run_id,
            config=config,
            inbox=replayed_out,
            outbox=scored_in,
            events=events.clone(),
            contradictions_judged=inputs.judge is not None and config.judge_scope == "all",
        )
        judge = inputs.judge
        self._judge_pool = JudgePool(
            judge,
            DialogJudging(
                run_id, judge.name if judge is not None else None, config.judge_scope, inputs.controls
            ),
            config.workers_judge,
            run_id,
            notices=inputs.notices,
            inbox=scored_out,
            outbox=judged_in,
            events=events.clone(),
        )
        self.judges = (self._judge_pool,)
        self.writer = TraceWriter(
            directory,
            DialogEncoder(run_id),
            interval=config.fsync_interval,
            size=config.fsync_turns,
            inbox=judged_out,
            outbox=committed_in,
            events=events.clone(),
        )
        self._totals = DialogTotals(config.judge_scope)
        self.aggregator = Aggregator(self._totals, inbox=committed_out)

    def on_given_up(self, tell: Callable[[str], None]) -> None:
        """Have ``tell`` called with the reason when the judge is given up as down."""
        self._judge_pool.on_given_up = tell

    @property
    def no_agent(self) -> str | None:
        """The error with which no agent at all could be created, so that nothing was answered."""
        tally = self._totals.tally
        return tally.creation_error if tally.had_no_agent else None

    @property
    def counters(self) -> Counters:
        """The counters of the run manifest, of what is committed so far."""
        return self._totals.tally.counters()

    @property
    def rows(self) -> int:
        """How many rows of turns are committed."""
        return self._totals.tally.rows

    def summary(self) -> EvalSummary:
        """Return the metrics.

        Raises:
            UsageError: there was no valid dialogue.
        """
        inputs, counters = self._inputs, self.counters
        if counters.total_dialogs == 0:
            raise UsageError(f"{inputs.source}: holds no dialogue")
        if counters.valid_dialogs == 0:
            skips = self._totals.tally.skips
            reasons = ", ".join(f"{reason}: {count}" for reason, count in sorted(skips.items()))
            raise UsageError(f"{inputs.source}: no valid dialogue ({reasons}); memfin validate tells where")
        return self._totals.metrics.summary(
            run_id=inputs.run_id,
            dataset_path=inputs.dataset_path,
            counters=counters,
            fingerprint=inputs.fingerprint,
            trace_version=inputs.config.trace_version,
        )

    def stats(self, measured: Measured) -> RunStats:
        """Return what depends on time, and what the judge did."""
        tally = self._totals.tally
        return RunStats(
            run_id=measured.run_id,
            wall_seconds=measured.wall_seconds,
            turn_latency_ms=tally.latency(),
            turns_by_status=dict(sorted(tally.turns.items())),
            dialogs_by_status=dict(sorted(tally.dialogs.items())),
            skips_by_reason=dict(sorted(tally.skips.items())),
            judged_turns=tally.judged.turns,
            judge_failures=tally.judged.failed,
            judge_declined=dict(sorted(tally.judged.declined.items())),
            judge_failure_reasons=tally.judged.reasons(),
            turn_retries=tally.retries,
            abandoned_calls=tally.abandoned,
            judge=self._judge_pool.judge_statistics(tally.judge),
            actors=measured.actors,
            usage=tally.usage_of_run(measured.usage),
            agent_parameters=measured.agent_parameters,
        )

    def artifacts(self, summary: EvalSummary) -> Mapping[str, Artifact]:
        """Return the metrics, and what an LLM judge made of its controls."""
        controls = self._judge_pool.controls
        return {
            **({JUDGE_CONTROLS: pretty_json(controls)} if controls is not None else {}),
            "metrics_summary.json": summary_pieces(summary),
        }
