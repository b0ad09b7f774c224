"""The plan of a benchmark run: everything it needs, resolved and checked before anything starts."""

import os
from collections.abc import Callable
from itertools import islice
from pathlib import Path
from typing import Any, ClassVar, Final

import msgspec

from memfin.actors.base import EventSender
from memfin.agents.registry import AgentSettings
from memfin.contracts import NO_JUDGE, BenchConfig, ConfigFile, ModelUsage, ParameterChange
from memfin.contracts.rag import RagQuestion, RagSummary
from memfin.contracts.reading import shown
from memfin.contracts.run import Suite
from memfin.errors import UsageError
from memfin.journal import JUDGED_QUESTIONS, QUESTIONS, Layout, RunDirectory, progress_path
from memfin.judges import Notices
from memfin.judges.protocol import RecordingJudge
from memfin.rag.benchmark import SAMPLE, Benchmark, load_benchmark
from memfin.rag.document import Document, load_document
from memfin.rag.grounding import unfounded
from memfin.rag.judging.controls import RagControl, rag_controls
from memfin.rag.judging.task import RagJudge, RagTask
from memfin.rag.packed import Packed
from memfin.rag.scoring import DocumentIndex
from memfin.rag.systems import load_system
from memfin.rag.systems.under_test import SystemUnderTest
from memfin.runtime.bench_gates import check_gate_name, right_facts
from memfin.runtime.judging import JudgeLike, judge_endpoint, judge_inputs, judge_name, make_judge_of
from memfin.runtime.question_pipeline import QuestionInputs, QuestionJudge, QuestionPipeline
from memfin.runtime.settings import checked_config, new_run_id
from memfin.runtime.suite import Plan
from memfin.version import __version__

BUILTIN: Final = "builtin:rag"
"""What the artifacts call the benchmark that ships with MemFin."""

MOST_PERCENT: Final = 100

RagLike = str | Callable[..., Any] | object


class BenchPlan(Plan[RagSummary]):
    """A benchmark whose questions are put to a system.

    Attributes:
        before: the fact questions that the run of ``fail_on_regression`` answered right, by id.
        individual_results: whether the host wants every question in the summary that the run returns.
    """

    suite: ClassVar[Suite | msgspec.UnsetType] = "rag"
    layout: Layout = QUESTIONS

    config: BenchConfig
    individual_results = False

    def __init__(
        self,
        config: BenchConfig,
        benchmark: Benchmark,
        document: Document | None,
        system: SystemUnderTest,
        judge: RagJudge | None,
        notices: Notices,
    ) -> None:
        self.config = config  # pyright: ignore[reportIncompatibleVariableOverride]
        self.run_id = config.run_id or new_run_id()
        self.benchmark = benchmark
        self.document = document
        self.document_index = DocumentIndex(document) if document is not None else None
        self.system = system
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
        self.judging = self._judging(judge, notices) if judge is not None else None
        if judge is not None:
            self.layout = JUDGED_QUESTIONS
            self.fingerprint_inputs |= judge_inputs(judge)

    def _judging(self, judge: RagJudge, notices: Notices) -> QuestionJudge:
        """Return what the judge needs; the controls are the same whatever the system answers."""
        if self.document_index is None:
            raise UsageError(
                f"judge {judge.name}: cannot tell whether a document bears answers out that it is not "
                "given; name it with --document"
            )
        controls: list[RagControl] = []
        if isinstance(judge, RecordingJudge):
            controls = rag_controls((question for _, question in self.questions), self.document_index)
        return QuestionJudge(judge, notices, self.document_index, controls)

    def pipeline(self, directory: RunDirectory, events: EventSender) -> QuestionPipeline:
        """Return the actors of the run."""
        document = self.document
        inputs = QuestionInputs(
            config=self.config,
            run_id=self.run_id,
            source=self.source,
            questions=self.questions,
            document_index=self.document_index,
            system=self.system,
            about={
                "benchmark_path": self.dataset_path,
                "document": document.name if document is not None else None,
                "system": self.model_name,
                "type_filter": self.config.type,
                "config_fingerprint": self.fingerprint,
            },
            judging=self.judging,
        )
        return QuestionPipeline(inputs, directory, events)

    def listen(self, on_notice: Callable[[str], None]) -> None:
        """Have what the system has to say while it answers told."""
        self.system.listen(on_notice)

    @property
    def usage(self) -> ModelUsage | None:
        """What the language models behind the system took so far."""
        return self.system.usage

    @property
    def agent_parameters(self) -> list[ParameterChange]:
        """Which parameters the model behind the system has refused so far."""
        return self.system.parameter_changes

    def config_file(self) -> ConfigFile:
        """Return ``config.json``, with where the judge's model is."""
        return super().config_file().replace(judge_endpoint=judge_endpoint(self.judge))

    async def close(self) -> None:
        """Let go of what the system and the judge hold."""
        try:
            await self.system.close()
        finally:
            if self.judge is not None:
                await self.judge.close()


def make_bench_plan(
    path: str | os.PathLike[str] | None = None,
    *,
    rag: RagLike = "builtin",
    document: str | os.PathLike[str] | None = None,
    judge: JudgeLike = NO_JUDGE,
    **settings: Any,
) -> BenchPlan:
    """Resolve and check everything a benchmark run needs; reads the questions and the document.

    Args:
        path: a directory with ``questions/*.json`` or a file of questions; None is the benchmark that ships
            with MemFin.
        rag: a reference as for ``--rag``, a factory, or an object with a ``query`` method.
        document: the document, where the benchmark does not name it.
        judge: what reads the answers besides the formulas: ``none``, ``openai:MODEL``, ``pkg.module:factory``
            or a factory.
        settings: other fields of `memfin.contracts.BenchConfig`.

    Raises:
        UsageError: a setting, the benchmark, the document, the system or the judge is unusable; one line
            says why.
    """
    config = checked_config(
        {
            **settings,
            "dataset": None if path is None else os.fspath(path),
            "document": None if document is None else os.fspath(document),
            "agent": rag if isinstance(rag, str) else "",
        },
        BenchConfig,
        check_gate_name,
    )
    for name, percent in config.fail_under.items():
        if not 0 <= percent <= MOST_PERCENT:
            raise UsageError(f"fail_under {name}: {percent:g} is no percentage; give 0 to {MOST_PERCENT}")
    chosen = SAMPLE if config.dataset is None else config.dataset
    benchmark = load_benchmark(chosen)
    place = config.document or benchmark.document
    loaded = load_document(place) if place is not None else None
    system = load_system(rag, document=loaded, settings=AgentSettings.of(config), retries=config.turn_retries)
    notices = Notices()
    reads = make_judge_of(RagTask(), judge, config, notices)
    config = config.replace(agent=system.reference, judge=judge_name(reads))
    plan = BenchPlan(config, benchmark, loaded, system, reads, notices)
    if loaded is not None:
        told = None if config.document else chosen
        plan.warnings = (*plan.warnings, *_unfounded(benchmark, loaded, told))
    return plan


def _unfounded(benchmark: Benchmark, document: Document, told: str | os.PathLike[str] | None) -> list[str]:
    """Return a line where the document does not bear the questions out: such cannot be answered rightly.

    ``told`` is what ``memfin validate`` tells the rest about, None where it would look at another document.
    """
    findings = unfounded(benchmark.files, document)
    first = next(findings, None)
    if first is None:
        return []
    more = sum(1 for _ in findings)
    others = f" and {more} more like it" if more else ""
    beginning = "the document does not bear the questions out"
    if told is None:
        return [f"{beginning}: {first}{others}"]
    return [f"{beginning}: {first.message}{others}; memfin validate {os.fspath(told)} tells where"]


def _warnings(benchmark: Benchmark, document: Document | None) -> list[str]:
    """Return what a user should know before the first question."""
    if document is not None:
        return []
    name = benchmark.document_name
    missing = f"names {shown(name)}, which is not in it" if name else "names none"
    line = f"no document: the benchmark {missing}; name it with --document, else inventions pass unseen"
    return [line]
