"""What a judge's marks amount to over a run, from exact sums that may be added up in any order."""

import math
from collections import Counter
from fractions import Fraction
from typing import Final, Self

import msgspec

from memfin.contracts.rag import RagJudged, RagJudgeGroup, RagJudgeSummary, RagMark
from memfin.metrics.interval import student_t_quantile

LOWEST: Final = 1.0
HIGHEST: Final = 5.0


class MarkSums(msgspec.Struct, frozen=True):
    """How many marks there are, their sum and that of their squares, without rounding."""

    count: int = 0
    total: Fraction = Fraction()
    squares: Fraction = Fraction()

    @classmethod
    def of(cls, mark: float | None) -> Self:
        """Return the sums of one mark, or of none."""
        if mark is None:
            return cls()
        value = Fraction(mark)
        return cls(1, value, value * value)

    def __add__(self, other: Self) -> Self:
        return type(self)(self.count + other.count, self.total + other.total, self.squares + other.squares)

    def mark(self) -> RagMark:
        """Return the mean with its 95 % interval by Student's t, kept within the scale.

        Questions are the sampling units. Below two marks there is no interval; where all are alike it
        is a point.
        """
        n = self.count
        if not n:
            return RagMark()
        mean = self.total / n
        if n < 2:  # noqa: PLR2004 - no spread without a second answer
            return RagMark(count=n, mean=float(mean))
        variance = (self.squares - self.total * mean) / (n - 1)
        half = student_t_quantile(n - 1) * math.sqrt(variance / n)
        centre = float(mean)
        return RagMark(count=n, mean=centre, ci95=(max(LOWEST, centre - half), min(HIGHEST, centre + half)))


class JudgedSums:
    """The marks of a group of questions."""

    def __init__(self) -> None:
        self.asked = 0
        self.failed = 0
        self.declined: Counter[str] = Counter()
        self.faithfulness = MarkSums()
        self.correctness = MarkSums()

    def add(self, judged: RagJudged) -> None:
        """Count what a judge said of one answer."""
        self.asked += 1
        self.failed += judged.error is not None
        if judged.declined is not None:
            self.declined[judged.declined] += 1
        self.faithfulness += MarkSums.of(judged.faithfulness)
        self.correctness += MarkSums.of(judged.answer_correctness)

    def merge(self, other: Self) -> None:
        """Take in what others have counted."""
        self.asked += other.asked
        self.failed += other.failed
        self.declined += other.declined
        self.faithfulness += other.faithfulness
        self.correctness += other.correctness

    def group(self) -> RagJudgeGroup:
        """Return the sums as the summary has them."""
        return RagJudgeGroup(
            asked=self.asked,
            failed=self.failed,
            declined=dict(sorted(self.declined.items())),
            faithfulness=self.faithfulness.mark(),
            answer_correctness=self.correctness.mark(),
        )


class JudgeState:
    """The marks of a run, by type; its size does not depend on the number of questions."""

    def __init__(self) -> None:
        self._judge: str | None = None
        self._types: dict[str, JudgedSums] = {}

    def add(self, kind: str, judged: RagJudged) -> None:
        """Count what the judge said of an answer to a question of a type."""
        self._judge = judged.judge
        self._types.setdefault(kind, JudgedSums()).add(judged)

    def merge(self, other: Self) -> None:
        """Take in what another state has counted; the other stays as it is."""
        self._judge = self._judge or other._judge
        for kind, sums in other._types.items():
            self._types.setdefault(kind, JudgedSums()).merge(sums)

    def summary(self) -> RagJudgeSummary | msgspec.UnsetType:
        """Return the judge's part of the summary; unset where no answer was judged."""
        if self._judge is None:
            return msgspec.UNSET
        total = JudgedSums()
        for sums in self._types.values():
            total.merge(sums)
        return RagJudgeSummary(
            **dict(total.group()),
            judge=self._judge,
            by_type={kind: sums.group() for kind, sums in sorted(self._types.items())},
        )
