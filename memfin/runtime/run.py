"""One run from start to end: the directory, the actors under one task group, the artifacts."""

import asyncio
import math
import time
from collections import deque
from collections.abc import Callable
from contextlib import suppress
from typing import Final, Generic

import anyio
import msgspec

from memfin.actors.base import ActorStatistics, utc_now
from memfin.actors.progress_log import OnEvent
from memfin.contracts import (
    Counters,
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
from memfin.errors import MemfinError, RunFault, RunStopped, UsageError
from memfin.journal import RunDirectory
from memfin.runtime.draining import DRAIN_LIMIT, Drain
from memfin.runtime.events import EventBuffer
from memfin.runtime.failures import foremost
from memfin.runtime.graph import Graph, build_graph
from memfin.runtime.outputs import pretty_json
from memfin.runtime.suite import Measured, Plan, S
from memfin.runtime.supervision import Supervision
from memfin.sandbox.calls import Listener, check_listener
from memfin.sandbox.references import describe

HASTY_CLOSE: Final = 0.15
"""Seconds that the judge and what the agents share have for their end when the host cancels the run."""

RECORD_LIMIT: Final = 0.2
"""Seconds that a record of the end may take when the loop is stuck."""

STOPPED_EXIT: Final = 130


class Run(Generic[S]):
    """Runs a plan once.

    Attributes:
        summary: the results, once the run is complete.
        stats: what depends on time, once the run is complete.
        no_agent: once the run is complete, the error of one in which no dialogue got an agent: its records
            are whole and its summary is worth nothing. `run` does not raise it.
        directory: where the artefacts are.
        stopped_by: set it before cancelling `run`, to have the progress log say what ended the run.
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
        events: EventBuffer | None = None,
        on_blocked: OnEvent | None = None,
        give_up: Callable[[str], None] | None = None,
    ) -> None:
        """Prepare; ``on_event`` will be called on the loop with every progress event; it must not block.

        When it raises, a warning says so, and it is not called any more. ``events`` gets all events, too.

        Raises:
            UsageError: ``on_event`` is asynchronous.
        """
        if on_event is not None:
            check_listener("on_event", on_event)
        self.plan = plan
        self._started_at = plan.resumed.started_at if plan.resumed is not None else utc_now()
        self._artifacts = self._first_papers()
        # An agent may change the working directory under the run.
        self.directory = RunDirectory(
            plan.directory.absolute(),
            plan.progress.absolute(),
            layout=plan.layout,
            existing=plan.resumed is not None,
            drop=plan.resumed.drop if plan.resumed is not None else frozenset(),
            rejudge=plan.resumed is not None and plan.resumed.rejudge,
            forget_turns=plan.resumed is not None and bool(plan.resumed.changed),
            artifacts={name: artifact for name, artifact in self._artifacts.items() if artifact is not None},
            advice=plan.advice,
        )
        self.summary: S | None = None
        self.stats: RunStats | None = None
        self.no_agent: UsageError | None = None
        self.stopped_by: str | None = None
        self.begun = anyio.Event()
        self.on_blocked = on_blocked
        self.give_up = give_up
        self._on_event = on_event
        self._listener = Listener("on_event", self._listener_failed)
        self._events = events
        self._unsent: deque[ProgressEvent] = deque()
        self._loop: asyncio.AbstractEventLoop | None = None
        self._scope: anyio.CancelScope | None = None
        self._cancelled = False
        self._deadline = math.inf
        self._drain: Drain | None = None
        self._ended = False
        self._fault: RunFault | None = None
        self._start = time.perf_counter()
        self._graph: Graph[S] | None = None

    def statistics(self) -> list[ActorStatistics]:
        """Return what every actor has done so far; empty before the start."""
        return self._graph.statistics() if self._graph is not None else []

    async def run(self) -> S:
        """Evaluate and write all artefacts but the reports; return the summary.

        Raises:
            UsageError: the run directory cannot be created, there is nothing to evaluate, or the agent
                cannot do what the settings ask; no directory is left.
            RunFault: the machine failed under the run, or the judge was down for too long; what is on
                disk is valid.
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
        self.stopped_by = self.stopped_by or reason
        deadline = time.monotonic() + within
        if deadline < self._deadline:
            self._deadline = deadline
            if self._drain is not None:
                self._drain.begin(within)

    def cancel(self, reason: str) -> None:
        """End the run within a second, whatever is being done; `run` then raises `RunStopped`."""
        self.stopped_by = self.stopped_by or reason
        self._cancelled = True
        if self._scope is not None:
            self._scope.cancel()

    def _judge_down(self, reason: str) -> None:
        """End the run in order: what is not judged now is judged when the run is resumed."""
        where = f"run {self.plan.directory}: the judge was given up"
        self._fault = RunFault(f"{where}: {reason}; {self.plan.when_back}")
        self.stop("the judge was given up", DRAIN_LIMIT + self.plan.config.turn_timeout)

    def _stopped(self) -> RunStopped | RunFault:
        if self._fault is None and self.stopped_by is None:
            return RunFault(f"run {self.plan.directory}: was cancelled from inside; {self.plan.after_stop}")
        return self._fault or RunStopped(f"stopped: {self.stopped_by}; {self.plan.after_stop}", STOPPED_EXIT)

    async def _run(self) -> S:
        supervision = Supervision(
            self.plan.run_id,
            self.plan.config,
            warn=self._warn,
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
                        return await self._run_graph()
                    except BaseException as problem:
                        with anyio.CancelScope(shield=True):
                            await self._end_early(problem)
                        raise
            except (asyncio.CancelledError, RunStopped):
                closing = HASTY_CLOSE
                raise
            finally:
                with anyio.move_on_after(closing, shield=True):
                    await self.plan.close()

    async def _run_graph(self) -> S:
        graph = self._graph = build_graph(self.plan, self.directory, self._tell, self._take_unsent)
        drain = self._drain = Drain(graph, lambda: self.cancel(self.stopped_by or ""))
        graph.pipeline.on_given_up(self._judge_down)
        self.plan.listen(self._notice)
        summary: S | None = None
        cut = False
        try:
            async with anyio.create_task_group() as group, graph.events:
                await graph.events.send(self._beginning())
                for line in (*self.plan.warnings, *self.directory.warnings):
                    await graph.events.send(Warned(ts=utc_now(), run_id=self.plan.run_id, message=line))
                for actor in graph.actors:
                    group.start_soon(actor.supervised, name=actor.name)
                if self._deadline < math.inf:
                    drain.begin(self._deadline - time.monotonic())
                for actor in graph.workers:
                    await actor.finished.wait()
                cut = any(actor.cut for actor in graph.workers)
                if not cut:
                    summary = await self._finish(graph)
        except BaseExceptionGroup as failures:
            raise foremost(failures) from failures
        finally:
            drain.close()
            graph.close()
        if summary is None:
            raise self._stopped()
        return summary

    async def _finish(self, graph: Graph[S]) -> S:
        """Write the summary and announce the end; the progress log is still listening."""
        pipeline, plan = graph.pipeline, self.plan
        counters, summary = pipeline.counters, pipeline.summary()
        self.stats = pipeline.stats(self._measured())
        await self.directory.write(
            {
                **pipeline.artifacts(summary),
                "run_stats.json": pretty_json(self.stats),
                "run_manifest.json": pretty_json(self._manifest(counters, ended=True)),
            }
        )
        now = utc_now()
        for event in self._take_unsent():
            await graph.events.send(event)
        await graph.events.send(MetricsDone(ts=now, run_id=plan.run_id, turn_rows=pipeline.rows))
        await graph.events.send(RunFinished(ts=now, run_id=plan.run_id, **dict(counters)))
        if (why := pipeline.no_agent) is not None:
            self.no_agent = UsageError(
                f"agent {plan.config.agent!r}: no turn of the {counters.valid_dialogs} dialogues was "
                f"answered: {why}; {plan.directory} holds the records"
            )
        self.summary = summary
        self._ended = True
        return summary

    def _first_papers(self) -> dict[str, bytes | None]:
        """Return what a run writes before it asks anyone; an end that is none any more is taken away."""
        manifest = {"run_manifest.json": pretty_json(self._manifest(Counters(), ended=False))}
        config = {"config.json": pretty_json(self.plan.config_file())}
        if self.plan.resumed is None:
            return {**config, **manifest}
        return {
            **(config if self.plan.resumed.changed else {}),
            **manifest,
            **dict.fromkeys(self.plan.layout.ends),
        }

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
            suite=plan.suite,
        )

    def _measured(self) -> Measured:
        return Measured(
            run_id=self.plan.run_id,
            wall_seconds=time.perf_counter() - self._start,
            actors={entry.name: dict(entry) for entry in self.statistics()},
            usage=self.plan.usage,
            agent_parameters=self.plan.agent_parameters,
        )

    def record_stop(self, reason: str) -> None:
        """Append the interruption to the progress log from another thread, the loop being stuck.

        What the disk is busy with is finished first. Nothing happens where the end is on record.
        """
        if not self._ended:
            self._ended = True
            event = RunInterrupted(ts=utc_now(), run_id=self.plan.run_id, reason=reason)
            self.directory.note([msgspec.json.encode(event)], RECORD_LIMIT)

    def warn(self, line: str) -> None:
        """Put a warning into the progress log with the events that come next."""
        self._unsent.append(Warned(ts=utc_now(), run_id=self.plan.run_id, message=line))

    def _listener_failed(self, line: str) -> None:
        self.warn(line)
        if self.on_blocked is not None:
            with suppress(Exception):
                self.on_blocked(self._unsent[-1])

    def _tell(self, event: ProgressEvent) -> None:
        """Hand an event to whoever listens."""
        if self._events is not None:
            self._events.put(event)
        if self._on_event is not None:
            self._listener.tell(self._on_event, event)

    def _take_unsent(self) -> list[ProgressEvent]:
        return [self._unsent.popleft() for _ in range(len(self._unsent))]

    def _notice(self, line: str) -> None:
        self._warn(Warned(ts=utc_now(), run_id=self.plan.run_id, message=line))

    def _warn(self, event: ProgressEvent) -> None:
        """Send a warning on its way, at the latest with the end of the run."""
        if self._graph is not None:
            with suppress(anyio.WouldBlock, anyio.BrokenResourceError, anyio.ClosedResourceError):
                self._graph.events.send_nowait(event)
                return
        self._unsent.append(event)

    def _warn_blocked(self, event: ProgressEvent) -> None:
        """Put a warning into the progress log from another thread, the loop being stuck, and tell it."""
        self.directory.note([msgspec.json.encode(event)], 0)
        if self.on_blocked is not None:
            self.on_blocked(event)
        elif self._loop is not None:
            with suppress(RuntimeError):  # the loop is closed: nobody listens any more
                self._loop.call_soon_threadsafe(self._tell, event)

    async def _end_early(self, problem: BaseException) -> None:
        """Leave no trace of a run that could not start, and a complete one of every other."""
        answered = self._graph.pipeline.writer.turns if self._graph is not None else 0
        begun = self._graph is not None
        if not answered and self.plan.resumed is None and (isinstance(problem, UsageError) or not begun):
            await self.directory.discard()
        else:
            await self._record_interruption(problem)

    async def _record_interruption(self, problem: BaseException) -> None:
        faulty = isinstance(problem, MemfinError) and not isinstance(problem, RunStopped)
        reason = str(problem) if faulty else self.stopped_by or describe(problem)
        counters = self._graph.pipeline.counters if self._graph is not None else Counters()
        interrupted = RunInterrupted(ts=utc_now(), run_id=self.plan.run_id, reason=reason, counters=counters)
        events = [*self._take_unsent(), interrupted]
        self._ended = True
        try:
            await self.directory.append_progress([msgspec.json.encode(event) for event in events])
        except RunFault as fault:
            if not isinstance(problem, MemfinError):
                raise fault from problem
        for event in events:
            self._tell(event)
        if late := self._take_unsent():
            with suppress(RunFault):  # the end is on record, or was refused just now
                await self.directory.append_progress([msgspec.json.encode(event) for event in late])
