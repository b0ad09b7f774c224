"""Measures of agreement with labels, and their confidence intervals; exact counts in, floats out.

A value whose denominator is zero is undefined and None: there is no default.
"""

import math
from collections import Counter
from collections.abc import Iterable, Mapping
from fractions import Fraction
from statistics import NormalDist
from typing import Final, NamedTuple, TypeVar

from memfin.metrics.interval import CONFIDENCE

Answer = TypeVar("Answer")

_Z: Final = NormalDist().inv_cdf((1 + CONFIDENCE) / 2)


class Table(NamedTuple):
    """A two-by-two table of labels and findings."""

    tp: int = 0
    fp: int = 0
    fn: int = 0
    tn: int = 0

    @property
    def total(self) -> int:
        """All decisions."""
        return sum(self)

    @property
    def matrix(self) -> dict[tuple[bool, bool], int]:
        """The table as counts of (labelled, found)."""
        return {
            (True, True): self.tp,
            (False, True): self.fp,
            (True, False): self.fn,
            (False, False): self.tn,
        }


def precision(table: Table) -> float | None:
    """Return the share of findings that are labelled."""
    return _share(table.tp, table.tp + table.fp)


def recall(table: Table) -> float | None:
    """Return the share of labels that were found."""
    return _share(table.tp, table.tp + table.fn)


def f1(table: Table) -> float | None:
    """Return the harmonic mean of precision and recall, 2 tp / (2 tp + fp + fn)."""
    return _share(2 * table.tp, 2 * table.tp + table.fp + table.fn)


def accuracy(table: Table) -> float | None:
    """Return the share of decisions that agree."""
    return _share(table.tp + table.tn, table.total)


def constant_accuracy(support: Iterable[int]) -> float | None:
    """Return the accuracy of a constant answer, the most frequent one; ``support`` counts each answer."""
    counts = list(support)
    return _share(max(counts, default=0), sum(counts))


def mean(values: Iterable[float | None]) -> float | None:
    """Return the mean of the values that are defined."""
    defined = [value for value in values if value is not None]
    return math.fsum(defined) / len(defined) if defined else None


def kappa(matrix: Mapping[tuple[Answer, Answer], int]) -> float | None:
    """Return Cohen's kappa of counts of (labelled, found): agreement beyond chance.

    1 is perfect, 0 chance, below 0 worse than chance. It is undefined when labels and findings are
    one and the same value throughout (Cohen 1960, A coefficient of agreement for nominal scales).
    """
    total = sum(matrix.values())
    rows: Counter[Answer] = Counter()
    columns: Counter[Answer] = Counter()
    for (labelled, found), count in matrix.items():
        rows[labelled] += count
        columns[found] += count
    observed = sum(count for (labelled, found), count in matrix.items() if labelled == found)
    expected = sum(count * columns[answer] for answer, count in rows.items())
    if not total or expected == total**2:
        return None
    return float(Fraction(total * observed - expected, total**2 - expected))


def wilson(successes: float, trials: float) -> tuple[float, float] | None:
    """Return the 95 % score interval of a share, None without trials.

    Unlike the textbook's plus and minus it is sound for few trials and for shares of 0 and 1
    (Wilson 1927; Newcombe 1998, Two-sided confidence intervals for the single proportion, method 3).
    """
    if not trials:
        return None
    share = successes / trials
    scale = 1 + _Z**2 / trials
    centre = (share + _Z**2 / (2 * trials)) / scale
    half = _Z / scale * math.sqrt(share * (1 - share) / trials + _Z**2 / (4 * trials**2))
    low = 0.0 if share == 0 else max(0.0, centre - half)
    return low, 1.0 if share == 1 else min(1.0, centre + half)


def f1_bounds(bounds: tuple[float, float] | None) -> tuple[float, float] | None:
    """Return the interval of F1 from that of tp / (tp + fp + fn).

    F1 is no share itself, but 2 s / (1 + s) of that share s and grows with it, so the bounds
    carry over (Lam, Gopal, Qian 2023, Confidence intervals for the F1 score).
    """
    return None if bounds is None else (_f1_of(bounds[0]), _f1_of(bounds[1]))


class PooledShare:
    """A share over decisions on many replies, each with several decisions (clusters).

    Decisions on one reply are not independent. The interval is Wilson's with the equivalent number of
    independent decisions: their number over the design effect, which is the variance of the ratio with
    the reply as the sampling unit over that of independent decisions (Kish 1965, Survey sampling;
    Cochran 1977, Sampling techniques, chapter 6), and 1 at least. Where all decisions agree the spread
    is unknown, and each reply counts once.
    Only exact sums are kept, so the order of replies does not matter.
    """

    def __init__(self) -> None:
        self._replies = 0
        self._successes = 0
        self._trials = 0
        self._squares = [0, 0, 0]

    def add(self, successes: int, trials: int) -> None:
        """Count the decisions on one reply; a reply without any does not count."""
        if not trials:
            return
        self._replies += 1
        self._successes += successes
        self._trials += trials
        for place, product in enumerate((successes**2, successes * trials, trials**2)):
            self._squares[place] += product

    @property
    def value(self) -> float | None:
        """The pooled share."""
        return _share(self._successes, self._trials)

    def interval(self) -> tuple[float, float] | None:
        """Return the 95 % interval, None without decisions."""
        if not self._trials:
            return None
        worth = self.worth()
        return wilson(self._successes / self._trials * worth, worth)

    def worth(self) -> float:
        """Return the equivalent number of independent decisions."""
        share = Fraction(self._successes, self._trials)
        if self._replies == 1 or share in (0, 1):
            return float(self._replies)
        successes, mixed, trials = self._squares
        residuals = successes - 2 * share * mixed + share**2 * trials
        clustered = Fraction(self._replies, self._replies - 1) * residuals / self._trials**2
        independent = share * (1 - share) / self._trials
        return float(self._trials / max(Fraction(1), clustered / independent))


def _f1_of(share: float) -> float:
    return 2 * share / (1 + share)


def _share(part: int, whole: int) -> float | None:
    return part / whole if whole else None
