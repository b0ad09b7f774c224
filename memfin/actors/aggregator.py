"""The aggregator: metrics and statistics of committed work."""

from abc import ABC, abstractmethod
from collections import Counter
from typing import Any, Generic, TypeVar

from memfin.actors.base import Stage
from memfin.actors.channels import Wires
from memfin.agents.calls import UsageTotal
from memfin.contracts import Counters, JudgeScope, LatencyStats, ModelUsage
from memfin.judges.stats import JudgedTurns, VoteStats
from memfin.metrics.percentiles import Percentiles

C = TypeVar("C")


class Totals(ABC, Generic[C]):
    """Sums over the committed work of a run, independent of its order.

    Attributes:
        dialogs, skips, turns: dialogues by status, skipped lines by reason, turns by status; a question
            counts as a turn.
        rows: scored rows.
        retries, abandoned: calls that were repeated or abandoned.
        judged: counts of the requests to the run's judge.
        judge: the votes of an LLM judge on replies.
        latencies: the latencies of answers, in milliseconds.
        creation_error: the first error of creating an agent.
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
        """Add one committed dialogue or question."""

    @abstractmethod
    def counters(self) -> Counters:
        """Return the counters of the run manifest; a question counts as a dialogue of one turn."""

    @property
    def no_agent(self) -> str | None:
        """The error if no agent could be created, so that nothing was answered."""
        return None

    def latency(self) -> LatencyStats:
        """Return the distribution of the latencies of answers, in milliseconds."""
        return self.latencies.stats()

    def statistics(self) -> dict[str, Any]:
        """Return the fields of the run's statistics that committed work decides."""
        return {
            "turn_latency_ms": self.latency(),
            "turns_by_status": dict(sorted(self.turns.items())),
            "dialogs_by_status": dict(sorted(self.dialogs.items())),
            "skips_by_reason": dict(sorted(self.skips.items())),
            "judged_turns": self.judged.turns,
            "judge_failures": self.judged.failed,
            "judge_declined": dict(sorted(self.judged.declined.items())),
            "judge_failure_reasons": self.judged.reasons(),
            "turn_retries": self.retries,
        }

    def usage_of_run(self, here: ModelUsage | None) -> ModelUsage | None:
        """Return the model usage of all processes of the run; ``here`` is the usage known to this process."""
        total = UsageTotal()
        for usage in (self._recorded_usage.total, here or self._usage.total):
            if usage is not None:
                total.add(usage)
        return total.of_run()

    def _add_usage(self, usage: ModelUsage | None, *, recorded: bool) -> None:
        if usage is not None:
            (self._recorded_usage if recorded else self._usage).add(usage)


class Aggregator(Stage[C], Generic[C]):
    """Actor that adds committed work to the totals of its suite."""

    def __init__(self, totals: Totals[C], wires: Wires[Any, Any, C]) -> None:
        super().__init__("aggregator", wires.committed.receiver())
        self.totals = totals

    async def handle(self, message: C) -> None:
        """Add one dialogue or question."""
        self.totals.add(message)
