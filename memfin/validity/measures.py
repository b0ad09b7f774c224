"""Measures of agreement with labels, and their confidence intervals; exact counts in, floats out.

A value whose denominator is zero is undefined and None: there is no default.
"""

import math
from collections import Counter
from collections.abc import Callable, Iterable, Mapping, Sequence
from fractions import Fraction
from operator import add
from typing import NamedTuple, TypeVar

from memfin.metrics.interval import RatioSums

Answer = TypeVar("Answer")
Bounds = tuple[float, float]


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

    def plus(self, other: "Table") -> "Table":
        """Return the table of the decisions of both."""
        return Table(*map(add, self, other))

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
    chance = _chance(matrix)
    if chance is None or chance == 1:
        return None
    agreed = sum(count for (labelled, found), count in matrix.items() if labelled == found)
    return float((Fraction(agreed, sum(matrix.values())) - chance) / (1 - chance))


def kappa_bounds(matrix: Mapping[tuple[Answer, Answer], int], accuracy: Bounds | None) -> Bounds | None:
    """Return the interval of kappa from that of the accuracy, with the agreement by chance as observed.

    This is the standard error of Cohen 1960, which Fleiss, Cohen and Everitt 1969 (Large sample standard
    errors of kappa) found to be too large rather than too small.
    """
    chance = _chance(matrix)
    if accuracy is None or chance is None or chance == 1:
        return None
    low, high = ((bound - float(chance)) / float(1 - chance) for bound in accuracy)
    return max(-1.0, low), min(1.0, high)


def _chance(matrix: Mapping[tuple[Answer, Answer], int]) -> Fraction | None:
    rows: Counter[Answer] = Counter()
    columns: Counter[Answer] = Counter()
    for (labelled, found), count in matrix.items():
        rows[labelled] += count
        columns[found] += count
    total = rows.total()
    return Fraction(sum(n * columns[answer] for answer, n in rows.items()), total**2) if total else None


def f1_bounds(bounds: Bounds | None) -> Bounds | None:
    """Return the interval of F1 from that of tp / (tp + fp + fn).

    F1 is no share itself, but 2 s / (1 + s) of that share s and grows with it, so the bounds
    carry over (Lam, Gopal, Qian 2023, Confidence intervals for the F1 score).
    """
    return None if bounds is None else (_f1_of(bounds[0]), _f1_of(bounds[1]))


def mean_bounds(bounds: Sequence[Bounds | None]) -> Bounds | None:
    """Return the means of the bounds, the interval of a mean whose terms err together.

    Terms without an interval have the bounds 0 and 1.
    """
    if not any(bounds):
        return None
    known = [each or (0.0, 1.0) for each in bounds]
    return math.fsum(low for low, _ in known) / len(known), math.fsum(high for _, high in known) / len(known)


class ClusteredTables:
    """Two-by-two tables of dialogues, which are the sampling units of intervals.

    A reply whose dialogue is not named is a unit of its own. Units with equal tables are counted together, so
    that memory grows with the number of named dialogues only.
    """

    def __init__(self) -> None:
        self._units: Counter[Table] = Counter()
        self._dialogues: dict[str, Table] = {}

    def add(self, dialog_id: str | None, table: Table) -> None:
        """Count the decisions on one reply."""
        if dialog_id is None:
            self._units[table] += 1
        else:
            self._dialogues[dialog_id] = table.plus(self._dialogues.get(dialog_id, Table()))

    def whole(self) -> Table:
        """Return the table of all decisions."""
        clusters = self._clusters()
        return Table(*(sum(n * table[cell] for table, n in clusters.items()) for cell in range(4)))

    def precision(self) -> Bounds | None:
        """Return the interval of the precision, None below two dialogues with findings."""
        return self._bounds(lambda table: (table.tp, table.tp + table.fp))

    def recall(self) -> Bounds | None:
        """Return the interval of the recall."""
        return self._bounds(lambda table: (table.tp, table.tp + table.fn))

    def f1(self) -> Bounds | None:
        """Return the interval of F1."""
        return f1_bounds(self._bounds(lambda table: (table.tp, table.tp + table.fp + table.fn)))

    def accuracy(self) -> Bounds | None:
        """Return the interval of the accuracy."""
        return self._bounds(lambda table: (table.tp + table.tn, table.total))

    def _clusters(self) -> Counter[Table]:
        return self._units + Counter(self._dialogues.values())

    def _bounds(self, parts: Callable[[Table], tuple[int, int]]) -> Bounds | None:
        sums = RatioSums()
        for table, count in self._clusters().items():
            sums.add(*parts(table), count)
        return sums.interval()


def _f1_of(share: float) -> float:
    return 2 * share / (1 + share)


def _share(part: int, whole: int) -> float | None:
    return part / whole if whole else None
