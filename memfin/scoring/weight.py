"""The words of asset classes in a reply, and the shares of the money that it puts where."""

from typing import NamedTuple

from memfin.scoring.roles import Role


class Label(NamedTuple):
    """A word of an asset class in the reply."""

    asset_class: str
    start: int
    end: int


class Weight(NamedTuple):
    """One share of the money.

    ``role`` tells a proposed weight from one that is held today, added to what is held, a step of a
    reduction, or the sum of others. ``group`` numbers the allocation it belongs to. ``each`` marks a
    weight that every one of ``holdings`` holdings has. ``low`` and ``high`` are fractions of the whole.
    """

    asset_class: str | None
    low: float
    high: float
    start: int
    end: int
    label: str
    role: Role
    group: int
    each: bool
    holdings: int = 1
