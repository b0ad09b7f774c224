"""Pool of processes that score dialogues, or a thread where no process can be started."""

import asyncio
import os
import subprocess
import sys
import threading
from collections.abc import Callable, Sequence
from contextlib import suppress
from itertools import takewhile
from pathlib import Path
from typing import Final, NamedTuple, Self

import anyio
import msgspec

from memfin import version
from memfin.contracts import TurnEvalRow
from memfin.sandbox.references import describe, one_line
from memfin.sandbox.thread import CallThread
from memfin.scoring.worker import ScoringJob, read_frame, score_job, write_frame

DEATHS: Final = 3
"""Maximum number of deaths of processes over one turn before it is given up."""

SHORT: Final = 20_000
"""Characters of a dialogue's replies up to which it may be scored in a thread, in less than a second."""

END_LIMIT: Final = 0.5
"""Seconds that the end of the pool waits for processes that were killed."""

PACKAGE: Final = str(Path(version.__file__).with_name("__init__.py"))
START_LIMIT: Final = 60.0
"""Seconds that a process has until it is ready."""

CHECKS: Final = 8
"""Checks of a process in the time that a turn has; a pause of the whole program counts as one of them."""

REASON: Final = 300
"""Characters of the reason for which a process did not start."""

BOOT: Final = """
import sys
from importlib.util import module_from_spec, spec_from_file_location
sys.path += [path for path in sys.argv[3:] if path not in sys.path]
spec = spec_from_file_location("memfin", sys.argv[1])
sys.modules["memfin"] = module_from_spec(spec)
spec.loader.exec_module(sys.modules["memfin"])
from memfin.scoring.worker import main
main(*filter(None, sys.argv[2].split(",")))
"""
"""Imports the package from where this process has it, and what it needs from the process's own path first.

The second argument is a list of references to users' detectors.

What else this process imports from, such as the current directory, must not shadow the standard library.
"""


class Scored(NamedTuple):
    """Rows of the first turns of a job, and the problem that ended it; ``late`` after a time-out.

    ``begun`` is the number of users' detectors that had begun on the next turn.
    """

    rows: list[TurnEvalRow]
    problem: str | None = None
    late: bool = False
    begun: int = 0


class StartError(Exception):
    """A scoring process did not start."""


class ScoringProcess:
    """A process that scores one job at a time, started with the first and restarted after its death.

    A thread communicates with it, so that neither its start nor a full pipe blocks the loop.
    """

    def __init__(self, limit: float, detectors: Sequence[str] = (), directory: str = "") -> None:
        """Prepare; ``limit`` is the maximum number of seconds per turn, and per user's detector of it.

        The ``detectors`` are references, imported from ``directory``, too, where this process does.
        """
        self._limit = limit
        self._detectors = ",".join(detectors)
        self._directory = directory
        self._thread = CallThread("memfin-scorer")
        self._lock = threading.Lock()
        self._process: subprocess.Popen[bytes] | None = None
        self._closed = False
        self._ready = False
        self._late = False
        self._progress = 0
        self._timer: asyncio.TimerHandle | None = None
        self._encoder = msgspec.json.Encoder()
        self._decoder = msgspec.json.Decoder(TurnEvalRow)

    async def score(self, job: ScoringJob) -> Scored:
        """Score the turns of a job until the process dies or a turn exceeds the limit.

        Raises:
            StartError: the process does not start.
        """
        self._late = False
        self._check(-1, 0)
        try:
            return await self._thread.call(self._score, job)
        finally:
            if self._timer is not None:
                self._timer.cancel()

    def close(self) -> None:
        """Kill the process, now or as soon as it has started; `end` waits for it."""
        with self._lock:
            self._closed = True
        self._kill()

    async def end(self) -> None:
        """Wait for the end of the closed process, and end its thread."""
        try:
            await self._thread.call(self._reap)
        finally:
            self._thread.stop()

    def _check(self, seen: int, strikes: int) -> None:
        """Kill the process if no turn was finished during `CHECKS` checks in a row."""
        progress, ready = self._progress, self._ready
        strikes = strikes + 1 if progress == seen else 0
        if strikes == CHECKS:
            self._late = ready
            self._kill()
            return
        interval = (self._limit if ready else START_LIMIT) / CHECKS
        self._timer = asyncio.get_running_loop().call_later(interval, self._check, progress, strikes)

    def _kill(self) -> None:
        with self._lock:
            if self._process is not None:
                self._process.kill()

    def _score(self, job: ScoringJob) -> Scored:
        rows: list[TurnEvalRow] = []
        begun = 0
        try:
            process = self._process or self._start()
            write_frame(process.stdin, self._encoder.encode(job))  # type: ignore[arg-type] # a pipe
            for _ in job.turns[job.done :]:
                while not (answer := _answer(process)):
                    begun += 1
                    self._progress += 1
                rows.append(self._decoder.decode(answer))
                begun = 0
                self._progress += 1
        except StartError:
            self._reap()
            raise
        except Exception as problem:  # noqa: BLE001 - after any error the process is useless
            return Scored(rows, self._reap() or describe(problem), late=self._late, begun=begun)
        return Scored(rows)

    def _start(self) -> subprocess.Popen[bytes]:
        """Start the process and wait until it is ready.

        Raises:
            StartError: there is no interpreter to start, or it ended before it was ready.
        """
        if not sys.executable or getattr(sys, "frozen", False):
            raise StartError("this program is not a Python interpreter")
        paths = filter(None, (path or self._directory for path in sys.path))
        command = [sys.executable, "-P", "-c", BOOT, PACKAGE, self._detectors, *paths]
        pipe = subprocess.PIPE
        try:
            # In a process group of its own no Ctrl-C reaches it, not even before it can ignore one.
            process = subprocess.Popen(command, stdin=pipe, stdout=pipe, stderr=pipe, process_group=0)  # noqa: S603
        except OSError as problem:
            raise StartError(str(problem)) from problem
        with self._lock:
            self._process = process
            if self._closed:
                process.kill()
        try:
            _answer(process)
        except (OSError, EOFError):
            process.kill()
            output = process.stderr.read().decode("utf-8", "replace") if process.stderr else ""
            last = one_line(output.strip().rpartition("\n")[2], REASON)
            raise StartError(last or f"the process ended with status {process.wait()}") from None
        self._ready = True
        return process

    def _reap(self) -> str | None:
        """Kill the process, wait for its end, and return its status, if there was one."""
        process = self._process
        if process is None:
            return None
        process.kill()
        with suppress(OSError), process:  # closes the pipes and waits; what was not sent is not sent any more
            pass
        with self._lock:
            self._process = None
        self._ready = False
        return f"the scoring process ended with status {process.returncode}"


def _answer(process: subprocess.Popen[bytes]) -> bytes:
    frame = read_frame(process.stdout)  # type: ignore[arg-type] # a pipe
    if frame is None:
        raise EOFError("the process sent no more data")
    return frame


def default_workers() -> int:
    """Return the default number of scoring processes: the usable processors minus one."""
    usable = len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1
    return max(1, usable - 1)


class ScoringPool:
    """Scores dialogues, ``size`` at a time; use as an async context manager.

    A process starts when a dialogue waits and no other is free; since a start takes a second, the first
    ``head_start`` turns of short dialogues are scored in a thread. A process that dies or takes too long over
    a turn is replaced; its dialogue is scored again from that turn on, without the user's detector that was
    the cause. On leaving, all are killed.
    """

    def __init__(
        self,
        workers: int,
        timeout: float,
        warn: Callable[[str], None],
        *,
        head_start: int = 0,
        detectors: Sequence[str] = (),
        user_code: bool = False,
    ) -> None:
        """Prepare; with 0 ``workers`` a thread scores, without the ``timeout`` per turn.

        ``detectors`` are references to users' detectors, imported when a process starts; with ``user_code``
        it imports from the current directory, too, where this process does. ``warn`` is called once when
        processes cannot be started.
        """
        self.size = max(1, workers)
        self._in_thread = workers == 0
        self._timeout = timeout
        self._warn = warn
        self._head_start = head_start
        self._detectors = detectors
        self._directory = str(Path.cwd()) if user_code else ""
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
        """Return the row of each turn of a job; the row of an unscored turn has the reason."""
        self._head_start -= len(job.turns)
        if self._in_thread or (self._head_start >= 0 and _length(job) <= SHORT):
            return await self._thread.call(self._score_here, job)
        if self._idle:
            process = self._idle.pop()
        else:
            process = ScoringProcess(self._timeout, self._detectors, self._directory)
            self._processes.append(process)
        try:
            return await self._by(process, job)
        finally:
            self._idle.append(process)

    async def _by(self, process: ScoringProcess, job: ScoringJob) -> list[TurnEvalRow]:
        rows: list[TurnEvalRow] = []
        deaths = 0
        failed: dict[str, str] = {}
        while len(rows) < len(job.turns):
            left = job.replace(done=len(rows), failed=failed)
            try:
                scored = await process.score(left)
            except StartError as problem:
                self._give_up(str(problem))
                return rows + await self._thread.call(self._score_here, left)
            rows += scored.rows
            if scored.problem is None:
                break
            turn = job.turns[len(rows)]
            deaths = 1 if scored.rows else deaths + 1
            failed = {} if scored.rows else failed
            if scored.late:
                reason = f"took longer than {self._timeout:g} s (score_timeout)"
            elif deaths == DEATHS:
                reason = f"{scored.problem}, {DEATHS} times"
            else:
                continue
            deaths = 0
            if scored.begun:
                running = [name for name in job.detectors if name not in failed]
                failed = {**failed, running[scored.begun - 1]: reason}
            else:
                rows.append(job.unscored(turn, reason))
                failed = {}
        return rows

    def _give_up(self, problem: str) -> None:
        """Score in a thread from now on, with a warning the first time."""
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
