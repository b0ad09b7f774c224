"""Confidence intervals and tests of ratios over dialogues.

Turns of one dialogue are no independent observations: they share a client, a memory and an agent's
mood. The dialogue is therefore the sampling unit. A value is a ratio of two sums over dialogues; its interval
is Wilson's score interval (Wilson 1927) for the effective number of trials, which is the number of units
divided by the design effect (Kish 1965) of the linearized ratio (Cochran, Sampling Techniques, chapter 6).

The Student quantile is computed here because no light, maintained pure-Python package offers it:
scipy and its like would multiply the size of the installation for one number.
"""

import math
import operator
from collections.abc import Iterable, Mapping, Sequence
from statistics import NormalDist
from typing import Final, NamedTuple, Self

CONFIDENCE: Final = 0.95

PRIOR_EVENTS: Final = 4
"""Events that the maximal design effect weighs as much as; with fewer, coverage falls below 94 %."""

PRIOR_EVENTS_GRADED: Final = 1
"""The same for marks, means and paired changes, for which one is enough."""

_POWER: Final = 0.8
_GRID: Final = 4096
_COUNTED: Final = 500

# Above this many degrees of freedom the asymptotic series is exact to 1e-11 relative.
_SERIES_FROM: Final = 200
_NEWTON_STEPS: Final = 100


def _central_probability(t: float, df: int) -> float:
    """Return the probability of [-t, t] as a finite sum (Abramowitz and Stegun 26.7.3 and 26.7.4)."""
    theta = math.atan(t / math.sqrt(df))
    cos2 = math.cos(theta) ** 2
    odd = df % 2
    term, total = 1.0, 1.0 if df > 1 else 0.0
    for k in range(2 + odd, df - 1, 2):
        term *= cos2 * (k - 1) / k
        total += term
    if not odd:
        return math.sin(theta) * total
    return 2 / math.pi * (theta + math.sin(theta) * math.cos(theta) * total)


def _density(t: float, df: int) -> float:
    log_scale = math.lgamma((df + 1) / 2) - math.lgamma(df / 2) - math.log(df * math.pi) / 2
    return math.exp(log_scale - (df + 1) / 2 * math.log1p(t * t / df))


def student_t_quantile(df: int) -> float:
    """Return the two-sided 95 % quantile of Student's t distribution for 1, 2, 3, ... degrees of freedom.

    Relative accuracy is better than 1e-10. Raises ValueError when ``df`` is not positive.
    """
    if df < 1:
        raise ValueError(f"degrees of freedom must be positive, not {df}")
    z = NormalDist().inv_cdf((1 + CONFIDENCE) / 2)
    if df > _SERIES_FROM:
        # Fisher's expansion around the normal quantile (Abramowitz and Stegun 26.7.5).
        g1 = (z**3 + z) / 4
        g2 = (5 * z**5 + 16 * z**3 + 3 * z) / 96
        g3 = (3 * z**7 + 19 * z**5 + 17 * z**3 - 15 * z) / 384
        g4 = (79 * z**9 + 776 * z**7 + 1482 * z**5 - 1920 * z**3 - 945 * z) / 92160
        return z + g1 / df + g2 / df**2 + g3 / df**3 + g4 / df**4
    # The distribution function is concave right of 0 and z lies left of the root, so that Newton's
    # steps grow towards the root and never pass it.
    t = z
    for _ in range(_NEWTON_STEPS):
        step = (CONFIDENCE - _central_probability(t, df)) / (2 * _density(t, df))
        t += step
        if abs(step) <= 1e-12 * t:
            break
    return t


def wilson_bounds(share: float, trials: float, t: float) -> tuple[float, float]:
    """Return Wilson's score interval of a share of so many independent trials; ``t`` is the quantile."""
    centre = share + t * t / (2 * trials)
    half = t * math.sqrt(share * (1 - share) / trials + t * t / (4 * trials * trials))
    scale = 1 + t * t / trials
    # The share lies between its bounds, whatever is rounded.
    return max(0.0, min(share, (centre - half) / scale)), min(1.0, max(share, (centre + half) / scale))


def ratio_interval(
    clusters: Iterable[tuple[float, float]], low: float = 0.0, high: float = 1.0, *, graded: bool = False
) -> tuple[float, float] | None:
    """Return the 95 % interval of sum(numerators) / sum(denominators), or None below two clusters.

    ``clusters`` are (numerator, denominator) of each dialogue; dialogues with denominator 0 do not
    carry the value and are left out. ``low`` and ``high`` are the range of the value; ``graded`` is a
    value whose units are marks or means and not hits. The interval is Wilson's with an effective number
    of trials and n-1 degrees of freedom for n dialogues. It is never a point.
    """
    span = high - low
    carrying = [((y - low * x) / span, x) for y, x in clusters if x > 0]
    if len(carrying) < 2:  # noqa: PLR2004 - no spread without a second dialogue
        return None
    below, above = _share_bounds(carrying, PRIOR_EVENTS_GRADED if graded else PRIOR_EVENTS)
    return low + span * below, low + span * above


class RatioSums:
    """Sums over dialogues that `ratio_interval` can be computed from: in constant memory, and mergeable.

    ``low``, ``high`` and ``graded`` are those of `ratio_interval`.
    """

    def __init__(self, low: float = 0.0, high: float = 1.0, *, graded: bool = False) -> None:
        self._low = low
        self._span = high - low
        self._prior = PRIOR_EVENTS_GRADED if graded else PRIOR_EVENTS
        self._sums: tuple[float, ...] = (0, 0, 0, 0, 0, 0)

    def add(self, numerator: float, denominator: float, dialogs: int = 1) -> None:
        """Add dialogues with these sums; with denominator 0 they do not carry the value."""
        if denominator > 0:
            y, x = (numerator - self._low * denominator) / self._span, denominator
            self._add(dialogs * each for each in (1, y, x, y * y, y * x, x * x))

    def merge(self, other: Self) -> None:
        """Add the dialogues of another value of the same range."""
        self._add(other._sums)

    def _add(self, sums: Iterable[float]) -> None:
        self._sums = tuple(map(operator.add, self._sums, sums))

    @property
    def value(self) -> float:
        """The ratio, 0 without dialogues."""
        _, hits, total, *_ = self._sums
        return self._low + self._span * hits / total if total else 0.0

    def interval(self) -> tuple[float, float] | None:
        """Return the 95 % interval, None below two dialogues."""
        n, hits, total, squared_hits, products, squares = self._sums
        if n < 2:  # noqa: PLR2004 - no spread without a second dialogue
            return None
        share = hits / total
        residuals = max(0.0, squared_hits - 2 * share * products + share * share * squares)
        below, above = share_bounds(int(n), hits, total, residuals, squares, self._prior)
        return self._low + self._span * below, self._low + self._span * above


def _share_bounds(clusters: Sequence[tuple[float, float]], prior: float) -> tuple[float, float]:
    """Return the bounds of a share between 0 and 1 whose units lie in clusters."""
    n = len(clusters)
    total = math.fsum(x for _, x in clusters)
    hits = math.fsum(y for y, _ in clusters)
    share = hits / total
    residuals = math.fsum((y - share * x) ** 2 for y, x in clusters)
    return share_bounds(n, hits, total, residuals, math.fsum(x * x for _, x in clusters), prior)


def share_bounds(
    n: int, hits: float, total: float, residuals: float, squares: float, prior: float = PRIOR_EVENTS
) -> tuple[float, float]:
    """Return Wilson's bounds of ``hits / total`` with a design effect by cluster.

    ``residuals`` is the sum of ``(y - share x)²`` over the ``n`` clusters, at least 2, ``squares`` that of
    ``x²``; ``prior`` is how many events the maximal design effect weighs as much as.
    """
    effect, _ = design_effect(n, hits, total, residuals, squares, prior)
    return wilson_bounds(min(1.0, max(0.0, hits / total)), total / effect, student_t_quantile(n - 1))


def design_effect(
    n: int, hits: float, total: float, residuals: float, squares: float, prior: float
) -> tuple[float, float]:
    """Return the design effect of a share by cluster, shrunk to its maximum, and the events it rests on.

    The parameters are those of `share_bounds`.
    """
    share = min(1.0, max(0.0, hits / total))
    # 1. The design effect that the clusters show: their variance over that of independent trials.
    independent = total * share * (1 - share)
    shown = residuals * n / (n - 1) / independent if independent > 0 else 0.0
    # 2. Its maximum: all units of a cluster are alike, and a cluster counts once.
    maximum = squares / total
    # 3. Few events say little about how alike units are: the maximum has the weight of some events.
    events = min(hits, total - hits) if independent > 0 else 0.0
    return (events * shown + prior * maximum) / (events + prior), events


class PairedDifference(NamedTuple):
    """Difference of a value between two runs, over the same units.

    ``interval`` is the 95 % interval, None below two dialogues; ``p_value`` that of the exact test that
    exchanges the runs in whole dialogues.
    """

    difference: float
    interval: tuple[float, float] | None
    p_value: float


def paired_difference(changes: Iterable[tuple[float, float, float]], span: float = 1.0) -> PairedDifference:
    """Return the difference of two runs in a value, with its interval and the p-value of no difference.

    ``changes`` are, of each dialogue, what the second run gained and lost against the first in units of the
    numerator, both at least 0, and the denominator, the same in both; ``span`` is the width of the value's
    range. The interval combines those of gains and losses by the method of variance estimates recovery (Zou
    and Donner 2008); where nothing changed it is as wide as what so many dialogues cannot exclude.
    """
    carrying = [(gain / span, loss / span, of) for gain, loss, of in changes if of > 0]
    if not carrying:
        return PairedDifference(0.0, None, 1.0)
    total = math.fsum(of for _, _, of in carrying)
    gained = math.fsum(gain for gain, _, _ in carrying) / total
    lost = math.fsum(loss for _, loss, _ in carrying) / total
    p_value = exchange_p_value([gain - loss for gain, loss, _ in carrying])
    difference = gained - lost
    if len(carrying) < 2:  # noqa: PLR2004 - no spread without a second dialogue
        return PairedDifference(difference * span, None, p_value)
    gains = _share_bounds([(gain, of) for gain, _, of in carrying], PRIOR_EVENTS_GRADED)
    losses = _share_bounds([(loss, of) for _, loss, of in carrying], PRIOR_EVENTS_GRADED)
    # Dialogues that gain do not lose: the two are correlated, and the interval is wider for it.
    together = min(0.0, correlation([(gain - gained * of, loss - lost * of) for gain, loss, of in carrying]))
    below = combined(gained - gains[0], losses[1] - lost, together)
    above = combined(gains[1] - gained, lost - losses[0], together)
    bounds = max(-1.0, difference - below) * span, min(1.0, difference + above) * span
    return PairedDifference(difference * span, bounds, p_value)


def correlation(pairs: Sequence[tuple[float, float]]) -> float:
    """Return the correlation of pairs whose means are 0."""
    scale = math.sqrt(math.fsum(a * a for a, _ in pairs) * math.fsum(b * b for _, b in pairs))
    return math.fsum(a * b for a, b in pairs) / scale if scale else 0.0


def combined(a: float, b: float, together: float) -> float:
    """Return the distance of a difference from its bound, from those of its terms and their correlation."""
    return math.sqrt(max(0.0, a * a + b * b - 2 * together * a * b))


def exchange_p_value(nets: Sequence[float]) -> float:
    """Return the two-sided p-value of a sum of differences, by exchanging the two sides of each.

    Were both sides alike, each difference could as well have the other sign: the p-value is the share of
    all choices of signs whose sum lies as far from 0. Choices are counted, not drawn, on a grid of
    `_GRID` steps; above `_COUNTED` differences the sum is taken as normal.
    """
    moved = [net for net in nets if net]
    if not moved:
        return 1.0
    if len(moved) > _COUNTED:
        score = abs(math.fsum(moved)) / math.sqrt(math.fsum(net * net for net in moved))
        return math.erfc(score / math.sqrt(2))
    total = math.fsum(map(abs, moved))
    whole = total <= _GRID and all(net == int(net) for net in moved)
    steps = [round(net if whole else net * _GRID / total) for net in moved]
    observed, reach = abs(sum(steps)), sum(map(abs, steps))
    # Field s of the integer counts the subsets of sum s; a field has room for all subsets.
    width = (len(steps) + 8) // 8
    ways = 1
    for step in steps:
        ways += ways << (8 * width * abs(step))
    fields = ways.to_bytes(width * (reach + 1), "little")
    first = (reach + observed) // 2
    far = sum(
        int.from_bytes(fields[at : at + width], "little") for at in range(first * width, len(fields), width)
    )
    return min(1.0, 2 * far / float(2 ** len(steps)))


def holm(p_values: Mapping[str, float]) -> dict[str, float]:
    """Return the p-values adjusted for their number by Holm's step-down method."""
    adjusted: dict[str, float] = {}
    largest = 0.0
    for rank, name in enumerate(sorted(p_values, key=lambda name: p_values[name])):
        largest = max(largest, min(1.0, p_values[name] * (len(p_values) - rank)))
        adjusted[name] = largest
    return {name: adjusted[name] for name in p_values}


def smallest_difference(interval: tuple[float, float], clusters: int, tests: int = 1) -> float | None:
    """Return the smallest true difference that data of this kind shows in four of five runs, or None.

    ``tests`` is the number of values tested together. None means that so few dialogues show no difference,
    however large.
    """
    level = (1 - CONFIDENCE) / tests
    if clusters < 1 - math.log2(level):
        return None
    normal = NormalDist()
    half = (interval[1] - interval[0]) / 2
    quantiles = normal.inv_cdf(1 - level / 2) + normal.inv_cdf(_POWER)
    return half * quantiles / normal.inv_cdf((1 + CONFIDENCE) / 2)
