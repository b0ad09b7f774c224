"""From settings to a plan: everything a run needs, resolved and checked before anything starts."""

import hashlib
import os
import re
import secrets
from abc import ABC, abstractmethod
from collections.abc import Callable, Mapping, Sequence
from datetime import UTC, datetime
from pathlib import Path
from typing import Any, Final, NamedTuple

import anyio
import msgspec
from anyio.streams.memory import MemoryObjectSendStream

from memfin import __version__
from memfin.actors.base import Actor, EventSender
from memfin.actors.messages import DialogCommitted, DialogTask, ToScorer, ToWriter
from memfin.actors.replayer import Replayer
from memfin.actors.source import Source
from memfin.agents.observer import TurnObserver
from memfin.agents.registry import AgentSource, resolve_agent
from memfin.agents.replay import ReplayOptions
from memfin.agents.settings import AgentSettings
from memfin.contracts import ConfigFile, DialogStatus, ModelUsage, ParameterChange, RunConfig
from memfin.dataset import SAMPLE, check_dataset_file, digest_dataset
from memfin.errors import UsageError
from memfin.journal import RunDirectory, progress_path
from memfin.judges import Judge, Notices
from memfin.judges.controls import Control
from memfin.runtime.gates import check_value_name
from memfin.runtime.judging import (
    JudgeLike,
    judge_controls,
    judge_endpoint,
    judge_inputs,
    judge_name,
    make_judge,
)
from memfin.scoring.lexicon import lexicon_hashes
from memfin.scoring.rows import prepare_scoring

RUN_ID: Final = re.compile(r"(?!\.)(?!logs\Z)[A-Za-z0-9._-]{1,128}\Z")

MOST_TASKS: Final = 64
"""Dialogues that wait for a replayer at most, however many replayers there are."""

AgentLike = str | Callable[..., Any]
ObserverFactory = Callable[[], TurnObserver]


class Resumed(NamedTuple):
    """The beginning of a run that goes on.

    ``changed`` names the inputs of the fingerprint that are others now; ``drop`` are the statuses
    of dialogues to replay again; with ``rejudge`` those are judged again in which a judgement failed.
    """

    started_at: str
    changed: tuple[str, ...] = ()
    drop: frozenset[DialogStatus] = frozenset()
    rejudge: bool = False


class Plan(ABC):
    """What an evaluation works on, resolved and checked; the subclass knows where traces come from.

    Attributes:
        config: the resolved settings.
        run_id: the name of the run in every row.
        source: what is read, for error messages.
        dataset_path: what the artefacts call the dataset.
        dialogs: how many dialogues there are at most.
        model_name: what the manifest calls the system under test.
        judge: what judges the replies, if anything does.
        notices: what it has to say while it works.
        controls: replies whose worth is known, for a judge that is a model.
        directory, progress: where the artefacts and the progress log go.
        fingerprint: digest of ``fingerprint_inputs``, everything the metrics depend on.
        resumed: what is known of the run's beginning, where it goes on.
        part_of: the directory of the soak that the run is an epoch of.
    """

    config: RunConfig
    run_id: str
    source: str
    dataset_path: str
    dialogs: int
    model_name: str
    judge: Judge | None
    notices: Notices
    controls: Sequence[Control]
    directory: Path
    progress: Path
    fingerprint_inputs: dict[str, Any]

    resumed: Resumed | None = None
    part_of: Path | None = None

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

    @property
    @abstractmethod
    def advice(self) -> str:
        """What a user can do after a fault has stopped the run."""

    @property
    @abstractmethod
    def when_back(self) -> str:
        """What a user can do once a judge that was down is back."""

    @property
    def after_stop(self) -> str:
        """What there is once a run was stopped on purpose."""
        return f"{self.directory} holds what was done"

    @property
    def usage(self) -> ModelUsage | None:
        """What the language models behind the agents took so far, where that is known."""
        return None

    @property
    def agent_parameters(self) -> list[ParameterChange]:
        """Which parameters the model behind the agents has refused so far."""
        return []

    async def close(self) -> None:
        """Let go of what the judge and the agents hold."""
        if self.judge is not None:
            await self.judge.close()

    @property
    def fingerprint(self) -> str:
        """SHA-256 of the canonical JSON of what the run depends on (spec section 4)."""
        canonical = msgspec.json.encode(self.fingerprint_inputs, order="deterministic")
        return hashlib.sha256(canonical).hexdigest()

    def config_file(self) -> ConfigFile:
        """Return ``config.json``: the resolved settings and what the fingerprint was made of."""
        return ConfigFile(
            run_id=self.run_id,
            config_fingerprint=self.fingerprint,
            settings=self.config.replace(run_id=self.run_id),
            fingerprint_inputs=self.fingerprint_inputs,
            memfin_version=__version__,
            judge_endpoint=judge_endpoint(self.judge),
        )


class RunPlan(Plan):
    """A dataset replayed against agents."""

    def __init__(
        self,
        config: RunConfig,
        dataset: Path,
        agents: AgentSource,
        judge: Judge | None,
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

    @property
    def advice(self) -> str:
        """What a user can do after a fault has stopped the run."""
        return f"free the cause, then {self.after_stop}"

    @property
    def when_back(self) -> str:
        """What a user can do once a judge that was down is back."""
        return f"memfin resume {self.directory} finishes the run once it is back"

    @property
    def after_stop(self) -> str:
        """What there is once the run was stopped on purpose."""
        return f"memfin resume {self.part_of or self.directory} goes on"

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
            committed=committed.clone(),
        )
        return [source, *replayers]


def scoring_inputs(judge: Judge | None, config: RunConfig) -> dict[str, Any]:
    """Return what the scores depend on besides the traces."""
    return {
        "lexicon_hashes": lexicon_hashes(),
        "matching": "literal+guarded",
        **judge_inputs(judge, config),
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
    agents = resolve_agent(agent, AgentSettings.of(config))
    config = config.replace(agent=agents.reference)
    notices = Notices()
    resolved_judge = make_judge(judge, config, notices)
    config = config.replace(judge=judge_name(resolved_judge))
    prepare_scoring()
    path = SAMPLE if config.dataset is None else Path(config.dataset)
    check_dataset_file(path)
    try:
        sha256, lines = digest_dataset(path)
    except OSError as problem:
        raise UsageError(f"dataset {path}: {problem.strerror or problem}") from problem
    return RunPlan(config, path, agents, resolved_judge, notices, sha256, lines, observer_factory)


def make_config(settings: Mapping[str, Any]) -> RunConfig:
    """Return the settings as a `RunConfig`; raise `UsageError` for an unknown or invalid one."""
    unknown = sorted(set(settings) - set(RunConfig.__struct_fields__))
    if unknown:
        raise UsageError(f"unknown setting {unknown[0]!r}; known: {', '.join(RunConfig.__struct_fields__)}")
    plain = {
        name: os.fspath(value) if isinstance(value, os.PathLike) else value
        for name, value in settings.items()
    }
    try:
        config = msgspec.convert(plain, RunConfig)
    except msgspec.ValidationError as problem:
        message, _, where = str(problem).partition(" - at `$.")
        raise UsageError(f"setting {where.rstrip('`') or '?'}: {message}") from problem
    if not config.runs_dir:
        raise UsageError("setting runs_dir: the name is empty")
    for name in config.fail_under:
        check_value_name(name)
    for name, value in plain.items():
        if isinstance(value, str) and any("\ud800" <= char <= "\udfff" for char in value):
            raise UsageError(f"setting {name}: holds bytes that are not UTF-8")
    if config.run_id is not None and not RUN_ID.match(config.run_id):
        raise UsageError(
            f"run id {config.run_id!r}: use 1 to 128 of the characters A-Z a-z 0-9 . _ -, "
            "not starting with a dot, and not 'logs'"
        )
    return config


def new_run_id() -> str:
    """Return a fresh run id: ``YYYYMMDD_HHMMSS_`` and six hexadecimal digits, in UTC."""
    return f"{datetime.now(UTC):%Y%m%d_%H%M%S}_{secrets.token_hex(3)}"
