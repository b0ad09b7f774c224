"""Percentiles of a stream of times: exact for a run of ordinary size, mergeable across epochs of any number.

docs/adr/0011-latency-percentiles.md gives the reasons for the t-digest. The percentiles of a soak come from
the merged digests of its epochs, because an average of percentiles is not a percentile.
"""

import math
from array import array
from bisect import bisect
from collections.abc import Iterable
from typing import Final

from fastdigest import TDigest

from memfin.contracts import LatencyStats
from memfin.contracts.soak import Distribution, rounded

MAX_CENTROIDS: Final = 200
LINE_CUTS: Final = (0.15, 0.3, 0.4, 0.48, 0.52, 0.6, 0.75, 0.88, 0.92, 0.95, 0.97, 0.98, 0.985, 0.99, 0.995)
"""Quantiles between the centroids of a line of ``soak.jsonl``, dense around p50, p90 and p99."""

MAX_EXACT: Final = 1 << 16
"""The number of values that are held as they are (half a megabyte); above it a t-digest estimates."""


class Percentiles:
    """The distribution of times in milliseconds, in bounded memory.

    Percentiles are exact (nearest rank) while at most `MAX_EXACT` values were added and nothing was merged.
    """

    def __init__(self) -> None:
        self._held = array("d")
        self._digest = TDigest(max_centroids=MAX_CENTROIDS)
        self._total = 0.0  # a digest of rounded centroids has no exact sum

    def add(self, milliseconds: float) -> None:
        """Add one time."""
        if len(self._held) >= MAX_EXACT:
            self._settle()
        self._held.append(milliseconds)
        self._total += milliseconds

    def add_all(self, values: Iterable[float]) -> None:
        """Add many times without holding them all."""
        for value in values:
            self.add(value)

    def merge(self, other: Distribution) -> None:
        """Add the times of a distribution that has its centroids."""
        if not other.count:
            return
        self._settle()
        self._total += other.mean * other.count
        self._digest = self._digest.merge(
            TDigest.from_dict(
                {
                    "max_centroids": MAX_CENTROIDS,
                    "n_values": other.count,
                    "mass": float(other.count),
                    "sum": other.mean * other.count,
                    "min": other.min,
                    "max": other.max,
                    "centroids": [{"m": mean, "c": weight} for mean, weight in other.centroids],
                }
            )
        )

    def stats(self) -> LatencyStats:
        """Return the figures of ``run_stats.json``."""
        found = self.distribution(centroids=False)
        return LatencyStats(
            count=found.count, mean=found.mean, p50=found.p50, p90=found.p90, p99=found.p99, max=found.max
        )

    def distribution(self, *, centroids: bool = True) -> Distribution:
        """Return the figures, with ``centroids`` those of ``soak.jsonl``: rounded, and fit to be merged."""
        exact = [] if self._digest.n_values else sorted(self._held)
        digest = self._whole()
        if not digest.n_values:
            return Distribution()

        def percentile(share: float) -> float:
            if exact:
                return exact[max(0, math.ceil(share * len(exact)) - 1)]
            return min(max(digest.quantile(share), digest.min()), digest.max())  # not beyond, by rounding

        of_line = rounded if centroids else float
        return Distribution(
            count=digest.n_values,
            mean=of_line(self._total / digest.n_values),
            min=of_line(digest.min()),
            p50=of_line(percentile(0.50)),
            p90=of_line(percentile(0.90)),
            p99=of_line(percentile(0.99)),
            max=of_line(digest.max()),
            centroids=_compact(digest) if centroids else [],
        )

    def _settle(self) -> None:
        self._digest, self._held = self._whole(), array("d")

    def _whole(self) -> TDigest:
        """Return the digest with the held values in it."""
        whole = self._digest.copy()
        if self._held:
            whole.batch_update(self._held)
        return whole


def _compact(digest: TDigest) -> list[tuple[float, float]]:
    """Return one centroid between every two of `LINE_CUTS`, with 3 digits, within the rounded extremes."""
    low, high = rounded(digest.min()), rounded(digest.max())
    merged: dict[int, tuple[float, float]] = {}
    before = 0.0
    for mean, weight in digest.centroids:
        place = bisect(LINE_CUTS, (before + weight / 2) / digest.n_values)
        total, weights = merged.get(place, (0.0, 0.0))
        merged[place] = total + mean * weight, weights + weight
        before += weight
    return [
        (min(max(float(f"{total / weights:.3g}"), low), high), round(weights))
        for total, weights in merged.values()
    ]
