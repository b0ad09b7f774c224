"""A process that scores dialogues for a run, and its time-outs."""

import asyncio
import subprocess
import sys
import threading
from contextlib import suppress
from pathlib import Path
from typing import Final, NamedTuple

import msgspec

from memfin import version
from memfin.contracts import TurnEvalRow
from memfin.sandbox.references import describe, one_line
from memfin.sandbox.thread import CallThread
from memfin.scoring.worker import ScoringJob, read_frame, write_frame

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
sys.path += [path for path in sys.argv[2:] if path not in sys.path]
spec = spec_from_file_location("memfin", sys.argv[1])
sys.modules["memfin"] = module_from_spec(spec)
spec.loader.exec_module(sys.modules["memfin"])
from memfin.scoring.worker import main
main()
"""
"""Imports the package from where this process has it, and what it needs from the process's own path first.

What else this process imports from, such as the current directory, must not shadow the standard library.
"""


class Scored(NamedTuple):
    """The rows of the first turns of a job, and why there are no more where that is so.

    ``started`` is false where no process came to be ready, ``late`` true where a turn took too long.
    """

    rows: list[TurnEvalRow]
    problem: str | None = None
    started: bool = True
    late: bool = False


class StartError(Exception):
    """A scoring process did not start."""


class ScoringProcess:
    """A process that scores one job at a time; it starts with the first, and anew once it has died.

    A thread talks with it, so that neither its start nor a full pipe holds the loop.
    """

    def __init__(self, limit: float) -> None:
        """Prepare; ``limit`` is how many seconds a turn may take."""
        self._limit = limit
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
        """Score the turns of a job as far as the process lives and each takes no longer than the limit."""
        self._late = False
        self._check(-1, 0)
        try:
            return await self._thread.call(self._score, job)
        finally:
            if self._timer is not None:
                self._timer.cancel()

    def close(self) -> None:
        """Kill the process, now or as soon as it is there; `end` waits for it."""
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
        """Kill the process when no turn was done between so many checks in a row."""
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
        try:
            process = self._process or self._start()
            write_frame(process.stdin, self._encoder.encode(job))  # type: ignore[arg-type] # a pipe
            for _ in job.turns:
                rows.append(self._decoder.decode(_answer(process)))
                self._progress += 1
        except StartError as problem:
            self._reap()
            return Scored(rows, str(problem), started=False)
        except Exception as problem:  # noqa: BLE001 - whatever it is, the process is of no more use
            return Scored(rows, self._reap() or describe(problem), late=self._late)
        return Scored(rows)

    def _start(self) -> subprocess.Popen[bytes]:
        """Start the process and wait until it is ready.

        Raises:
            StartError: there is no interpreter to start, or it ended before it was ready.
        """
        if not sys.executable or getattr(sys, "frozen", False):
            raise StartError("this program is no Python interpreter")
        command = [sys.executable, "-P", "-c", BOOT, PACKAGE, *filter(None, sys.path)]
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
        """Kill the process and wait for its end; return with what status it ended, where there was one."""
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
        raise EOFError("the process sends nothing more")
    return frame
