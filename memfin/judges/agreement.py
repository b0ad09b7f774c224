"""How far several votes on the same things agree: Krippendorff's alpha from mergeable exact sums.

For every unit with ``m >= 2`` votes, each ordered pair of votes from different voters adds
``1 / (m - 1)`` to the coincidence ``o[c, k]`` of its two values. With ``n[c]`` the sum of row ``c``
and ``n`` the sum of all::

    alpha = 1 - (n - 1) * sum(o[c, k] * d(c, k)) / sum(n[c] * n[k] * d(c, k))

where ``d(c, k)`` is 1 for unequal values (nominal) or ``(c - k) ** 2`` (interval). Alpha is 1 for
perfect agreement, 0 for what chance would bring, and negative below that. It is undefined when all
votes are alike.
"""

from collections import Counter
from collections.abc import Callable, Sequence
from fractions import Fraction
from typing import Generic, Literal, TypeVar

from memfin.contracts import JudgeAgreement

Value = TypeVar("Value", str, int, float)
Level = Literal["nominal", "interval"]


class Coincidences(Generic[Value]):
    """Counts which values meet in the votes on one unit; the order of units does not matter."""

    def __init__(self, level: Level) -> None:
        self._level: Level = level
        self._pairs: Counter[tuple[Value, Value]] = Counter()
        self._weighted: dict[tuple[Value, Value], Fraction] = {}
        self._units = 0

    def add(self, votes: Sequence[Value]) -> None:
        """Count the votes on one unit; a single vote pairs with nothing and does not count."""
        if len(votes) < 2:  # noqa: PLR2004 - a pair takes two
            return
        self._units += 1
        weight = Fraction(1, len(votes) - 1)
        for first, one in enumerate(votes):
            for second, other in enumerate(votes):
                if first != second:
                    self._pairs[one, other] += 1
                    self._weighted[one, other] = self._weighted.get((one, other), Fraction(0)) + weight

    def agreement(self) -> JudgeAgreement | None:
        """Return the statistics of what was counted, None where nothing was."""
        if not self._units:
            return None
        equal = sum(count for (one, other), count in self._pairs.items() if one == other)
        return JudgeAgreement(
            level=self._level,
            units=self._units,
            observed=equal / self._pairs.total(),
            alpha=self._alpha(),
        )

    def _alpha(self) -> float | None:
        distance = _distance(self._level)
        rows: dict[Value, Fraction] = {}
        for (one, _), weight in self._weighted.items():
            rows[one] = rows.get(one, Fraction(0)) + weight
        observed = sum(
            (weight * distance(one, other) for (one, other), weight in self._weighted.items()), Fraction(0)
        )
        expected = sum(
            (rows[one] * rows[other] * distance(one, other) for one in rows for other in rows), Fraction(0)
        )
        if not expected:
            return None
        total = sum(rows.values(), Fraction(0))
        return float(1 - (total - 1) * observed / expected)


def _distance(level: Level) -> Callable[[object, object], Fraction]:
    def nominal(one: object, other: object) -> Fraction:
        return Fraction(one != other)

    def interval(one: object, other: object) -> Fraction:
        return (Fraction(str(one)) - Fraction(str(other))) ** 2

    return nominal if level == "nominal" else interval
