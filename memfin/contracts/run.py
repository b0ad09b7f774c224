"""A run's own artifacts: manifest, summary, statistics, resolved configuration."""

from typing import Annotated, Any, Literal

import msgspec

from memfin.contracts.base import Count, Finite, HistoryMode, Record, TraceVersion
from memfin.contracts.judgement import JudgeScope, JudgeStats, ParameterChange
from memfin.contracts.trace import ModelUsage

MetricName = Literal[
    "m1_context_continuity",
    "m2_profile_accuracy",
    "m3_risk_coverage",
    "m4_compliance",
    "m5_explainability",
]


Suite = Literal["dialog", "rag"]
"""Which kind of evaluation a run is."""


class Counters(Record):
    """How many dialogues and turn pairs the dataset held; a turn pair counts when its dialogue is valid."""

    total_dialogs: Count = 0
    valid_dialogs: Count = 0
    skipped_dialogs: Count = 0
    failed_dialogs: Count = 0
    total_turn_pairs: Count = 0


class RunManifest(Record):
    """``run_manifest.json``: which run this is (trace schema section 4.1).

    ``suite`` is left out where dialogues were replayed. In a run of the RAG suite the dataset is the
    benchmark, and a question counts as a dialogue of one turn.
    """

    trace_version: str
    run_id: str
    dataset_path: str
    started_at: str
    model_name: str
    workers_dialog: int
    workers_judge: int
    counters: Counters
    ended_at: str | None = None
    notes: str | None = None
    suite: Suite | msgspec.UnsetType = msgspec.UNSET


class MetricResult(Record):
    """One metric's values; every value is finite and a zero denominator gives 0.0.

    ``ci95`` maps a headline value to the bounds of its 95 % confidence interval, clustered by
    dialogue; a value that too few dialogues carry has no interval.
    """

    metric_name: str
    micro: dict[str, Finite]
    macro: dict[str, Finite]
    counts: dict[str, int]
    by_dialog: dict[str, dict[str, Finite]]
    ci95: dict[str, tuple[Finite, Finite]] = {}


class EvalSummary(Record):
    """``metrics_summary.json``: the same bytes for the same inputs (spec section 4)."""

    run_id: str
    trace_version: str
    dataset_path: str
    metrics: dict[str, MetricResult]
    counters: Counters
    config_fingerprint: str | None = None


class LatencyStats(Record):
    """Latency of the turns that were answered, in milliseconds."""

    count: Count = 0
    mean: Finite = 0.0
    p50: Finite = 0.0
    p90: Finite = 0.0
    p99: Finite = 0.0
    max: Finite = 0.0


class RunStats(Record):
    """``run_stats.json``: everything about a run that depends on time; ``judge`` speaks of an LLM judge.

    ``judged_turns`` were put to the judge and ``judge_failures`` of them got no verdict, for the reasons in
    ``judge_failure_reasons``, the most frequent first; ``judge_declined`` counts those that were
    ``too_long`` for it and those it ``refused``.
    ``usage`` is what the language models behind the agents took: in this process all of it, in earlier ones
    that of the replies that were committed. ``agent_parameters`` and ``wall_seconds`` are of this process.
    """

    run_id: str
    wall_seconds: Finite
    turn_latency_ms: LatencyStats
    turns_by_status: dict[str, int]
    dialogs_by_status: dict[str, int]
    skips_by_reason: dict[str, int]
    judged_turns: Count = 0
    judge_failures: Count = 0
    judge_declined: dict[str, int] = {}
    judge_failure_reasons: dict[str, int] = {}
    turn_retries: Count = 0
    abandoned_calls: Count = 0
    judge: JudgeStats | None = None
    actors: dict[str, dict[str, Any]] = {}
    usage: ModelUsage | None = None
    agent_parameters: list[ParameterChange] = []


Positive = Annotated[int, msgspec.Meta(ge=1)]


class RunConfig(Record):
    """The settings of a run, resolved; names and defaults are those of the command line.

    Secrets have no place here: only the names of the environment variables that hold them.
    """

    dataset: str | None = None
    agent: str = "builtin"
    judge: str = "heuristic"
    runs_dir: str = "runs"
    run_id: str | None = None
    workers_dialog: Annotated[int, msgspec.Meta(ge=1, le=10_000)] = 4
    workers_judge: Annotated[int, msgspec.Meta(ge=1, le=10_000)] = 2
    workers_score: Annotated[int, msgspec.Meta(ge=0, le=1_000)] | None = None
    score_timeout: Annotated[float, msgspec.Meta(gt=0, le=86_400)] = 10.0
    score_chars: Positive = 100_000
    history: HistoryMode = "free"
    limit: Positive | None = None
    turn_timeout: Annotated[float, msgspec.Meta(gt=0, le=86_400)] = 120.0
    turn_retries: Annotated[int, msgspec.Meta(ge=0, le=100)] = 2
    judge_rpm: Annotated[float, msgspec.Meta(gt=0, le=1e9)] | None = None
    judge_tpm: Annotated[float, msgspec.Meta(gt=0, le=1e12)] | None = None
    judge_scope: JudgeScope = "m5"
    judge_votes: Annotated[int, msgspec.Meta(ge=1, le=15)] = 1
    judge_patience: Annotated[float, msgspec.Meta(gt=0, le=31_536_000)] = 600.0
    judge_max_tokens: Annotated[int, msgspec.Meta(ge=1, le=10_000_000)] = 2048
    judge_cache: Literal["off", "read", "write"] = "write"
    judge_cache_dir: str | None = None
    agent_system: str | None = None
    agent_memory: str = "none"
    agent_temperature: Annotated[float, msgspec.Meta(ge=0, le=100)] = 0.0
    agent_max_tokens: Positive | None = None
    agent_context_tokens: Positive = 32_000
    seed: int = 0
    fsync_interval: Annotated[float, msgspec.Meta(ge=0, le=3600)] = 0.1
    fsync_turns: Annotated[int, msgspec.Meta(ge=1, le=1_000_000)] = 256
    trace_version: TraceVersion = "v1"
    fail_under: dict[str, Finite] = {}
    fail_on_error: Annotated[float, msgspec.Meta(ge=0, le=1e12)] | None = None
    fail_on_judge_error: Annotated[float, msgspec.Meta(ge=0, le=1e12)] | None = None
    notes: str | None = None


class ConfigFile(Record):
    """``config.json``: the resolved settings of a run and the fingerprint of what they name.

    ``judge_endpoint`` names the environment variables that said where the judge's model is, and
    which of them holds its key.
    """

    run_id: str
    config_fingerprint: str
    settings: RunConfig
    fingerprint_inputs: dict[str, Any]
    memfin_version: str
    judge_endpoint: dict[str, str | None] | None = None
