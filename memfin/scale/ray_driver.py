"""``python -m memfin.scale.ray_driver``: the process of an engine that talks to a Ray cluster.

Ray takes the signals of its process and ends it when the cluster is lost; a command must not end so. JSON
lines come on standard input, a `Setup` and then a `Start` per shard, and go out on standard output. When
standard input ends, the tasks are cancelled and the process ends.
"""

import asyncio
import hashlib
import os
import secrets
import socket
import sys
from collections.abc import Iterator
from contextlib import suppress
from functools import partial
from pathlib import Path
from typing import Any, Final, NoReturn

import anyio
import msgspec

from memfin.contracts import Record
from memfin.errors import MemfinError, RunFault, UsageError
from memfin.sandbox.references import one_line
from memfin.scale import ray_tasks
from memfin.scale.archive import PIECE, pack_run, unpack_run
from memfin.scale.ray_tasks import ShardJob, ShardResult, WorkerDied, loaded_ray
from memfin.scale.worker import WorkerTask
from memfin.version import __version__

RETRIES: Final = 3
"""Retries of a task whose worker or node has died, by Ray."""

POLL: Final = 0.3
"""Seconds between two looks at the progress."""

TAKE: Final = 5.0
"""Seconds to wait for the actor that holds the progress."""

CONNECT: Final = 10.0
"""Seconds for the head of the cluster to answer."""

RETURNS: Final = 4
"""Archives that come back at the same time."""


class Setup(Record, tag="setup"):
    """First command: the cluster, and the options of the tasks as `ray.remote` takes them."""

    address: str | None
    options: dict[str, Any]
    runtime_env: dict[str, Any] | None
    archive: bool


class Start(Record, tag="start"):
    """Run the task of a shard."""

    shard: int
    task: WorkerTask


class Drain(Record, tag="drain"):
    """Cancel all tasks: their workers drain."""


class Ready(Record, tag="ready"):
    """The cluster is there; ``host`` is where its nodes reach this machine."""

    host: str


class Refused(Record, tag="refused"):
    """The cluster cannot be used."""

    message: str
    code: int


class Note(Record, tag="note"):
    """Something a user should know."""

    message: str


class Event(Record, tag="event"):
    """A line of a worker's standard output."""

    shard: int
    event: msgspec.Raw


class Line(Record, tag="line"):
    """A line of a worker's standard error."""

    shard: int
    line: str


class Ended(Record, tag="ended"):
    """The task of a shard has ended, with all its retries."""

    shard: int
    code: int | None
    cause: str | None


Command = Setup | Start | Drain
Message = Ready | Refused | Note | Event | Line | Ended
COMMANDS: Final = msgspec.json.Decoder(Command)


class Driver:
    """Submits the tasks of shards and hands on what becomes of them."""

    def __init__(self, setup: Setup, out: int) -> None:
        self._ray = loaded_ray()
        self._setup = setup
        self._out = out
        self._token = secrets.token_hex(16)
        self._running: dict[int, Any] = {}
        self._probes: set[Path] = set()
        self._dataset: dict[str, tuple[str, list[Any]]] = {}
        self._returns = anyio.Semaphore(RETURNS)
        self._preparing = anyio.Lock()
        self._taking = anyio.Lock()
        self._draining = False

    def connect(self) -> None:
        """Join the cluster.

        Raises:
            RunFault: it cannot be reached.
            UsageError: it is of another version, or an option is unusable.
        """
        ray, setup = self._ray, self._setup
        try:
            _reach(setup.address)
            ray.init(
                address=setup.address,
                runtime_env=setup.runtime_env,
                log_to_driver=False,
                configure_logging=False,
                **({} if setup.address or os.environ.get("RAY_ADDRESS") else {"include_dashboard": False}),
            )
            self._task = ray.remote(
                max_retries=RETRIES, retry_exceptions=[WorkerDied], name="memfin shard", **self._options()
            )(ray_tasks.run_shard)
            here = self._on(ray.get_runtime_context().get_node_id(), soft=True)
            actor = ray.remote(num_cpus=0, max_restarts=-1, scheduling_strategy=here)(ray_tasks.Progress)
            self._progress = actor.remote()
        except (ValueError, TypeError, RuntimeError) as problem:
            raise UsageError(f"--engine ray: {one_line(str(problem))}") from problem
        except (OSError, ray.exceptions.RayError) as problem:
            where = setup.address or os.environ.get("RAY_ADDRESS") or "a cluster of its own"
            raise RunFault(
                f"--engine ray: {one_line(str(problem))} ({where}); is it running, is this machine in it, "
                "and are RAY_AUTH_MODE and the token those of its nodes?"
            ) from problem
        self.send(Ready(host=ray.util.get_node_ip_address()))
        if (wanted := self._wanted()) is not None:
            self.send(Note(message=f"no node of the cluster has {wanted} now; shards wait until one joins"))

    def _options(self) -> dict[str, Any]:
        options = dict(self._setup.options)
        if isinstance(strategy := options.get("scheduling_strategy"), dict):
            options["scheduling_strategy"] = self._on(**strategy)
        return options

    def _on(self, node_id: str, *, soft: bool = False) -> Any:
        strategies = self._ray.util.scheduling_strategies
        return strategies.NodeAffinitySchedulingStrategy(node_id, soft=soft)

    def _wanted(self) -> str | None:
        """Return the resources of a task, if no node has them."""
        options = self._setup.options
        wanted = {"CPU": options.get("num_cpus", 1), "GPU": options.get("num_gpus", 0)}
        wanted |= {"memory": options.get("memory", 0), **options.get("resources", {})}
        nodes = [node["Resources"] for node in self._ray.nodes() if node["Alive"]]
        if any(all(node.get(name, 0) >= count for name, count in wanted.items()) for node in nodes):
            return None
        return ", ".join(f"{name} {count:g}" for name, count in wanted.items() if count)

    def send(self, message: Message) -> None:
        """Write a message."""
        data = memoryview(msgspec.json.encode(message) + b"\n")
        while data:
            data = data[os.write(self._out, data) :]

    async def run(self, start: Start) -> None:
        """Run the task of a shard to its end."""
        try:
            result = await self._submitted(start)
        except MemfinError as problem:
            result = ShardResult(code=problem.exit_code, cause=str(problem))
        except OSError as problem:
            cause = f"{problem.filename or start.task.directory}: {problem.strerror or problem}"
            result = ShardResult(code=RunFault.exit_code, cause=cause)
        await self.take()
        self.send(Ended(shard=start.shard, code=result.code, cause=result.cause))

    async def _submitted(self, start: Start) -> ShardResult:
        ray = self._ray
        async with self._preparing:
            job, inputs = await anyio.to_thread.run_sync(self._prepared, start.task)
        if self._draining:
            return ShardResult(code=RunFault.exit_code, cause="stopped")
        reference = self._task.remote(__version__, msgspec.json.encode(job), self._progress, inputs)
        self._running[start.shard] = reference
        try:
            result = msgspec.json.decode(await reference, type=ShardResult)
        except ray.exceptions.TaskCancelledError:
            return ShardResult(code=RunFault.exit_code, cause="stopped")
        except (ray.exceptions.RayError, WorkerDied) as problem:
            return ShardResult(code=RunFault.exit_code, cause=f"{_cause(problem)}; {RETRIES + 1} times")
        finally:
            del self._running[start.shard]
        if result.archive is not None:
            async with self._returns:
                await self._bring_back(result, Path(start.task.directory))
        return result

    def _prepared(self, task: WorkerTask) -> tuple[ShardJob, dict[str, list[Any]]]:
        """Return what the task of a shard needs; reads the dataset once."""
        directory = Path(task.directory).absolute()
        sha256, pieces = self._dataset_of(task.settings.dataset)
        dataset = None if sha256 is None else str(Path(str(task.settings.dataset)).absolute())
        task = task.replace(directory=str(directory), dataset=dataset)
        job = ShardJob(task=task, token=self._token, dataset_sha256=sha256)
        if self._setup.archive:
            return job, {"dataset": pieces, "run": list(self._put_run(directory))}
        probe = directory.parent / f".ray-{self._token}"
        if probe not in self._probes:
            probe.write_text(self._token, "ascii")
            self._probes.add(probe)
        folder = None if "working_dir" in (self._setup.runtime_env or {}) else str(Path.cwd())
        task = task.replace(
            settings=task.settings.replace(runs_dir=str(Path(task.settings.runs_dir).absolute()))
        )
        return job.replace(task=task, probe=str(probe), folder=folder), {}

    def _dataset_of(self, name: str | None) -> tuple[str | None, list[Any]]:
        """Return the SHA-256 of a dataset and, for archives, its pieces in Ray's store."""
        if name is None or not Path(name).is_file():
            return None, []  # the sample, or one that has a name in the workers' environment
        if name not in self._dataset:
            digest, pieces = hashlib.sha256(), []
            for piece in _pieces(Path(name)):
                digest.update(piece)
                pieces += [self._ray.put(piece)] if self._setup.archive else []
            self._dataset[name] = digest.hexdigest(), pieces
        return self._dataset[name]

    def _put_run(self, directory: Path) -> Iterator[Any]:
        """Yield the pieces of a run directory that is there already."""
        if not (directory / "commits.log").is_file():
            return
        archive = directory.with_name(f".{directory.name}.tar")
        try:
            pack_run(directory, archive)
            yield from map(self._ray.put, _pieces(archive))
        finally:
            archive.unlink(missing_ok=True)

    async def _bring_back(self, result: ShardResult, directory: Path) -> None:
        """Put the run directory of a shard here from the archive on its node."""
        ray, node = self._ray, self._on(result.node)
        options = {"num_cpus": 0, "scheduling_strategy": node}
        read = ray.remote(max_retries=RETRIES, **options)(ray_tasks.read_piece)
        archive, digest = directory.with_name(f".{directory.name}.tar"), hashlib.sha256()
        try:
            async with await anyio.open_file(archive, "wb") as file:
                for offset in range(0, result.size, PIECE):
                    piece = await read.remote(result.archive, offset, PIECE)
                    digest.update(piece)
                    await file.write(piece)
            if digest.hexdigest() != result.sha256:
                raise RunFault(f"{directory}: the archive from node {result.node} has arrived damaged")
            with archive.open("rb") as packed:
                await anyio.to_thread.run_sync(unpack_run, packed, directory)
        except ray.exceptions.RayError as problem:
            raise RunFault(f"{directory}: lost on node {result.node}: {_cause(problem)}") from problem
        finally:
            archive.unlink(missing_ok=True)
        scratch = str(Path(str(result.archive)).parent)
        ray.remote(max_retries=0, **options)(ray_tasks.discard).remote(scratch)

    def drain(self) -> None:
        """Cancel all tasks."""
        self._draining = True
        for reference in self._running.values():
            with suppress(Exception):  # it has ended
                self._ray.cancel(reference)

    async def watch(self) -> NoReturn:
        """Hand on progress for ever."""
        while True:
            await self.take()
            await anyio.sleep(POLL)

    async def take(self) -> None:
        """Hand on the progress that there is; none when the actor is lost, which Ray starts again."""
        async with self._taking:  # so that what came first is handed on first
            reports: list[tuple[int, bytes, bytes]] = []
            with suppress(self._ray.exceptions.RayError), anyio.move_on_after(TAKE):
                reports = await self._progress.take.remote()
            for shard, events, lines in reports:
                for event in events.splitlines():
                    with suppress(msgspec.DecodeError):  # cut off when its worker was killed
                        self.send(Event(shard=shard, event=msgspec.json.decode(event, type=msgspec.Raw)))
                for line in lines.split(b"\n")[:-1]:
                    self.send(Line(shard=shard, line=line.decode(errors="replace")))

    def close(self) -> None:
        """Remove what was put beside the shards."""
        for probe in self._probes:
            probe.unlink(missing_ok=True)


def _reach(address: str | None) -> None:
    """Connect to the head of a cluster for a moment: Ray itself would try for minutes.

    Raises:
        OSError: nothing answers there.
    """
    host, _, port = (address or "").rpartition(":")
    if port.isdigit():
        socket.create_connection((host.strip("[]"), int(port)), CONNECT).close()


def _pieces(path: Path) -> Iterator[bytes]:
    with path.open("rb") as file:
        while piece := file.read(PIECE):
            yield piece


def _cause(problem: Exception) -> str:
    """Return the first words of an error of Ray, which are many lines."""
    kind = type(problem).__name__
    known = {
        "WorkerCrashedError": "its Ray worker was killed or has crashed",
        "NodeDiedError": "its node was lost",
        "OutOfMemoryError": "Ray has killed its worker because memory ran out",
        "RuntimeEnvSetupError": "its runtime environment cannot be set up",
    }
    lines = [line.strip() for line in str(problem).splitlines() if line.strip()]
    if isinstance(problem, WorkerDied):
        return lines[-1].rpartition("WorkerDied: ")[2]
    if any("No module named 'memfin" in line for line in lines):
        return "the Python environment of its node has no memfin; install the same version there"
    return one_line(f"{known.get(kind, kind)}: {lines[-1]}" if lines else known.get(kind, kind))


async def _serve(commands: int, out: int) -> None:
    reader = asyncio.StreamReader(limit=1 << 30)
    loop = asyncio.get_running_loop()
    await loop.connect_read_pipe(partial(asyncio.StreamReaderProtocol, reader), os.fdopen(commands, "rb"))
    setup = COMMANDS.decode(await reader.readline())
    assert isinstance(setup, Setup)  # noqa: S101 - our own protocol
    driver = Driver(setup, out)
    try:
        driver.connect()
    except MemfinError as problem:
        driver.send(Refused(message=str(problem), code=problem.exit_code))
        return
    async with anyio.create_task_group() as group:
        group.start_soon(driver.watch, name="progress")
        while line := await reader.readline():
            command = COMMANDS.decode(line)
            if isinstance(command, Start):
                group.start_soon(driver.run, command, name=f"shard {command.shard}")
            elif isinstance(command, Drain):
                driver.drain()
        driver.drain()
        driver.close()
        group.cancel_scope.cancel()


def main() -> None:
    """Serve the engine that holds the other ends of standard input and output."""
    # What Ray prints does not get between the messages.
    commands, out = os.dup(0), os.dup(1)
    os.dup2(os.open(os.devnull, os.O_RDONLY), 0)
    os.dup2(2, 1)
    sys.stdout = sys.stderr
    with suppress(BrokenPipeError):  # the engine is gone
        anyio.run(_serve, commands, out)


if __name__ == "__main__":
    main()
