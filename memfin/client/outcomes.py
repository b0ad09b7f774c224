"""What comes out of a gate: the result of a call, and what the gate has seen."""

from dataclasses import dataclass
from typing import Generic, TypeVar

from memfin.contracts import Record

T = TypeVar("T")


@dataclass(frozen=True, slots=True)
class GateResult(Generic[T]):
    """What came out: the value, how many attempts it took, and the seconds spent waiting between them."""

    value: T
    attempts: int
    waited: float


class GateStatistics(Record):
    """What a gate has seen so far; ``failures`` counts attempts by the kind of their error."""

    calls: int
    attempts: int
    failures: dict[str, int]
    concurrency: int
    most_in_flight: int
    halvings: int
    openings: int
