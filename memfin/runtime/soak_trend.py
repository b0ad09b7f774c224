"""The trend of a value over the epochs of a soak: Sen's slope with its interval, from bounded state.

Every epoch replays the same dialogues, so what differs between dialogues is the same in all epochs and
is no noise of their differences: the epoch is the unit. A trend is estimated by the median of the slopes
between all pairs of epochs (Sen, Journal of the American Statistical Association 63, 1968), which one
bad epoch cannot move, needs no normal distribution, and has an interval from the null distribution of
Kendall's statistic: exact for few epochs, else its normal approximation with the correction for ties
(Gilbert, Statistical Methods for Environmental Pollution Monitoring, 1987, sections 16.4 and 16.5).

Neighbouring epochs may resemble each other, a loaded server for instance. From `MOST` epochs on the
slopes are between means of batches of neighbours, which hardly depend on each other any more (the
method of batch means: Law and Kelton, Simulation Modeling and Analysis, chapter 9). This also bounds
memory: a series holds fewer than `MOST` batches however long the soak is.
"""

import math
from collections import Counter
from collections.abc import Sequence
from fractions import Fraction
from itertools import accumulate
from statistics import NormalDist, median
from typing import Final, NamedTuple

from memfin.contracts.soak import Drift
from memfin.metrics.interval import CONFIDENCE

MOST: Final = 64
"""Batches that a series holds at most; when it reaches them, neighbours are merged."""

EXACT_UP_TO: Final = 10
"""Points for which Kendall's distribution is taken as it is."""

WARM_UP: Final = 4
"""One in so many batches at the beginning is left out where a process warms up."""

_TAIL: Final = (1 - CONFIDENCE) / 2


class Slope(NamedTuple):
    """A slope and its 95 % interval, None where there are too few points for one."""

    value: float = 0.0
    interval: tuple[float, float] | None = None


def sen_slope(values: Sequence[float]) -> Slope:
    """Return the trend of values at equal distances, as the change from one to the next.

    Fewer than 5 points have no interval: no order of 4 is improbable enough for 95 %.
    """
    slopes = sorted(
        (values[j] - values[i]) / (j - i) for i in range(len(values)) for j in range(i + 1, len(values))
    )
    if not slopes:
        return Slope()
    rank = _rank(values)
    return Slope(median(slopes), (slopes[rank - 1], slopes[-rank]) if rank > 0 else None)


def _rank(values: Sequence[float]) -> int:
    """Return how far from either end of the ordered slopes the bounds of the interval stand; 0 for none."""
    n = len(values)
    pairs = n * (n - 1) // 2
    if n <= EXACT_UP_TO:
        orders = math.factorial(n)
        below = accumulate(_orders_by_inversions(n))
        return sum(1 for count in below if count <= _TAIL * orders)
    ties = sum(t * (t - 1) * (2 * t + 5) for t in Counter(values).values())
    variance = (n * (n - 1) * (2 * n + 5) - ties) / 18
    return math.floor((pairs - NormalDist().inv_cdf(1 - _TAIL) * math.sqrt(variance)) / 2)


def _orders_by_inversions(n: int) -> list[int]:
    """Return how many orders of n things have 0, 1, 2, ... pairs the wrong way round."""
    counts = [1]
    for size in range(2, n + 1):
        wider = [0] * (len(counts) + size - 1)
        for inversions, count in enumerate(counts):
            for more in range(size):
                wider[inversions + more] += count
        counts = wider
    return counts


class Series:
    """A value over epochs: first, last, extremes, mean, and batches of neighbours for its trend."""

    def __init__(self) -> None:
        self.count = 0
        self._first = 0.0
        self._last = 0.0
        self._low = math.inf
        self._high = -math.inf
        self._total = Fraction(0)
        self._batches: list[float] = []
        self._level = 0  # a batch is the mean of 2 ** level epochs
        self._open: list[float | None] = []  # halves of the batch that is being filled, by level

    def __len__(self) -> int:
        """Return how many batches the series holds."""
        return len(self._batches)

    def add(self, value: float) -> None:
        """Append the value of the next epoch.

        Raises:
            ValueError: it is not finite.
        """
        if not math.isfinite(value):
            raise ValueError(f"a value of an epoch must be finite, not {value}")
        if not self.count:
            self._first = value
        self.count += 1
        self._last = value
        self._low = min(self._low, value)
        self._high = max(self._high, value)
        self._total += Fraction(value)
        self._carry(value)

    def _carry(self, value: float) -> None:
        """Put a value into the batches; pairs are halved one by one, so that equal values stay equal."""
        for level in range(self._level):
            other = self._open[level]
            if other is None:
                self._open[level] = value
                return
            self._open[level] = None
            value = other / 2 + value / 2
        self._batches.append(value)
        if len(self._batches) == MOST:
            pairs = zip(self._batches[::2], self._batches[1::2], strict=True)
            self._batches = [before / 2 + after / 2 for before, after in pairs]
            self._level += 1
            self._open.append(None)

    def slope(self, *, warm_up: bool = False) -> Slope:
        """Return the change an epoch; ``warm_up`` leaves the first quarter out."""
        found = sen_slope(self._counted(warm_up=warm_up))
        scale = 1 / (1 << self._level)
        bounds = found.interval
        return Slope(found.value * scale, None if bounds is None else (bounds[0] * scale, bounds[1] * scale))

    def _counted(self, *, warm_up: bool) -> list[float]:
        return self._batches[len(self._batches) // WARM_UP if warm_up else 0 :]

    def drift(self, *, warm_up: bool = False) -> Drift:
        """Return what is known of the series, which must have a value."""
        slope, bounds = self.slope(warm_up=warm_up)
        return Drift(
            first=self._first,
            last=self._last,
            mean=float(self._total / self.count),
            min=self._low,
            max=self._high,
            epochs=len(self._counted(warm_up=warm_up)) << self._level,
            slope=slope,
            ci95=bounds,
            drifting=bounds is not None and not bounds[0] <= 0 <= bounds[1],
        )
