"""The scorer: turns traces into rows, several dialogues at a time."""

from typing import Final

import anyio
from anyio.abc import TaskGroup

from memfin.actors.base import Stage
from memfin.actors.channels import send
from memfin.actors.messages import DialogReplayed, DialogScored
from memfin.actors.scoring_pool import ScoringPool, default_workers
from memfin.actors.source import DialogWires
from memfin.contracts import RunConfig, TurnEvalRow
from memfin.errors import MemfinError
from memfin.sandbox.references import describe
from memfin.scoring.rows import complete_rows
from memfin.scoring.verdicts import unscored_row
from memfin.scoring.worker import ScoringJob

CONSTRAINT: Final = 80
UNREAD: Final = 20
"""Characters of a constraint that a warning shows, and constraints that a run warns of, at most."""

HEAD_START: Final = 256
"""Turns that a run scores before it starts a process, unless the number of processes is set."""


class Scorer(Stage[DialogReplayed]):
    """Has the ``turn_eval`` rows of each dialogue built by a pool; the rules are in `memfin.scoring`.

    Dialogues leave in the order in which they are scored.
    """

    def __init__(self, config: RunConfig, wires: DialogWires, *, contradictions_judged: bool = False) -> None:
        """Prepare; where a judge reads contradictions, constraints need not be understood here."""
        self._outbox = wires.scored.sender()
        super().__init__("scorer", wires.answered.receiver(), self._outbox)
        self._run_id = wires.run_id
        self._config = config
        self._warn = wires.board.warn
        self._pool = ScoringPool(
            scoring_workers(config),
            config.score_timeout,
            self._warn,
            head_start=HEAD_START if config.workers_score is None else 0,
        )
        self._free = anyio.Semaphore(self._pool.size)
        self._unread: set[str] = set()
        self._cut = False
        self._scoring: TaskGroup
        self._contradictions_judged = contradictions_judged

    async def run(self) -> None:
        """Score dialogues until the replayers end."""
        async with self._pool, anyio.create_task_group() as self._scoring:
            await super().run()

    async def handle(self, message: DialogReplayed) -> None:
        """Begin to score a dialogue, once there is room for it."""
        await self._free.acquire()
        self._done -= 1  # the loop counts the message; it is done when it is handed on
        self._scoring.start_soon(self._score, message, name=f"score-{message.trace.dialog_id}")

    async def _score(self, replayed: DialogReplayed) -> None:
        try:
            rows = await self._rows_or_failures(replayed)
            await send(self._outbox, DialogScored(replayed=replayed, rows=rows))
            self._count_sent()
        finally:
            self._free.release()

    async def _rows_or_failures(self, replayed: DialogReplayed) -> list[TurnEvalRow]:
        """Return the rows of a dialogue; an unexpected exception costs their scores and not the run."""
        try:
            return await self._rows(replayed)
        except (MemfinError, anyio.BrokenResourceError):
            raise
        except Exception as problem:  # noqa: BLE001 - see above
            trace, reason = replayed.trace, describe(problem)
            self._warn(f"could not be scored, please report this: {reason}", trace.dialog_id)
            version = self._config.trace_version
            return [
                unscored_row(self._run_id, trace.dialog_id, turn, reason, version) for turn in trace.turns
            ]

    async def _rows(self, replayed: DialogReplayed) -> list[TurnEvalRow]:
        dialog, trace, config = replayed.dialog, replayed.trace, self._config
        if dialog is None or not trace.turns:
            return []
        job = ScoringJob(
            run_id=self._run_id,
            dialog=dialog,
            turns=trace.turns,
            trace_version=config.trace_version,
            history=config.history,
            score_chars=config.score_chars,
        )
        rows = await self._pool.rows(job)
        for row in rows:
            self._warn_of(row)
        return complete_rows(dialog, trace, rows)

    def _warn_of(self, row: TurnEvalRow) -> None:
        """Warn of what a row says about its scoring."""
        if row.scoring_error is not None:
            problem = f"could not be scored, please report this: {row.scoring_error}"
            self._warn(f"turn {row.turn_pair_id} {problem}", row.dialog_id)
        for constraint in row.unread_constraints or ():
            self._warn_unread(row.dialog_id, constraint)
        if row.scored_chars and not self._cut:
            self._cut = True
            self._warn(
                f"turn {row.turn_pair_id} has a long reply: of such replies the first {row.scored_chars} "
                "characters are scored (score_chars), as their rows say",
                row.dialog_id,
            )

    def _warn_unread(self, dialog_id: str, constraint: str) -> None:
        """Say once that a constraint is not understood: advice against it will not be found."""
        if self._contradictions_judged or constraint in self._unread or len(self._unread) > UNREAD:
            return
        self._unread.add(constraint)
        if len(self._unread) > UNREAD:
            self._warn("more constraints are not understood; the report tells how many", dialog_id)
            return
        shown = f"{constraint[:CONSTRAINT]}…" if len(constraint) > CONSTRAINT else constraint
        self._warn(
            f"the detectors do not understand the constraint {shown!r}, so that no reply can contradict it: "
            "word it otherwise, or have a judge read contradictions (--judge-scope all)",
            dialog_id,
        )


def scoring_workers(config: RunConfig) -> int:
    """Return how many processes score the replies of a run."""
    return default_workers() if config.workers_score is None else config.workers_score
