"""``python -m memfin.cli.worker``: evaluates one shard for an engine (`memfin.scale.worker`)."""

import os
import signal
import sys
import threading
from collections import deque
from typing import Final, NoReturn

import msgspec

from memfin.actors.messages import utc_now
from memfin.cli.main import end_with_threads, failure
from memfin.cli.output import ProgressView
from memfin.cli.process import run_work
from memfin.client.leases import TOKEN_VARIABLE
from memfin.contracts import ProgressEvent
from memfin.errors import UsageError
from memfin.runtime.run import Run
from memfin.sandbox.references import one_line
from memfin.scale.worker import DRAIN_SECONDS, WorkerFailed, WorkerTask, worker_plan

LAST_WORDS: Final = 0.2
"""Seconds for the last events to be read."""

_TASK: Final = msgspec.json.Decoder(WorkerTask)
_PIECE: Final = 65536


class Channel:
    """Pipe of events to the engine, written by a thread: an engine that is stopped does not stop the run."""

    def __init__(self, descriptor: int) -> None:
        self._descriptor = descriptor
        self._lines: deque[bytes] = deque()
        self._wake = threading.Semaphore(0)
        self._closing = False
        self._thread = threading.Thread(target=self._write, name="memfin-events", daemon=True)
        self._thread.start()

    def send(self, event: ProgressEvent) -> None:
        """Send an event."""
        self._lines.append(msgspec.json.encode(event) + b"\n")
        self._wake.release()

    def close(self) -> None:
        """Wait until everything is written, but not for long."""
        self._closing = True
        self._wake.release()
        self._thread.join(LAST_WORDS)

    def _write(self) -> None:
        while not self._closing or self._lines:
            self._wake.acquire()
            data = memoryview(b"".join(self._lines.popleft() for _ in range(len(self._lines))))
            try:
                while data:
                    data = data[os.write(self._descriptor, data) :]
            except OSError:  # the engine is gone; the end of standard input says so, too
                return


class WorkerView(ProgressView):
    """View of a worker's run: its events go to the engine, all else to standard error."""

    def __init__(self, channel: Channel, run_id: str) -> None:
        super().__init__(sys.stderr, "quiet")
        self._channel = channel
        self._run_id = run_id

    def on_event(self, event: ProgressEvent) -> None:
        """Send the event."""
        self._channel.send(event)

    def on_exit(self, line: str, code: int) -> None:
        """Send why the process ends."""
        message = one_line(line)
        self._channel.send(WorkerFailed(ts=utc_now(), run_id=self._run_id, message=message, exit_code=code))
        self._channel.close()


def main() -> NoReturn:
    """Evaluate the shard that standard input names, and end with the exit code of its run."""
    # Standard input and output belong to the engine; what an agent reads and prints does not get there.
    commands, channel = os.dup(0), Channel(os.dup(1))
    os.dup2(os.open(os.devnull, os.O_RDONLY), 0)
    os.dup2(2, 1)
    sys.stdout = sys.stderr
    view = WorkerView(channel, "")
    try:
        task = _read_task(commands)
        view = WorkerView(channel, str(task.settings.run_id))
        threading.Thread(target=_watch, args=(commands,), name="engine-watch", daemon=True).start()
        if task.rate_token is not None:
            os.environ[TOKEN_VARIABLE] = task.rate_token
        plan = worker_plan(task)
        run_work(Run(plan, view.on_event), plan, view, DRAIN_SECONDS)
        code = 0
    except Exception as problem:  # noqa: BLE001 - every problem gives a line and an exit code
        line, code = failure(problem)
        view.on_exit(line, code)
    channel.close()
    end_with_threads(code)
    sys.exit(code)


def _read_task(descriptor: int) -> WorkerTask:
    received = b""
    while not received.endswith(b"\n"):
        piece = os.read(descriptor, _PIECE)
        if not piece:
            break
        received += piece
    try:
        return _TASK.decode(received)
    except msgspec.DecodeError as problem:
        raise UsageError(f"worker: the task on standard input is unusable: {problem}") from problem


def _watch(descriptor: int) -> None:
    """End the run in order when the engine has closed its end of standard input."""
    while os.read(descriptor, _PIECE):
        pass
    os.kill(os.getpid(), signal.SIGTERM)


if __name__ == "__main__":
    main()
