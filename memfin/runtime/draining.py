"""Ending a run early and in order: answers are kept, and the whole is bounded in time."""

import asyncio
from collections.abc import Callable
from typing import Any, Final

from memfin.runtime.graph import Graph

DRAIN_LIMIT: Final = 5.0
"""Seconds that a run has to end in order."""

REPLAYS: Final = 0.6
JUDGEMENTS: Final = 0.72
SCORES: Final = 0.84
ALL: Final = 0.9
"""Shares of the time after which turns that are being asked are given up, then judgements, then
messages that still wait for the trace writer; and after which the run is cancelled."""


class Drain:
    """Drains a graph: nothing new starts, running turns and judgements may end, until a deadline.

    The end of the replayers lets all others run dry in their order, mostly long before the deadline.
    """

    def __init__(self, graph: Graph[Any], cancel: Callable[[], None]) -> None:
        self._graph = graph
        self._cancel = cancel
        self._timers: list[asyncio.TimerHandle] = []

    def begin(self, within: float) -> None:
        """Drain the actors and have ``within`` seconds for it, whatever they had before."""
        self.close()
        pipeline = self._graph.pipeline
        for actor in pipeline.workers:
            actor.drain()
        halts = [(REPLAYS, actor.halt) for actor in pipeline.producers]
        halts += [(JUDGEMENTS, actor.halt) for actor in pipeline.judges]
        halts += [(SCORES, pipeline.scorer.halt), (ALL, self._cancel)]
        loop = asyncio.get_running_loop()
        self._timers = [loop.call_later(share * within, halt) for share, halt in halts]

    def close(self) -> None:
        """Cancel the timers."""
        for timer in self._timers:
            timer.cancel()
