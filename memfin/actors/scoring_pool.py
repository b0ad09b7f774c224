"""A pool of scoring processes, with a thread in their place where there can be none."""

import os
from collections.abc import Callable
from itertools import takewhile
from typing import Final, Self

import anyio

from memfin.actors.scoring_process import ScoringProcess
from memfin.contracts import TurnEvalRow
from memfin.sandbox.thread import CallThread
from memfin.scoring.worker import ScoringJob, score_job

DEATHS: Final = 3
"""Processes that may die over a turn until it is given up."""

SHORT: Final = 20_000
"""Characters of a dialogue's replies up to which it may be scored in a thread, in less than a second."""

END_LIMIT: Final = 0.5
"""Seconds that the end of the pool waits for processes that were killed."""


def default_workers() -> int:
    """Return the number of scoring processes where none is set: the usable processors minus one."""
    usable = len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1
    return max(1, usable - 1)


class ScoringPool:
    """Scores dialogues, ``size`` at a time; use as an async context manager.

    A process starts when a dialogue waits and no other is free; since a start takes a second, the first
    ``head_start`` turns of short dialogues are scored in a thread. A process that dies or takes too long over
    a turn is replaced; its dialogue is scored again from that turn on. On leaving, all are killed.
    """

    def __init__(
        self, workers: int, timeout: float, warn: Callable[[str], None], *, head_start: int = 0
    ) -> None:
        """Prepare; 0 ``workers`` score in a thread, for which no ``timeout`` per turn holds.

        ``warn`` is called once when processes cannot be started.
        """
        self.size = max(1, workers)
        self._in_thread = workers == 0
        self._timeout = timeout
        self._warn = warn
        self._head_start = head_start
        self._thread = CallThread("memfin-scorer")
        self._processes: list[ScoringProcess] = []
        self._idle: list[ScoringProcess] = []
        self._closed = False

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(self, *exception: object) -> None:
        """Kill the processes and wait for their end, for at most half a second."""
        self._closed = True
        self._thread.stop()
        for process in self._processes:
            process.close()
        with anyio.move_on_after(END_LIMIT, shield=True):
            for process in self._processes:
                await process.end()

    async def rows(self, job: ScoringJob) -> list[TurnEvalRow]:
        """Return the row of each turn of a job; that of a turn which cannot be scored says why."""
        self._head_start -= len(job.turns)
        if self._in_thread or (self._head_start >= 0 and _length(job) <= SHORT):
            return await self._thread.call(self._score_here, job)
        if self._idle:
            process = self._idle.pop()
        else:
            process = ScoringProcess(self._timeout)
            self._processes.append(process)
        try:
            return await self._by(process, job)
        finally:
            self._idle.append(process)

    async def _by(self, process: ScoringProcess, job: ScoringJob) -> list[TurnEvalRow]:
        rows: list[TurnEvalRow] = []
        deaths = 0
        while len(rows) < len(job.turns):
            left = job.replace(turns=job.turns[len(rows) :])
            scored = await process.score(left)
            rows += scored.rows
            if not scored.started:
                self._give_up(scored.problem or "")
                return rows + await self._thread.call(self._score_here, left)
            if scored.problem is None:
                break
            turn = job.turns[len(rows)]
            deaths = 1 if scored.rows else deaths + 1
            if scored.late:
                rows.append(job.unscored(turn, f"took longer than {self._timeout:g} s (score_timeout)"))
            elif deaths == DEATHS:
                rows.append(job.unscored(turn, f"{scored.problem}, {DEATHS} times"))
            else:
                continue
            deaths = 0
        return rows

    def _give_up(self, problem: str) -> None:
        """Score in a thread from now on, and say so the first time."""
        if not self._in_thread:
            self._in_thread = True
            self._warn(
                f"replies are scored in a thread, without a time-out, as no process can be started: {problem}"
            )

    def _score_here(self, job: ScoringJob) -> list[TurnEvalRow]:
        rows = score_job(job)
        return list(takewhile(lambda _: not self._closed, rows))  # once it is closed nobody waits any more


def _length(job: ScoringJob) -> int:
    return sum(len(turn.pred_assistant_text or "") for turn in job.turns)
