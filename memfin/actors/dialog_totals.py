"""What committed dialogues amount to: metrics, counters, statistics."""

from collections import Counter

from memfin.actors.aggregator import Totals
from memfin.actors.latencies import Latencies
from memfin.actors.messages import DialogCommitted, DialogJudged
from memfin.agents.calls import UsageTotal
from memfin.contracts import Counters, DialogTrace, Judgement, JudgeScope, LatencyStats, ModelUsage
from memfin.judges.failures import JudgedTurns
from memfin.judges.tally import JudgeTally
from memfin.metrics.aggregate import MetricsState


class Tally:
    """Counts of a run: dialogues and turns by status, latencies of answered turns, what models took.

    ``judged`` counts what the run's judge was asked, ``judge`` has the votes of an LLM judge on replies,
    ``usage`` what the replies of this process said that a language model took, and ``recorded_usage`` those of
    earlier ones. ``creation_error`` is the first one with which an agent could not be created.
    """

    def __init__(self, scope: JudgeScope = "m5") -> None:
        self.dialogs: Counter[str] = Counter()
        self.skips: Counter[str] = Counter()
        self.turns: Counter[str] = Counter()
        self.rows = 0
        self.retries = 0
        self.abandoned = 0
        self.judged = JudgedTurns(scope)
        self.judge = JudgeTally()
        self.usage = UsageTotal()
        self.recorded_usage = UsageTotal()
        self.creation_error: str | None = None
        self._not_created = 0
        self._latencies = Latencies()

    def add(self, trace: DialogTrace) -> None:
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
                self._latencies.add(turn.latency_ms)

    def add_judged(self, judged: DialogJudged) -> None:
        """Count what the judge of one dialogue said, and what its agent took."""
        replayed = judged.replayed
        self.rows += len(judged.rows)
        self.retries += replayed.retries
        self.abandoned += replayed.abandoned
        for row in judged.rows:
            self.judged.add(row)
        if replayed.usage is not None:
            (self.recorded_usage if replayed.recorded else self.usage).add(replayed.usage)
        self.judge.add_votes(judged.judgements)
        if replayed.dialog is None or not any(judgement.vote > 1 for judgement in judged.judgements):
            return
        votes: dict[int, list[Judgement]] = {}
        for judgement in judged.judgements:
            votes.setdefault(judgement.turn_pair_id, []).append(judgement)
        constraints = replayed.dialog.profile_gt.constraints_gt
        for row in judged.rows:
            if len(of_turn := votes.get(row.turn_pair_id, [])) > 1:
                self.judge.add_panel(row.rubric_required, constraints, of_turn)

    @property
    def had_no_agent(self) -> bool:
        """Failure of every valid dialogue to get an agent."""
        return 0 < self._not_created == self.dialogs.total() - self.dialogs["skipped"]

    def usage_of_run(self, here: ModelUsage | None) -> ModelUsage | None:
        """Return what the agents' models took in all processes of the run.

        ``here`` is what this process knows otherwise, failed turns included; None where it knows nothing.
        """
        total = UsageTotal()
        for usage in (self.recorded_usage.total, here or self.usage.total):
            if usage is not None:
                total.add(usage)
        return total.of_run()

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

    def latency(self) -> LatencyStats:
        """Return the distribution of the latencies, nearest-rank percentiles, in milliseconds."""
        return self._latencies.stats()


class DialogTotals(Totals[DialogCommitted]):
    """The metrics and the tally of a run's dialogues."""

    def __init__(self, scope: JudgeScope) -> None:
        self.metrics = MetricsState()
        self.tally = Tally(scope)

    def add(self, committed: DialogCommitted) -> None:
        """Add a dialogue whose rows are on disk."""
        judged = committed.judged
        replayed = judged.replayed
        for row in judged.rows:
            self.metrics.add_row(row)
        if replayed.dialog is not None:
            self.metrics.add_dialog(replayed.trace, replayed.dialog)
        self.tally.add(replayed.trace)
        self.tally.add_judged(judged)
