"""The scorer: turns traces into rows, giving way between turns so that the loop stays free."""

import time
from typing import Final

import anyio.lowlevel
from anyio.streams.memory import MemoryObjectReceiveStream, MemoryObjectSendStream

from memfin.actors.base import Actor, EventSender, utc_now
from memfin.actors.messages import DialogReplayed, DialogScored
from memfin.contracts import DialogTrace, HistoryMode, TurnEvalRow, TurnTrace, Warned
from memfin.references import describe
from memfin.scoring.rows import DialogScorer, unscored_row

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
        events: EventSender,
    ) -> None:
        super().__init__("scorer", inbox)
        self._history: HistoryMode = history
        self._replays = inbox
        self._outbox = outbox
        self._events = events

    async def run(self) -> None:
        """Score dialogues until the replayers end."""
        async with self._replays, self._outbox, self._events:
            async for replayed in self._replays:
                self._count_received()
                await self._outbox.send(DialogScored(replayed=replayed, rows=await self._rows(replayed)))
                self._done += 1
                self._sent += 1

    async def _rows(self, replayed: DialogReplayed) -> list[TurnEvalRow]:
        if replayed.dialog is None:
            return []
        trace = replayed.trace
        rows: list[TurnEvalRow] = []
        try:
            scorer = DialogScorer(replayed.dialog, trace, history_mode=self._history)
        except Exception as problem:  # noqa: BLE001 - one dialogue must not end the scoring of the others
            return [await self._unscored(trace, turn, problem) for turn in trace.turns]
        resumed = time.perf_counter()
        for turn in trace.turns:
            try:
                rows.append(scorer.row(turn))
            except Exception as problem:  # noqa: BLE001 - replies are hostile; one must not end the run
                rows.append(await self._unscored(trace, turn, problem))
            if time.perf_counter() - resumed > SLICE:
                await anyio.lowlevel.checkpoint()
                resumed = time.perf_counter()
        return rows

    async def _unscored(self, trace: DialogTrace, turn: TurnTrace, problem: Exception) -> TurnEvalRow:
        """Return the row of a turn on which the rules failed, and say so: it is a defect of MemFin."""
        reason = describe(problem)
        await self._events.send(
            Warned(
                ts=utc_now(),
                run_id=trace.run_id,
                message=f"turn {turn.turn_pair_id} could not be scored, please report this: {reason}",
                dialog_id=trace.dialog_id,
            )
        )
        return unscored_row(trace, turn, reason)
