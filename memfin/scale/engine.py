"""Engine of a run in shards: a worker per shard, retries of those that die, and the merge."""

import asyncio
import signal
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from functools import partial
from pathlib import Path
from types import TracebackType
from typing import Final, Literal, NamedTuple, Protocol, Self

import anyio

from memfin.actors.writers import OnEvent
from memfin.client.coordinator import RateLease, rate_coordinator
from memfin.client.leases import RateLimits
from memfin.contracts import ProgressEvent
from memfin.errors import RunFault, RunStopped, UsageError
from memfin.runtime.pipeline import DRAIN_LIMIT
from memfin.sandbox.references import one_line
from memfin.scale.merge import merge_shards
from memfin.scale.plan import EnginePlan
from memfin.scale.worker import WorkerEvent, WorkerFailed, WorkerTask
from memfin.shards import Shard

RETRIES: Final = 3
"""Retries of a shard whose worker has died."""

PAUSES: Final = (0.0, 0.5, 2.0)
"""Seconds before each retry: what took the memory may be gone by then."""

KILL: Final = 0.87
"""Share of the time for an end in order after which workers are killed; they end themselves before."""

KILL_AGAIN: Final = 0.2
"""The same after a second signal, in seconds of 0.5."""

STOPPED_EXIT: Final = 130


class Ending(NamedTuple):
    """End of an attempt at a shard.

    ``code`` is the exit code of the worker, the negative number of the signal that ended it, or None where
    there is neither, as after the loss of a machine; ``cause`` says why it ended early, if that is known.
    """

    code: int | None
    cause: str | None = None

    @property
    def reason(self) -> str:
        """Why the worker ended."""
        if self.cause is not None:
            return self.cause
        if self.code is not None and self.code < 0:
            memory = ", as when memory runs out" if self.code == -signal.SIGKILL else ""
            known = -self.code in (*signal.Signals,)  # most of the realtime signals have no name
            name = signal.Signals(-self.code).name if known else f"signal {-self.code}"
            return f"its worker was ended by {name}{memory}"
        return "its worker was lost" if self.code is None else f"its worker ended with exit code {self.code}"


class Attempt(NamedTuple):
    """An attempt at a shard: what a launcher is asked for.

    ``on_event`` gets the worker's progress events, ``on_line`` the lines of its standard error; both are
    called on the loop.
    """

    shard: Shard
    task: WorkerTask
    on_event: Callable[[WorkerEvent], None]
    on_line: Callable[[str], None]


class Launcher(Protocol):
    """Place where workers run. Entered before the first attempt, left after the last one.

    Attributes:
        host: the address of this machine as the workers see it; known once entered.
    """

    host: str

    async def __aenter__(self) -> Self:
        """Get ready.

        Raises:
            UsageError: an option of the place is unusable.
            RunFault: the place cannot be reached.
        """
        ...

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        """Release everything; workers that still run are ended."""
        ...

    async def attempt(self, attempt: Attempt, /) -> Ending:
        """Run a worker to its end; the shard's run directory then is where the task has it."""
        ...

    def drain(self) -> None:
        """Have all workers end in order, or at once when called again; `attempt` begins no other."""
        ...

    def kill(self) -> None:
        """End all workers at once. May be called from any thread, before the process itself ends."""
        ...


StateName = Literal["waiting", "running", "retrying", "complete", "failed", "stopped"]


class State(NamedTuple):
    """State of a shard; ``retry`` counts its retries so far, ``reason`` is why the last attempt ended."""

    name: StateName
    retry: int = 0
    reason: str = ""


class EngineListener(Protocol):
    """Listener to an engine; all calls come on its loop, but those of `on_merge`."""

    def on_shard_event(self, shard: Shard, event: ProgressEvent) -> None:
        """Take a progress event of a shard's worker."""

    def on_state(self, shard: Shard, state: State) -> None:
        """Take the new state of a shard."""

    def on_warning(self, line: str) -> None:
        """Take a warning of the engine's own."""

    def on_line(self, shard: Shard, line: str) -> None:
        """Take a line of a worker's standard error."""

    def on_merge(self, merged: int, dialogs: int) -> None:
        """Take the number of dialogues that are merged, of all; called from a thread."""


class Engine:
    """Runs the shards of a plan on workers, then merges them.

    1. A shard whose worker has died, by a signal or an exit code that no run gives, is retried up to
       `RETRIES` times.
    2. A fault (exit code 3) is not: its shard can be resumed, the others go on to their end.
    3. A usage error (exit code 2) would be that of all shards: they are drained, and it is raised once.

    Attributes:
        on_blocked, give_up: never called; for whoever runs a `memfin.runtime.run.Run` or an engine.
    """

    def __init__(self, plan: EnginePlan, launcher: Launcher, listener: EngineListener) -> None:
        self.plan = plan
        self.on_blocked: OnEvent | None = None
        self.give_up: Callable[[str], None] | None = None
        self._launcher = launcher
        self._listener = listener
        self._failures: dict[Shard, str] = {}
        self._usage: str | None = None
        self._stopped_by: str | None = None
        self._draining = anyio.Event()
        self._lease: RateLease | None = None
        self._merging: anyio.CancelScope | None = None
        self._timers: list[asyncio.TimerHandle] = []

    async def run(self) -> Path:
        """Work on all shards and merge them; return the run directory.

        Raises:
            UsageError: the directory of the shards cannot be created, or the workers have found the settings
                unusable.
            RunFault: a shard is incomplete, or the file system refuses; the rest is done.
            RunStopped: `stop` or `cancel` ended the run before it was complete.
        """
        await self.plan.run.close()
        try:
            with self.plan.opened():
                await self._run_shards()
                return await self._merge()
        finally:
            for timer in self._timers:
                timer.cancel()

    def stop(self, reason: str, within: float = DRAIN_LIMIT) -> None:
        """Drain all workers, which have ended ``within`` seconds later; `run` then raises `RunStopped`."""
        self._stopped_by = self._stopped_by or reason
        self._end(KILL * within)

    def cancel(self, reason: str) -> None:
        """End all workers within half a second; `run` then raises `RunStopped`."""
        self._stopped_by = self._stopped_by or reason
        self._end(KILL_AGAIN)

    def record_stop(self, reason: str) -> None:
        """End all workers before the process ends; called from a thread."""
        del reason
        self._launcher.kill()

    def _end(self, kill_after: float) -> None:
        self._draining.set()
        self._launcher.drain()
        self._timers.append(asyncio.get_running_loop().call_later(kill_after, self._launcher.kill))
        if self._merging is not None:
            self._merging.cancel()

    async def _run_shards(self) -> None:
        async with self._launcher, self._leasing(), anyio.create_task_group() as group:
            complete = self.plan.complete_shards()
            for shard in self.plan.shards:
                if shard not in complete:
                    group.start_soon(self._work_on, shard, name=f"shard {shard}")
        if self._usage is not None:
            raise UsageError(self._usage)
        if self._stopped_by is not None:
            raise RunStopped(f"stopped: {self._stopped_by}; {self.plan.after_stop}", STOPPED_EXIT)
        if self._failures:
            raise RunFault(f"{self._failed()}; {self.plan.after_stop}")

    @asynccontextmanager
    async def _leasing(self) -> AsyncIterator[None]:
        """Run the coordinator of rates where one is wanted."""
        plan = self.plan
        if not plan.engine.rate_lease:
            yield
            return
        limits, warn = RateLimits.of(plan.config), self._listener.on_warning
        async with rate_coordinator(
            limits, warn=warn, bind=self._launcher.host, fresh=not plan.resumed
        ) as self._lease:
            yield

    def _failed(self) -> str:
        count = len(self.plan.shards)
        if len(self._failures) == 1:
            ((shard, reason),) = self._failures.items()
            return f"shard {shard}: {reason}"
        reasons = "; ".join(f"shard {shard}: {reason}" for shard, reason in self._failures.items())
        return f"{len(self._failures)} of {count} shards are incomplete: {reasons}"

    async def _work_on(self, shard: Shard) -> None:
        reason = ""
        for retry in range(RETRIES + 1):
            self._listener.on_state(shard, State("retrying" if retry else "waiting", retry, reason))
            if retry:
                with anyio.move_on_after(PAUSES[retry - 1]):
                    await self._draining.wait()
            if self._draining.is_set():
                break
            ending = await self._attempt(shard, retry)
            if ending.code == 0 and self.plan.dialogs_of(shard) is None:
                ending = Ending(None, "its worker ended before the shard was complete")
            reason = ending.reason
            if ending.code == 0:
                self._listener.on_state(shard, State("complete", retry))
                return
            if self._draining.is_set():
                break
            if ending.code == UsageError.exit_code:
                self._usage = self._usage or reason
                self._end(KILL * DRAIN_LIMIT)
                break
            if ending.code == RunFault.exit_code or retry == RETRIES:
                times = f", in {RETRIES + 1} attempts" if ending.code != RunFault.exit_code else ""
                self._failures[shard] = one_line(f"{reason}{times}")
                self._listener.on_state(shard, State("failed", retry, reason))
                return
        self._listener.on_state(shard, State("stopped"))

    async def _attempt(self, shard: Shard, retry: int) -> Ending:
        said: list[str] = []

        def take(event: WorkerEvent) -> None:
            if isinstance(event, WorkerFailed):
                said.append(event.message)
                return
            if not started:
                started.append(True)
                self._listener.on_state(shard, State("running", retry))
            self._listener.on_shard_event(shard, event)

        started: list[bool] = []
        task = self.plan.task(shard, self._lease)
        ending = await self._launcher.attempt(
            Attempt(shard, task, take, partial(self._listener.on_line, shard))
        )
        return ending if ending.cause is not None or not said else ending._replace(cause=said[-1])

    async def _merge(self) -> Path:
        plan = self.plan
        merge = partial(merge_shards, [plan.directory / each.name for each in plan.shards], plan.out)
        with anyio.CancelScope() as self._merging:
            await anyio.to_thread.run_sync(
                partial(merge, on_progress=self._listener.on_merge), abandon_on_cancel=True
            )
        self._merging = None
        if self._stopped_by is not None and not (plan.out / "metrics_summary.json").is_file():
            raise RunStopped(f"stopped: {self._stopped_by}; {plan.after_stop}", STOPPED_EXIT)
        if not plan.engine.keep_shards:
            try:
                plan.remove()
            except OSError as problem:
                why = problem.strerror or problem
                self._listener.on_warning(f"{plan.directory}: is merged, but cannot be removed: {why}")
        return plan.out
