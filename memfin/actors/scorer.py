"""The scorer: turns traces into rows, giving way between turns so that the loop stays free."""

import time
from typing import Final

import anyio.lowlevel
from anyio.streams.memory import MemoryObjectReceiveStream, MemoryObjectSendStream

from memfin.actors.base import Actor
from memfin.actors.messages import DialogReplayed, DialogScored
from memfin.contracts import HistoryMode, TurnEvalRow
from memfin.scoring.rows import DialogScorer

SLICE: Final = 0.005
"""Seconds of scoring at a stretch before other tasks get their turn."""


class Scorer(Actor[DialogReplayed]):
    """Builds the ``turn_eval`` rows of each dialogue; the rules are in `memfin.scoring`."""

    def __init__(
        self,
        *,
        history: HistoryMode,
        inbox: MemoryObjectReceiveStream[DialogReplayed],
        outbox: MemoryObjectSendStream[DialogScored],
    ) -> None:
        super().__init__("scorer", inbox)
        self._history: HistoryMode = history
        self._replays = inbox
        self._outbox = outbox

    async def run(self) -> None:
        """Score dialogues until the replayers end."""
        async with self._replays, self._outbox:
            async for replayed in self._replays:
                self._count_received()
                await self._outbox.send(DialogScored(replayed=replayed, rows=await self._rows(replayed)))
                self._done += 1
                self._sent += 1

    async def _rows(self, replayed: DialogReplayed) -> list[TurnEvalRow]:
        if replayed.dialog is None:
            return []
        scorer = DialogScorer(replayed.dialog, replayed.trace, history_mode=self._history)
        rows: list[TurnEvalRow] = []
        resumed = time.perf_counter()
        for turn in replayed.trace.turns:
            rows.append(scorer.row(turn))
            if time.perf_counter() - resumed > SLICE:
                await anyio.lowlevel.checkpoint()
                resumed = time.perf_counter()
        return rows
