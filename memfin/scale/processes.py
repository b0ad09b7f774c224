"""Launcher of workers as processes of this machine."""

import asyncio
import os
import signal
from collections.abc import Callable
from contextlib import suppress
from types import TracebackType
from typing import Final, Self

import msgspec

from memfin.scale.engine import Attempt, Ending
from memfin.scale.worker import WORKER_EVENTS, worker_command

_PIECE: Final = 1 << 16

LEFT_OPEN: Final = 0.5
"""Seconds in which the output of an ended worker is read to its end: an orphan may hold the pipe open."""


class ProcessLauncher:
    """Starts each worker as a process in a session of its own: Ctrl-C of the terminal reaches the engine alone.

    The engine holds the other end of a worker's standard input, so that workers end with it, whatever ends it.
    """

    def __init__(self) -> None:
        self._workers: dict[int, asyncio.subprocess.Process] = {}
        self._draining = False

    async def __aenter__(self) -> Self:
        """Do nothing."""
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        """Kill the workers that still run."""
        self.kill()

    async def attempt(self, attempt: Attempt, /) -> Ending:
        """Start a worker and read what it writes until it ends."""
        if self._draining:
            return Ending(None, "the engine ends")
        try:
            process = await asyncio.create_subprocess_exec(
                *worker_command(),
                stdin=asyncio.subprocess.PIPE,
                stdout=asyncio.subprocess.PIPE,
                stderr=asyncio.subprocess.PIPE,
                start_new_session=True,
            )
        except OSError as problem:
            return Ending(None, f"its worker cannot be started: {problem.strerror or problem}")
        self._workers[process.pid] = process
        if self._draining:
            self._signal(process)
        try:
            assert process.stdin and process.stdout and process.stderr  # noqa: S101, PT018 - they are pipes
            process.stdin.write(attempt.task.line())
            readers = [
                asyncio.create_task(_read(process.stdout, lambda line: _take(line, attempt))),
                asyncio.create_task(_read(process.stderr, lambda line: attempt.on_line(_text(line)))),
            ]
            code = await process.wait()
            with suppress(ProcessLookupError):
                os.killpg(process.pid, signal.SIGKILL)  # what the worker has left behind
            _, left = await asyncio.wait(readers, timeout=LEFT_OPEN)
            for reader in left:
                reader.cancel()
            return Ending(code)
        finally:
            del self._workers[process.pid]
            process.stdin.close()

    def drain(self) -> None:
        """Send all workers SIGTERM, which drains them, and ends them at once the second time."""
        self._draining = True
        for process in self._workers.values():
            self._signal(process)

    @staticmethod
    def _signal(process: asyncio.subprocess.Process) -> None:
        with suppress(ProcessLookupError):
            process.send_signal(signal.SIGTERM)

    def kill(self) -> None:
        """Kill all workers with the processes they have started."""
        self._draining = True
        for pid in list(self._workers):
            with suppress(ProcessLookupError):
                os.killpg(pid, signal.SIGKILL)


async def _read(stream: asyncio.StreamReader, take: Callable[[bytes], None]) -> None:
    """Hand on the lines of a stream, and what is left at its end."""
    rest = b""
    while piece := await stream.read(_PIECE):
        *lines, rest = (rest + piece).split(b"\n")
        for line in lines:
            take(line)
    if rest:
        take(rest)


def _take(line: bytes, attempt: Attempt) -> None:
    with suppress(msgspec.DecodeError):  # the last line of a worker that was killed
        attempt.on_event(WORKER_EVENTS.decode(line))


def _text(line: bytes) -> str:
    return line.decode(errors="replace").rstrip("\r")
