"""Evaluations inside a host's event loop."""

import os
from pathlib import Path
from typing import Any, Self

from memfin.actors.progress_log import OnEvent
from memfin.contracts import EvalSummary
from memfin.runtime.embedded import BUFFERED, EmbeddedRun
from memfin.runtime.judging import JudgeLike
from memfin.runtime.plan import AgentLike, ObserverFactory, make_plan
from memfin.runtime.resume import make_resume_plan


class Evaluation(EmbeddedRun[EvalSummary]):
    """An evaluation as an asynchronous context manager, and an iterator of its progress events.

    ``async with Evaluation(dataset, agent=MyAgent) as evaluation: async for event in evaluation: ...``
    runs it in the host's loop, as `EmbeddedRun` describes. A run that was stopped can be resumed, here with
    `resume` or by ``memfin resume``.
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
            ),
            on_event,
            event_buffer,
        )
