"""Runner of a soak: epochs over the same dialogues or questions, until a limit is reached."""

import gc
import time
from collections.abc import Callable, Iterable, Mapping, Sequence
from contextlib import suppress
from pathlib import Path
from typing import Any, Final, Protocol

import anyio
import anyio.to_thread
import msgspec

from memfin.actors.messages import utc_now
from memfin.actors.writers import OnEvent
from memfin.contracts import ProgressEvent, RunStats, Warned
from memfin.contracts.soak import (
    Distribution,
    ProcessSample,
    SoakEpoch,
    SoakErrors,
    SoakState,
    SoakSummary,
    values_by_metric,
)
from memfin.errors import MemfinError, RunFault, RunStopped, UsageError
from memfin.journal import DATASET, Artifact
from memfin.journal.commits import digest
from memfin.metrics.reliability import count_passes, reliability
from memfin.runtime.outputs import pretty_json
from memfin.runtime.pipeline import DRAIN_LIMIT, Plan, foremost
from memfin.runtime.run import STOPPED_EXIT, Run
from memfin.runtime.soak_directory import CONFIG, SUMMARY, SoakDirectory, epoch_run_id, read_epochs
from memfin.runtime.soak_plan import SoakPlan
from memfin.runtime.soak_stats import Probe, SoakStats
from memfin.sandbox.calls import Listener, check_listener
from memfin.sandbox.references import describe, reference_of
from memfin.version import __version__

RENEW: Final = 5.0
"""Seconds between two writes of the summary within an epoch; a crash loses that much of the time spent."""


class SoakListener(Protocol):
    """Observer of a soak; must not block. One that raises leaves a warning and is not called any more."""

    def on_event(self, event: ProgressEvent) -> None:
        """Take a progress event of the epoch under way."""

    def on_epoch(self, epoch: SoakEpoch, summary: SoakSummary) -> None:
        """Take a complete epoch, and what all epochs amount to."""

    def on_sample(self, sample: ProcessSample) -> None:
        """Take a look at the process, every few seconds."""


class Soak:
    """Runner of a plan of a soak, used once; its memory does not grow with the number of epochs.

    Attributes:
        summary: where the soak stands; None before it runs.
        on_blocked, give_up: as those of `memfin.runtime.run.Run`.
    """

    def __init__(
        self,
        plan: SoakPlan,
        listeners: Sequence[SoakListener] = (),
        *,
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        """Prepare; nothing starts yet. ``clock`` returns seconds, for the duration.

        Raises:
            UsageError: a method of a listener is asynchronous.
        """
        for each in listeners:
            for call in (each.on_event, each.on_epoch, each.on_sample):
                check_listener("soak listener", call)
        self.plan = plan
        self.summary: SoakSummary | None = None
        self.on_blocked: OnEvent | None = None
        self.give_up: Callable[[str], None] | None = None
        self._listeners = [
            (each, Listener(f"soak listener {reference_of(type(each))}", self._listener_failed))
            for each in listeners
        ]
        self._failures: list[str] = []
        self._unlogged: list[str] = []
        self._log: tuple[Path, str] | None = None  # that of the last epoch, and its run
        self._clock = clock
        self._begun_at = clock()
        now = utc_now()
        self._state = SoakSummary(
            run_id=plan.run_id,
            state="running",
            started_at=now,
            updated_at=now,
            memfin_version=__version__,
            suite=plan.suite.name,
            limits=plan.limits,
        )
        if plan.resumed is not None:
            before, changed = plan.resumed
            self._state = self._state.replace(
                started_at=before.started_at,
                elapsed_seconds=before.elapsed_seconds,
                processes=before.processes + 1,
                pruned_epochs=before.pruned_epochs,
                config_digest=before.config_digest,
                changed=[*before.changed, *changed],
            )
        self._spent = self._state.elapsed_seconds
        self._directory = SoakDirectory(
            plan.directory, plan.run_id, layout=plan.layout, existing=plan.resumed is not None
        )
        self._stats = SoakStats()
        self._probe = Probe()
        self._run: Run[Any] | None = None
        self._stopped_by: str | None = None
        self._stop: Callable[[Run[Any]], None] | None = None
        self._stopping = anyio.Event()

    def stop(self, reason: str, within: float = DRAIN_LIMIT) -> None:
        """End the soak in order, as `memfin.runtime.run.Run.stop` ends the epoch under way.

        Returns at once; `run` then raises `RunStopped`, unless everything was done already.
        """
        self._end(reason, lambda run: run.stop(reason, within))

    def cancel(self, reason: str) -> None:
        """End the soak within a second, whatever is being done; `run` then raises `RunStopped`."""
        self._end(reason, lambda run: run.cancel(reason))

    def _end(self, reason: str, stop: Callable[[Run[Any]], None]) -> None:
        self._stopped_by = self._stopped_by or reason
        self._stop = stop
        self._stopping.set()
        if self._run is not None:
            stop(self._run)

    @property
    def elapsed(self) -> float:
        """Seconds spent on the soak, by this process and those before."""
        return self._spent + self._clock() - self._begun_at

    async def run(self) -> SoakSummary:
        """Run epochs until the limits are reached; return the final summary.

        Raises:
            UsageError: the directory cannot be created or is in use, or something an epoch needs is
                unusable now or another than when the soak began.
            RunFault: the machine failed; what is on disk is valid, and the soak can go on.
            RunStopped: `stop` or `cancel` ended the soak before its limits were reached.
        """
        try:
            return await self._run_epochs()
        finally:
            if self.plan.spool is not None:
                self.plan.spool.close()

    async def _run_epochs(self) -> SoakSummary:
        self._begun_at = self._clock()
        async with self._directory as directory:
            await anyio.to_thread.run_sync(lambda: self._count(read_epochs(directory.path)))
            if self.plan.resumed is None or self.plan.resumed.changed:
                # A crash between the two files must not look like a change from outside.
                if self.plan.resumed is not None:
                    self._state = self._state.replace(config_digest=msgspec.UNSET)
                    await self._renew("running")
                config = pretty_json(self.plan.config_file)
                spool = self.plan.spool
                kept: dict[str, Artifact] = {} if spool is None else {DATASET: spool.pieces()}
                await directory.write({**kept, CONFIG: config})
                self._state = self._state.replace(config_digest=digest(config))
            await self._renew("running")
            try:
                await self._epochs()
                await self._prune()
            except BaseException as problem:
                with anyio.CancelScope(shield=True):
                    await self._end_early(problem)
                raise
            await anyio.to_thread.run_sync(self._count_passes)
            last = directory.epoch(self._stats.epochs)
            gates = await anyio.to_thread.run_sync(self.plan.failed_gates, self._stats, last)
            return await self._renew("finished", gates=gates)

    def _count(self, epochs: Iterable[SoakEpoch]) -> None:
        for epoch in epochs:
            self._stats.add(epoch)
        self._state = self._state.replace(**self._stats.fields())

    def _count_passes(self) -> None:
        """Put pass^k into the summary where the epochs are repeats of a run, and all of them are kept."""
        epochs = [self._directory.epoch(number) for number in range(1, self._stats.epochs + 1)]
        if self.plan.limits.vary_seed and self._state.pruned_epochs == 0 and all(map(Path.is_dir, epochs)):
            self._state = self._state.replace(reliability=reliability(count_passes(epochs), len(epochs)))

    async def _epochs(self) -> None:
        """Run epochs until it is time, with the probe and the renewing of the summary beside them."""
        try:
            async with anyio.create_task_group() as group:
                group.start_soon(self._probe.run, name="soak-probe")
                group.start_soon(self._keep_renewing, name="soak-summary")
                await self._one_after_another()
                group.cancel_scope.cancel()
        except BaseExceptionGroup as failures:
            raise foremost(failures) from failures

    async def _one_after_another(self) -> None:
        while not self._over():
            if self._stopping.is_set():
                raise RunStopped(f"stopped: {self._stopped_by}; {self.plan.after_stop}", STOPPED_EXIT)
            await self._epoch(self._stats.epochs + 1)
            await self._prune()
            if not self._over():
                with anyio.move_on_after(self.plan.pause):
                    await self._stopping.wait()

    def _over(self) -> bool:
        limits, done = self.plan.limits, self._stats.epochs
        if limits.epochs is not None and done >= limits.epochs:
            return True
        return limits.duration_seconds is not None and done > 0 and self.elapsed >= limits.duration_seconds

    async def _epoch(self, number: int) -> None:
        """Run one epoch to its end and write its line."""
        directory = self._directory
        begun = await anyio.to_thread.run_sync(directory.begun, number)
        if not begun and directory.epoch(number).exists():
            await directory.prune(number)
        plan = await anyio.to_thread.run_sync(lambda: self.plan.epoch(number, begun=begun))
        self._probe.take()
        started_at, start = utc_now(), time.perf_counter()
        stats, metrics, latency = await self._one_run(plan)
        wall = time.perf_counter() - start
        gc.collect()  # what is left in circles of the run is no growth
        resources = self._probe.look()
        lag, peak = self._probe.take()
        dialogs = stats.dialogs_by_status or _as_dialogs(stats)
        epoch = SoakEpoch(
            run_id=self.plan.run_id,
            epoch=number,
            epoch_run_id=epoch_run_id(self.plan.run_id, number),
            process=self._state.processes,
            started_at=started_at,
            ended_at=utc_now(),
            wall_seconds=round(wall, 3),
            dialogs=sum(dialogs.values()) - dialogs.get("skipped", 0),
            turns=sum(stats.turns_by_status.values()),
            metrics=values_by_metric(metrics),
            turn_latency_ms=latency,
            loop_lag_ms=lag,
            errors=_errors(stats, dialogs),
            resources=resources,
            peak=peak,
            resumed=begun,
        )
        await directory.append(epoch)
        await anyio.to_thread.run_sync(self._count, [epoch])  # slopes of all values take milliseconds
        summary = await self._renew("running")
        for each, listener in self._listeners:
            listener.tell(each.on_epoch, epoch, summary)

    async def _one_run(self, plan: Plan[Any]) -> tuple[RunStats, dict[str, float], Distribution]:
        """Run an epoch and return its figures."""
        run = Run(plan, self._on_event, on_blocked=self.on_blocked, give_up=self.give_up)
        self._run, self._log = run, (plan.progress.absolute(), plan.run_id)
        for line in self._unlogged:
            run.warn(line)
        self._unlogged.clear()
        if self._stop is not None:
            self._stop(run)
        try:
            summary = await run.run()
        finally:
            self._run = None
        if run.stats is None:
            raise RunFault(f"soak {self.plan.directory}: an epoch ended without statistics")
        latencies = await anyio.to_thread.run_sync(run.latencies)
        self._state = self._state.replace(not_measured=self.plan.suite.reasons(summary))
        return run.stats, self.plan.suite.values(summary), latencies

    def _on_event(self, event: ProgressEvent) -> None:
        if self.on_blocked is not None and isinstance(event, Warned) and event.message in self._failures:
            return  # which has had it already
        for each, listener in self._listeners:
            listener.tell(each.on_event, event)

    def _listener_failed(self, line: str) -> None:
        """Put the failure of a listener into the log of the epoch under way, else the last or the first."""
        self._failures.append(line)
        path, run_id = self._log or (None, self.plan.run_id)
        event = Warned(ts=utc_now(), run_id=run_id, message=line)
        if self._run is not None:
            self._run.warn(line)
        elif path is None:
            self._unlogged.append(line)
        else:
            with suppress(OSError), path.open("ab") as log:
                log.write(msgspec.json.encode(event) + b"\n")
        if self.on_blocked is not None:
            with suppress(Exception):
                self.on_blocked(event)

    async def _prune(self) -> None:
        keep = self.plan.limits.keep_epochs
        if keep is None:
            return
        pruned, epochs = self._state.pruned_epochs, self._stats.epochs
        for number in range(max(pruned, 1), epochs - keep + 1):  # a kill may have left a part of the last one
            await self._directory.prune(number, newest=number == epochs)
            self._state = self._state.replace(pruned_epochs=number)

    async def _keep_renewing(self) -> None:
        while True:
            for each, listener in self._listeners:
                listener.tell(each.on_sample, self._probe.last)
            await anyio.sleep(RENEW)
            await self._renew("running")

    async def _renew(
        self, state: SoakState, *, gates: Sequence[str] = (), reason: str | None = None
    ) -> SoakSummary:
        self.summary = self._state.replace(
            state=state,
            updated_at=utc_now(),
            elapsed_seconds=self.elapsed,
            gates=list(gates),
            reason=reason,
        )
        await self._directory.write({SUMMARY: pretty_json(self.summary)})
        return self.summary

    async def _end_early(self, problem: BaseException) -> None:
        """Write the reason of an early end into the summary; remove the directory of a soak without epochs.

        A disk that refuses this as well has been reported.
        """
        first = self._directory.epoch(1)
        if isinstance(problem, UsageError) and self.plan.resumed is None and not first.exists():
            await self._directory.discard()
            return
        known = isinstance(problem, MemfinError) and not isinstance(problem, RunStopped)
        reason = str(problem) if known else self._stopped_by or describe(problem)
        try:
            await self._renew("failed" if known else "interrupted", reason=reason)
        except RunFault as fault:
            if not known:
                raise fault from problem

    def record_stop(self, reason: str) -> None:
        """Append the interruption to the epoch's progress log from another thread, the loop being stuck."""
        if self._run is not None:
            self._run.record_stop(reason)


def _as_dialogs(stats: RunStats) -> dict[str, int]:
    """Return questions by what came of them: each counts as a dialogue."""
    answered = stats.turns_by_status.get("ok", 0)
    return {"complete": answered, "failed": sum(stats.turns_by_status.values()) - answered}


def _errors(stats: RunStats, dialogs: Mapping[str, int]) -> SoakErrors:
    turns = stats.turns_by_status
    return SoakErrors(
        failed_turns=sum(turns.values()) - turns.get("ok", 0),
        timeouts=turns.get("timeout", 0),
        failed_dialogs=dialogs.get("failed", 0),
        partial_dialogs=dialogs.get("partial", 0),
        skipped_dialogs=dialogs.get("skipped", 0),
        turn_retries=stats.turn_retries,
        judged_turns=stats.judged_turns,
        judge_failures=stats.judge_failures,
        abandoned_calls=stats.abandoned_calls,
    )
