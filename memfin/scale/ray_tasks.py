"""Code on the nodes of a Ray cluster: the task of a shard, the actor of progress, and pieces of files.

Arguments and results are JSON lines, bytes and references to bytes; code is looked up by name in the
environment of the node.
"""

import hashlib
import importlib
import os
import shutil
import signal
import socket
import subprocess
import tempfile
import threading
import time
from collections import deque
from collections.abc import Iterable, Mapping
from contextlib import suppress
from io import RawIOBase
from pathlib import Path
from typing import IO, Any, Final

import msgspec

from memfin.contracts import Record
from memfin.errors import MemfinError, RunFault, UsageError
from memfin.journal.lock import LOCK, is_locked
from memfin.scale.archive import pack_run, unpack_run
from memfin.scale.engine import Ending
from memfin.scale.processes import LEFT_OPEN
from memfin.scale.worker import DRAIN_SECONDS, WORKER_EVENTS, WorkerFailed, WorkerTask, worker_command
from memfin.version import __version__

TICK: Final = 0.25
"""Seconds between two reports of a task, which are also the longest it takes to notice its cancellation."""

MAX_LINES: Final = 20_000
"""Maximum lines of a worker's output that wait for the actor; older ones are dropped."""

MAX_HELD: Final = 64 << 20
"""Maximum bytes that wait in the actor for the engine; older ones are dropped."""

HELD_LOCK: Final = 30.0
"""Seconds to wait for a worker that an earlier attempt has left behind: it drains when its task is gone."""

ENDINGS: Final = (0, UsageError.exit_code, RunFault.exit_code)
"""Exit codes of a worker after which another attempt would not help."""


def loaded_ray() -> Any:
    """Return the package ray, which an extra brings and which loads slowly."""
    return importlib.import_module("ray")


class ShardJob(Record):
    """Input of a task.

    Attributes:
        task: that of the worker, with paths as they are on the node, or in an archive's scratch directory.
        probe: a file that the engine has written beside the shards; None where they come back as archives.
        token: its content, and the name of the scratch directory.
        folder: where the worker runs; None for where Ray runs the task.
        dataset_sha256: what the dataset has to be; None for the sample.
    """

    task: WorkerTask
    token: str
    probe: str | None = None
    folder: str | None = None
    dataset_sha256: str | None = None


class ShardResult(Record):
    """End of a task: the exit code of its worker, why, and the archive of the run directory."""

    code: int
    cause: str | None = None
    node: str = ""
    archive: str | None = None
    size: int = 0
    sha256: str = ""


class WorkerDied(Exception):  # noqa: N818 - names the event
    """The worker's process was killed or crashed. Ray tries the task again."""


class Progress:
    """Holds what workers report until the engine takes it; a Ray actor, without a name.

    It may be lost at any time: then some progress is not shown, and nothing else happens.
    """

    def __init__(self, limit: int = MAX_HELD) -> None:
        self._reports: deque[tuple[int, bytes, bytes]] = deque()
        self._limit = limit
        self._held = 0

    def report(self, shard: int, events: bytes, lines: bytes) -> None:
        """Take the lines of a worker's standard output and standard error."""
        self._reports.append((shard, events, lines))
        self._held += len(events) + len(lines)
        while self._held > self._limit:
            _, *dropped = self._reports.popleft()
            self._held -= sum(map(len, dropped))

    def take(self) -> list[tuple[int, bytes, bytes]]:
        """Return what was reported since the last call, in its order."""
        taken, self._reports, self._held = list(self._reports), deque(), 0
        return taken


def run_shard(version: str, line: bytes, progress: Any, inputs: Mapping[str, list[Any]]) -> bytes:
    """Run the worker of a shard to its end and return a `ShardResult`; cancelled, the worker drains.

    ``inputs`` are references to the pieces of the dataset and of the run directory, for shards that come back
    as archives.

    Raises:
        WorkerDied: the worker's process was killed or has crashed.
    """
    where = f"node {socket.gethostname()}"
    try:
        if version != __version__:
            raise UsageError(f"{where}: has memfin {__version__}, the command {version}; install the same")
        job = msgspec.json.decode(line, type=ShardJob)
        return msgspec.json.encode(_run(job, where, progress, inputs))
    except MemfinError as problem:
        return msgspec.json.encode(ShardResult(code=problem.exit_code, cause=str(problem)))
    except OSError as problem:
        cause = f"{where}: {problem.filename or 'shard'}: {problem.strerror or problem}"
        return msgspec.json.encode(ShardResult(code=RunFault.exit_code, cause=cause))


def read_piece(path: str, offset: int, length: int) -> bytes:
    """Return a part of a file of the node."""
    with Path(path).open("rb") as file:
        file.seek(offset)
        return file.read(length)


def discard(path: str) -> None:
    """Remove the scratch directory of a shard, and that of all when it is the last."""
    scratch = Path(path)
    shutil.rmtree(scratch, ignore_errors=True)
    with suppress(OSError):
        scratch.parent.rmdir()


def _run(job: ShardJob, where: str, progress: Any, inputs: Mapping[str, list[Any]]) -> ShardResult:
    task, scratch = job.task, None
    if job.probe is None:
        scratch = Path(tempfile.gettempdir()) / f"memfin-ray-{job.token}" / Path(task.directory).name
        task = _fetch(task, scratch, inputs)
    else:
        with suppress(OSError):
            if Path(job.probe).read_text("ascii") == job.token:
                job = job.replace(probe="")
        if job.probe:
            raise UsageError(
                f"{where}: does not see {Path(job.probe).parent}, or another one: --runs-dir has to be on a "
                "file system that all nodes share; --ray-return archive does without one"
            )
    _check_dataset(task, job.dataset_sha256, where)
    if job.folder is not None and not Path(job.folder).is_dir():
        raise UsageError(
            f"{where}: has no directory {job.folder}, where the command runs; give a working_dir in "
            "--ray-runtime-env"
        )
    result = _work(task, job.folder, progress)
    if scratch is None:
        return result
    archive = scratch / "run.tar"
    if not Path(task.directory).is_dir():
        discard(str(scratch))
        return result
    size = pack_run(Path(task.directory), archive)
    with archive.open("rb") as file:
        found = hashlib.file_digest(file, "sha256").hexdigest()
    node = loaded_ray().get_runtime_context().get_node_id()
    return result.replace(node=node, archive=str(archive), size=size, sha256=found)


def _fetch(task: WorkerTask, scratch: Path, inputs: Mapping[str, list[Any]]) -> WorkerTask:
    """Return the task with the paths of its dataset and run directory below the scratch directory.

    What an earlier attempt has left there is gone on with.
    """
    shard = Path(task.directory)
    directory = scratch / shard.parent.name / shard.name
    _wait_for(directory)
    directory.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
    if inputs["run"] and not directory.exists():
        pieces = _Pieces(inputs["run"])
        unpack_run(pieces, directory)
    if inputs["dataset"]:
        dataset = scratch / "dataset.jsonl"
        with dataset.open("wb") as file:
            shutil.copyfileobj(_Pieces(inputs["dataset"]), file, 1 << 20)
        task = task.replace(dataset=str(dataset))
    return task.replace(directory=str(directory))


class _Pieces(RawIOBase):
    """Reads the pieces of a file from Ray's object store, one at a time."""

    def __init__(self, references: Iterable[Any]) -> None:
        self._references = iter(references)
        self._piece = memoryview(b"")

    def readable(self) -> bool:
        return True

    def readinto(self, buffer: Any) -> int:
        while not self._piece:
            reference = next(self._references, None)
            if reference is None:
                return 0
            self._piece = memoryview(loaded_ray().get(reference))
        count = min(len(buffer), len(self._piece))
        buffer[:count], self._piece = self._piece[:count], self._piece[count:]
        return count


def _wait_for(directory: Path) -> None:
    """Wait until no worker of an earlier attempt has the run directory."""
    due = time.monotonic() + HELD_LOCK
    while is_locked(directory / LOCK) and time.monotonic() < due:
        time.sleep(TICK)


def _check_dataset(task: WorkerTask, sha256: str | None, where: str) -> None:
    if sha256 is None:
        return
    path = task.dataset or str(task.settings.dataset)
    try:
        with Path(path).open("rb") as file:
            found = hashlib.file_digest(file, "sha256").hexdigest()
    except OSError as problem:
        raise UsageError(f"{where}: dataset {path}: {problem.strerror or problem}") from problem
    if found != sha256:
        raise UsageError(f"{where}: dataset {path}: is another one than where the command runs")


def _work(task: WorkerTask, folder: str | None, progress: Any) -> ShardResult:
    _wait_for(Path(task.directory))
    cancelled = threading.Event()
    # Ray cancels a task by an interrupt of its main thread; where SIGINT was ignored when Ray was started, as
    # in the background of a script, that would do nothing.
    before = signal.signal(signal.SIGINT, lambda *_: cancelled.set())
    worker = subprocess.Popen(  # noqa: S603 - the worker is ours
        worker_command(),
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        cwd=folder,
        start_new_session=True,
    )
    assert worker.stdin is not None and worker.stdout is not None and worker.stderr is not None  # noqa: S101, PT018
    output, errors = _Output(worker.stdout), _Output(worker.stderr)
    report = _Reporter(progress, int(str(task.settings.shard).partition("/")[0]), output, errors)
    try:
        with suppress(BrokenPipeError):
            worker.stdin.write(task.line())
            worker.stdin.flush()
        told = False
        while worker.poll() is None:
            with suppress(subprocess.TimeoutExpired):
                worker.wait(TICK)
            if cancelled.is_set() and not told:
                told = True
                worker.terminate()
            report.send()
    finally:
        _end(worker, worker.stdin)
        signal.signal(signal.SIGINT, before)
    for stream in (output, errors):
        stream.join(LEFT_OPEN)
    report.finish()
    cause = output.failed.message if output.failed is not None else None
    if worker.returncode not in ENDINGS and not cancelled.is_set():
        raise WorkerDied(cause or Ending(worker.returncode).reason)
    return ShardResult(code=worker.returncode, cause=cause)


def _end(worker: "subprocess.Popen[bytes]", stdin: IO[bytes]) -> None:
    """End the worker, if it still runs, by the end of its standard input, and what it has left behind."""
    with suppress(BrokenPipeError):
        stdin.close()
    with suppress(subprocess.TimeoutExpired):
        worker.wait(DRAIN_SECONDS)
    with suppress(ProcessLookupError):
        os.killpg(worker.pid, signal.SIGKILL)
    worker.wait()


class _Output(threading.Thread):
    """Reads the lines of a pipe as they come and keeps the last ones.

    Attributes:
        failed: what the worker said when it failed.
    """

    def __init__(self, pipe: IO[bytes]) -> None:
        super().__init__(daemon=True)
        self.failed: WorkerFailed | None = None
        self._pipe = pipe
        self._lines: deque[bytes] = deque(maxlen=MAX_LINES)
        self.start()

    def run(self) -> None:
        for line in self._pipe:
            if b"worker_failed" in line:
                with suppress(msgspec.DecodeError):
                    event = WORKER_EVENTS.decode(line)
                    self.failed = event if isinstance(event, WorkerFailed) else self.failed
            self._lines.append(line)

    def take(self) -> bytes:
        """Return the lines that have come since the last call."""
        return b"".join(self._lines.popleft() for _ in range(len(self._lines)))


class _Reporter:
    """Sends a worker's lines to the actor: one report at a time, whatever becomes of it."""

    def __init__(self, progress: Any, shard: int, output: _Output, errors: _Output) -> None:
        self._progress = progress
        self._shard = shard
        self._output = output
        self._errors = errors
        self._sent: Any = None

    def send(self) -> None:
        """Report what there is, unless the last report is still on its way."""
        if self._sent is not None and not loaded_ray().wait([self._sent], timeout=0)[0]:
            return
        events, lines = self._output.take(), self._errors.take()
        if events or lines:
            self._sent = self._progress.report.remote(self._shard, events, lines)

    def finish(self) -> None:
        """Report the rest, and wait for a moment until it has arrived."""
        for _ in range(2):
            if self._sent is not None:
                loaded_ray().wait([self._sent], timeout=LEFT_OPEN)
            self.send()
