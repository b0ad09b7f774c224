"""The scorer: turns traces into rows, each turn as soon as it is answered."""

import time
from typing import Final

import anyio.lowlevel
from anyio.streams.memory import MemoryObjectReceiveStream, MemoryObjectSendStream

from memfin.actors.base import Actor, EventSender, utc_now
from memfin.actors.channels import SLICE, messages, send
from memfin.actors.messages import DialogReplayed, DialogScored, ToScorer, TurnReplayed
from memfin.contracts import Dialog, DialogTrace, HistoryMode, TraceVersion, TurnEvalRow, TurnTrace, Warned
from memfin.foreign.references import describe
from memfin.foreign.thread import CallThread
from memfin.scoring.rows import DialogScorer
from memfin.scoring.verdicts import unscored_row

CONSTRAINT: Final = 80
UNREAD: Final = 20
"""Characters of a constraint that a warning shows, and constraints that a run warns of, at most."""

LONG_TEXT: Final = 20_000
"""Characters from which on a turn is read in a worker thread, so that the loop does not wait for it."""

SLOW: Final = 0.004
WARM: Final = 8
"""Seconds that reading a turn takes when rules are met for the first time in the process and
have to be compiled; and turns in a row that took less after which the loop reads them again."""


class Scorer(Actor[ToScorer]):
    """Builds the ``turn_eval`` rows of each dialogue; the rules are in `memfin.scoring`.

    Replies are read while the agents work on their next ones, so that little is left to do when a
    dialogue ends. A recorded trace comes without its turns in advance and is scored at once.
    """

    def __init__(
        self,
        *,
        run_id: str,
        trace_version: TraceVersion,
        history: HistoryMode,
        inbox: MemoryObjectReceiveStream[ToScorer],
        outbox: MemoryObjectSendStream[DialogScored],
        events: EventSender,
        contradictions_judged: bool = False,
    ) -> None:
        """Prepare; where a judge reads contradictions, constraints need not be understood here."""
        super().__init__("scorer", inbox, outbox, events)
        self._run_id = run_id
        self._trace_version: TraceVersion = trace_version
        self._history: HistoryMode = history
        self._replays = inbox
        self._outbox = outbox
        self._events = events
        self._open: dict[str, _OpenDialog] = {}
        self._thread = CallThread("memfin-scorer")
        self._cold = WARM
        self._unread: set[str] = set()
        self._contradictions_judged = contradictions_judged

    async def run(self) -> None:
        """Score turns and dialogues until the replayers end."""
        try:
            async with self._replays, self._outbox, self._events:
                async for message in messages(self._replays):
                    if isinstance(message, TurnReplayed):
                        await self._score(message.dialog, message.turn)
                        continue
                    self._count_received()
                    await send(self._outbox, DialogScored(replayed=message, rows=await self._rows(message)))
                    self._done += 1
                    self._sent += 1
        finally:
            self._thread.stop()

    async def _score(self, dialog: Dialog, turn: TurnTrace) -> None:
        """Add one turn's row to its dialogue."""
        opened = self._open.get(dialog.dialog_id)
        if opened is None:
            opened = self._open[dialog.dialog_id] = _OpenDialog(
                dialog, self._run_id, self._trace_version, self._history
            )
            for text in opened.unread:
                await self._tell_unread(dialog, text)
        if self._cold > 0 or len(turn.pred_assistant_text or "") + len(turn.user_text) > LONG_TEXT:
            problem, took = await self._thread.finish(opened.add_timed, turn)
        else:
            problem, took = opened.add_timed(turn)
        self._cold = WARM if took > SLOW else self._cold - 1
        if problem is not None:
            problem = f"turn {turn.turn_pair_id} could not be scored, please report this: {problem}"
            await self._warn(dialog, problem)

    async def _tell_unread(self, dialog: Dialog, constraint: str) -> None:
        """Say once that a constraint is not understood: advice against it will not be found."""
        if self._contradictions_judged or constraint in self._unread or len(self._unread) > UNREAD:
            return
        self._unread.add(constraint)
        if len(self._unread) > UNREAD:
            await self._warn(dialog, "more constraints are not understood; the report tells how many")
            return
        told = f"{constraint[:CONSTRAINT]}…" if len(constraint) > CONSTRAINT else constraint
        await self._warn(
            dialog,
            f"the detectors do not understand the constraint {told!r}, so that no reply can contradict it: "
            "word it otherwise, or have a judge read contradictions (--judge-scope all)",
        )

    async def _warn(self, dialog: Dialog, message: str) -> None:
        await send(
            self._events,
            Warned(ts=utc_now(), run_id=self._run_id, message=message, dialog_id=dialog.dialog_id),
        )

    async def _rows(self, replayed: DialogReplayed) -> list[TurnEvalRow]:
        """Return the rows of a complete dialogue; score what has not come turn by turn."""
        dialog, trace = replayed.dialog, replayed.trace
        if dialog is None or not trace.turns:
            return []
        if trace.dialog_id not in self._open:
            resumed = time.perf_counter()
            for turn in trace.turns:
                await self._score(dialog, turn)
                if time.perf_counter() - resumed > SLICE:
                    await anyio.lowlevel.checkpoint()
                    resumed = time.perf_counter()
        return self._open.pop(trace.dialog_id).finish(trace)


class _OpenDialog:
    """The rows of a dialogue so far; ``unread`` are its constraints that are not understood.

    Replies are hostile text and rules may be wrong: a rule that fails costs its turn, not the run.
    """

    def __init__(
        self, dialog: Dialog, run_id: str, trace_version: TraceVersion, history: HistoryMode
    ) -> None:
        self._dialog_id = dialog.dialog_id
        self._run_id = run_id
        self._trace_version: TraceVersion = trace_version
        self._rows: list[TurnEvalRow] = []
        self._scorer: DialogScorer | None = None
        self._defect = ""
        self.unread: list[str] = []
        try:
            self._scorer = DialogScorer(
                dialog, run_id=run_id, trace_version=trace_version, history_mode=history
            )
            self.unread = self._scorer.unread
        except Exception as problem:  # noqa: BLE001 - see the class
            self._defect = describe(problem)

    def add(self, turn: TurnTrace) -> str | None:
        """Score one turn; return what went wrong, if anything."""
        defect = self._defect
        if self._scorer is not None:
            try:
                self._rows.append(self._scorer.row(turn))
            except Exception as problem:  # noqa: BLE001 - see the class
                defect = describe(problem)
            else:
                return None
        self._rows.append(unscored_row(self._run_id, self._dialog_id, turn, defect, self._trace_version))
        return defect

    def add_timed(self, turn: TurnTrace) -> tuple[str | None, float]:
        """Score one turn like `add`; return also how many seconds it took."""
        began = time.perf_counter()
        defect = self.add(turn)
        return defect, time.perf_counter() - began

    def finish(self, trace: DialogTrace) -> list[TurnEvalRow]:
        """Return the complete rows."""
        return self._rows if self._scorer is None else self._scorer.finish(trace, self._rows)
