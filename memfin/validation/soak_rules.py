"""What must hold in the artifacts of a soak, within a record and across ``soak.jsonl``."""

from collections.abc import Iterator
from itertools import pairwise

from memfin.contracts.soak import Distribution, SoakEpoch, SoakErrors, SoakSummary
from memfin.validation.findings import Steps, Violation
from memfin.validation.rules import RunRules


class SoakEpochRules(RunRules):
    """``soak.jsonl``: epochs stand in their order; keeps of each what the other artifacts must agree with."""

    def __init__(self) -> None:
        super().__init__()
        self.epochs = 0
        self.turns = 0
        self.dialogs = 0

    def check(self, record: SoakEpoch) -> Iterator[Violation]:
        """Check one epoch."""
        yield from super().check(record)
        self.epochs += 1
        self.turns += record.turns
        self.dialogs += record.dialogs
        if record.epoch != self.epochs:
            yield Violation(("epoch",), f"{record.epoch} stands where {self.epochs} belongs")
        if record.wall_seconds < 0:
            yield Violation(("wall_seconds",), f"{record.wall_seconds} is negative")
        yield from _errors(record.errors, record.turns)
        for name in ("turn_latency_ms", "loop_lag_ms"):
            yield from _distribution(record[name], (name,))
            weight = sum(weight for _, weight in record[name].centroids)
            if round(weight) != record[name].count:
                yield Violation((name, "centroids"), f"weigh {weight:g}, where {record[name].count} belongs")


class SoakSummaryRules(RunRules):
    """``soak_summary.json``; remembers the summary."""

    def __init__(self) -> None:
        super().__init__()
        self.summary: SoakSummary | None = None

    def check(self, record: SoakSummary) -> Iterator[Violation]:
        """Check the summary."""
        yield from super().check(record)
        self.summary = record
        yield from _errors(record.errors, record.turns)
        for name in ("turn_latency_ms", "loop_lag_ms"):
            yield from _distribution(record[name], (name,))
        if record.elapsed_seconds < 0:
            yield Violation(("elapsed_seconds",), f"{record.elapsed_seconds} is negative")
        if record.pruned_epochs > record.epochs:
            yield Violation(("pruned_epochs",), f"{record.pruned_epochs} of {record.epochs} epochs")
        for group in ("metrics", "operation"):
            for name, drift in record[group].items():
                if not drift.min <= drift.mean <= drift.max:
                    yield Violation(
                        (group, name, "mean"), f"{drift.mean} is outside {drift.min} to {drift.max}"
                    )
                if drift.ci95 is not None and not drift.ci95[0] <= drift.slope <= drift.ci95[1]:
                    yield Violation((group, name, "ci95"), f"leaves out the slope {drift.slope}")


def _errors(errors: SoakErrors, turns: int) -> Iterator[Violation]:
    if errors.failed_turns > turns:
        yield Violation(("errors", "failed_turns"), f"{errors.failed_turns} of {turns} turns")
    if errors.timeouts > errors.failed_turns:
        yield Violation(
            ("errors", "timeouts"), f"{errors.timeouts} of {errors.failed_turns} turns that failed"
        )


def _distribution(found: Distribution, steps: Steps) -> Iterator[Violation]:
    order = (found.min, found.p50, found.p90, found.p99, found.max)
    if any(after < before for before, after in pairwise(order)):
        yield Violation(steps, "min, p50, p90, p99 and max are not in this order")
