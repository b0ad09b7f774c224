"""Confidence intervals of ratios over dialogues.

Turns of one dialogue are no independent observations: they share a client, a memory and an agent's
mood. The dialogue is therefore the sampling unit, and a value is a ratio of two sums over dialogues,
whose variance is that of the linearized ratio estimator (Cochran, Sampling Techniques, chapter 6).

The Student quantile is computed here because no light, maintained pure-Python package offers it:
scipy and its like would multiply the size of the installation for one number.
"""

import math
from collections.abc import Iterable, Sequence
from statistics import NormalDist
from typing import Final, NamedTuple

CONFIDENCE: Final = 0.95

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


def ratio_interval(
    clusters: Iterable[tuple[float, float]], low: float, high: float
) -> tuple[float, float] | None:
    """Return the 95 % interval of sum(numerators) / sum(denominators), or None below two clusters.

    ``clusters`` are (numerator, denominator) of each dialogue; dialogues with denominator 0 do not
    carry the value and are left out. The interval uses n-1 degrees of freedom for n dialogues and is
    clamped to ``[low, high]``, the range of the value. Sums are correctly rounded, so that the order
    of the clusters cannot matter. Where all dialogues agree exactly the interval is a point.
    """
    carrying = [(y, x) for y, x in clusters if x > 0]
    n = len(carrying)
    if n < 2:  # noqa: PLR2004 - no spread without a second dialogue
        return None
    total = math.fsum(x for _, x in carrying)
    ratio = math.fsum(y for y, _ in carrying) / total
    residuals = math.fsum((y - ratio * x) ** 2 for y, x in carrying)
    half = student_t_quantile(n - 1) * math.sqrt(n / (n - 1) * residuals) / total
    return max(low, ratio - half), min(high, ratio + half)


def paired_difference(
    pairs: Iterable[tuple[tuple[float, float], tuple[float, float]]], low: float, high: float
) -> tuple[float, tuple[float, float] | None]:
    """Return the difference of the second and the first of two ratios, and its 95 % interval.

    ``pairs`` are (numerator, denominator) of the same dialogue in two runs; pairs in which a denominator
    is 0 are left out, and without any the difference is 0. Since both ratios come from the same dialogues,
    what makes a dialogue hard in both cancels: the variance is that of the difference of the two
    linearized estimators. ``low`` and ``high`` are the range of the value. Below two pairs there is no
    interval; where all pairs differ alike it is a point.
    """
    carrying = [pair for pair in pairs if pair[0][1] > 0 and pair[1][1] > 0]
    n = len(carrying)
    if not n:
        return 0.0, None
    first, second = (_ratio(side) for side in zip(*carrying, strict=True))
    difference = second.value - first.value
    if n < 2:  # noqa: PLR2004 - no spread without a second dialogue
        return difference, None
    squares = math.fsum(
        ((b[0] - second.value * b[1]) / second.total - (a[0] - first.value * a[1]) / first.total) ** 2
        for a, b in carrying
    )
    half = student_t_quantile(n - 1) * math.sqrt(n / (n - 1) * squares)
    span = high - low
    return difference, (max(-span, difference - half), min(span, difference + half))


class _Ratio(NamedTuple):
    value: float
    total: float


def _ratio(clusters: Sequence[tuple[float, float]]) -> _Ratio:
    total = math.fsum(x for _, x in clusters)
    return _Ratio(math.fsum(y for y, _ in clusters) / total, total)
