"""Settings: checked configurations, and the names of runs."""

import os
import secrets
from collections.abc import Callable, Mapping, Sequence
from datetime import UTC, datetime
from pathlib import Path
from typing import Any, Literal, TypedDict, TypeVar

from memfin.actors.measuring import directions_of, resolve_metrics
from memfin.contracts import (
    ClientMode,
    HistoryMode,
    JudgeScope,
    ProbeFork,
    ProbeMode,
    RunConfig,
    TraceVersion,
)
from memfin.contracts.run import RUN_ID
from memfin.contracts.settings import check_settings
from memfin.errors import UsageError
from memfin.metrics.custom import CustomMetric
from memfin.runtime.gates import Directions, check_limit, gates_of, value_directions
from memfin.scoring.user_detectors import TAG_MAPPER, Detector, importable_reference
from memfin.shards import SHARDS, Shard, is_reserved

C = TypeVar("C", bound=RunConfig)
PathText = str | os.PathLike[str]


class CommonSettings(TypedDict, total=False):
    """Fields of `RunConfig` that every function of evaluations takes as keyword arguments."""

    runs_dir: PathText
    workers_score: int | None
    score_timeout: float
    score_chars: int
    tag_map: PathText | None
    history: HistoryMode
    client: ClientMode
    client_model: str | None
    probes: ProbeMode
    probe_fork: ProbeFork
    grade_probes: bool
    perturb: str | None
    limit: int | None
    shard: str | None
    turn_timeout: float
    turn_retries: int
    agent_rpm: float | None
    rate_lease_address: str | None
    judge_rpm: float | None
    judge_tpm: float | None
    judge_scope: JudgeScope
    judge_votes: int
    judge_patience: float
    judge_max_tokens: int
    judge_cache: Literal["off", "read", "write"]
    judge_cache_dir: PathText | None
    agent_system: PathText | None
    agent_history: Literal["full", "none"]
    agent_user: str | None
    agent_headers: list[str]
    agent_metadata: str | None
    agent_memory: str
    agent_temperature: float
    agent_max_tokens: int | None
    agent_context_tokens: int
    seed: int
    fsync_interval: float
    fsync_turns: int
    trace_version: TraceVersion
    fail_under: Mapping[str, float]
    fail_over: Mapping[str, float]
    gate: list[str]
    metric: list[str]
    detectors: Sequence[str | type[Detector]]
    forbidden_patterns: Mapping[str, list[str]]
    risk_tag_mapper: str | Callable[[str], str | None] | None
    fail_on_error: float | None
    fail_on_judge_error: float | None
    notes: str | None


class Settings(CommonSettings, total=False):
    """Keyword arguments of `evaluate` and `Evaluation`: the fields of `RunConfig` beside their parameters."""

    run_id: str | None
    workers_dialog: int
    workers_judge: int


def make_config(settings: Mapping[str, Any], metrics: Mapping[str, CustomMetric] | None = None) -> RunConfig:
    """Return the settings as a `RunConfig`; raise `UsageError` for an unknown or invalid one.

    ``metrics`` are the custom metrics where they are resolved already.
    """
    custom = resolve_metrics(settings.get("metric", ())) if metrics is None else metrics
    directions = value_directions(directions_of(custom))
    config = checked_config(settings, RunConfig, directions)
    for gate in gates_of(config, directions):
        if (metric := custom.get(gate.name.partition(".")[0])) is not None:
            check_limit(gate, metric.low, metric.high)
    return config


def checked_config(settings: Mapping[str, Any], kind: type[C], directions: Directions) -> C:
    """Return the settings of a suite, checked; ``directions`` are the values that its gates may name.

    Raises:
        UsageError: a setting is unknown or invalid.
    """
    known = kind.__struct_fields__
    unknown = sorted(set(settings) - set(known))
    if unknown:
        raise UsageError(f"unknown setting {unknown[0]!r}; known: {', '.join(known)}")
    plain = {
        name: os.fspath(value) if isinstance(value, os.PathLike) else value
        for name, value in settings.items()
    }
    if isinstance(detectors := plain.get("detectors"), list | tuple):
        plain["detectors"] = [importable_reference("detector", each) for each in detectors]
    if callable(mapper := plain.get(TAG_MAPPER)):
        plain[TAG_MAPPER] = importable_reference(TAG_MAPPER, mapper)
    try:
        config = check_settings(kind, plain)
    except UsageError as problem:
        raise UsageError(f"setting {problem}") from problem
    if not config.runs_dir:
        raise UsageError("setting runs_dir: the name is empty")
    gates_of(config, directions)
    for name, value in plain.items():
        if isinstance(value, str) and any("\ud800" <= char <= "\udfff" for char in value):
            raise UsageError(f"setting {name}: holds bytes that are not UTF-8")
    if config.run_id is not None and not RUN_ID.match(config.run_id):
        raise UsageError(
            f"run id {config.run_id!r}: use 1 to 128 of the characters A-Z a-z 0-9 . _ -, "
            "not starting with a dot or a hyphen, and not 'logs'"
        )
    if config.run_id is not None and is_reserved(config.run_id):
        raise UsageError(
            f"run id {config.run_id!r}: must not end like the name of shards, in .shards or .K-of-N"
        )
    return config


def new_run_id() -> str:
    """Return a fresh run id: ``YYYYMMDD_HHMMSS_`` and six hexadecimal digits, in UTC."""
    return f"{datetime.now(UTC):%Y%m%d_%H%M%S}_{secrets.token_hex(3)}"


def run_path(config: RunConfig) -> Path:
    """Return the directory of a run that has a name; the shards of one have a directory together."""
    runs = Path(config.runs_dir)
    if config.shard is None:
        return runs / str(config.run_id)
    return runs / f"{config.run_id}{SHARDS}" / Shard.parse(config.shard).name
