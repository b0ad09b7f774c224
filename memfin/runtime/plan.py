"""The plan of a dialogue run: everything it needs, resolved and checked before anything starts."""

import os
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from itertools import islice
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

from memfin.actors.base import Actor
from memfin.actors.dialog_scoring import DialogJudging, DialogTotals, Scorer, scoring_workers
from memfin.actors.dialogs import DialogSource, Replayer
from memfin.actors.measuring import MetricLike, directions_of, metric_reference, resolve_metrics
from memfin.actors.messages import WarningBoard
from memfin.agents.observer import TurnObserver
from memfin.agents.protocol import AgentSettings
from memfin.agents.registry import AgentLike, check_observer_factory, resolve_agent
from memfin.agents.replay import ReplayOptions
from memfin.clients.registry import client_inputs, resolve_client_model
from memfin.clients.wording import SimulatedClient
from memfin.contracts import BenchConfig, Dialog, EvalSummary, RunConfig, RunStats
from memfin.contracts.reading import iter_lines
from memfin.dataset import (
    SAMPLE,
    SHIPPED,
    DatasetLike,
    SpooledDataset,
    check_dataset_file,
    digest_dataset,
    named_dataset,
    read_entry,
)
from memfin.errors import UsageError
from memfin.journal import DATASET, JUDGE_CONTROLS
from memfin.judges import DialogJudge
from memfin.judges.registry import JudgeLike
from memfin.metrics.aggregate import summary_pieces
from memfin.metrics.custom import CustomMetric
from memfin.pressure.expand import expanded, is_expanded, parse_families
from memfin.runtime.gates import failed_gates, gates_of, value_directions
from memfin.runtime.judging import judge_controls, judge_inputs, judge_name, make_judge
from memfin.runtime.outputs import pretty_json
from memfin.runtime.pipeline import AnyWires, Plan, Suite
from memfin.runtime.rates import start_limiter
from memfin.runtime.settings import C, make_config, new_run_id, run_path
from memfin.scoring.lexicon import lexicon_hashes
from memfin.scoring.risk import read_tag_map
from memfin.scoring.rows import prepare_scoring
from memfin.scoring.user_detectors import TAG_MAPPER, compile_patterns, load_detectors, load_tag_mapper
from memfin.sessions import shard_lines
from memfin.shards import Shard
from memfin.version import __version__

if TYPE_CHECKING:
    from memfin.clients.model import ClientModel

MAX_TASKS: Final = 64
"""Dialogues that wait for a replayer at most, however many replayers there are."""

ROOM: Final = 4
"""Dialogues that wait between two stages at most, besides those being worked on."""

PRESSURE: Final = "pressure.json"
"""The comparison of variants with their originals."""

ObserverFactory = Callable[[], TurnObserver]


@dataclass(kw_only=True, eq=False)
class RunPlan(Plan[EvalSummary]):
    """An evaluation of dialogues.

    Attributes:
        tag_map: risk tags of the dataset by their names there, on top of the built-in names.
        metrics: custom metrics by their names.
        detectors: references and versions of users' detectors by their names in rows.
        read: makes the source of the run's dialogues.
        workers: makes the replayers; none where traces are recorded.
        pressure: True where the dataset has variants, which are compared with their originals.
        client_model: words what simulated clients say, closed at the end; None for templates.
    """

    judge: DialogJudge | None
    tag_map: Mapping[str, str]
    metrics: Mapping[str, CustomMetric]
    detectors: Mapping[str, tuple[str, str]]
    read: Callable[[AnyWires], Actor[Any]]
    workers: Callable[[AnyWires], Sequence[Actor[Any]]] = lambda _: ()
    pressure: bool = False
    client_model: "ClientModel | None" = None

    async def close(self) -> None:
        """Close what the run has used."""
        try:
            await super().close()
        finally:
            if self.client_model is not None:
                await self.client_model.close()

    def suite(self) -> Suite[EvalSummary]:
        """Return the parts of the pipeline."""
        config, judge = self.config, self.judge
        judged = judge is not None and config.judge_scope == "all"
        totals = DialogTotals(config.judge_scope, self.metrics)
        name = judge.name if judge is not None else None
        return Suite(
            source=self.read,
            workers=self.workers,
            scorer=lambda wires: Scorer(
                config,
                wires,
                contradictions_judged=judged,
                tag_map=self.tag_map,
                metrics=self.metrics,
                detectors={name: reference for name, (reference, _) in self.detectors.items()},
                pressure=self.pressure,
            ),
            judging=DialogJudging(
                self.run_id, name, config.judge_scope, self.controls, probes=config.grade_probes
            ),
            totals=totals,
            summary=lambda: self._summary(totals),
            files=lambda summary, _: {
                "metrics_summary.json": summary_pieces(summary),
                **pressure_files(totals, self.run_id),
            },
            controls_file=JUDGE_CONTROLS,
            room=ROOM,
            tasks=MAX_TASKS,
        )

    def failed_gates(self, summary: EvalSummary, stats: RunStats, directory: Path) -> list[str]:
        """Return one line for every gate of the settings that the complete run does not pass.

        The gates of a shard are for the run that all shards are merged into.
        """
        if self.shard is not None:
            return []
        config = self.config
        gates = gates_of(config, value_directions(directions_of(self.metrics)))
        return failed_gates(
            summary, stats, gates, config.fail_on_error, config.fail_on_judge_error, directory
        )

    def _summary(self, totals: DialogTotals) -> EvalSummary:
        """Return the metrics; raise `UsageError` where there was no valid dialogue, except in a shard."""
        counters = totals.counters()
        if counters.total_dialogs == 0 and self.shard is None:
            raise UsageError(f"{self.source}: holds no dialogue")
        if counters.valid_dialogs == 0 and self.shard is None:
            reasons = ", ".join(f"{reason}: {count}" for reason, count in sorted(totals.skips.items()))
            advice = "; memfin validate tells where" if self.spool is None else ""
            raise UsageError(f"{self.source}: no valid dialogue ({reasons}){advice}")
        return totals.metrics.summary(
            run_id=self.run_id,
            dataset_path=self.dataset_path,
            counters=counters,
            fingerprint=self.fingerprint,
            trace_version=self.config.trace_version,
        )


def scoring_rules(config: RunConfig) -> dict[str, Any]:
    """Return the user's own rules as attributes of a plan, checked.

    Raises:
        UsageError: the file of risk tags, a detector, a pattern or the function for risk tags is unusable.
    """
    compile_patterns(config.forbidden_patterns)
    if config.risk_tag_mapper is not None:
        load_tag_mapper(config.risk_tag_mapper)
    return {"tag_map": read_tag_map(config.tag_map), "detectors": load_detectors(config.detectors)}


def scoring_inputs(
    judge: DialogJudge | None,
    config: RunConfig,
    metrics: Mapping[str, CustomMetric],
    tag_map: Mapping[str, str],
    detectors: Mapping[str, tuple[str, str]],
) -> dict[str, Any]:
    """Return what the scores depend on besides the traces."""
    rules = {
        "tag_map": tag_map,
        "metrics": {name: metric.version for name, metric in metrics.items()},
        "detectors": {name: version for name, (_, version) in detectors.items()},
        "forbidden_patterns": config.forbidden_patterns,
        TAG_MAPPER: config.risk_tag_mapper,
    }
    return {
        **{name: value for name, value in rules.items() if value},
        "lexicon_hashes": lexicon_hashes(),
        "score_chars": config.score_chars,
        "matching": "literal+guarded",
        **judge_inputs(judge, scope=config.judge_scope),
        "memfin_version": __version__,
    }


def make_plan(
    dataset: DatasetLike | SpooledDataset | None = None,
    *,
    agent: AgentLike = "builtin",
    judge: JudgeLike = "heuristic",
    observer_factory: ObserverFactory | None = None,
    metrics: Sequence[MetricLike] | None = None,
    **settings: Any,
) -> RunPlan:
    """Resolve and check everything a run needs; reads the dataset once for its hash.

    A dataset that is no path is spooled, and kept in the run directory; so is that of a plugin's name or a
    reference. ``settings`` are the other fields of `RunConfig`; ``observer_factory`` makes the observer of
    each dialogue, a subclass of `TurnObserver` that looks on; ``metrics`` are custom metrics, in place of the
    references of the setting ``metric``.

    Raises:
        UsageError: a setting, the dataset, the agent or the judge is unusable; one line says why.
    """
    dataset = named_dataset(dataset)
    given = settings.get("metric", ()) if metrics is None else metrics
    custom = resolve_metrics(given)
    config = make_config(
        {
            **settings,
            "metric": [*map(metric_reference, given)],
            "dataset": os.fspath(dataset) if isinstance(dataset, str | os.PathLike) else None,
            "agent": agent if isinstance(agent, str) else "",
        },
        custom,
    )
    shard = None if config.shard is None else Shard.parse(config.shard)
    if shard is not None and config.run_id is None:
        raise UsageError(f"shard {shard}: needs a run id (--run-id), the same for all {shard.count} shards")
    rules = scoring_rules(config)
    if observer_factory is not None:
        check_observer_factory(observer_factory)
    agents = resolve_agent(agent, AgentSettings.of(config))
    config = config.replace(agent=agents.reference)
    board = WarningBoard()
    resolved_judge = make_judge(judge, config, board.warn)
    client_model = resolve_client_model(config, board.warn)
    starts = start_limiter("agent", config, board.warn)
    config = config.replace(judge=judge_name(resolved_judge))
    config, spool, path = _opened(dataset, config)
    sha256, dialogs = _measured(spool or path, config, shard)
    if scoring_workers(config) == 0:
        prepare_scoring()
    first = shard is None or shard.index == 0

    def clients(dialog: Dialog) -> SimulatedClient | None:
        """Return the client of a dialogue, None for one that says the turns of the dataset."""
        sheet = dialog.client if config.client == "simulated" else None
        return None if sheet is None else SimulatedClient(sheet, dialog.dialog_id, config.seed, client_model)

    def replayers(wires: AnyWires) -> list[Replayer]:
        options = ReplayOptions(
            run_id=wires.run_id,
            history=config.history,
            seed=config.seed,
            turn_timeout=config.turn_timeout,
            turn_retries=config.turn_retries,
            trace_version=config.trace_version,
            judge=config.judge,
            probes=config.probes,
            probe_fork=config.probe_fork,
        )
        workers = range(config.workers_dialog)
        return [
            Replayer(worker, agents, options, wires, observer_factory, starts, clients) for worker in workers
        ]

    return RunPlan(
        config=config,
        source=f"dataset {path}" if spool is None else "dataset",
        dataset_path=next((name for name, own in SHIPPED.items() if own == path), str(config.dataset)),
        dialogs=dialogs,
        model_name=agents.model_name,
        judge=resolved_judge,
        **rules,
        metrics=custom,
        controls=judge_controls(resolved_judge, spool or path, config) if first else (),
        system=agents,
        starts=starts,
        board=board,
        fingerprint_inputs={
            "dataset_sha256": sha256,
            "limit": config.limit,
            **({} if config.perturb is None else {"perturb": config.perturb}),
            **client_inputs(config, client_model),
            "agent": agents.reference,
            "agent_version": agents.version,
            "model": agents.model_name,
            "agent_settings": agents.inputs,
            "history": config.history,
            **scoring_inputs(resolved_judge, config, custom, **rules),
            "seed": config.seed,
        },
        read=lambda wires: DialogSource(path, config, wires),
        workers=replayers,
        spool=spool,
        pressure=is_expanded(spool or path),
        client_model=client_model,
    )


def _opened(
    dataset: DatasetLike | SpooledDataset | None, config: RunConfig
) -> tuple[RunConfig, SpooledDataset | None, Path]:
    """Return the settings, the spooled dataset if it is spooled, and the path; variants are in it."""
    spool = None
    path = SAMPLE if config.dataset is None else Path(config.dataset)
    if config.dataset is None and dataset is not None:
        config, spool = spooled(dataset, config)
        path = spool.path
    else:
        check_dataset_file(path)
    with _readable(path):
        check_clients(spool or path, config)
        if config.perturb is not None and not (path.name == DATASET and spool is None and is_expanded(path)):
            config, spool = _perturbed(spool or path, config)
            path = spool.path
    return config, spool, path


def _measured(dataset: SpooledDataset | Path, config: RunConfig, shard: Shard | None) -> tuple[str, int]:
    """Return the SHA-256 of a dataset and the number of dialogues to be held."""
    with _readable(dataset):
        sha256, lines = digest_dataset(dataset)
        if shard is not None:
            return sha256, shard_lines(dataset, shard, config.limit)
        return sha256, lines if config.limit is None else min(lines, config.limit)


@contextmanager
def _readable(dataset: SpooledDataset | Path) -> Iterator[None]:
    try:
        yield
    except OSError as problem:
        path = dataset.path if isinstance(dataset, SpooledDataset) else dataset
        raise UsageError(f"dataset {path}: {problem.strerror or problem}") from problem


def check_clients(dataset: Path | SpooledDataset, config: RunConfig) -> None:
    """Check that the clients of all valid dialogues can say what the setting ``client`` asks for.

    Raises:
        UsageError: a simulated one has no sheet, a scripted one no turns, or another setting needs a script;
            a spooled dataset is closed then.
    """
    if (problem := next(_unfit(dataset, config), None)) is not None:
        if isinstance(dataset, SpooledDataset):
            dataset.close()
        raise UsageError(f"client {config.client}: {problem}")


def _unfit(dataset: Path | SpooledDataset, config: RunConfig) -> Iterator[str]:
    """Yield why clients can not hold their dialogues as the setting ``client`` asks for."""
    simulated = config.client == "simulated"
    scripts = {
        "--perturb": config.perturb is not None,
        "--history forced": config.history == "forced",
        "the agent oracle": config.agent == "oracle",
    }
    for name, is_set in scripts.items() if simulated else ():
        if is_set:
            yield f"not together with {name}, which needs the dataset's turns"
    with dataset.open("rb") as file:
        for line in islice(iter_lines(file), config.limit):
            if not simulated and b'"client"' not in line.data:
                continue
            dialog = read_entry(line).dialog
            if dialog is None or (dialog.client is not None if simulated else dialog.turns):
                continue
            lacks = "no client's sheet" if simulated else "a client's sheet but no turns"
            other = "scripted" if simulated else "simulated"
            yield f"line {line.number} of the dataset has {lacks}; add it, or use --client {other}"


def _perturbed(dataset: Path | SpooledDataset, config: RunConfig) -> tuple[RunConfig, SpooledDataset]:
    """Spool the dataset with the variants of its dialogues, after the limit is applied."""
    families = parse_families(config.perturb or "")
    lines = expanded(dataset, families, config.seed, config.limit)
    config, spool = spooled(lines, config.replace(limit=None))
    if isinstance(dataset, SpooledDataset):
        dataset.close()
    return config, spool


def pressure_files(totals: DialogTotals, run_id: str) -> dict[str, bytes]:
    """Return the file with the comparison of originals and variants, none without variants."""
    found = totals.pressure.file(run_id)
    return {PRESSURE: pretty_json(found)} if found.families else {}


def spooled(dataset: DatasetLike | SpooledDataset, config: C) -> tuple[C, SpooledDataset]:
    """Spool a dataset that is no path; return the settings with the place where the run keeps it."""
    if isinstance(dataset, SpooledDataset):
        return config.replace(dataset=str(dataset.path)), dataset
    config = config.replace(run_id=config.run_id or new_run_id())
    place = run_path(config) / DATASET
    noun = "questions" if isinstance(config, BenchConfig) else "dialogues"
    return config.replace(dataset=str(place)), SpooledDataset(dataset, place, noun)
