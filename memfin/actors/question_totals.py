"""What committed questions amount to: the summary's sums, counters, statistics."""

from collections import Counter

from memfin.actors.aggregator import Totals
from memfin.actors.latencies import Latencies
from memfin.actors.questions import QuestionScored
from memfin.agents.calls import UsageTotal
import msgspec

from memfin.contracts import Counters, LatencyStats, ModelUsage
from memfin.judges.failures import JudgedTurns
from memfin.rag.aggregation import RagState
from memfin.rag.judging.panel import RagTally


class QuestionTotals(Totals[QuestionScored]):
    """The sums of a benchmark, and a count of questions by what came of them.

    ``judged`` counts the answers that any judge was asked about, ``judge`` has the votes of a language model.
    """

    def __init__(self) -> None:
        self.state = RagState()
        self.questions: Counter[str] = Counter()
        self.judged = JudgedTurns()
        self.judge = RagTally()
        self.retries = 0
        self._latencies = Latencies()
        self._usage = UsageTotal()
        self._recorded_usage = UsageTotal()

    def add(self, committed: QuestionScored) -> None:
        """Add a question that is on disk."""
        result = committed.result
        self.state.add(result)
        self.questions[result.status or ("ok" if result.error is None else "error")] += 1
        self.retries += committed.retries
        if result.judge is not msgspec.UNSET:
            self.judged.count(result.judge.error, result.judge.declined)
            self.judge.add(committed.judgements)
        if result.error is None and result.latency_ms is not None:
            self._latencies.add(result.latency_ms)
        if committed.usage is not None:
            (self._recorded_usage if committed.recorded else self._usage).add(committed.usage)

    def latency(self) -> LatencyStats:
        """Return the distribution of the latencies of answered questions, in milliseconds."""
        return self._latencies.stats()

    def usage_of_run(self, here: ModelUsage | None) -> ModelUsage | None:
        """Return what models took in all processes of the run; ``here`` is what this one knows otherwise."""
        total = UsageTotal()
        for usage in (self._recorded_usage.total, here or self._usage.total):
            if usage is not None:
                total.add(usage)
        return total.of_run()

    def counters(self) -> Counters:
        """Return the counters of the run manifest: a question counts as a dialogue of one turn."""
        total = self.questions.total()
        return Counters(
            total_dialogs=total,
            valid_dialogs=total,
            failed_dialogs=total - self.questions["ok"],
            total_turn_pairs=total,
        )
