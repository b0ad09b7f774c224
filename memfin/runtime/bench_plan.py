"""Plans of benchmark runs and of soaks of a benchmark: resolved and checked before anything starts."""

import os
from collections.abc import Callable, Collection, Mapping
from dataclasses import dataclass
from itertools import islice
from pathlib import Path
from typing import Any, ClassVar, Final

import msgspec

from memfin.actors.messages import WarningBoard
from memfin.actors.questions import Asker, QuestionJudging, QuestionScorer, QuestionSource, QuestionTotals
from memfin.agents.protocol import AgentSettings
from memfin.contracts import NO_JUDGE, BenchConfig, BenchConfigFile, RunStats, SoakLimits
from memfin.contracts.rag import SUMMARY, RagQuestion, RagSummary, read_sums, summary_pieces
from memfin.contracts.reading import shown
from memfin.contracts.run import Suite as SuiteName
from memfin.dataset import DatasetLike, SpooledDataset
from memfin.errors import UsageError
from memfin.journal import JUDGED_QUESTIONS, QUESTIONS, RAG_JUDGE_CONTROLS, RAG_RESULTS
from memfin.judges.protocol import RecordingJudge
from memfin.judges.registry import JudgeLike
from memfin.rag.aggregation import headline_values, individual_results
from memfin.rag.baselines import baseline_summaries, with_baselines
from memfin.rag.benchmark import SAMPLE, Benchmark, Packed, load_benchmark, unfounded, unknown_fields
from memfin.rag.document import Document, load_document
from memfin.rag.judging import RagControl, RagTask, rag_controls
from memfin.rag.scoring import DocumentIndex
from memfin.rag.systems import load_system
from memfin.rag.systems.under_test import SystemUnderTest
from memfin.runtime.bench_gates import (
    DIRECTIONS,
    RightFacts,
    answers_judged,
    failed_bench_gates,
    regression_gates,
    right_facts,
    score_gates,
)
from memfin.runtime.judging import judge_inputs, judge_name, make_judge_of
from memfin.runtime.pipeline import Plan, Suite
from memfin.runtime.plan import spooled
from memfin.runtime.rates import start_limiter
from memfin.runtime.resume import resumed
from memfin.runtime.settings import checked_config
from memfin.runtime.soak_plan import SoakPlan, SoakSuite, new_soak, resumed_soak
from memfin.runtime.soak_stats import SoakStats
from memfin.version import __version__

BUILTIN: Final = "builtin:rag"
"""Name of the benchmark that ships with MemFin in artifacts."""

MAX_PERCENT: Final = 100

ROOM: Final = 16
"""Questions that wait between two stages at most."""

_MAX_FIELDS: Final = 3  # fields without an effect that a warning names

BenchmarkLike = DatasetLike | Mapping[str, Any]
"""A path of a benchmark, or questions as `DatasetLike`; a dictionary is the content of a question file."""

RagLike = str | Callable[..., Any] | object


@dataclass(kw_only=True, eq=False)
class BenchPlan(Plan[RagSummary]):
    """A benchmark whose questions are put to a system.

    Attributes:
        questions: their places in the benchmark, from 1, and the questions.
        index: the document's index, where there is one.
        unfounded: how much evidence and how many quotes of the questions the document does not hold.
        baselines: the summaries of ``--baseline``, by name.
        before: the fact questions that the run of ``fail_on_regression`` answered right, by id.
    """

    suite_name: ClassVar[SuiteName | msgspec.UnsetType] = "rag"
    under_test: ClassVar[str] = "RAG system"

    config: BenchConfig  # pyright: ignore[reportIncompatibleVariableOverride]
    system: SystemUnderTest  # pyright: ignore[reportIncompatibleVariableOverride]
    questions: Collection[tuple[int, RagQuestion]]
    document: Document | None
    index: DocumentIndex | None
    unfounded: int
    baselines: Mapping[str, RagSummary]
    before: RightFacts

    def suite(self) -> Suite[RagSummary]:
        """Return the parts of the pipeline."""
        judge, system, totals = self.judge, self.system, QuestionTotals()
        name = judge.name if judge is not None else None
        return Suite(
            source=lambda wires: QuestionSource(self.source, self.questions, system.open, wires),
            workers=lambda wires: [
                Asker(worker_id, system, wires) for worker_id in range(self.config.workers_dialog)
            ],
            scorer=lambda wires: QuestionScorer(self.index, wires, judged=judge is not None),
            judging=QuestionJudging(self.run_id, name, self.index, self.controls),
            totals=totals,
            summary=lambda: self._summary(totals),
            files=lambda summary, directory: {
                SUMMARY: summary_pieces(summary, individual_results(directory / RAG_RESULTS))
            },
            controls_file=RAG_JUDGE_CONTROLS,
            room=ROOM,
            tasks=ROOM,
        )

    def failed_gates(self, summary: RagSummary, stats: RunStats, directory: Path) -> list[str]:
        """Return one line for every gate of the settings that the complete run does not pass."""
        return failed_bench_gates(summary, directory, stats, self.config, self.before)

    def _summary(self, totals: QuestionTotals) -> RagSummary:
        """Return what the answers are worth; raise `UsageError` where there was no question."""
        if not totals.rows:
            raise UsageError(f"{self.source}: holds no question")
        summary = totals.state.summary(
            self.run_id,
            benchmark_path=self.dataset_path,
            document=self.document.name if self.document is not None else None,
            system=self.model_name,
            type_filter=self.config.type,
            config_fingerprint=self.fingerprint,
            unfounded=self.unfounded or msgspec.UNSET,
        )
        return with_baselines(summary, self.baselines)

    @property
    def abandoned(self) -> int:
        """Calls that the system under test has left behind."""
        return self.system.abandoned


def make_bench_plan(
    path: BenchmarkLike | SpooledDataset | None = None,
    *,
    rag: RagLike = "builtin",
    document: str | os.PathLike[str] | None = None,
    judge: JudgeLike = NO_JUDGE,
    **settings: Any,
) -> BenchPlan:
    """Resolve and check everything a benchmark run needs; reads the questions and the document.

    Questions that are no path are spooled, and kept in the run directory. The arguments are those of
    `memfin.runtime.bench.BenchEvaluation`.

    Raises:
        UsageError: a setting, the benchmark, the document, the system or the judge is unusable; one line
            says why.
    """
    place, items = _split(path)
    given = {"dataset": place, "document": document, "agent": rag if isinstance(rag, str) else ""}
    config = checked_config({**settings, **given}, BenchConfig, DIRECTIONS)
    if config.shard is not None:
        raise UsageError(f"shard {config.shard}: a benchmark has no shards, only a run of dialogues")
    for name, percent in config.fail_under.items():
        if not 0 <= percent <= MAX_PERCENT:
            raise UsageError(f"fail_under {name}: {percent:g} is no percentage; give 0 to {MAX_PERCENT}")
    spool: SpooledDataset | None = None
    if items is not None:
        config, spool = spooled(items, config)
    try:
        return _made(config, spool, rag, judge)
    except BaseException:
        if spool is not None:
            spool.close()
        raise


def _made(config: BenchConfig, spool: SpooledDataset | None, rag: RagLike, judge: JudgeLike) -> BenchPlan:
    chosen = SAMPLE if config.dataset is None else config.dataset
    benchmark = load_benchmark(spool or chosen)
    place = config.document or benchmark.document
    loaded = load_document(place) if place is not None else None
    index = DocumentIndex(loaded) if loaded is not None else None
    board = WarningBoard()
    starts = start_limiter("agent", config, board.warn)
    system = load_system(
        rag,
        document=loaded,
        settings=AgentSettings.of(config),
        retries=config.turn_retries,
        starts=starts,
    )
    resolved = make_judge_of(RagTask(), judge, config, board.warn)
    config = config.replace(agent=system.reference, judge=judge_name(resolved))
    numbered = enumerate(benchmark.questions, 1)
    asked = ((number, question) for number, question in numbered if config.type in (None, question.type))
    questions = Packed[tuple[int, RagQuestion]](tuple[int, RagQuestion], islice(asked, config.limit))
    if not questions:
        raise UsageError(f"benchmark {benchmark.path}: holds no question of the type {config.type}")
    if resolved is not None and index is None:
        raise UsageError(
            f"judge {resolved.name}: cannot tell whether a document bears answers out that it is not "
            "given; name it with --document"
        )
    baselines: dict[str, RagSummary] = {}
    if config.baselines:
        if loaded is None or index is None:
            raise UsageError("--baseline: reads the document, and there is none; name it with --document")
        baselines = baseline_summaries(config.baselines, questions, loaded, index)
    warnings, unfounded = _warnings(benchmark, index, None if config.document or spool else chosen)
    controls: list[RagControl] = []
    if index is not None and isinstance(resolved, RecordingJudge):
        controls = rag_controls((question for _, question in questions), index)
    return BenchPlan(
        config=config,
        source="benchmark" if spool else f"benchmark {benchmark.path}",
        spool=spool,
        dataset_path=config.dataset or BUILTIN,
        dialogs=len(questions),
        model_name=system.model_name,
        judge=resolved,
        controls=controls,
        system=system,
        starts=starts,
        board=board,
        layout=QUESTIONS if resolved is None else JUDGED_QUESTIONS,
        warnings=tuple(warnings),
        unfounded=unfounded,
        fingerprint_inputs={
            "benchmark_sha256": benchmark.digest,
            "document_sha256": loaded.digest if loaded is not None else None,
            "type": config.type,
            "limit": config.limit,
            "rag": system.reference,
            "rag_version": system.version,
            "model": system.model_name,
            "rag_settings": system.inputs,
            "seed": config.seed,
            "memfin_version": __version__,
            **({"baselines": sorted(baselines)} if baselines else {}),
            **({} if resolved is None else judge_inputs(resolved)),
        },
        questions=questions,
        document=loaded,
        index=index,
        baselines=baselines,
        before=right_facts(config.fail_on_regression),
    )


def _split(benchmark: Any) -> tuple[str | os.PathLike[str] | None, Any]:
    """Return the path of a benchmark and None, or None and the items of one that is no path."""
    if benchmark is None or isinstance(benchmark, str | os.PathLike):
        return benchmark, None
    return None, [benchmark] if isinstance(benchmark, Mapping) else benchmark


def _warnings(
    benchmark: Benchmark, index: DocumentIndex | None, path: str | os.PathLike[str] | None
) -> tuple[list[str], int]:
    """Return what a user should know before the first question, and the places without a foundation.

    ``path`` is where ``memfin validate`` finds the rest, None where it would look at another document.
    """
    unread = list(unknown_fields(benchmark.files))
    others = f" and {len(unread) - _MAX_FIELDS} more" if len(unread) > _MAX_FIELDS else ""
    before = [f"fields without an effect: {', '.join(unread[:_MAX_FIELDS])}{others}"] if unread else []
    if index is None:
        name = benchmark.document_name
        missing = f"names {shown(name)}, which is not in it" if name else "names none"
        advice = "name it with --document, else inventions pass unseen"
        return [*before, f"no document: the benchmark {missing}; {advice}"], 0
    findings = unfounded(benchmark.files, index)
    first = next(findings, None)
    if first is None:
        return before, 0
    more = sum(1 for _ in findings)
    others = f" and {more} more like it" if more else ""
    beginning = "the document does not bear the questions out"
    if path is None:
        return [*before, f"{beginning}: {first}{others}"], more + 1
    line = f"{beginning}: {first.message}{others}; memfin validate {os.fspath(path)} tells where"
    return [*before, line], more + 1


def make_bench_resume_plan(
    run_dir: str | os.PathLike[str],
    *,
    force: bool = False,
    retry_failed: bool = False,
    rag: RagLike | None = None,
    judge: JudgeLike = None,
) -> BenchPlan:
    """Return the plan that goes on with the benchmark run in a directory, under its settings.

    Arguments and errors are those of `memfin.runtime.resume.make_resume_plan`; ``rag`` is the system, where
    the run was started with one instead of a reference.
    """
    return resumed(
        lambda path, *, agent, **settings: make_bench_plan(path, rag=agent, **settings),
        Path(run_dir),
        BenchConfigFile,
        "rag",
        system=rag,
        judge=judge,
        force=force,
        retry_failed=retry_failed,
    )


def _gates(config: BenchConfig) -> Callable[[SoakStats, Path], list[str]]:
    """Return what checks the mean score, all failures, and the fact questions of the last epoch.

    Raises:
        UsageError: the run of ``fail_on_regression`` cannot be read.
    """
    before = right_facts(config.fail_on_regression)

    def failed_gates(stats: SoakStats, last: Path) -> list[str]:
        score, errors = stats.means().get("rag.overall_percentage", 0.0), stats.errors
        return [
            *score_gates(score, stats.turns, errors.failed_turns, config, read_sums(last / SUMMARY).ci95),
            *answers_judged(errors.judged_turns, errors.judge_failures, config),
            *(regression_gates(last, config, before) if before else ()),
        ]

    return failed_gates


SOAK: Final = SoakSuite[RagSummary](
    make=make_bench_plan,
    resume=make_bench_resume_plan,
    config_file=BenchConfigFile,
    system="rag",
    values=headline_values,
    gates=_gates,
    name="rag",
)


def make_bench_soak_plan(
    path: BenchmarkLike | None = None,
    *,
    limits: SoakLimits,
    rag: RagLike = "builtin",
    document: str | os.PathLike[str] | None = None,
    judge: JudgeLike = NO_JUDGE,
    **settings: Any,
) -> SoakPlan:
    """Resolve and check everything that asking a benchmark again and again needs.

    The arguments and errors are those of `make_bench_plan` and of `memfin.runtime.soak_plan.make_soak_plan`.
    """
    place, items = _split(path)
    config = checked_config({**settings, "dataset": place, "document": document}, BenchConfig, DIRECTIONS)
    return new_soak(SOAK, config, limits, items, rag=rag, judge=judge)


def make_bench_soak_resume_plan(
    directory: str | os.PathLike[str],
    *,
    force: bool = False,
    metrics_port: int | None = None,
    rag: RagLike | None = None,
    judge: JudgeLike = None,
) -> SoakPlan:
    """Return the plan that goes on with the soak of a benchmark, under the settings it began with.

    ``metrics_port`` is one for this process; the other arguments are those of `make_bench_resume_plan`, the
    errors those of `memfin.runtime.soak_plan.make_soak_resume_plan`.
    """
    system = {"rag": rag, "judge": judge}
    return resumed_soak(SOAK, Path(directory), force=force, metrics_port=metrics_port, **system)
