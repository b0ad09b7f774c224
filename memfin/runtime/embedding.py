"""An evaluation inside a host's event loop: started, read, stopped, and gone without a trace of it."""

import os
from pathlib import Path
from typing import Any, Self

from memfin.actors.progress_log import OnEvent
from memfin.contracts import EvalSummary
from memfin.runtime.embedded import BUFFERED, EmbeddedRun
from memfin.runtime.gates import failed_gates
from memfin.runtime.judging import JudgeLike
from memfin.runtime.plan import AgentLike, ObserverFactory, make_plan
from memfin.runtime.resume import make_resume_plan


class Evaluation(EmbeddedRun[EvalSummary]):
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
        super().__init__(
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
        EmbeddedRun.__init__(
            evaluation,
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

    @property
    def failed_gates(self) -> list[str]:
        """One line for every gate of the settings that the complete run does not pass."""
        run = self._entered_run()
        if run.summary is None or run.stats is None:
            return []
        settings = run.plan.config
        gates = (settings.fail_under, settings.fail_on_error, settings.fail_on_judge_error)
        return [] if gates == ({}, None, None) else failed_gates(run.summary, run.stats, *gates)
