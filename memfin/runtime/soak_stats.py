"""Statistics of a soak from bounded state: trends over epochs, totals, and samples of the process.

Every epoch replays the same dialogues, so what differs between dialogues is the same in all epochs and
is no noise of their differences: the epoch is the unit. A trend is Sen's slope with its interval: the median
of the slopes between all pairs of epochs (Sen, Journal of the American Statistical Association 63, 1968),
which one bad epoch cannot move and which needs no normal distribution. The interval is from the null
distribution of Kendall's statistic: exact for few epochs, else its normal approximation with the correction
for ties (Gilbert, Statistical Methods for Environmental Pollution Monitoring, 1987, sections 16.4 and 16.5).

Neighbouring epochs may resemble each other, a loaded server for instance. From `MAX_BATCHES` epochs on the
slopes are between means of batches of neighbours, which hardly depend on each other any more (the
method of batch means: Law and Kelton, Simulation Modeling and Analysis, chapter 9). This also bounds
memory: a series holds fewer than `MAX_BATCHES` batches however long the soak is.
"""

import asyncio
import math
from collections import Counter
from collections.abc import Sequence
from fractions import Fraction
from itertools import accumulate
from statistics import NormalDist, mean, median
from typing import Any, Final, NamedTuple

import anyio
import psutil

from memfin.contracts.soak import Distribution, Drift, ProcessSample, SoakEpoch, SoakErrors
from memfin.metrics.interval import CONFIDENCE
from memfin.metrics.percentiles import Percentiles

MAX_BATCHES: Final = 64
"""Batches that a series holds at most; when it reaches them, neighbours are merged."""

EXACT_UP_TO: Final = 10
"""Points for which Kendall's distribution is taken as it is."""

WARM_UP: Final = 4
"""One in so many batches at the beginning is left out where a process warms up."""

GROWTH_TURNS: Final = 100_000
"""Turns over which the growth of memory is given."""

MIN_TURNS: Final = 10_000
"""Turns below which that growth is not given: it would be that of the start alone."""

MATERIAL_RATE: Final = 0.01
MATERIAL_POINTS: Final = 1.0
MATERIAL_SHARE: Final = 0.05
MATERIAL_MS: Final = 1.0
MATERIAL_COUNT: Final = 1.0
MATERIAL_GROWTH: Final = 1 << 20
"""Smallest changes over a soak that are a drift: of rates; of values in per cent; of latencies and marks as a
part of their mean; of latencies in milliseconds; of open files, threads and tasks; of memory in bytes per
`GROWTH_TURNS`. Latencies, counts and memory must rise."""

RESOURCES: Final = tuple(ProcessSample.__struct_fields__)
"""Values that belong to a process, start anew with it, and take a while to settle."""

BEAT: Final = 0.02
"""Seconds between two samples of the lag of the loop."""

SAMPLE_EVERY: Final = 25
"""Beats between two samples of the process."""

_TAIL: Final = (1 - CONFIDENCE) / 2


class Slope(NamedTuple):
    """A slope and its 95 % interval, None where there are too few points for one."""

    value: float = 0.0
    interval: tuple[float, float] | None = None

    def times(self, scale: float) -> "Slope":
        """Return the slope in other units."""
        bounds = self.interval
        return Slope(self.value * scale, None if bounds is None else (bounds[0] * scale, bounds[1] * scale))


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
    """Return the rank of the interval's bounds from either end of the ordered slopes; 0 for none."""
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
    """Return the numbers of orders of n things with 0, 1, 2, ... inversions."""
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
        self._first = self._last = 0.0
        self._low, self._high = math.inf, -math.inf
        self._total = Fraction(0)
        self._batches: list[float] = []
        self._size = 1  # epochs in a batch
        self._open = Fraction(0)  # the sum of the batch that is being filled

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
        self._first = self._first if self.count else value
        self.count += 1
        self._last = value
        self._low = min(self._low, value)
        self._high = max(self._high, value)
        self._total += Fraction(value)
        self._open += Fraction(value)
        if self.count % self._size == 0:
            self._batches.append(float(self._open / self._size))
            self._open = Fraction(0)
        if len(self._batches) == MAX_BATCHES:
            pairs = zip(self._batches[::2], self._batches[1::2], strict=True)
            self._batches = [mean(pair) for pair in pairs]
            self._size *= 2

    def slope(self, *, warm_up: bool = False) -> Slope:
        """Return the change per epoch; ``warm_up`` leaves the first quarter out."""
        return sen_slope(self._counted(warm_up=warm_up)).times(1 / self._size)

    def _counted(self, *, warm_up: bool) -> list[float]:
        return self._batches[len(self._batches) // WARM_UP if warm_up else 0 :]

    @property
    def mean(self) -> float:
        """Mean of the series, which must have a value."""
        return float(self._total / self.count)

    def drift(self, name: str, *, growth: float | None = None) -> Drift:
        """Return the trend of the series, which must have a value, by its name in the summary.

        ``growth`` is that of memory in `GROWTH_TURNS`, None where it is not known.
        """
        warm_up = name in RESOURCES
        slope, bounds = self.slope(warm_up=warm_up)
        epochs = len(self._counted(warm_up=warm_up)) * self._size
        significant = bounds is not None and not bounds[0] <= 0 <= bounds[1]
        change = slope * (epochs - 1)
        if name == "rss_bytes":
            material = growth is not None and growth >= MATERIAL_GROWTH
        elif name in RESOURCES:
            material = change >= MATERIAL_COUNT
        elif name.endswith("_ms"):
            material = change >= max(MATERIAL_SHARE * self.mean, MATERIAL_MS)
        elif name.endswith("percentage"):
            material = abs(change) >= MATERIAL_POINTS
        else:
            material = abs(change) >= (MATERIAL_RATE if self._high <= 1 else MATERIAL_SHARE * abs(self.mean))
        return Drift(
            first=self._first,
            last=self._last,
            mean=self.mean,
            min=self._low,
            max=self._high,
            epochs=epochs,
            slope=slope,
            ci95=bounds,
            drifting=significant and material,
        )


class SoakStats:
    """Totals and trends of epochs, in memory that does not grow with their number."""

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
        for name, value in epoch.headline_values.items():
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
        growth = self._growth()
        rss = None if growth is None else growth.value
        return {
            "epochs": self.epochs,
            "dialogs": self.dialogs,
            "turns": self.turns,
            "errors": self.errors,
            "error_rate": self.errors.failed_turns / self.turns if self.turns else 0.0,
            "turn_latency_ms": self._latency.distribution(centroids=False),
            "loop_lag_ms": self._lag.distribution(centroids=False),
            "metrics": {name: series.drift(name) for name, series in sorted(self._metrics.items())},
            "operation": {
                name: series.drift(name, growth=rss) for name, series in sorted(self._operation.items())
            },
            "rss_bytes_per_100k_turns": rss,
            "rss_ci95": None if growth is None else growth.interval,
        }

    def _growth(self) -> Slope | None:
        """Return the growth of resident memory in this process, after its warm-up."""
        series = self._operation.get("rss_bytes")
        if series is None or self._process_turns < MIN_TURNS:
            return None
        return series.slope(warm_up=True).times(GROWTH_TURNS * series.count / self._process_turns)

    def means(self) -> dict[str, float]:
        """Return the mean of every headline value over the epochs."""
        return {name: series.mean for name, series in self._metrics.items()}


def _operation(epoch: SoakEpoch) -> dict[str, float]:
    return {
        "error_rate": epoch.errors.failed_turns / epoch.turns if epoch.turns else 0.0,
        "turn_latency_p50_ms": epoch.turn_latency_ms.p50,
        "turn_latency_p99_ms": epoch.turn_latency_ms.p99,
        "loop_lag_p99_ms": epoch.loop_lag_ms.p99,
        **{name: float(epoch.resources[name]) for name in RESOURCES},
    }


class Probe:
    """Sampler of loop lag and of the process; `run` it in a task, `take` its results.

    The lag of a beat is how much later than asked for the loop woke it up.

    Attributes:
        last: the last look at the process.
    """

    def __init__(self) -> None:
        self._process = psutil.Process()
        self._lag = Percentiles()
        self.last = ProcessSample()
        self._peak = ProcessSample()

    async def run(self) -> None:
        """Measure until cancelled."""
        clock = asyncio.get_running_loop().time
        beats = 0
        while True:
            if beats % SAMPLE_EVERY == 0:
                self.look()
            beats += 1
            due = clock() + BEAT
            await anyio.sleep(BEAT)
            self._lag.add(max(0.0, clock() - due) * 1000)

    def look(self) -> ProcessSample:
        """Return a sample of the process."""
        process, peak = self._process, self._peak
        with process.oneshot():
            now = ProcessSample(
                rss_bytes=process.memory_info().rss,
                open_files=process.num_fds(),
                threads=process.num_threads(),
                tasks=len(asyncio.all_tasks()),
            )
        self._peak = ProcessSample(**{name: max(now[name], peak[name]) for name in now})
        self.last = now
        return now

    def take(self) -> tuple[Distribution, ProcessSample]:
        """Return loop lag and peaks since the last time, and begin anew."""
        taken = self._lag.distribution(), self._peak
        self._lag, self._peak = Percentiles(), self.last
        return taken
