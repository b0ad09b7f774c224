"""Evaluations from Python, and the replay of one dialogue (metrics contract sections 4 and 8)."""

import os
from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import Any, Self

import anyio

from memfin.actors.writers import OnEvent
from memfin.agents.observer import TurnObserver
from memfin.agents.replay import ReplayOptions, replay_dialog
from memfin.contracts import DialogTrace, EvalSummary
from memfin.dataset import InvalidDialogError, normalize_dialog, usable_id
from memfin.runtime.embedded import BUFFERED, EmbeddedRun
from memfin.runtime.judging import JudgeLike
from memfin.runtime.plan import AgentLike, ObserverFactory, make_plan
from memfin.runtime.resume import make_resume_plan
from memfin.runtime.settings import new_run_id


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


async def evaluate(
    dataset: str | os.PathLike[str] | None = None,
    *,
    agent: AgentLike = "builtin",
    judge: JudgeLike = "heuristic",
    on_event: OnEvent | None = None,
    observer_factory: ObserverFactory | None = None,
    **config: Any,
) -> EvalSummary:
    """Evaluate an agent on a dataset and return the metrics; artifacts go to ``runs_dir/run_id``.

    The arguments are those of `Evaluation`.

    Raises:
        UsageError: a setting, the dataset, the agent or the judge is unusable, or no agent could be created
            in any dialogue, whose records are kept.
        RunFault: the machine failed under the run.
        GateFailed: the run is complete, but does not pass ``fail_under``, ``fail_on_error`` or
            ``fail_on_judge_error``; the summary is its ``summary``.
    """
    evaluation = Evaluation(
        dataset, agent=agent, judge=judge, observer_factory=observer_factory, on_event=on_event, **config
    )
    return await evaluation.complete()


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
    """
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
    replay = await replay_dialog(
        dialog, dataset_index, agent_factory, options, observer_factory=observer_factory
    )
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


def run_eval_parallel(
    dataset_path: str | os.PathLike[str],
    run_id: str | None = None,
    max_workers_dialog: int = 4,
    max_workers_judge: int = 2,
    agent_factory: AgentLike = "builtin",
    observer_factory: ObserverFactory | None = None,
    **config: Any,
) -> EvalSummary:
    """Evaluate from synchronous code: serial inside a dialogue, concurrent between them.

    This is `evaluate` with a loop of its own; inside a running loop use `evaluate`. The
    parameters are those of metrics contract section 8, ``config`` is as for `evaluate`.
    """
    main = partial(
        evaluate,
        dataset_path,
        agent=agent_factory,
        observer_factory=observer_factory,
        run_id=run_id or new_run_id(),
        workers_dialog=max_workers_dialog,
        workers_judge=max_workers_judge,
        **config,
    )
    return anyio.run(main)
