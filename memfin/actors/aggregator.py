"""The aggregator: adds up what is on disk."""

from abc import ABC, abstractmethod
from typing import Generic, TypeVar

from anyio.streams.memory import MemoryObjectReceiveStream

from memfin.actors.base import Stage

C = TypeVar("C")


class Totals(ABC, Generic[C]):
    """What the committed work of one suite amounts to; the sum is the same in any order."""

    @abstractmethod
    def add(self, committed: C) -> None:
        """Add one dialogue or question that is on disk."""


class Aggregator(Stage[C], Generic[C]):
    """Adds everything that is committed to the totals of its suite."""

    def __init__(self, totals: Totals[C], *, inbox: MemoryObjectReceiveStream[C]) -> None:
        super().__init__("aggregator", inbox)
        self._totals = totals

    async def handle(self, message: C) -> None:
        """Add one dialogue or question."""
        self._totals.add(message)
