"""The plan of a benchmark run: everything it needs, resolved and checked before anything starts."""

import os
from collections.abc import Callable
from itertools import islice
from pathlib import Path
from typing import Any, ClassVar, Final

import msgspec

from memfin.actors.questions import Asker, QuestionJudging, QuestionScorer, QuestionSource, QuestionTotals
from memfin.actors.warning_board import WarningBoard
from memfin.agents.protocol import AgentSettings
from memfin.contracts import NO_JUDGE, BenchConfig, RunStats
from memfin.contracts.rag import SUMMARY, RagQuestion, RagSummary, summary_pieces
from memfin.contracts.reading import shown
from memfin.contracts.run import Suite as SuiteName
from memfin.errors import UsageError
from memfin.journal import JUDGED_QUESTIONS, QUESTIONS, RAG_JUDGE_CONTROLS, RAG_RESULTS, Layout, progress_path
from memfin.judges.protocol import RecordingJudge
from memfin.rag.aggregation import individual_results
from memfin.rag.benchmark import SAMPLE, Benchmark, Packed, load_benchmark, unfounded
from memfin.rag.document import Document, load_document
from memfin.rag.judging import RagControl, RagJudge, RagTask, rag_controls
from memfin.rag.scoring import DocumentIndex
from memfin.rag.systems import load_system
from memfin.rag.systems.under_test import SystemUnderTest
from memfin.runtime.bench_gates import check_gate_name, failed_bench_gates, right_facts
from memfin.runtime.judging import JudgeLike, judge_inputs, judge_name, make_judge_of
from memfin.runtime.pipeline import Plan, Suite
from memfin.runtime.settings import checked_config, new_run_id
from memfin.version import __version__

BUILTIN: Final = "builtin:rag"
"""Name of the benchmark that ships with MemFin in artifacts."""

MAX_PERCENT: Final = 100

ROOM: Final = 16
"""Questions that wait between two stages at most."""

RagLike = str | Callable[..., Any] | object


class BenchPlan(Plan[RagSummary]):
    """A benchmark whose questions are put to a system.

    Attributes:
        before: the fact questions that the run of ``fail_on_regression`` answered right, by id.
    """

    suite_name: ClassVar[SuiteName | msgspec.UnsetType] = "rag"
    layout: Layout = QUESTIONS

    config: BenchConfig
    system: SystemUnderTest

    def __init__(
        self,
        config: BenchConfig,
        benchmark: Benchmark,
        document: Document | None,
        system: SystemUnderTest,
        judge: RagJudge | None,
        board: WarningBoard,
    ) -> None:
        self.config = config  # pyright: ignore[reportIncompatibleVariableOverride]
        self.run_id = config.run_id or new_run_id()
        self.benchmark = benchmark
        self.document = document
        self.document_index = DocumentIndex(document) if document is not None else None
        self.system = system  # pyright: ignore[reportIncompatibleVariableOverride]
        self.source = f"benchmark {benchmark.path}"
        self.dataset_path = config.dataset or BUILTIN
        chosen = (
            (number, question)
            for number, question in enumerate(benchmark.questions, 1)
            if config.type in (None, question.type)
        )
        self.questions = Packed[tuple[int, RagQuestion]](
            tuple[int, RagQuestion], islice(chosen, config.limit)
        )
        if not self.questions:
            raise UsageError(f"{self.source}: holds no question of the type {config.type}")
        self.dialogs = len(self.questions)
        self.model_name = system.model_name
        self.before = right_facts(config.fail_on_regression)
        runs_dir = Path(config.runs_dir)
        self.directory = runs_dir / self.run_id
        self.progress = progress_path(runs_dir, self.run_id)
        self.warnings = tuple(_warnings(benchmark, document))
        self.fingerprint_inputs = {
            "benchmark_sha256": benchmark.digest,
            "document_sha256": document.digest if document is not None else None,
            "type": config.type,
            "limit": config.limit,
            "rag": system.reference,
            "rag_version": system.version,
            "model": system.model_name,
            "rag_settings": system.inputs,
            "seed": config.seed,
            "memfin_version": __version__,
        }
        self.judge = judge
        self.board = board
        system.listen(board.warn)
        self.controls = _controls(judge, self)
        if judge is not None:
            self.layout = JUDGED_QUESTIONS
            self.fingerprint_inputs |= judge_inputs(judge)

    def suite(self) -> Suite[RagSummary]:
        """Return the parts of the pipeline."""
        index, judge, system, totals = self.document_index, self.judge, self.system, QuestionTotals()
        name = judge.name if judge is not None else None
        return Suite(
            source=lambda wires: QuestionSource(self.source, self.questions, system.open, wires),
            workers=lambda wires: [
                Asker(worker_id, system, wires) for worker_id in range(self.config.workers_dialog)
            ],
            scorer=lambda wires: QuestionScorer(index, wires, judged=judge is not None),
            judge=judge,
            judging=QuestionJudging(self.run_id, name, index, self.controls),
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
        return totals.state.summary(
            self.run_id,
            benchmark_path=self.dataset_path,
            document=self.document.name if self.document is not None else None,
            system=self.model_name,
            type_filter=self.config.type,
            config_fingerprint=self.fingerprint,
        )

    @property
    def abandoned(self) -> int:
        """Calls that the system under test has left behind."""
        return self.system.abandoned


def _controls(judge: RagJudge | None, plan: BenchPlan) -> list[RagControl]:
    """Return the controls of a judge, which are the same whatever the system answers."""
    if judge is None:
        return []
    if plan.document_index is None:
        raise UsageError(
            f"judge {judge.name}: cannot tell whether a document bears answers out that it is not "
            "given; name it with --document"
        )
    if not isinstance(judge, RecordingJudge):
        return []
    return rag_controls((question for _, question in plan.questions), plan.document_index)


def make_bench_plan(
    path: str | os.PathLike[str] | None = None,
    *,
    rag: RagLike = "builtin",
    document: str | os.PathLike[str] | None = None,
    judge: JudgeLike = NO_JUDGE,
    **settings: Any,
) -> BenchPlan:
    """Resolve and check everything a benchmark run needs; reads the questions and the document.

    The arguments are those of `memfin.runtime.bench.BenchEvaluation`.

    Raises:
        UsageError: a setting, the benchmark, the document, the system or the judge is unusable; one line
            says why.
    """
    given = {
        "dataset": None if path is None else os.fspath(path),
        "document": None if document is None else os.fspath(document),
        "agent": rag if isinstance(rag, str) else "",
    }
    config = checked_config({**settings, **given}, BenchConfig, check_gate_name)
    for name, percent in config.fail_under.items():
        if not 0 <= percent <= MAX_PERCENT:
            raise UsageError(f"fail_under {name}: {percent:g} is no percentage; give 0 to {MAX_PERCENT}")
    chosen = SAMPLE if config.dataset is None else config.dataset
    benchmark = load_benchmark(chosen)
    place = config.document or benchmark.document
    loaded = load_document(place) if place is not None else None
    system = load_system(rag, document=loaded, settings=AgentSettings.of(config), retries=config.turn_retries)
    board = WarningBoard()
    reads = make_judge_of(RagTask(), judge, config, board.warn)
    config = config.replace(agent=system.reference, judge=judge_name(reads))
    plan = BenchPlan(config, benchmark, loaded, system, reads, board)
    if plan.document_index is not None:
        validated = None if config.document else chosen
        plan.warnings = (*plan.warnings, *_unfounded(benchmark, plan.document_index, validated))
    return plan


def _unfounded(benchmark: Benchmark, index: DocumentIndex, path: str | os.PathLike[str] | None) -> list[str]:
    """Return a line where the document does not bear the questions out: such cannot be answered rightly.

    ``path`` is where ``memfin validate`` finds the rest, None where it would look at another document.
    """
    findings = unfounded(benchmark.files, index)
    first = next(findings, None)
    if first is None:
        return []
    more = sum(1 for _ in findings)
    others = f" and {more} more like it" if more else ""
    beginning = "the document does not bear the questions out"
    if path is None:
        return [f"{beginning}: {first}{others}"]
    return [f"{beginning}: {first.message}{others}; memfin validate {os.fspath(path)} tells where"]


def _warnings(benchmark: Benchmark, document: Document | None) -> list[str]:
    """Return what a user should know before the first question."""
    if document is not None:
        return []
    name = benchmark.document_name
    missing = f"names {shown(name)}, which is not in it" if name else "names none"
    return [f"no document: the benchmark {missing}; name it with --document, else inventions pass unseen"]
