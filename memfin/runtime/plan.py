"""The plan of a dialogue run: everything it needs, resolved and checked before anything starts."""

import os
from abc import abstractmethod
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any, Final

import anyio
from anyio.streams.memory import MemoryObjectSendStream

from memfin.actors.base import Actor, EventSender
from memfin.actors.messages import DialogCommitted, DialogTask, ToScorer, ToWriter
from memfin.actors.replayer import Replayer
from memfin.actors.scorer import scoring_workers
from memfin.actors.source import Source
from memfin.agents.observer import TurnObserver
from memfin.agents.registry import AgentSettings, AgentSource, check_observer_factory, resolve_agent
from memfin.agents.replay import ReplayOptions
from memfin.contracts import ConfigFile, EvalSummary, ModelUsage, ParameterChange, RunConfig
from memfin.dataset import SAMPLE, check_dataset_file, digest_dataset
from memfin.errors import UsageError
from memfin.journal import RunDirectory, progress_path
from memfin.judges import DialogJudge, Notices
from memfin.judges.controls import Control
from memfin.runtime.dialog_pipeline import DialogInputs, DialogPipeline
from memfin.runtime.judging import (
    JudgeLike,
    judge_controls,
    judge_endpoint,
    judge_inputs,
    judge_name,
    make_judge,
)
from memfin.runtime.settings import make_config, new_run_id
from memfin.runtime.suite import Plan
from memfin.scoring.lexicon import lexicon_hashes
from memfin.scoring.rows import prepare_scoring
from memfin.version import __version__

MOST_TASKS: Final = 64
"""Dialogues that wait for a replayer at most, however many replayers there are."""

AgentLike = str | Callable[..., Any]
ObserverFactory = Callable[[], TurnObserver]


class DialogPlan(Plan[EvalSummary]):
    """What an evaluation of dialogues works on; the subclass knows where traces come from.

    Attributes:
        judge: what judges the replies, if anything does.
        notices: what it has to say while it works.
        controls: replies whose worth is known, for a judge that is a model.
    """

    judge: DialogJudge | None
    notices: Notices
    controls: Sequence[Control]

    @abstractmethod
    def producers(
        self,
        replayed: MemoryObjectSendStream[ToScorer],
        events: EventSender,
        writer: MemoryObjectSendStream[ToWriter],
        committed: MemoryObjectSendStream[DialogCommitted],
        directory: RunDirectory,
    ) -> list[Actor[Any]]:
        """Return the actors that make or read traces; they get clones of the ends."""

    def pipeline(self, directory: RunDirectory, events: EventSender) -> DialogPipeline:
        """Return the actors of the run."""
        inputs = DialogInputs(
            config=self.config,
            run_id=self.run_id,
            source=self.source,
            dataset_path=self.dataset_path,
            fingerprint=self.fingerprint,
            judge=self.judge,
            notices=self.notices,
            controls=self.controls,
        )
        return DialogPipeline(inputs, self.producers, directory, events)

    def config_file(self) -> ConfigFile:
        """Return ``config.json``, with where the judge's model is."""
        return super().config_file().replace(judge_endpoint=judge_endpoint(self.judge))

    async def close(self) -> None:
        """Let go of what the judge holds."""
        if self.judge is not None:
            await self.judge.close()


class RunPlan(DialogPlan):
    """A dataset replayed against agents."""

    def __init__(
        self,
        config: RunConfig,
        dataset: Path,
        agents: AgentSource,
        judge: DialogJudge | None,
        notices: Notices,
        sha256: str,
        lines: int,
        observer_factory: ObserverFactory | None = None,
    ) -> None:
        self.config = config
        self._observer_factory = observer_factory
        self.run_id = config.run_id or new_run_id()
        self.dataset = dataset
        self.source = f"dataset {dataset}"
        self.dataset_path = config.dataset or "builtin:sample.jsonl"
        self.dialogs = lines if config.limit is None else min(lines, config.limit)
        self.agents = agents
        self.model_name = agents.model_name
        self.judge = judge
        self.notices = notices
        agents.listen(notices.post)
        self.controls = judge_controls(judge, dataset, config)
        runs_dir = Path(config.runs_dir)
        self.directory = runs_dir / self.run_id
        self.progress = progress_path(runs_dir, self.run_id)
        self.fingerprint_inputs = {
            "dataset_sha256": sha256,
            "limit": config.limit,
            "agent": agents.reference,
            "agent_version": agents.version,
            "model": agents.model_name,
            "agent_settings": agents.inputs,
            "history": config.history,
            **scoring_inputs(judge, config),
            "seed": config.seed,
        }

    @property
    def usage(self) -> ModelUsage | None:
        """What the language models behind the agents took so far."""
        return self.agents.usage

    @property
    def agent_parameters(self) -> list[ParameterChange]:
        """Which parameters the model behind the agents has refused so far."""
        return self.agents.parameter_changes

    async def close(self) -> None:
        """Let go of what the judge and the agents hold."""
        try:
            await self.agents.close()
        finally:
            await super().close()

    def producers(
        self,
        replayed: MemoryObjectSendStream[ToScorer],
        events: EventSender,
        writer: MemoryObjectSendStream[ToWriter],
        committed: MemoryObjectSendStream[DialogCommitted],
        directory: RunDirectory,
    ) -> list[Actor[Any]]:
        """Return the source and the replayers."""
        config = self.config
        send, receive = anyio.create_memory_object_stream[DialogTask](min(config.workers_dialog, MOST_TASKS))
        options = ReplayOptions(
            run_id=self.run_id,
            history=config.history,
            turn_timeout=config.turn_timeout,
            turn_retries=config.turn_retries,
            trace_version=config.trace_version,
            judge=judge_name(self.judge),
        )
        replayers = [
            Replayer(
                worker_id,
                self.agents,
                options,
                inbox=receive.clone(),
                outbox=replayed.clone(),
                writer=writer.clone(),
                events=events.clone(),
                observer_factory=self._observer_factory,
            )
            for worker_id in range(config.workers_dialog)
        ]
        receive.close()
        source = Source(
            self.dataset,
            run_id=self.run_id,
            trace_version=config.trace_version,
            limit=config.limit,
            directory=directory,
            tasks=send,
            replayed=replayed.clone(),
            writer=writer.clone(),
            committed=committed.clone(),
        )
        return [source, *replayers]


def scoring_inputs(judge: DialogJudge | None, config: RunConfig) -> dict[str, Any]:
    """Return what the scores depend on besides the traces."""
    return {
        "lexicon_hashes": lexicon_hashes(),
        "score_chars": config.score_chars,
        "matching": "literal+guarded",
        **judge_inputs(judge, scope=config.judge_scope),
        "memfin_version": __version__,
    }


def make_plan(
    dataset: str | os.PathLike[str] | None = None,
    *,
    agent: AgentLike = "builtin",
    judge: JudgeLike = "heuristic",
    observer_factory: ObserverFactory | None = None,
    **settings: Any,
) -> RunPlan:
    """Resolve and check everything a run needs; reads the dataset once for its hash.

    ``settings`` are the other fields of `RunConfig`; ``observer_factory`` makes the observer of each
    dialogue, a subclass of `TurnObserver` that looks on.

    Raises:
        UsageError: a setting, the dataset, the agent or the judge is unusable; one line says why.
    """
    config = make_config(
        {
            **settings,
            "dataset": None if dataset is None else os.fspath(dataset),
            "agent": agent if isinstance(agent, str) else "",
        }
    )
    if observer_factory is not None:
        check_observer_factory(observer_factory)
    agents = resolve_agent(agent, AgentSettings.of(config))
    config = config.replace(agent=agents.reference)
    notices = Notices()
    resolved_judge = make_judge(judge, config, notices)
    config = config.replace(judge=judge_name(resolved_judge))
    path = SAMPLE if config.dataset is None else Path(config.dataset)
    check_dataset_file(path)
    try:
        sha256, lines = digest_dataset(path)
    except OSError as problem:
        raise UsageError(f"dataset {path}: {problem.strerror or problem}") from problem
    if scoring_workers(config) == 0:
        prepare_scoring()
    return RunPlan(config, path, agents, resolved_judge, notices, sha256, lines, observer_factory)
