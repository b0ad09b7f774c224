"""Launcher of workers as processes of this machine."""

import asyncio
import os
import signal
from contextlib import suppress
from types import TracebackType
from typing import Final, Self, cast

import msgspec

from memfin.scale.engine import Attempt, Ending
from memfin.scale.worker import WORKER_EVENTS, worker_command

LEFT_OPEN: Final = 0.5
"""Seconds in which the output of an ended worker is read to its end: an orphan may hold the pipe open."""

MAX_LINE: Final = 1 << 20
"""Bytes after which a line counts as complete, so that output without line ends takes no memory."""

_OUT: Final = 1


class ProcessLauncher:
    """Starts each worker as a process of its own session: Ctrl-C of the terminal reaches the engine alone.

    The engine holds the other end of a worker's standard input: workers end with it, whatever ends it.
    """

    def __init__(self) -> None:
        self.host = "127.0.0.1"
        self._workers: dict[int, _Worker] = {}
        self._draining = asyncio.Event()

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
        if self._draining.is_set():
            return Ending(None, "the engine ends")
        loop = asyncio.get_running_loop()
        try:
            transport, worker = await loop.subprocess_exec(
                lambda: _Worker(attempt), *worker_command(), start_new_session=True
            )
        except OSError as problem:
            return Ending(None, f"its worker cannot be started: {problem.strerror or problem}")
        pid = transport.get_pid()
        self._workers[pid] = worker
        try:
            if self._draining.is_set():
                worker.terminate()
            cast("asyncio.WriteTransport", transport.get_pipe_transport(0)).write(attempt.task.line())
            await worker.exited.wait()
            with suppress(ProcessLookupError):
                os.killpg(pid, signal.SIGKILL)  # the processes that it has left behind
            with suppress(TimeoutError):
                await asyncio.wait_for(worker.closed.wait(), LEFT_OPEN)
            return Ending(transport.get_returncode())
        finally:
            del self._workers[pid]
            transport.close()

    def drain(self) -> None:
        """Send all workers SIGTERM, which drains them, and ends them at once the second time."""
        self._draining.set()
        for worker in self._workers.values():
            worker.terminate()

    def kill(self) -> None:
        """Kill all workers with the processes that they have started."""
        for pid in list(self._workers):
            with suppress(ProcessLookupError):
                os.killpg(pid, signal.SIGKILL)


class _Worker(asyncio.SubprocessProtocol):
    """A worker's process: hands its lines on, and says when it has ended.

    ``closed`` is set once nothing can come any more. A process of `asyncio.create_subprocess_exec` counts as
    running, in Python 3.11, for as long as anything holds one of its pipes open.
    """

    def __init__(self, attempt: Attempt) -> None:
        self.exited = asyncio.Event()
        self.closed = asyncio.Event()
        self._attempt = attempt
        self._rest = {_OUT: b"", _OUT + 1: b""}
        self._transport: asyncio.SubprocessTransport

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        """Keep the process."""
        self._transport = cast("asyncio.SubprocessTransport", transport)

    def pipe_data_received(self, fd: int, data: bytes) -> None:
        """Hand on the lines that are complete."""
        *lines, rest = (self._rest[fd] + data).split(b"\n")
        if len(rest) > MAX_LINE:
            lines, rest = [*lines, rest], b""
        self._rest[fd] = rest
        for line in lines:
            self._take(fd, line)

    def pipe_connection_lost(self, fd: int, exc: Exception | None) -> None:
        """Hand on a last line without an end."""
        del exc
        if rest := self._rest.pop(fd, b""):
            self._take(fd, rest)

    def process_exited(self) -> None:
        """Say that the process has ended."""
        self.exited.set()

    def connection_lost(self, exc: Exception | None) -> None:
        """Say that everything is read."""
        del exc
        self.closed.set()

    def terminate(self) -> None:
        """Send the process SIGTERM."""
        with suppress(ProcessLookupError):
            self._transport.send_signal(signal.SIGTERM)

    def _take(self, fd: int, line: bytes) -> None:
        if fd != _OUT:
            self._attempt.on_line(line.decode(errors="replace").rstrip("\r"))
            return
        try:
            event = WORKER_EVENTS.decode(line)
        except (msgspec.DecodeError, UnicodeDecodeError, RecursionError):
            return  # the last line of a worker that was killed, or an agent has written to the pipe
        self._attempt.on_event(event)
