"""An evaluation inside a host's event loop: started, read, stopped, and gone without a trace of it."""

import asyncio
import os
from collections.abc import Callable
from pathlib import Path
from types import TracebackType
from typing import Any, Final, Self

import anyio

from memfin.actors.base import ActorStatistics
from memfin.actors.progress_log import OnEvent
from memfin.contracts import EvalSummary, ProgressEvent, RunStats
from memfin.errors import RunFault, RunStopped
from memfin.foreign.thread import CallThread
from memfin.runtime.draining import DRAIN_LIMIT
from memfin.runtime.events import BUFFERED, EventBuffer
from memfin.runtime.gates import failed_gates
from memfin.runtime.judging import JudgeLike
from memfin.runtime.plan import AgentLike, ObserverFactory, RunPlan, make_plan
from memfin.runtime.resume import make_resume_plan
from memfin.runtime.run import Run

PLAN_GRACE: Final = 0.8
"""Seconds that a host which cancels the start waits for the reading of the dataset to end."""


class Evaluation:
    """An evaluation as an asynchronous context manager, and an iterator of its progress events.

    ``async with Evaluation(dataset, agent=MyAgent) as evaluation: async for event in evaluation: ...``
    runs it in the host's loop, in a task that ends with the block. It takes no signals, sets up no
    logging and leaves no task, thread or file open. Leaving the block before the end stops the run in
    order, within `DRAIN_LIMIT` seconds; an exception or a cancellation does so within one. A run that
    was stopped can be resumed, here with `resume` or by ``memfin resume``.

    Attributes:
        summary: the metrics, once the run is complete.
        stats: what depends on time, once the run is complete.
    """

    def __init__(
        self,
        dataset: str | os.PathLike[str] | None = None,
        *,
        agent: AgentLike = "builtin",
        judge: JudgeLike = "heuristic",
        observer_factory: ObserverFactory | None = None,
        on_event: OnEvent | None = None,
        event_buffer: int = BUFFERED,
        **config: Any,
    ) -> None:
        """Prepare; nothing is read or checked yet.

        Args:
            dataset: path of a JSONL dataset; None is the sample that ships with MemFin.
            agent: a reference as for ``--agent``, or an agent factory.
            judge: a reference as for ``--judge``, a judge factory, or None.
            observer_factory: makes the observer of each dialogue, a subclass of `TurnObserver`; None is
                MemFin's own.
            on_event: called with every progress event, in order; it must not block.
            event_buffer: events that wait for the iterator at most; older ones are dropped.
            config: other fields of `memfin.contracts.RunConfig`, such as ``workers_dialog=64``.
        """
        self._set_up(
            lambda: make_plan(dataset, agent=agent, judge=judge, observer_factory=observer_factory, **config),
            on_event,
            event_buffer,
        )

    @classmethod
    def resume(
        cls,
        run_dir: str | os.PathLike[str],
        *,
        agent: AgentLike | None = None,
        judge: JudgeLike = None,
        force: bool = False,
        retry_failed: bool = False,
        observer_factory: ObserverFactory | None = None,
        on_event: OnEvent | None = None,
        event_buffer: int = BUFFERED,
    ) -> Self:
        """Return the evaluation that goes on with an interrupted run; the settings are the run's own.

        Args:
            run_dir: the run directory.
            agent: the factory, where the run was started with one instead of a reference.
            judge: likewise.
            force: go on although something that the metrics depend on is another than it was.
            retry_failed: replay failed and partial dialogues again.
            observer_factory: as for a new evaluation.
            on_event: as for a new evaluation.
            event_buffer: as for a new evaluation.
        """
        evaluation = cls.__new__(cls)
        evaluation._set_up(  # noqa: SLF001 - its own class
            lambda: make_resume_plan(
                Path(run_dir),
                force=force,
                retry_failed=retry_failed,
                agent=agent,
                judge=judge,
                observer_factory=observer_factory,
            ),
            on_event,
            event_buffer,
        )
        return evaluation

    def _set_up(self, plan: Callable[[], RunPlan], on_event: OnEvent | None, event_buffer: int) -> None:
        self._make_plan = plan
        self._on_event = on_event
        self._events = EventBuffer(event_buffer)
        self._entered = False
        self._run: Run | None = None
        self._task: asyncio.Task[EvalSummary] | None = None

    @property
    def summary(self) -> EvalSummary | None:
        """The metrics, once the run is complete."""
        return self._run.summary if self._run is not None else None

    @property
    def stats(self) -> RunStats | None:
        """What depends on time, once the run is complete."""
        return self._run.stats if self._run is not None else None

    @property
    def run_id(self) -> str:
        """The name of the run; known once the block is entered."""
        return self._entered_run().plan.run_id

    @property
    def directory(self) -> Path:
        """Where the artefacts are; known once the block is entered."""
        return self._entered_run().directory.path

    @property
    def dropped_events(self) -> int:
        """How many events the iterator has missed, since they were not read in time."""
        return self._events.dropped

    @property
    def failed_gates(self) -> list[str]:
        """One line for every gate of the settings that the complete run does not pass."""
        run = self._entered_run()
        if run.summary is None or run.stats is None:
            return []
        settings = run.plan.config
        gates = (settings.fail_under, settings.fail_on_error, settings.fail_on_judge_error)
        return [] if gates == ({}, None, None) else failed_gates(run.summary, run.stats, *gates)

    def statistics(self) -> list[ActorStatistics]:
        """Return what every part of the run has done so far; empty before the start."""
        return self._run.statistics() if self._run is not None else []

    def _entered_run(self) -> Run:
        if self._run is None:
            raise RuntimeError("an Evaluation has a run once it is entered with `async with`")
        return self._run

    async def __aenter__(self) -> Self:
        """Check everything, create the run directory and start.

        Raises:
            UsageError: a setting, the dataset, the agent or the judge is unusable.
            RunFault: the machine refuses.
            RuntimeError: the evaluation was entered before.
        """
        if self._entered:
            raise RuntimeError("an Evaluation runs once; make another one")
        self._entered = True
        run = self._run = Run(await self._plan(), self._take)
        self._task = asyncio.create_task(self._main(run), name=f"memfin-run-{run.plan.run_id}")
        try:
            await run.begun.wait()
            self._raise_failure()
        except BaseException as problem:
            await self._leave(problem)
            raise
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        """Stop the run where it is not complete; on return nothing of it is left in the process.

        Raises:
            RunFault: the machine failed under the run; not where the block itself has raised.
        """
        await self._leave(error)
        if error is None:
            self._raise_failure()

    def __aiter__(self) -> Self:
        """Iterate over the events; several iterators share them."""
        return self

    async def __anext__(self) -> ProgressEvent:
        """Return the next event; the last is `RunFinished`, or `RunInterrupted` after `stop`.

        Raises:
            RunFault: the machine failed under the run.
        """
        self._entered_run()
        event = await self._events.get()
        if event is None:
            self._raise_failure()
            raise StopAsyncIteration
        return event

    async def wait(self) -> EvalSummary:
        """Wait for the end and return the metrics.

        Raises:
            UsageError: the dataset has no valid dialogue, or the agent cannot do what the settings ask.
            RunFault: the machine failed under the run.
            RunStopped: the run was stopped before.
        """
        self._entered_run()
        task = self._task
        if task is None:
            raise RuntimeError("an Evaluation has a run once it is entered with `async with`")
        await asyncio.wait({task})
        self._raise_failure(stopped=True)
        return task.result()

    async def stop(self, within: float = DRAIN_LIMIT) -> None:
        """End the run in order and wait for that: running turns may end, nothing new starts.

        What is answered is scored, judged as far as the time allows, and kept. What takes longer than
        ``within`` seconds is cancelled in time.
        """
        run = self._entered_run()
        run.stop("the host stopped the run", within)
        if self._task is not None:
            await asyncio.wait({self._task})

    def _take(self, event: ProgressEvent) -> None:
        self._events.put(event)
        if self._on_event is not None:
            self._on_event(event)

    async def _main(self, run: Run) -> EvalSummary:
        try:
            return await run.run()
        finally:
            run.begun.set()
            self._events.close()

    async def _plan(self) -> RunPlan:
        """Make the plan in a thread: it reads the dataset, and imports what references name."""
        thread = CallThread("memfin-plan")
        making = asyncio.ensure_future(thread.call(self._make_plan))
        try:
            await asyncio.wait({making})
            return making.result()
        except asyncio.CancelledError:
            with anyio.CancelScope(shield=True):
                await asyncio.wait({making}, timeout=PLAN_GRACE)
                if making.done() and making.exception() is None:
                    await making.result().close()
                making.cancel()
                await asyncio.wait({making})
            raise
        finally:
            thread.stop()
            if not thread.busy:
                thread.join(PLAN_GRACE)

    async def _leave(self, error: BaseException | None) -> None:
        """Wait for the end of the run, having stopped it in the way that what happened asks for.

        The host may be cancelled meanwhile, by its task or by a scope: the run then ends at once,
        and the cancellation goes on when it has.
        """
        run, task = self._run, self._task
        if run is None or task is None:
            return
        in_haste = error is not None
        interrupted: asyncio.CancelledError | None = None
        if in_haste:
            self._cancel(run, task, error)
        else:
            run.stop("the host left before the end")
        while not task.done():
            try:
                with anyio.CancelScope(shield=in_haste):
                    await asyncio.wait({task})
            except asyncio.CancelledError as cancelled:
                interrupted = interrupted or cancelled
                if not in_haste:
                    in_haste = True
                    self._cancel(run, task, cancelled)
        if not task.cancelled():
            task.exception()  # taken note of: it is raised, or another exception goes first
        if interrupted is not None:
            raise interrupted

    def _cancel(self, run: Run, task: asyncio.Task[EvalSummary], error: BaseException | None) -> None:
        cancelled = isinstance(error, asyncio.CancelledError)
        if not task.done():
            run.cancel("the host was cancelled" if cancelled else f"the host failed: {type(error).__name__}")

    def _raise_failure(self, *, stopped: bool = False) -> None:
        """Raise what ended the run early; that it was stopped only where this is asked for."""
        task = self._task
        if task is None or not task.done():
            return
        if task.cancelled():
            raise RunFault(f"run {self.directory}: its own tasks were cancelled; it can be resumed")
        failure = task.exception()
        if failure is not None and (stopped or not isinstance(failure, RunStopped)):
            raise failure
