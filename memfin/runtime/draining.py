"""Ending a run early and in order: what is answered is kept, and the whole is bounded in time."""

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
what still stands before the trace writer; and after which the run is cancelled."""


class Drain:
    """Drains a graph: nothing new starts, running turns and judgements may end, in ``within`` seconds.

    The end of the replayers lets all others run dry in their order, mostly long before any limit.
    """

    def __init__(self, graph: Graph[Any], within: float, cancel: Callable[[], None]) -> None:
        for actor in graph.workers:
            actor.drain()
        loop = asyncio.get_running_loop()
        pipeline = graph.pipeline
        halts = [(REPLAYS, actor.halt) for actor in pipeline.producers]
        halts += [(JUDGEMENTS, actor.halt) for actor in pipeline.judges]
        halts += [(SCORES, pipeline.scorer.halt), (ALL, cancel)]
        self._timers = [loop.call_later(share * within, halt) for share, halt in halts]

    def close(self) -> None:
        """Forget the limits: the run has ended."""
        for timer in self._timers:
            timer.cancel()
