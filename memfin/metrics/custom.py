"""Custom metrics: base classes of a user's own metrics, and the state of their values in rows."""

from collections.abc import Callable, Mapping, Sequence
from fractions import Fraction
from types import MappingProxyType
from typing import Any, Final, NamedTuple

import msgspec

from memfin.contracts import CustomValue, Dialog, DialogTrace, MetricResult, TurnEvalRow, TurnTrace
from memfin.language import marked
from memfin.metrics import state
from memfin.metrics.state import BadRow, Cell, RowState, is_failed

ALL_FAILED: Final = marked("it could not be measured anywhere")


class Share(NamedTuple):
    """Numerator and denominator of what a metric measured, such as 2 of 3."""

    hits: float
    of: int


Measured = bool | float | Share | tuple[float, int] | None
"""Result of a measurement: a hit or miss, a value, a share, or None where it does not apply."""


class CustomMetric:
    """Base of `TurnMetric` and `DialogMetric`.

    Attributes:
        name: identifier, not one of MemFin's own metrics.
        version: version of the definition, part of the run's fingerprint.
        value: name of the value, as in ``name.value``; without one ``rate``, or ``mean`` with a range of its
            own. Values named ``mean`` or ``..._mean`` are written as numbers, others as per cent.
        lower_is_better: direction of the value.
        low, high: range of the value.
    """

    name: str
    version: str
    value: str = ""
    lower_is_better: bool = False
    low: float = 0.0
    high: float = 1.0

    def blank(self) -> CustomValue:
        """Return the value of a turn, or a dialogue, that the metric does not apply to."""
        ranged = (self.low, self.high) != (0, 1)
        return CustomValue(
            value=self.value or ("mean" if ranged else "rate"),
            low=float(self.low) if ranged else msgspec.UNSET,
            high=float(self.high) if ranged else msgspec.UNSET,
            lower_is_better=bool(self.lower_is_better) or msgspec.UNSET,
            of_dialog=isinstance(self, DialogMetric) or msgspec.UNSET,
        )

    def description(self) -> str:
        """Return the first line of the docstring of the class, empty without one."""
        return (vars(type(self)).get("__doc__") or "").strip().partition("\n")[0]


class TurnMetric(CustomMetric):
    """Base of a user's metrics per turn; a subclass sets ``name`` and ``version`` and defines `measure`."""

    def measure(self, dialog: Dialog, turn: TurnTrace, row: TurnEvalRow) -> Measured:
        """Return the value of an answered turn, None where the metric does not apply.

        ``turn`` has ``user_text`` and ``pred_assistant_text``; ``row`` is the scored turn before judging. It
        runs in a thread of its own; an exception costs the value of the turn alone.
        """
        raise NotImplementedError


class DialogMetric(CustomMetric):
    """Base of a user's metrics per dialogue; see `TurnMetric`."""

    def measure(self, dialog: Dialog, trace: DialogTrace, rows: Sequence[TurnEvalRow]) -> Measured:
        """Return the value of a dialogue with an answered turn, None where the metric does not apply."""
        raise NotImplementedError


class CustomCell(Cell, frozen=True, gc=False):
    """Sums of one dialogue."""

    hits: Fraction = Fraction()
    of: int = 0


class CustomState(RowState[CustomCell]):
    """Mergeable state of a custom metric over the values in rows."""

    def __init__(self, name: str, blank: CustomValue, description: str = "") -> None:
        """Prepare; ``blank`` is any value of the metric."""
        super().__init__()
        self.name = name
        self.blank = blank
        self.of_dialog = bool(blank.of_dialog)
        self.lower_is_better = bool(blank.lower_is_better)
        self._description = description
        share = state.Share[CustomCell](
            blank.value,
            lambda cell: cell.hits,
            lambda cell: cell.of,
            low=blank.low or 0.0,
            high=1.0 if blank.high is msgspec.UNSET else blank.high,
            graded=blank.value.endswith("mean"),
            lower_is_better=self.lower_is_better,
        )
        self.shares = (share,)

    def new(self) -> "CustomState":
        """Return an empty state of the same metric."""
        return CustomState(self.name, self.blank, self._description)

    def is_failed(self, row: TurnEvalRow) -> bool:
        """Return True if the value could not be measured."""
        failed = self._entry(row).error is not msgspec.UNSET
        return failed or (is_failed(row) and not self.of_dialog)

    def result(self, clients: Mapping[str, str] = MappingProxyType({})) -> MetricResult:
        """Return the result with the direction and the description of the metric."""
        described = self._description or msgspec.UNSET
        result = super().result(clients).replace(lower_is_better=self.lower_is_better, description=described)
        if self._failed and not result.counts["eligible_count"] + self._skipped:
            return result.replace(not_measured={self.blank.value: ALL_FAILED})
        return result

    def _entry(self, row: TurnEvalRow) -> CustomValue:
        assert row.custom is not msgspec.UNSET  # noqa: S101 - only rows that have the value get here
        return row.custom[self.name]

    def _contribution(self, row: TurnEvalRow) -> CustomCell:
        entry, share = self._entry(row), self.shares[0]
        hits, of = Fraction(entry.hits), entry.of
        if not share.low * of <= entry.hits <= share.high * of:
            raise BadRow("custom", f"{self.name} has {entry.hits:g} of {of}, out of its range")
        return CustomCell(turns=int(of > 0), hits=hits, of=of)

    def _counts(self, total: Callable[[Callable[[CustomCell], int]], int]) -> dict[str, int]:
        del total
        return {}


def custom_states(row: TurnEvalRow, states: dict[str, CustomState]) -> list[RowState[Any]]:
    """Return the states of the custom metrics of a row; new ones are added to ``states``."""
    found: list[RowState[Any]] = []
    for name, entry in {} if row.custom is msgspec.UNSET else row.custom.items():
        if name not in states:
            states[name] = CustomState(name, entry)
        found.append(states[name])
    return found
