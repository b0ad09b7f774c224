"""Settings of runs, benchmark runs and soaks: defaults, bounds and help texts, and ``config.json``.

The command line, the ``MEMFIN_*`` variables, ``memfin.toml`` and the Python API all take them from here.
"""

import re
from collections.abc import Iterator, Mapping
from functools import partial
from typing import Annotated, Any, Final, Literal, NamedTuple, TypeVar, get_args, get_origin

import msgspec

from memfin.contracts.base import (
    ClientMode,
    Count,
    Finite,
    HistoryMode,
    ProbeFork,
    ProbeMode,
    Record,
    TraceVersion,
)
from memfin.contracts.judgement import JudgeScope
from memfin.contracts.rag import RagBaselineName, RagType
from memfin.errors import UsageError

S = TypeVar("S", bound=Record)

Positive = Annotated[int, msgspec.Meta(ge=1)]
MAX_WORKERS: Final = 10_000
Workers = Annotated[int, msgspec.Meta(ge=1, le=MAX_WORKERS)]
MAX_PROCESSES: Final = 1_000
Processes = Annotated[int, msgspec.Meta(ge=0, le=MAX_PROCESSES)]
Retries = Annotated[int, msgspec.Meta(ge=0, le=100)]
Votes = Annotated[int, msgspec.Meta(ge=1, le=15)]
JudgeTokens = Annotated[int, msgspec.Meta(ge=1, le=10_000_000)]
SyncedTurns = Annotated[int, msgspec.Meta(ge=1, le=1_000_000)]
Epochs = Annotated[int, msgspec.Meta(ge=1, le=999_999)]
MAX_REPEATS: Final = 100
Repeats = Annotated[int, msgspec.Meta(ge=1, le=MAX_REPEATS)]
Port = Annotated[int, msgspec.Meta(ge=0, le=65_535)]
Seconds = Annotated[float, msgspec.Meta(gt=0, le=86_400)]
Patience = Annotated[float, msgspec.Meta(gt=0, le=31_536_000)]
SyncInterval = Annotated[float, msgspec.Meta(ge=0, le=3600)]
Duration = Annotated[float, msgspec.Meta(gt=0, le=1e9)]
RequestRate = Annotated[float, msgspec.Meta(gt=0, le=1e9)]
TokenRate = Annotated[float, msgspec.Meta(gt=0, le=1e12)]
Temperature = Annotated[float, msgspec.Meta(ge=0, le=100)]
Threshold = Annotated[float, msgspec.Meta(ge=0, le=1e12)]


def _setting(group: str, text: str, **extra: object) -> msgspec.Meta:
    """Return the metadata of a setting that has a flag: the heading and the text of its help.

    Of ``extra``, ``default`` is words for a computed one, ``key`` and ``variable`` are other names of flag
    and variable, ``form`` is another notation of the value, ``dialogs`` means not for benchmarks.
    """
    return msgspec.Meta(description=text, extra={"group": group, **extra})


_system = partial(_setting, "System under test")
_evaluation = partial(_setting, "Evaluation")
_judge = partial(_setting, "Judge")
_scoring = partial(_setting, "Scoring", dialogs=True)
_gate = partial(_setting, "Gates")
_output = partial(_setting, "Output")
_soak = partial(_setting, "Soak")
_engine = partial(_setting, "Engine")


class RunConfig(Record):
    """The settings of a run, resolved.

    Secrets have no place here: only the names of the environment variables that hold them.
    """

    dataset: str | None = None
    agent: Annotated[
        str,
        _system("Agent: builtin, oracle, echo, http(s)://..., openai:MODEL, pkg.module:name or a plugin."),
    ] = "builtin"
    judge: Annotated[
        str, _judge("Judge of the replies: heuristic, none, openai:MODEL, pkg.module:name or a plugin.")
    ] = "heuristic"
    runs_dir: Annotated[str, _output("Parent of the run directories.")] = "runs"
    run_id: Annotated[
        str | None, _output("Name of the run directory.", default="date, time and 6 hex digits")
    ] = None
    workers_dialog: Annotated[Workers, _evaluation("Dialogues replayed at the same time.")] = 4
    workers_judge: Annotated[Workers, _judge("Judgements made at the same time.")] = 2
    workers_score: Annotated[
        Processes | None,
        _scoring("Processes that score replies; 0 scores them in a thread.", default="cores minus one"),
    ] = None
    score_timeout: Annotated[Seconds, _scoring("Maximum seconds for scoring one reply.")] = 10.0
    score_chars: Annotated[Positive, _scoring("Score only the first N characters of a reply.")] = 100_000
    tag_map: Annotated[
        str | None,
        _scoring(
            "Map risk tags of the dataset: TOML or JSON of name = canonical tag.",
            metavar="FILE",
            default="built-in names only",
        ),
    ] = None
    metric: Annotated[
        list[str],
        _scoring("Custom metric. Repeatable.", metavar="PKG.MODULE:NAME", form="list"),
    ] = []
    detectors: Annotated[
        list[str],
        _scoring(
            "Detector of your own, pkg.module:Name; its findings are added. Repeatable.",
            key="detector",
            metavar="REF",
            form="list",
        ),
    ] = []
    forbidden_patterns: Annotated[
        dict[str, list[str]],
        _scoring("Regular expressions by forbidden category.", form="table"),
    ] = {}
    risk_tag_mapper: Annotated[
        str | None, _scoring("Function that returns the canonical tag of a name.", form="reference")
    ] = None
    grade_probes: Annotated[
        bool,
        _scoring("Have the judge grade the answers to probes, by a lenient and by a strict prompt."),
    ] = False
    history: Annotated[
        HistoryMode,
        _evaluation(
            "Replies that the agent remembers: its own (free), or the reference replies (forced).",
            dialogs=True,
        ),
    ] = "free"
    client: Annotated[
        ClientMode,
        _evaluation(
            "Client's words: the turns of the dataset, or what a simulated client says by its sheet.",
            dialogs=True,
        ),
    ] = "scripted"
    client_model: Annotated[
        str | None,
        _evaluation(
            "Model that words what simulated clients say: openai:MODEL.",
            dialogs=True,
            metavar="openai:MODEL",
            default="templates, offline",
        ),
    ] = None
    probes: Annotated[
        ProbeMode,
        _evaluation("Questions to copies of the conversation: the dataset's, or none.", dialogs=True),
    ] = "dataset"
    probe_fork: Annotated[
        ProbeFork,
        _evaluation(
            "How a copy for a probe is made: from the agent's snapshot, by telling the client's words to a "
            "new agent (replay), or as another session of the same user; auto takes the first that works.",
            dialogs=True,
        ),
    ] = "auto"
    limit: Annotated[Positive | None, _evaluation("Evaluate only the first N dialogues.")] = None
    perturb: Annotated[
        str | None,
        _evaluation(
            "Also evaluate variants of each dialogue, perturbed by these families, and compare; or all.",
            metavar="FAMILY[,...]",
            dialogs=True,
        ),
    ] = None
    shard: Annotated[
        str | None,
        _evaluation(
            "Evaluate only shard K of N, K from 0 to N - 1; memfin merge makes one run of all N.",
            metavar="K/N",
            dialogs=True,
        ),
    ] = None
    turn_timeout: Annotated[
        Seconds, _evaluation("Seconds per turn for an agent, retries included, and for a judge.")
    ] = 120.0
    turn_retries: Annotated[Retries, _evaluation("Retries after transport errors.")] = 2
    agent_rpm: Annotated[
        RequestRate | None,
        _system("Maximum requests per minute to the agent, in every window; every attempt counts."),
    ] = None
    rate_lease_address: Annotated[
        str | None,
        _evaluation(
            "Share the limits per minute with other runs through this coordinator; its token is in "
            "MEMFIN_RATE_TOKEN.",
            metavar="HOST:PORT",
        ),
    ] = None
    judge_rpm: Annotated[
        RequestRate | None,
        _judge("Maximum judge requests per minute, in every window; not for the offline judge."),
    ] = None
    judge_tpm: Annotated[
        TokenRate | None, _judge("Maximum tokens per minute of an openai judge, in every window.")
    ] = None
    judge_scope: Annotated[
        JudgeScope,
        _judge(
            "Results that verdicts decide: M5 alone, or contradictions, risk tags and compliance too, of all "
            "turns or of those that rules and classifier leave uncertain.",
            dialogs=True,
        ),
    ] = "m5"
    judge_votes: Annotated[
        Votes, _judge("Judgements per turn by an openai judge, in varied order; the median counts.")
    ] = 1
    judge_patience: Annotated[
        Patience, _judge("Seconds the endpoint of an openai judge may be down before the command stops.")
    ] = 600.0
    judge_max_tokens: Annotated[
        JudgeTokens, _judge("Maximum tokens per answer of an openai judge; reasoning models need more.")
    ] = 2048
    judge_cache: Annotated[
        Literal["off", "read", "write"],
        _judge("Take verdicts from the cache (read), and add new ones to it (write)."),
    ] = "write"
    judge_cache_dir: Annotated[
        str | None, _judge("Directory of that cache.", default=".judge_cache beside the runs")
    ] = None
    agent_system: Annotated[
        str | None,
        _system(
            "System prompt of an openai:MODEL agent; none sends none.",
            metavar="FILE",
            default="one that ships with MemFin",
        ),
    ] = None
    agent_history: Annotated[
        Literal["full", "none"],
        _system("Earlier turns sent to an openai:MODEL agent; none tests the server's memory.", dialogs=True),
    ] = "full"
    agent_user: Annotated[
        str | None,
        _system("Field user of requests to an openai:MODEL agent, such as {user_id}.", dialogs=True),
    ] = None
    agent_headers: Annotated[
        list[str],
        _system(
            "Header of requests to an openai:MODEL agent, such as X-Session-Id={session_id}. Repeatable.",
            metavar="NAME=TEMPLATE",
            form="list",
            dialogs=True,
        ),
    ] = []
    agent_metadata: Annotated[
        str | None,
        _system("Their field metadata: a JSON object of templates.", metavar="JSON", dialogs=True),
    ] = None
    agent_memory: Annotated[
        str,
        _system(
            "Memory put before an openai:MODEL agent: none, builtin or pkg.module:factory.", dialogs=True
        ),
    ] = "none"
    agent_temperature: Annotated[Temperature, _system("Temperature of an openai:MODEL agent.")] = 0.0
    agent_max_tokens: Annotated[
        Positive | None, _system("Maximum tokens per reply of an openai:MODEL agent.")
    ] = None
    agent_context_tokens: Annotated[
        Positive,
        _system("Maximum estimated tokens put before an openai:MODEL agent; older turns are left out."),
    ] = 32_000
    seed: Annotated[int, _evaluation("Sent to the models of agents and judges; part of the fingerprint.")] = 0
    fsync_interval: Annotated[
        SyncInterval, _output("Seconds that finished dialogues are collected before a sync to disk.")
    ] = 0.1
    fsync_turns: Annotated[SyncedTurns, _output("Maximum turns collected before a sync to disk.")] = 256
    trace_version: Annotated[
        TraceVersion, _output("Contract of the traces; v1.1 adds the extension fields.", dialogs=True)
    ] = "v1"
    fail_under: Annotated[
        dict[str, Finite],
        _gate(
            "Exit 1 when the value is below X, such as m3_risk_coverage.risk_coverage=0.8. Repeatable.",
            metavar="METRIC.VALUE=X",
            form="fail_under",
            dialogs=True,
        ),
    ] = {}
    fail_over: Annotated[
        dict[str, Finite],
        _gate(
            "Exit 1 when the value is above X, such as m4_compliance.severe_violation_rate=0.01. Repeatable.",
            metavar="METRIC.VALUE=X",
            form="fail_over",
            dialogs=True,
        ),
    ] = {}
    gate: Annotated[
        list[str],
        _gate(
            "Exit 1 unless the value is at most (<=) or at least (>=) X; with X@95 unless the bound of its "
            "95 % interval is. Repeatable.",
            metavar="'METRIC.VALUE<=X'",
            form="gate",
        ),
    ] = []
    fail_on_error: Annotated[
        Threshold | None,
        _gate("Exit 1 when N turns or more failed; below 1 a share of the turns, 0 for any.", metavar="N"),
    ] = None
    fail_on_judge_error: Annotated[
        Threshold | None,
        _gate(
            "Exit 1 when N judgements or more failed; below 1 a share of the judged turns, 0 for any.",
            metavar="N",
        ),
    ] = None
    notes: Annotated[str | None, _output("A remark for the run manifest.")] = None


class BenchConfig(RunConfig):
    """The settings of a benchmark run: those of `RunConfig` as far as they apply, and these.

    ``dataset`` is the benchmark and ``agent`` the system under test. ``fail_under`` knows
    ``overall_percentage``, in percent. ``fail_on_regression`` is the directory of an earlier run.
    """

    agent: Annotated[
        str,
        _system(
            "System: builtin, bm25s, oracle, http(s)://..., openai:MODEL or pkg.module:factory.", key="rag"
        ),
    ] = "builtin"
    judge: Annotated[
        str,
        _judge(
            "Judge of the answers, beside the formulas: none, openai:MODEL, pkg.module:name or a plugin.",
            variable="MEMFIN_BENCH_JUDGE",
        ),
    ] = "none"
    judge_votes: Annotated[
        Votes,
        _judge(
            "Judgements per answer by an openai judge, in varied order; the median counts.",
            variable="MEMFIN_BENCH_JUDGE_VOTES",
        ),
    ] = 1
    workers_dialog: Annotated[Workers, _evaluation("Questions asked at the same time.")] = 4
    limit: Annotated[Positive | None, _evaluation("Ask only the first N questions.")] = None
    turn_timeout: Annotated[Seconds, _evaluation("Seconds per question, retries included.")] = 120.0
    fsync_turns: Annotated[SyncedTurns, _output("Maximum answers collected before a sync to disk.")] = 256
    fail_under: Annotated[
        dict[str, Finite],
        _gate(
            "Exit 1 when the score is below PERCENT of the maximum.",
            metavar="PERCENT",
            form="percent",
            variable="MEMFIN_BENCH_FAIL_UNDER",
        ),
    ] = {}
    fail_on_error: Annotated[
        Threshold | None,
        _gate(
            "Exit 1 when the system failed on N questions or more; below 1 a share, 0 for any.", metavar="N"
        ),
    ] = None
    document: Annotated[
        str | None,
        _evaluation(
            "The document: Markdown, text, PDF or a directory of pages.",
            metavar="PATH",
            default="the one that the benchmark names",
        ),
    ] = None
    type: Annotated[RagType | None, _evaluation("Ask only the questions of one type.")] = None
    baselines: Annotated[
        list[RagBaselineName],
        _evaluation(
            "Baseline that answers the same questions for comparison. Repeatable.",
            key="baseline",
            form="list",
        ),
    ] = []
    fail_on_regression: Annotated[
        str | None,
        _gate(
            "Exit 1 when a fact question that RUN, an earlier run directory, has right is wrong now.",
            metavar="RUN",
        ),
    ] = None


class RepeatSettings(Record):
    """Number of repeats of a run or a benchmark; more than one is a soak that varies the seed."""

    repeats: Annotated[
        Repeats,
        _evaluation(
            "Run K times, with the seeds SEED, SEED + 1, ..., and estimate pass^k: that k of k repeats pass.",
            metavar="K",
        ),
    ] = 1


class EngineSettings(Record):
    """Settings of the engine that divides a run among workers; no part of the run's own settings."""

    engine: Annotated[
        Literal["local", "processes", "ray"],
        _engine("What works on the run: this process (local), or a worker per shard of the dataset."),
    ] = "local"
    engine_workers: Annotated[
        Workers | None,
        _engine("Workers of the engine, and shards of the run.", metavar="N", default="number of cores"),
    ] = None
    rate_lease: Annotated[
        bool,
        _engine("Lease shares of the request rates to workers as they need them, not the same to each."),
    ] = False
    keep_shards: Annotated[bool, _engine("Keep the directories of the shards after their merge.")] = False
    ray_address: Annotated[
        str | None,
        _engine(
            "Ray cluster that this machine has joined.",
            metavar="HOST:PORT",
            default="RAY_ADDRESS, the one running here, or one of its own",
        ),
    ] = None
    ray_options: Annotated[
        str | None,
        _engine(
            "Resources and placement of each shard's task, such as '{\"num_cpus\": 2}'.", metavar="JSON|FILE"
        ),
    ] = None
    ray_runtime_env: Annotated[
        str | None,
        _engine("Ray runtime environment of the workers: JSON, TOML or YAML.", metavar="FILE"),
    ] = None
    ray_return: Annotated[
        Literal["path", "archive"],
        _engine(
            "How shards come back: --runs-dir is shared by all nodes (path), or as archives through Ray."
        ),
    ] = "path"


class UploadSettings(Record):
    """Address of fsspec to which the finished run is copied."""

    upload: Annotated[
        str | None,
        _output(
            "Copy the finished run to URL/RUN_ID, an address of fsspec such as s3://bucket/runs.",
            metavar="URL",
        ),
    ] = None


class SoakLimits(Record):
    """Limits of a soak: when it ends and what it keeps.

    No epoch begins after ``duration_seconds`` or beyond ``epochs``; at least one of both is set.
    ``keep_epochs`` is how many of the last epochs keep their directories, None for all. ``metrics_port``
    serves Prometheus metrics on loopback; 0 takes a free port. With ``vary_seed``, as in repeats of a run,
    epoch n has the seed of the settings plus n - 1.
    """

    duration_seconds: Annotated[
        Duration | None,
        _soak(
            "Begin no epoch after this time: 8h, 30m, 90s, 1d12h.",
            key="duration",
            metavar="TIME",
            form="duration",
        ),
    ] = None
    epochs: Annotated[Epochs | None, _soak("End after N epochs.", metavar="N")] = None
    keep_epochs: Annotated[
        Count | None,
        _soak(
            "Keep the directories of the last K epochs, and only the soak.jsonl lines of earlier ones.",
            metavar="K",
            default="all",
        ),
    ] = None
    metrics_port: Annotated[
        Port | None,
        _soak(
            "Serve Prometheus metrics on 127.0.0.1:PORT; 0 takes a free port and prints it.", metavar="PORT"
        ),
    ] = None
    vary_seed: bool = False


class ConfigFile(Record):
    """``config.json``: the resolved settings of a run and the fingerprint of what they name.

    ``judge_endpoint`` names the environment variables that said where the judge's model is, and
    which of them holds its key. ``agent_file_sha256`` is the hash of the source file of an imported agent.
    """

    run_id: str
    config_fingerprint: str
    settings: RunConfig
    fingerprint_inputs: dict[str, Any]
    memfin_version: str
    judge_endpoint: dict[str, str | None] | None = None
    agent_file_sha256: str | msgspec.UnsetType = msgspec.UNSET


class EngineFile(ConfigFile):
    """``engine.json``: the settings of a run in shards and the engine that works on it."""

    engine: EngineSettings = EngineSettings()
    version: Literal[1] = 1


class BenchConfigFile(ConfigFile):
    """``config.json`` of a benchmark run."""

    settings: BenchConfig


class Setting(NamedTuple):
    """A field of a settings struct that has a flag; ``key`` names it on the command line and in the file."""

    name: str
    key: str
    type: Any
    default: Any
    help: str
    extra: dict[str, Any]

    @property
    def choices(self) -> tuple[str, ...]:
        """Return the values of a setting that is one of a few, or a list of them; nothing for any other."""
        kind = get_args(self.type)[0] if get_origin(self.type) is list else self.type
        return get_args(kind) if get_origin(kind) is Literal else ()


def settings_of(kind: type[Record]) -> Iterator[Setting]:
    """Yield the fields of a settings struct that have a flag."""
    for field in msgspec.structs.fields(kind):
        metas = getattr(field.type, "__metadata__", ())
        meta = next((each for each in metas if each.description is not None), None)
        if meta is None:
            continue
        default = field.default if field.default is not msgspec.NODEFAULT else field.default_factory()
        extra = meta.extra
        key = extra.get("key", field.name)
        yield Setting(field.name, key, _plain_type(field.type), default, meta.description, extra)


def _plain_type(hint: Any) -> Any:
    """Return a field's type without its metadata and without None."""
    while hasattr(hint, "__metadata__"):
        hint = hint.__origin__
    if type(None) in get_args(hint):
        return _plain_type(next(each for each in get_args(hint) if each is not type(None)))
    return hint


def check_settings(kind: type[S], values: Mapping[str, Any]) -> S:
    """Return the values as a settings struct.

    Raises:
        UsageError: a value has another type than its setting or is out of bounds: ``name: must be ...``.
    """
    try:
        return msgspec.convert(values, kind)
    except msgspec.ValidationError as problem:
        message, _, where = str(problem).partition(" - at `$.")
        name = re.split(r"[.\[`]", where)[0]
        choices = next((each.choices for each in settings_of(kind) if each.name == name), ())
        raise UsageError(f"{name or '?'}: {_in_plain_words(message, choices)}") from problem


_BOUNDS: Final = {">=": "at least", ">": "more than", "<=": "at most", "<": "less than"}
_NAMES: Final = {
    "int": "an integer",
    "float": "a number",
    "str": "a string",
    "bool": "true or false",
    "array": "a list",
    "object": "a table",
}


def _in_plain_words(message: str, choices: tuple[str, ...]) -> str:
    """Return the validator's message as a user of the command line would put it."""
    if bound := re.fullmatch(r"Expected `\w+` ([<>]=?) (\S+)", message):
        limit = float(bound[2])
        if abs(limit) > 1e300:  # noqa: PLR2004 - the bounds of `Finite`
            return "must be a finite number"
        return f"must be {_BOUNDS[bound[1]]} {limit:.15g}"
    if types := re.fullmatch(r"Expected `(\w+)(?: \| null)?`, got `(\w+)`", message):
        wanted, given = (_NAMES.get(name, f"a {name}") for name in types.groups())
        return f"must be {wanted}, not {given}"
    if choices and (enum := re.fullmatch(r"Invalid enum value (.+)", message)):
        return f"must be one of {', '.join(choices)}, not {enum[1]}"
    return message
