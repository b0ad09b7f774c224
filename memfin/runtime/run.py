"""One run from start to end: directory, pipeline under one task group, artifacts."""

import asyncio
import math
import time
from collections.abc import Callable
from contextlib import suppress
from functools import partial
from typing import Final, Generic

import anyio
import msgspec

from memfin.actors.base import ActorStatistics
from memfin.actors.messages import utc_now
from memfin.actors.writers import OnEvent
from memfin.contracts import (
    Counters,
    LiveEvent,
    MetricsDone,
    ProgressEvent,
    RunFinished,
    RunInterrupted,
    RunManifest,
    RunResumed,
    RunStarted,
    RunStats,
    Warned,
)
from memfin.contracts.soak import Distribution
from memfin.errors import MemfinError, RunFault, RunStopped, UsageError
from memfin.journal import DATASET, Artifact, RunDirectory
from memfin.runtime.outputs import pretty_json
from memfin.runtime.pipeline import DRAIN_LIMIT, Pipeline, Plan, Resumed, S, foremost
from memfin.runtime.subscriptions import Subscribers
from memfin.runtime.watchdog import Supervision
from memfin.sandbox.calls import Listener, check_listener
from memfin.sandbox.references import describe

CANCELLED_CLOSE: Final = 0.15
"""Seconds that the judge and what the agents share have for their end when the host cancels the run."""

RECORD_LIMIT: Final = 0.2
"""Seconds that a record of the end may take when the loop is stuck."""

STOPPED_EXIT: Final = 130


class Run(Generic[S]):
    """Runs a plan once.

    Attributes:
        summary, stats: the results, and what depends on time, once the run is complete.
        no_agent: once the run is complete, the error of one in which no dialogue got an agent: its records
            are whole and its summary is worth nothing. `run` does not raise it.
        directory: where the artifacts are.
        begun: set once the run directory has its first artifacts.
        on_blocked: called at once with warnings that ``on_event`` cannot take: from a thread when something
            blocks the loop, and when ``on_event`` itself has failed. While it is None, ``on_event`` gets the
            former when the loop is free again.
        give_up: called from a thread with the reason when foreign code does not give the loop back;
            while it is None, the run waits.
    """

    def __init__(
        self,
        plan: Plan[S],
        on_event: OnEvent | None = None,
        *,
        subscribers: Subscribers | None = None,
        on_blocked: OnEvent | None = None,
        give_up: Callable[[str], None] | None = None,
    ) -> None:
        """Prepare; ``on_event`` is called on the loop with every progress event, until it raises.

        An asynchronous ``on_event`` raises `UsageError`.
        """
        if on_event is not None:
            check_listener("on_event", on_event)
        self.plan = plan
        beginning = plan.resumed or Resumed(utc_now())
        self._started_at = beginning.started_at
        self._artifacts = self._first_artifacts()
        # An agent may change the working directory under the run.
        self.directory = RunDirectory(
            plan.directory.absolute(),
            plan.progress.absolute(),
            layout=plan.layout,
            existing=plan.resumed is not None,
            drop=beginning.drop,
            rejudge=beginning.rejudge,
            forget_turns=bool(beginning.changed),
            artifacts={name: data for name, data in self._artifacts.items() if isinstance(data, bytes)},
            advice=plan.advice,
        )
        self.summary: S | None = None
        self.stats: RunStats | None = None
        self.no_agent: UsageError | None = None
        self._stopped_by: str | None = None
        self.begun = anyio.Event()
        self.on_blocked = on_blocked
        self.give_up = give_up
        self._on_event = on_event
        self._listener = Listener("on_event", self._listener_failed)
        self._subscribers = subscribers or Subscribers()
        self._board = plan.board
        self._board.run_id = plan.run_id
        self._loop: asyncio.AbstractEventLoop | None = None
        self._scope: anyio.CancelScope | None = None
        self._cancelled = False
        self._deadline = math.inf
        self._ended = False
        self._fault: RunFault | None = None
        self._start = time.perf_counter()
        self._pipeline: Pipeline[S] | None = None

    def statistics(self) -> list[ActorStatistics]:
        """Return what every stage has done so far; empty before the start."""
        return self._pipeline.statistics() if self._pipeline is not None else []

    def latencies(self) -> Distribution:
        """Return the distribution of the latencies so far, which can be merged with those of other runs."""
        return self._pipeline.suite.totals.latencies.distribution() if self._pipeline else Distribution()

    async def run(self) -> S:
        """Evaluate and write all artifacts but the reports; return the summary.

        Raises:
            UsageError: the run directory cannot be created, there is nothing to evaluate, or the agent
                cannot do what the settings ask; no directory is left.
            RunFault: the machine failed under the run, or the endpoint of the judge or the agent was
                given up; what is on disk is valid.
            RunStopped: `stop` or `cancel` ended the run before it was complete.
        """
        self._loop = asyncio.get_running_loop()
        try:
            with anyio.CancelScope() as self._scope:
                if self._cancelled:
                    self._scope.cancel()
                return await self._run()
        finally:
            self._scope = None
        raise self._stopped()

    def stop(self, reason: str, within: float = DRAIN_LIMIT) -> None:
        """End the run in order: running turns may end, nothing new starts, what is answered is kept.

        The run has ended ``within`` seconds later; of several stops the earliest deadline counts. Returns
        at once; `run` then raises `RunStopped`, or returns the summary where everything was done already.
        """
        self._stopped_by = self._stopped_by or reason
        deadline = time.monotonic() + within
        if deadline < self._deadline:
            self._deadline = deadline
            if self._pipeline is not None:
                self._drain(self._pipeline)

    def cancel(self, reason: str) -> None:
        """End the run within a second, whatever is being done; `run` then raises `RunStopped`."""
        self._stopped_by = self._stopped_by or reason
        self._cancelled = True
        if self._scope is not None:
            self._scope.cancel()

    def _drain(self, pipeline: Pipeline[S]) -> None:
        pipeline.drain(self._deadline - time.monotonic(), lambda: self.cancel(self._stopped_by or ""))

    def _give_up_on(self, what: str, reason: str) -> None:
        """End the run in order; what is not answered or judged now is when the run is resumed."""
        end = f"the {what} was given up"
        if self._fault is None:
            self._fault = RunFault(f"run {self.plan.directory}: {end}: {reason}; {self.plan.when_back}")
        self.stop(end, DRAIN_LIMIT + self.plan.config.turn_timeout)

    def _stopped(self) -> RunStopped | RunFault:
        if self._fault is None and self._stopped_by is None:
            return RunFault(f"run {self.plan.directory}: was cancelled from inside; {self.plan.after_stop}")
        return self._fault or RunStopped(f"stopped: {self._stopped_by}; {self.plan.after_stop}", STOPPED_EXIT)

    async def _run(self) -> S:
        supervision = Supervision(
            self.plan.config,
            warn=self._board.warn,
            warn_blocked=self._warn_blocked,
            give_up=self.give_up,
        )
        closing = float("inf")
        async with supervision:
            try:
                async with self.directory:
                    try:
                        await self.directory.write(self._artifacts)
                        self.begun.set()
                        return await self._run_pipeline()
                    except BaseException as problem:
                        with anyio.CancelScope(shield=True):
                            await self._end_early(problem)
                        raise
            except (asyncio.CancelledError, RunStopped):
                closing = CANCELLED_CLOSE
                raise
            finally:
                with anyio.move_on_after(closing, shield=True):
                    await self.plan.close()

    async def _run_pipeline(self) -> S:
        pipeline = self._pipeline = Pipeline(self.plan, self.directory, self._notify, self._subscribers.wants)
        pipeline.judges.on_given_up = partial(self._give_up_on, "judge")
        for producer in pipeline.producers:
            producer.on_given_up = partial(self._give_up_on, self.plan.under_test)
        summary: S | None = None
        try:
            async with anyio.create_task_group() as group, pipeline.events:
                await pipeline.events.send(self._beginning())
                for line in (*self.plan.warnings, *self.directory.warnings):
                    self._board.warn(line)
                self._board.open(pipeline.events)
                for stage in pipeline.stages:
                    group.start_soon(stage.supervised, name=stage.name)
                if self._deadline < math.inf:
                    self._drain(pipeline)
                for stage in pipeline.working:
                    await stage.finished.wait()
                if not any(stage.cut for stage in pipeline.working):
                    summary = await self._finish(pipeline)
        except BaseExceptionGroup as failures:
            raise foremost(failures) from failures
        finally:
            pipeline.close()
        if summary is None:
            raise self._stopped()
        return summary

    async def _finish(self, pipeline: Pipeline[S]) -> S:
        """Write the summary and announce the end; the progress log is still listening."""
        plan, totals = self.plan, pipeline.suite.totals
        counters, summary = totals.counters(), pipeline.suite.summary()
        self.stats = pipeline.stats(time.perf_counter() - self._start)
        await self.directory.write(
            {
                **pipeline.files(summary),
                "run_stats.json": pretty_json(self.stats),
                "run_manifest.json": pretty_json(self._manifest(counters, ended=True)),
            }
        )
        now = utc_now()
        done = MetricsDone(ts=now, run_id=plan.run_id, turn_rows=totals.rows)
        for event in (*self._board.take(), done, RunFinished(ts=now, run_id=plan.run_id, **dict(counters))):
            await pipeline.events.send(event)
        if (why := totals.no_agent) is not None and plan.shard is None:
            self.no_agent = UsageError(
                f"agent {plan.config.agent!r}: no turn of the {counters.valid_dialogs} dialogues was "
                f"answered: {why}; {plan.directory} holds the records"
            )
        self.summary = summary
        self._ended = True
        return summary

    def _first_artifacts(self) -> dict[str, Artifact | None]:
        """Return what a run writes before it asks anyone; an end that is none any more is taken away."""
        artifacts: dict[str, Artifact | None] = {}
        if self.plan.spool is not None and (self.plan.part_of is None or self.plan.shard is not None):
            artifacts[DATASET] = self.plan.spool.pieces()
        if self.plan.resumed is None or self.plan.resumed.changed:
            artifacts["config.json"] = pretty_json(self.plan.config_file())
        artifacts["run_manifest.json"] = pretty_json(self._manifest(Counters(), ended=False))
        return artifacts | dict.fromkeys(self.plan.layout.ends if self.plan.resumed is not None else ())

    def _beginning(self) -> RunStarted | RunResumed:
        config, resumed = self.plan.config, self.plan.resumed
        if resumed is not None:
            done = self.directory.committed.judged
            return RunResumed(
                ts=utc_now(),
                run_id=self.plan.run_id,
                dialogs_done=done,
                replays_done=len(self.directory.committed) - done,
                dialogs_begun=self.directory.begun,
                dataset_path=self.plan.dataset_path,
                dialogs=self.plan.dialogs,
                changed=list(resumed.changed),
            )
        return RunStarted(
            ts=self._started_at,
            run_id=self.plan.run_id,
            dataset_path=self.plan.dataset_path,
            dialogs=self.plan.dialogs,
            agent=config.agent,
            judge=config.judge,
            workers_dialog=config.workers_dialog,
            workers_judge=config.workers_judge,
        )

    def _manifest(self, counters: Counters, *, ended: bool) -> RunManifest:
        plan, config = self.plan, self.plan.config
        return RunManifest(
            trace_version=config.trace_version,
            run_id=plan.run_id,
            dataset_path=plan.dataset_path,
            started_at=self._started_at,
            model_name=plan.model_name,
            workers_dialog=config.workers_dialog,
            workers_judge=config.workers_judge,
            counters=counters,
            ended_at=utc_now() if ended else None,
            notes=config.notes,
            suite=plan.suite_name,
        )

    def record_stop(self, reason: str) -> None:
        """Append the interruption to the progress log from another thread, the loop being stuck.

        A write in progress is finished first. Nothing happens where the end is on record.
        """
        if not self._ended:
            self._ended = True
            event = RunInterrupted(ts=utc_now(), run_id=self.plan.run_id, reason=reason)
            self.directory.note([msgspec.json.encode(event)], RECORD_LIMIT)

    def warn(self, line: str) -> None:
        """Put a warning into the progress log with the events that come next."""
        self._board.warn(line)

    def _listener_failed(self, line: str) -> None:
        self._board.warn(line)
        if self.on_blocked is not None:
            with suppress(Exception):
                self.on_blocked(Warned(ts=utc_now(), run_id=self.plan.run_id, message=line))

    def _notify(self, event: ProgressEvent) -> None:
        """Hand an event to whoever listens."""
        self._subscribers.put(event)
        if self._on_event is not None and not isinstance(event, LiveEvent):
            self._listener.tell(self._on_event, event)

    def _warn_blocked(self, message: str, dialog_id: str | None = None) -> None:
        """Put a warning into the progress log from another thread, the loop being stuck, and show it."""
        event = Warned(ts=utc_now(), run_id=self.plan.run_id, message=message, dialog_id=dialog_id)
        self.directory.note([msgspec.json.encode(event)], 0)
        if self.on_blocked is not None:
            self.on_blocked(event)
        elif self._loop is not None:
            with suppress(RuntimeError):  # the loop is closed: nobody listens any more
                self._loop.call_soon_threadsafe(self._notify, event)

    async def _end_early(self, problem: BaseException) -> None:
        """Leave no trace of a run that could not start, and a complete one of every other."""
        answered = self._pipeline.writer.answers if self._pipeline is not None else 0
        begun = self._pipeline is not None
        if not answered and self.plan.resumed is None and (isinstance(problem, UsageError) or not begun):
            await self.directory.discard()
        else:
            await self._record_interruption(problem)

    async def _record_interruption(self, problem: BaseException) -> None:
        faulty = isinstance(problem, MemfinError) and not isinstance(problem, RunStopped)
        reason = str(problem) if faulty else self._stopped_by or describe(problem)
        counters = self._pipeline.suite.totals.counters() if self._pipeline is not None else Counters()
        interrupted = RunInterrupted(ts=utc_now(), run_id=self.plan.run_id, reason=reason, counters=counters)
        events = [*self._board.take(), interrupted]
        self._ended = True
        try:
            await self.directory.append_progress([msgspec.json.encode(event) for event in events])
        except RunFault as fault:
            if not isinstance(problem, MemfinError):
                raise fault from problem
        for event in events:
            self._notify(event)
        if late := self._board.take():
            with suppress(RunFault):  # the end is on record, or was refused just now
                await self.directory.append_progress([msgspec.json.encode(event) for event in late])
