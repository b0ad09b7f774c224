"""Evaluations in a host's event loop and from synchronous code (metrics contract sections 4 and 8)."""

import asyncio
import os
from collections.abc import Callable, Iterable, Sequence
from functools import partial
from pathlib import Path
from types import TracebackType
from typing import Any, Final, Generic, Self, Unpack, overload

import anyio

from memfin.actors.base import ActorStatistics
from memfin.actors.measuring import MetricLike
from memfin.actors.writers import OnEvent
from memfin.agents.forms import factory_of
from memfin.agents.observer import TurnObserver
from memfin.agents.registry import AgentLike
from memfin.agents.replay import ReplayOptions, replay_dialog
from memfin.contracts import DialogTrace, EvalSummary, ProgressEvent, RunStats
from memfin.dataset import DatasetLike, InvalidDialogError, normalize_dialog, usable_id
from memfin.errors import GateFailed, RunFault, RunStopped
from memfin.judges.registry import JudgeLike
from memfin.results import Results
from memfin.runtime.pipeline import DRAIN_LIMIT, Plan, S
from memfin.runtime.plan import ObserverFactory, make_plan
from memfin.runtime.resume import make_resume_plan
from memfin.runtime.run import Run
from memfin.runtime.settings import CommonSettings, Settings, new_run_id
from memfin.runtime.subscriptions import BUFFERED, E, Subscribers, Subscription
from memfin.sandbox.calls import check_listener
from memfin.sandbox.thread import CallThread

PLAN_GRACE: Final = 0.8
"""Seconds that a host which cancels the start waits for the reading of the dataset to end."""


class EmbeddedRun(Generic[S]):
    """A run as an asynchronous context manager, and an iterator of its progress events.

    It runs in the host's loop, in a task that ends with the block. It takes no signals, sets up no
    logging and leaves no task, thread or file open. Leaving the block before the end stops the run in
    order, within `DRAIN_LIMIT` seconds; an exception or a cancellation does so within one. A run that
    was stopped can be resumed.
    """

    def __init__(
        self, plan: Callable[[], Plan[S]], on_event: OnEvent | None = None, event_buffer: int = BUFFERED
    ) -> None:
        """Prepare; ``plan`` is called in a thread when the block is entered.

        ``on_event`` is called with every event, until it raises; ``event_buffer`` events wait for the
        iterator at most. An asynchronous ``on_event`` raises `UsageError`.
        """
        if on_event is not None:
            check_listener("on_event", on_event)
        self._make_plan = plan
        self._on_event = on_event
        self._subscribers = Subscribers()
        self._events = self.subscribe(buffer=event_buffer)
        self._entered = False
        self._run: Run[S] | None = None
        self._task: asyncio.Task[S]

    @classmethod
    def _of(cls, plan: Callable[[], Plan[S]], on_event: OnEvent | None, event_buffer: int) -> Self:
        """Return a run of another plan than that of a new one."""
        made = cls.__new__(cls)
        EmbeddedRun.__init__(made, plan, on_event, event_buffer)
        return made

    @overload
    def subscribe(self, kinds: Iterable[type[E]] | type[E], buffer: int = BUFFERED) -> Subscription[E]: ...

    @overload
    def subscribe(self, kinds: None = None, buffer: int = BUFFERED) -> Subscription[ProgressEvent]: ...

    def subscribe(
        self, kinds: Iterable[type[Any]] | type[Any] | None = None, buffer: int = BUFFERED
    ) -> Subscription[Any]:
        """Return a stream of events with a buffer of its own, before or after the start.

        ``kinds`` are classes of events, by default those of the progress log; `TurnReplayed` and
        `DialogScored`, which carry records, are made only for those who name them. The stream ends with the
        run; an error of the run is raised by `wait` and by leaving the block.

        Raises:
            UsageError: one of ``kinds`` is not a class of events.
        """
        return self._subscribers.add(kinds, buffer)

    @property
    def summary(self) -> S | None:
        """The results, once the run is complete."""
        return self._run.summary if self._run is not None else None

    @property
    def stats(self) -> RunStats | None:
        """Figures that depend on time, once the run is complete."""
        return self._run.stats if self._run is not None else None

    @property
    def results(self) -> Results[S]:
        """The results of the complete run, as `memfin.read_run` reads them from its directory.

        Raises:
            UsageError: the run is not complete.
        """
        return Results(self.directory, self.summary)

    @property
    def run_id(self) -> str:
        """The name of the run; known once the block is entered."""
        return self._entered_run().plan.run_id

    @property
    def directory(self) -> Path:
        """Where the artifacts are; known once the block is entered."""
        return self._entered_run().directory.path

    @property
    def dropped_events(self) -> int:
        """Number of events that the iterator has missed, since they were not read in time."""
        return self._events.dropped

    def statistics(self) -> list[ActorStatistics]:
        """Return what every part of the run has done so far; empty before the start."""
        return self._run.statistics() if self._run is not None else []

    def _entered_run(self) -> Run[S]:
        if self._run is None:
            raise RuntimeError("an evaluation has a run once it is entered with `async with`")
        return self._run

    async def __aenter__(self) -> Self:
        """Check everything, create the run directory and start.

        Raises:
            UsageError: something that the run needs is unusable.
            RunFault: the machine refuses.
            RuntimeError: the evaluation was entered before.
        """
        if self._entered:
            raise RuntimeError("an evaluation runs once; make another one")
        self._entered = True
        try:
            plan = await self._plan()
        except BaseException:
            self._subscribers.end()
            raise
        run = self._run = Run(plan, self._on_event, subscribers=self._subscribers)
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
        """Stop the run where it is not complete; raise as `wait`, unless the block itself has raised."""
        await self._leave(error)
        if error is None:
            self._raise_failure()

    def __aiter__(self) -> Self:
        """Iterate over the events of the progress log; several iterators share them, unlike subscribers."""
        return self

    async def __anext__(self) -> ProgressEvent:
        """Return the next event, the last of which is `RunFinished` or `RunInterrupted`; raise as `wait`."""
        self._entered_run()
        event = await self._events.get()
        if event is None:
            self._raise_failure()
            raise StopAsyncIteration
        return event

    async def wait(self) -> Results[S]:
        """Wait for the end and return the results.

        Raises:
            UsageError: there is nothing to evaluate, the agent cannot do what the settings ask, or no agent
                could be created in any dialogue.
            RunFault: the machine failed under the run.
            RunStopped: the run was stopped before.
        """
        self._entered_run()
        await asyncio.wait({self._task})
        self._raise_failure(stopped=True)
        return self.results

    @property
    def failed_gates(self) -> list[str]:
        """One line for every gate of the settings that the complete run does not pass."""
        run = self._entered_run()
        config = run.plan.config
        names = (
            "fail_under",
            "fail_over",
            "gate",
            "fail_on_error",
            "fail_on_judge_error",
            "fail_on_regression",
        )
        wanted = any(config.get(name) not in (None, {}, []) for name in names)
        if run.summary is None or run.stats is None or not wanted:
            return []
        return run.plan.failed_gates(run.summary, run.stats, self.directory)

    async def complete(self, *, report: bool = False) -> Results[S]:
        """Enter, wait for the end and return the results.

        With ``report`` it also writes ``report.md`` and ``report.html``, in the language of the context.

        Raises:
            UsageError, RunFault, RunStopped: as `wait`.
            GateFailed: the run is complete, but does not pass a gate; the error has its ``summary``.
        """
        async with self:
            results = await self.wait()
        if report:
            from memfin.report.render import write_reports  # noqa: PLC0415 - as above

            thread = CallThread("memfin-report")
            try:
                await thread.call(write_reports, self.directory)
            finally:
                thread.stop()
        if gates := self.failed_gates:
            raise GateFailed("; ".join(gates), results.summary)
        return results

    async def stop(self, within: float = DRAIN_LIMIT) -> None:
        """End the run in order and wait for that: running turns may end, nothing new starts.

        Every answer is scored, judged as far as the time allows, and kept. Calls that take longer than
        ``within`` seconds are cancelled in time.
        """
        run = self._entered_run()
        run.stop("the host stopped the run", within)
        await asyncio.wait({self._task})

    async def _main(self, run: Run[S]) -> S:
        try:
            summary = await run.run()
            if run.no_agent is not None:
                raise run.no_agent
            return await self._completed(run, summary)
        finally:
            run.begun.set()
            self._subscribers.end()

    async def _completed(self, run: Run[S], summary: S) -> S:
        """Return the summary that the host gets; a hook for suites."""
        del run
        return summary

    async def _plan(self) -> Plan[S]:
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
        """Stop the run and wait for its end; a cancellation of the host meanwhile ends it at once."""
        run, task = self._entered_run(), self._task
        cancelling = error is not None
        interrupted: asyncio.CancelledError | None = None
        if cancelling:
            self._cancel(run, task, error)
        else:
            run.stop("the host left before the end")
        while not task.done():
            try:
                with anyio.CancelScope(shield=cancelling):
                    await asyncio.wait({task})
            except asyncio.CancelledError as cancelled:
                interrupted = interrupted or cancelled
                if not cancelling:
                    cancelling = True
                    self._cancel(run, task, cancelled)
        if not task.cancelled():
            task.exception()  # taken note of: it is raised, or another exception goes first
        if interrupted is not None:
            raise interrupted

    def _cancel(self, run: Run[S], task: asyncio.Task[S], error: BaseException | None) -> None:
        cancelled = isinstance(error, asyncio.CancelledError)
        if not task.done():
            run.cancel("the host was cancelled" if cancelled else f"the host failed: {type(error).__name__}")

    def _raise_failure(self, *, stopped: bool = False) -> None:
        """Raise what ended the run early; that it was stopped only where this is asked for."""
        task = self._task
        if not task.done():
            return
        if task.cancelled():
            raise RunFault(f"run {self.directory}: its own tasks were cancelled; it can be resumed")
        failure = task.exception()
        if failure is not None and (stopped or not isinstance(failure, RunStopped)):
            raise failure


class Evaluation(EmbeddedRun[EvalSummary]):
    """An evaluation as an asynchronous context manager, and an iterator of its progress events.

    ``async with Evaluation(dataset, agent=MyAgent) as evaluation: async for event in evaluation: ...``
    runs it in the host's loop, as `EmbeddedRun` describes. A run that was stopped can be resumed, here with
    `resume` or by ``memfin resume``.
    """

    def __init__(
        self,
        dataset: DatasetLike | None = None,
        *,
        agent: AgentLike = "builtin",
        judge: JudgeLike = "heuristic",
        observer_factory: ObserverFactory | None = None,
        on_event: OnEvent | None = None,
        event_buffer: int = BUFFERED,
        metrics: Sequence[MetricLike] | None = None,
        **config: Unpack[Settings],
    ) -> None:
        """Prepare; nothing is read or checked yet.

        Args:
            dataset: path of a JSONL dataset, an iterable of dictionaries, a data frame of them or a
                `memfin.DatasetSource`, which is kept in the run directory; None is the sample that ships
                with MemFin.
            agent: a reference as for ``--agent``, or an agent factory.
            judge: a reference as for ``--judge``, a judge factory, or None.
            observer_factory: makes the observer of each dialogue, a subclass of `TurnObserver`; None is
                MemFin's own.
            on_event: called with every progress event, in order; it must not block.
            metrics: custom metrics: classes, instances or references.
            event_buffer: events that wait for the iterator at most; older ones are dropped.
            config: other fields of `memfin.RunConfig`, such as ``workers_dialog=64``, typed by `Settings`.
        """
        super().__init__(
            lambda: make_plan(
                dataset,
                agent=agent,
                judge=judge,
                observer_factory=observer_factory,
                metrics=metrics,
                **config,
            ),
            on_event,
            event_buffer,
        )

    @classmethod
    def resume(  # noqa: PLR0913 - as many as a new evaluation
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
        metrics: Sequence[MetricLike] | None = None,
    ) -> Self:
        """Return the evaluation that goes on with an interrupted run; the settings are the run's own.

        The arguments are those of `memfin.runtime.resume.make_resume_plan` and of a new evaluation.
        """
        return cls._of(
            lambda: make_resume_plan(
                Path(run_dir),
                force=force,
                retry_failed=retry_failed,
                agent=agent,
                judge=judge,
                observer_factory=observer_factory,
                metrics=metrics,
            ),
            on_event,
            event_buffer,
        )


async def evaluate(
    dataset: DatasetLike | None = None,
    *,
    agent: AgentLike = "builtin",
    judge: JudgeLike = "heuristic",
    on_event: OnEvent | None = None,
    observer_factory: ObserverFactory | None = None,
    report: bool = False,
    metrics: Sequence[MetricLike] | None = None,
    **config: Unpack[Settings],
) -> Results[EvalSummary]:
    """Evaluate an agent on a dataset and return the results; artifacts go to ``runs_dir/run_id``.

    The arguments are those of `Evaluation`; ``report`` also writes ``report.md`` and ``report.html``, in the
    language of the context, before gates are checked.

    Raises:
        UsageError: a setting, the dataset, the agent or the judge is unusable, or no agent could be created
            in any dialogue, whose records are kept.
        RunFault: the machine failed under the run.
        GateFailed: the run is complete, but does not pass ``gate``, ``fail_under``, ``fail_over``,
            ``fail_on_error`` or ``fail_on_judge_error``; the summary is its ``summary``.
    """
    evaluation = Evaluation(
        dataset,
        agent=agent,
        judge=judge,
        observer_factory=observer_factory,
        on_event=on_event,
        metrics=metrics,
        **config,
    )
    return await evaluation.complete(report=report)


async def run_dialog_replay(
    dialog_obj: object,
    run_id: str,
    dataset_index: int,
    agent_factory: Callable[..., Any],
    observer_factory: Callable[[], TurnObserver] | None = None,
    timeout_sec: float = 120,
) -> DialogTrace:
    """Replay one dialogue, turn after turn, and return its trace (metrics contract section 4).

    An invalid dialogue gives a skipped trace, an agent's failure ends in ``turns[].error`` or
    ``dialog_error``. ``observer_factory`` makes the agent's observer; None is MemFin's own.

    Raises:
        UsageError: the agent has none of the forms of `memfin.agents.forms.factory_of`, or the dialogue has
            no turns but a client's sheet.
    """
    factory = factory_of("agent_factory", agent_factory)
    options = ReplayOptions(run_id=run_id, turn_timeout=timeout_sec)
    try:
        dialog = normalize_dialog(dialog_obj, default_id=f"line_{dataset_index}")
    except InvalidDialogError as invalid:
        return DialogTrace(
            trace_version=options.trace_version,
            run_id=run_id,
            dialog_id=usable_id(dialog_obj) or f"line_{dataset_index}",
            dataset_index=dataset_index,
            dialog_status="skipped",
            valid_dialog=False,
            skip_reason=invalid.problem.reason,
            dialog_error=str(invalid.problem),
        )
    replay = await replay_dialog(dialog, dataset_index, factory, options, observer_factory=observer_factory)
    return replay.trace


async def evaluate_dialog_task(
    dialog_obj: object,
    dataset_index: int,
    run_id: str,
    agent_factory: Callable[..., Any],
    observer_factory: Callable[[], TurnObserver] | None = None,
) -> DialogTrace:
    """Replay one dialogue as a run's worker does (metrics contract section 8)."""
    return await run_dialog_replay(dialog_obj, run_id, dataset_index, agent_factory, observer_factory)


def run_eval_parallel(  # noqa: PLR0913 - those of the contract, and of `evaluate`
    dataset_path: DatasetLike,
    run_id: str | None = None,
    max_workers_dialog: int = 4,
    max_workers_judge: int = 2,
    agent_factory: AgentLike = "builtin",
    observer_factory: ObserverFactory | None = None,
    *,
    judge: JudgeLike = "heuristic",
    on_event: OnEvent | None = None,
    report: bool = False,
    **config: Unpack[CommonSettings],
) -> EvalSummary:
    """Evaluate from synchronous code: serial inside a dialogue, concurrent between them.

    This is `evaluate` with a loop of its own, and returns the summary of its results; inside a running loop
    use `evaluate`. The parameters are those of metrics contract section 8 and of `evaluate`.
    """
    main = partial(
        evaluate,
        dataset_path,
        agent=agent_factory,
        judge=judge,
        on_event=on_event,
        observer_factory=observer_factory,
        run_id=run_id or new_run_id(),
        workers_dialog=max_workers_dialog,
        workers_judge=max_workers_judge,
        report=report,
        **config,
    )
    return anyio.run(main).summary
