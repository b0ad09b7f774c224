"""The aggregator: adds up what is on disk."""

from abc import ABC, abstractmethod
from typing import Generic, TypeVar

from anyio.streams.memory import MemoryObjectReceiveStream

from memfin.actors.base import Actor
from memfin.actors.channels import messages

C = TypeVar("C")


class Totals(ABC, Generic[C]):
    """What the committed work of one suite amounts to; the sum is the same in any order."""

    @abstractmethod
    def add(self, committed: C) -> None:
        """Add one dialogue or question that is on disk."""


class Aggregator(Actor[C], Generic[C]):
    """Adds everything that is committed to the totals of its suite."""

    def __init__(self, totals: Totals[C], *, inbox: MemoryObjectReceiveStream[C]) -> None:
        super().__init__("aggregator", inbox)
        self._totals = totals
        self._committed = inbox

    async def run(self) -> None:
        """Aggregate until the trace writer ends."""
        async with self._committed:
            async for message in messages(self._committed):
                self._count_received()
                self._totals.add(message)
                self._done += 1
