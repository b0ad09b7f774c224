"""The aggregator: metrics and statistics of what is on disk."""

from abc import ABC, abstractmethod
from collections import Counter
from typing import Any, Generic, TypeVar

from memfin.actors.base import Stage
from memfin.actors.channels import Wires
from memfin.actors.messages import DialogJudged
from memfin.agents.calls import UsageTotal
from memfin.contracts import Counters, DialogTrace, Judgement, JudgeScope, LatencyStats, ModelUsage
from memfin.judges.stats import JudgedTurns, ReplyVoteStats, VoteStats
from memfin.metrics.aggregate import MetricsState
from memfin.metrics.percentiles import Percentiles

C = TypeVar("C")


class Totals(ABC, Generic[C]):
    """Sums over the committed work of a run, the same in any order.

    Attributes:
        dialogs, skips, turns: dialogues by status, skipped lines by reason, turns by status; a question
            counts as a turn.
        rows: scored rows.
        retries, abandoned: calls that were repeated or left behind.
        judged: what the run's judge was asked.
        judge: the votes of an LLM judge on replies.
        latencies: the latencies of what was answered, in milliseconds.
        creation_error: the first error with which an agent could not be created.
    """

    def __init__(self, judge: VoteStats, scope: JudgeScope = "m5") -> None:
        self.dialogs: Counter[str] = Counter()
        self.skips: Counter[str] = Counter()
        self.turns: Counter[str] = Counter()
        self.rows = 0
        self.retries = 0
        self.abandoned = 0
        self.judged = JudgedTurns(scope)
        self.judge = judge
        self.creation_error: str | None = None
        self.latencies = Percentiles()
        self._usage = UsageTotal()
        self._recorded_usage = UsageTotal()

    @abstractmethod
    def add(self, committed: C) -> None:
        """Add one dialogue or question that is on disk."""

    @abstractmethod
    def counters(self) -> Counters:
        """Return the counters of the run manifest; a question counts as a dialogue of one turn."""

    @property
    def no_agent(self) -> str | None:
        """The error with which no agent at all could be created, so that nothing was answered."""
        return None

    def latency(self) -> LatencyStats:
        """Return the distribution of the latencies of what was answered, in milliseconds."""
        return self.latencies.stats()

    def usage_of_run(self, here: ModelUsage | None) -> ModelUsage | None:
        """Return what models took in all processes of the run; ``here`` is what this one knows otherwise."""
        total = UsageTotal()
        for usage in (self._recorded_usage.total, here or self._usage.total):
            if usage is not None:
                total.add(usage)
        return total.of_run()

    def _add_usage(self, usage: ModelUsage | None, *, recorded: bool) -> None:
        if usage is not None:
            (self._recorded_usage if recorded else self._usage).add(usage)


class DialogTotals(Totals[DialogJudged]):
    """The metrics and the statistics of a run's dialogues."""

    def __init__(self, scope: JudgeScope = "m5") -> None:
        self.metrics = MetricsState()
        self._panels = ReplyVoteStats()
        self._not_created = 0
        super().__init__(self._panels, scope)

    def add(self, committed: DialogJudged) -> None:
        """Add a dialogue whose rows are on disk."""
        replayed = committed.replayed
        for row in committed.rows:
            self.metrics.add_row(row)
            self.judged.add(row)
        if replayed.dialog is not None:
            self.metrics.add_dialog(replayed.trace, replayed.dialog)
        self.add_trace(replayed.trace)
        self.rows += len(committed.rows)
        self.retries += replayed.retries
        self.abandoned += replayed.abandoned
        self._add_usage(replayed.usage, recorded=replayed.recorded)
        self._add_votes(committed)

    def add_trace(self, trace: DialogTrace) -> None:
        """Count one dialogue and its turns."""
        self.dialogs[trace.dialog_status] += 1
        if trace.skip_reason is not None:
            self.skips[trace.skip_reason] += 1
        if trace.dialog_status == "failed" and trace.dialog_error is not None:
            self._not_created += 1
            self.creation_error = self.creation_error or trace.dialog_error
        for turn in trace.turns:
            self.turns[turn.turn_status] += 1
            if turn.turn_status == "ok" and turn.latency_ms is not None:
                self.latencies.add(turn.latency_ms)

    def _add_votes(self, committed: DialogJudged) -> None:
        dialog, judgements = committed.replayed.dialog, committed.judgements
        self.judge.add_votes(judgements)
        if dialog is None or not any(judgement.vote > 1 for judgement in judgements):
            return
        votes: dict[int, list[Judgement]] = {}
        for judgement in judgements:
            votes.setdefault(judgement.turn_pair_id, []).append(judgement)
        for row in committed.rows:
            if len(of_turn := votes.get(row.turn_pair_id, [])) > 1:
                self._panels.add_panel(row.rubric_required, dialog.profile_gt.constraints_gt, of_turn)

    @property
    def no_agent(self) -> str | None:
        """The error with which no agent at all could be created, so that nothing was answered."""
        valid = self.dialogs.total() - self.dialogs["skipped"]
        return self.creation_error if 0 < self._not_created == valid else None

    def counters(self) -> Counters:
        """Return the counters of the run manifest."""
        total, skipped = self.dialogs.total(), self.dialogs["skipped"]
        return Counters(
            total_dialogs=total,
            valid_dialogs=total - skipped,
            skipped_dialogs=skipped,
            failed_dialogs=self.dialogs["failed"],
            total_turn_pairs=self.turns.total(),
        )


class Aggregator(Stage[C], Generic[C]):
    """Adds everything that is committed to the totals of its suite."""

    def __init__(self, totals: Totals[C], wires: Wires[Any, Any, Any, C]) -> None:
        super().__init__("aggregator", wires.committed.receiver())
        self.totals = totals

    async def handle(self, message: C) -> None:
        """Add one dialogue or question."""
        self.totals.add(message)
