"""What the epochs of a soak amount to: totals, merged distributions, drifts, from bounded state."""

from typing import Any, Final

from memfin.contracts.soak import Distribution, ProcessSample, SoakEpoch, SoakErrors
from memfin.metrics.percentiles import Percentiles
from memfin.runtime.soak_trend import Series

PER: Final = 100_000
"""Turns over which the growth of memory is told."""

LEAST: Final = 10_000
"""Turns below which that growth is not told: it would be that of the start alone."""

RESOURCES: Final = tuple(ProcessSample.__struct_fields__)
"""Values that belong to a process, start anew with it, and take a while to settle."""


class SoakTally:
    """Adds epochs up; its size does not grow with their number."""

    def __init__(self) -> None:
        self.epochs = 0
        self.dialogs = 0
        self.turns = 0
        self.errors = SoakErrors()
        self._process = 0
        self._process_turns = 0
        self._latency = Percentiles()
        self._lag = Percentiles()
        self._metrics: dict[str, Series] = {}
        self._operation: dict[str, Series] = {}

    def add(self, epoch: SoakEpoch) -> None:
        """Count the next epoch."""
        self.epochs += 1
        self.dialogs += epoch.dialogs
        self.turns += epoch.turns
        self.errors = SoakErrors(**{name: self.errors[name] + epoch.errors[name] for name in epoch.errors})
        self._latency.merge(epoch.turn_latency_ms)
        self._lag.merge(epoch.loop_lag_ms)
        for name, value in epoch.metrics.items():
            self._metrics.setdefault(name, Series()).add(value)
        if epoch.process != self._process:
            self._process, self._process_turns = epoch.process, 0
            for name in RESOURCES:
                self._operation[name] = Series()
        self._process_turns += epoch.turns
        for name, value in _operation(epoch).items():
            self._operation.setdefault(name, Series()).add(value)

    def fields(self) -> dict[str, Any]:
        """Return the fields of a `SoakSummary` that come from the epochs."""
        growth, bounds = self._growth()
        return {
            "epochs": self.epochs,
            "dialogs": self.dialogs,
            "turns": self.turns,
            "errors": self.errors,
            "error_rate": self.errors.failed_turns / self.turns if self.turns else 0.0,
            "turn_latency_ms": self.latency(),
            "loop_lag_ms": self._lag.distribution(centroids=False),
            "metrics": {name: series.drift() for name, series in sorted(self._metrics.items())},
            "operation": {
                name: series.drift(warm_up=name in RESOURCES)
                for name, series in sorted(self._operation.items())
            },
            "rss_bytes_per_100k_turns": growth,
            "rss_ci95": bounds,
        }

    def latency(self) -> Distribution:
        """Return the latency of all answered turns."""
        return self._latency.distribution(centroids=False)

    def _growth(self) -> tuple[float | None, tuple[float, float] | None]:
        """Return the growth of resident memory in this process, after its warm-up."""
        series = self._operation.get("rss_bytes")
        if series is None or self._process_turns < LEAST:
            return None, None
        scale = PER * series.count / self._process_turns
        slope, bounds = series.slope(warm_up=True)
        return slope * scale, None if bounds is None else (bounds[0] * scale, bounds[1] * scale)

    def means(self) -> dict[str, float]:
        """Return the mean of every headline value over the epochs."""
        return {name: series.drift().mean for name, series in self._metrics.items()}


def _operation(epoch: SoakEpoch) -> dict[str, float]:
    return {
        "error_rate": epoch.errors.failed_turns / epoch.turns if epoch.turns else 0.0,
        "turn_latency_p50_ms": epoch.turn_latency_ms.p50,
        "turn_latency_p99_ms": epoch.turn_latency_ms.p99,
        "loop_lag_p99_ms": epoch.loop_lag_ms.p99,
        **{name: float(epoch.resources[name]) for name in RESOURCES},
    }
