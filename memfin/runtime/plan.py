"""From settings to a plan: everything a run needs, resolved and checked before anything starts."""

import hashlib
import os
import re
import secrets
from collections.abc import Callable, Mapping
from datetime import UTC, datetime
from pathlib import Path
from typing import Any, Final

import msgspec

from memfin import __version__
from memfin.agents.registry import AgentSource, resolve_agent
from memfin.agents.replay import ReplayOptions
from memfin.contracts import ConfigFile, RunConfig
from memfin.dataset import SAMPLE, check_dataset_file, digest_dataset
from memfin.errors import UsageError
from memfin.judges import Judge, resolve_judge
from memfin.scoring.lexicon import lexicon_hashes

RUN_ID: Final = re.compile(r"(?!\.)(?!logs\Z)[A-Za-z0-9._-]{1,128}\Z")

AgentLike = str | Callable[..., Any]
JudgeLike = str | Callable[..., Any] | None


class RunPlan:
    """A run, ready to start: resolved settings, dataset, agents, judge, fingerprint.

    ``dialogs`` is how many dialogues there are at most: the lines of the dataset.
    """

    def __init__(
        self,
        config: RunConfig,
        dataset: Path,
        agents: AgentSource,
        judge: Judge | None,
        sha256: str,
        lines: int,
    ) -> None:
        self.config = config
        self.dialogs = lines if config.limit is None else min(lines, config.limit)
        self.run_id = config.run_id or new_run_id()
        self.dataset = dataset
        self.agents = agents
        self.judge = judge
        self.dataset_path = config.dataset or "builtin:sample.jsonl"
        self.runs_dir = Path(config.runs_dir)
        self.replay_options = ReplayOptions(
            run_id=self.run_id,
            history=config.history,
            turn_timeout=config.turn_timeout,
            turn_retries=config.turn_retries,
            trace_version=config.trace_version,
            judge=judge.name if judge is not None else "none",
        )
        self.fingerprint_inputs: dict[str, Any] = {
            "dataset_sha256": sha256,
            "limit": config.limit,
            "agent": agents.reference,
            "agent_version": agents.version,
            "model": agents.model_name,
            "history": config.history,
            "prompt_hashes": {},
            "lexicon_hashes": lexicon_hashes(),
            "matching": "literal+guarded",
            "judge": {"reference": judge.name if judge is not None else "none"},
            "seed": config.seed,
        }
        self.fingerprint = fingerprint(self.fingerprint_inputs)

    def config_file(self) -> ConfigFile:
        """Return ``config.json``: the resolved settings and what the fingerprint was made of."""
        return ConfigFile(
            run_id=self.run_id,
            config_fingerprint=self.fingerprint,
            settings=self.config.replace(run_id=self.run_id),
            fingerprint_inputs=self.fingerprint_inputs,
            memfin_version=__version__,
        )


def make_plan(
    dataset: str | os.PathLike[str] | None = None,
    *,
    agent: AgentLike = "builtin",
    judge: JudgeLike = "heuristic",
    **settings: Any,
) -> RunPlan:
    """Resolve and check everything a run needs; reads the dataset once for its hash.

    ``settings`` are the other fields of `RunConfig`.

    Raises:
        UsageError: a setting, the dataset, the agent or the judge is unusable; one line says why.
    """
    agents = resolve_agent(agent)
    resolved_judge = resolve_judge(judge)
    config = make_config(
        {
            **settings,
            "dataset": None if dataset is None else os.fspath(dataset),
            "agent": agents.reference,
            "judge": resolved_judge.name if resolved_judge is not None else "none",
        }
    )
    path = SAMPLE if config.dataset is None else Path(config.dataset)
    check_dataset_file(path)
    try:
        sha256, lines = digest_dataset(path)
    except OSError as problem:
        raise UsageError(f"dataset {path}: {problem.strerror or problem}") from problem
    return RunPlan(config, path, agents, resolved_judge, sha256, lines)


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
    if config.run_id is not None and not RUN_ID.match(config.run_id):
        raise UsageError(
            f"run id {config.run_id!r}: use 1 to 128 of the characters A-Z a-z 0-9 . _ -, "
            "not starting with a dot, and not 'logs'"
        )
    return config


def new_run_id() -> str:
    """Return a fresh run id: ``YYYYMMDD_HHMMSS_`` and six hexadecimal digits, in UTC."""
    return f"{datetime.now(UTC):%Y%m%d_%H%M%S}_{secrets.token_hex(3)}"


def fingerprint(inputs: Mapping[str, Any]) -> str:
    """Return the SHA-256 of the canonical JSON of what a run depends on (spec section 4)."""
    return hashlib.sha256(msgspec.json.encode(dict(inputs), order="deterministic")).hexdigest()
