"""Launcher of workers as tasks of a Ray cluster (extra ``ray``)."""

import asyncio
import importlib.util
import os
import signal
import sys
from collections import deque
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path
from types import TracebackType
from typing import Annotated, Any, Final, Literal, Self

import anyio
import msgspec

from memfin.contracts import Record, RunResumed, RunStarted
from memfin.contracts.settings import EngineSettings
from memfin.errors import RunFault, UsageError
from memfin.sandbox.references import describe, one_line
from memfin.scale.engine import Attempt, Ending
from memfin.scale.ray_driver import Drain, Ended, Event, Line, Message, Note, Ready, Refused, Setup, Start
from memfin.scale.worker import WORKER_EVENTS

Quantity = Annotated[float, msgspec.Meta(ge=0, le=1e15)]

_MESSAGES: Final = msgspec.json.Decoder(Message)
_LONGEST: Final = 1 << 30
_LEAVE: Final = 10.0
"""Seconds for the driver to leave the cluster, which may be one of its own that it has to stop."""

_LAST_WORDS: Final = 5


class NodeAffinity(Record, forbid_unknown_fields=True):
    """Placement on a node."""

    node_id: str
    soft: bool = False


class RayOptions(Record, forbid_unknown_fields=True):
    """Resources and placement of the task of a shard, by the names of `ray.remote`."""

    num_cpus: Quantity | msgspec.UnsetType = msgspec.UNSET
    num_gpus: Quantity | msgspec.UnsetType = msgspec.UNSET
    memory: Quantity | msgspec.UnsetType = msgspec.UNSET
    resources: dict[str, Quantity] | msgspec.UnsetType = msgspec.UNSET
    accelerator_type: str | msgspec.UnsetType = msgspec.UNSET
    label_selector: dict[str, str] | msgspec.UnsetType = msgspec.UNSET
    scheduling_strategy: Literal["DEFAULT", "SPREAD"] | NodeAffinity | msgspec.UnsetType = msgspec.UNSET


def read_options(text: str | None) -> dict[str, Any]:
    """Return the options of a task from JSON, or from a file that holds it.

    Raises:
        UsageError: it is neither, or has an option that is unknown or out of bounds.
    """
    if text is None:
        return {}
    where, data = "--ray-options", text.encode()
    if not text.lstrip().startswith("{"):
        where, data = f"--ray-options {text}", _read(Path(text), "--ray-options")
    try:
        options = msgspec.json.decode(data, type=RayOptions)
    except (msgspec.DecodeError, UnicodeDecodeError) as problem:
        known = ", ".join(RayOptions.__struct_fields__)
        raise UsageError(f"{where}: {problem}; known options: {known}") from None
    plain: dict[str, Any] = msgspec.to_builtins(options)
    return plain


def read_runtime_env(name: str | None) -> dict[str, Any] | None:
    """Return a runtime environment from a file in JSON, TOML or YAML, as its name ends.

    Raises:
        UsageError: the file cannot be read, or holds no table.
    """
    if name is None:
        return None
    path, option = Path(name), "--ray-runtime-env"
    formats: dict[str, Callable[..., Any]] = {
        ".json": msgspec.json.decode,
        ".toml": msgspec.toml.decode,
        ".yaml": msgspec.yaml.decode,
        ".yml": msgspec.yaml.decode,
    }
    if (decode := formats.get(path.suffix)) is None:
        raise UsageError(f"{option} {path}: the name must end with {', '.join(formats)}")
    data = _read(path, option)
    try:
        found: dict[str, Any] = decode(data, type=dict[str, Any])
    except (msgspec.DecodeError, UnicodeDecodeError, RecursionError) as problem:
        raise UsageError(f"{option} {path}: {one_line(str(problem))}") from None
    return found


def _read(path: Path, option: str) -> bytes:
    try:
        return path.read_bytes()
    except (OSError, ValueError) as problem:
        raise UsageError(f"{option} {path}: {getattr(problem, 'strerror', None) or problem}") from None


class RayLauncher:
    """Runs each worker as the subprocess of a Ray task, by way of a driver process.

    Ray retries a task whose worker or node has died, so that the engine need not.

    Attributes:
        host: the address of this machine for the nodes of the cluster, once entered.
    """

    def __init__(self, settings: EngineSettings) -> None:
        spec = importlib.util.find_spec("ray")
        if spec is None or spec.origin is None:  # a mere directory, as Ray's own in /tmp
            raise UsageError("--engine ray: needs Ray: pip install 'memfin[ray]', here and on all nodes")
        if settings.ray_address is not None and settings.ray_address.startswith("ray://"):
            raise UsageError(
                f"--ray-address {settings.ray_address}: Ray Client is not supported; run the command on a "
                "machine of the cluster and give HOST:PORT of its head, such as 10.0.0.1:6379"
            )
        self.host = "127.0.0.1"
        self._setup = Setup(
            address=settings.ray_address,
            options=read_options(settings.ray_options),
            runtime_env=read_runtime_env(settings.ray_runtime_env),
            archive=settings.ray_return == "archive",
        )
        self._attempts: dict[int, tuple[Attempt, asyncio.Future[Ending]]] = {}
        self._begun: set[int] = set()
        self._notes: list[str] = []
        self._errors: deque[str] = deque(maxlen=_LAST_WORDS)
        self._lost: str | None = None
        self._draining = False
        self._ready = False
        self._readers: list[asyncio.Task[None]] = []
        self._driver: asyncio.subprocess.Process | None = None
        self._commands: asyncio.StreamWriter
        self._messages: asyncio.StreamReader

    async def __aenter__(self) -> Self:
        """Start the driver, which joins the cluster."""
        try:
            driver = await asyncio.create_subprocess_exec(
                *(sys.executable, "-m", "memfin.scale.ray_driver"),
                stdin=asyncio.subprocess.PIPE,
                stdout=asyncio.subprocess.PIPE,
                stderr=asyncio.subprocess.PIPE,
                limit=_LONGEST,
                start_new_session=True,
            )
        except OSError as problem:
            raise RunFault(f"--engine ray: {problem.strerror or problem}") from problem
        assert driver.stdin is not None and driver.stdout is not None and driver.stderr is not None  # noqa: S101, PT018
        self._driver, self._commands, self._messages = driver, driver.stdin, driver.stdout
        try:
            self._readers.append(asyncio.create_task(self._read_errors(driver.stderr)))
            self._send(self._setup)
            first = await self._message()
            if isinstance(first, Refused):
                kind = UsageError if first.code == UsageError.exit_code else RunFault
                raise kind(first.message)  # noqa: TRY301 - one handler ends the driver
            if first is None and self._draining:
                return self
            if not isinstance(first, Ready):
                raise RunFault(f"--engine ray: {self._last_words()}")  # noqa: TRY301 - the same
        except BaseException:
            await self._end()
            raise
        self.host, self._ready = first.host, True
        self._readers.append(asyncio.create_task(self._read_messages()))
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        """End the driver, and with it all tasks."""
        await self._end()

    async def _end(self) -> None:
        if (driver := self._driver) is None:
            return
        with anyio.CancelScope(shield=True), anyio.move_on_after(_LEAVE):
            self._commands.close()
            await driver.wait()
        self.kill()
        for reader in self._readers:
            reader.cancel()

    async def attempt(self, attempt: Attempt, /) -> Ending:
        """Have a task run the worker, as often as Ray tries it."""
        if self._draining or self._lost is not None:
            return Ending(RunFault.exit_code, self._lost or "the engine ends")
        shard = attempt.shard.index
        ending: asyncio.Future[Ending] = asyncio.get_running_loop().create_future()
        self._attempts[shard] = attempt, ending
        self._begun.discard(shard)
        while self._notes:
            attempt.on_line(f"memfin: {self._notes.pop()}")
        self._send(Start(shard=shard, task=attempt.task))
        try:
            return await ending
        finally:
            del self._attempts[shard]

    def drain(self) -> None:
        """Cancel all tasks: their workers drain."""
        if self._ready:
            self._draining = True
            self._send(Drain())
        else:  # nothing runs yet, and Ray may take minutes
            self.kill()

    def kill(self) -> None:
        """End the driver: Ray then ends its tasks, and their workers end as their standard input does."""
        self._draining = True
        if self._driver is not None and self._driver.returncode is None:
            with suppress(ProcessLookupError):
                os.killpg(self._driver.pid, signal.SIGKILL)

    def _send(self, command: Record) -> None:
        if not self._commands.is_closing():
            self._commands.write(msgspec.json.encode(command) + b"\n")

    async def _message(self) -> Message | None:
        line = await self._messages.readline()
        return _MESSAGES.decode(line) if line.endswith(b"\n") else None

    async def _read_messages(self) -> None:
        try:
            while (message := await self._message()) is not None:
                self._take(message)
        except Exception as problem:  # noqa: BLE001 - nobody waits for this task, but all attempts do
            self._errors.append(describe(problem))
        self._lost = self._last_words()
        for _, ending in self._attempts.values():
            if not ending.done():
                ending.set_result(Ending(RunFault.exit_code, self._lost))

    async def _read_errors(self, stream: asyncio.StreamReader) -> None:
        async for line in stream:
            if text := line.decode(errors="replace").strip():
                self._errors.append(text)

    def _last_words(self) -> str:
        return one_line(f"the Ray driver was lost: {self._errors[-1] if self._errors else 'it was killed'}")

    def _take(self, message: Message) -> None:
        if isinstance(message, Note):
            self._notes.append(message.message)
        elif isinstance(message, Event | Line | Ended) and message.shard in self._attempts:
            attempt, ending = self._attempts[message.shard]
            if isinstance(message, Event):
                self._hand_on(attempt, message.event)
            elif isinstance(message, Line):
                attempt.on_line(message.line)
            elif not ending.done():
                ending.set_result(Ending(message.code, message.cause))

    def _hand_on(self, attempt: Attempt, data: msgspec.Raw) -> None:
        event = WORKER_EVENTS.decode(data)
        if isinstance(event, RunStarted | RunResumed):
            if attempt.shard.index in self._begun:
                what = f"shard {attempt.shard}: its worker died; Ray has started another"
                attempt.on_line(f"memfin: warning: {what}")
            self._begun.add(attempt.shard.index)
        attempt.on_event(event)
