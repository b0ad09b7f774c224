"""Latencies of a run, eight bytes each."""

import math
from array import array

from memfin.contracts import LatencyStats


class Latencies:
    """Collects latencies in milliseconds and tells their distribution."""

    def __init__(self) -> None:
        self._values = array("d")

    def add(self, latency_ms: float) -> None:
        """Take one latency in."""
        self._values.append(latency_ms)

    def stats(self) -> LatencyStats:
        """Return the distribution, with nearest-rank percentiles."""
        ordered = sorted(self._values)
        if not ordered:
            return LatencyStats()

        def percentile(share: float) -> float:
            return ordered[max(0, math.ceil(share * len(ordered)) - 1)]

        return LatencyStats(
            count=len(ordered),
            mean=sum(ordered) / len(ordered),
            p50=percentile(0.50),
            p90=percentile(0.90),
            p99=percentile(0.99),
            max=ordered[-1],
        )
