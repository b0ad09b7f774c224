"""Benchmarks in Python: inside a host's event loop, and from synchronous code (RAG benchmark schema)."""

import asyncio
import os
from typing import Any, Self

import anyio

from memfin.actors.writers import OnEvent
from memfin.contracts import NO_JUDGE
from memfin.contracts.rag import SUMMARY, RagSummary, RagType, iter_individual_results
from memfin.errors import UsageError
from memfin.judges.registry import JudgeLike
from memfin.runtime.api import EmbeddedRun
from memfin.runtime.bench_plan import BenchmarkLike, RagLike, make_bench_plan, make_bench_resume_plan
from memfin.runtime.run import Run
from memfin.runtime.subscriptions import BUFFERED
from memfin.sandbox.thread import CallThread


class BenchEvaluation(EmbeddedRun[RagSummary]):
    """A benchmark run as an asynchronous context manager, and an iterator of its progress events.

    ``async with BenchEvaluation(path, rag=my_system) as run: results = await run.wait()``. Everything that
    `memfin.Evaluation` promises its host holds here too.

    Attributes:
        individual_results: True if the summary lists every question.
    """

    def __init__(
        self,
        path: BenchmarkLike | None = None,
        *,
        rag: RagLike = "builtin",
        document: str | os.PathLike[str] | None = None,
        judge: JudgeLike = NO_JUDGE,
        individual_results: bool = True,
        on_event: OnEvent | None = None,
        event_buffer: int = BUFFERED,
        **config: Any,
    ) -> None:
        """Prepare; nothing is read or checked yet.

        Args:
            path: a directory with ``questions/*.json``, a file of questions, or questions from memory as
                `memfin.evaluate` takes dialogues, which are kept in the run directory; None is the benchmark
                that ships with MemFin.
            rag: a reference as for ``--rag``, a factory, or an object with a ``query`` method.
            document: the document, where the benchmark does not name it.
            judge: a reference as for ``--judge``, or a factory; it reads the answers besides the formulas.
            individual_results: True lists every question in ``summary``, as ``rag_summary.json`` does in any
                case; without them memory does not grow with the benchmark's results.
            on_event: called with every progress event, in order; it must not block.
            event_buffer: events that wait for the iterator at most; older ones are dropped.
            config: other fields of `memfin.contracts.BenchConfig`, such as ``workers_dialog=16``.
        """
        super().__init__(
            lambda: make_bench_plan(path, rag=rag, document=document, judge=judge, **config),
            on_event,
            event_buffer,
        )
        self.individual_results = individual_results

    @classmethod
    def resume(
        cls,
        run_dir: str | os.PathLike[str],
        *,
        rag: RagLike | None = None,
        judge: JudgeLike = None,
        force: bool = False,
        retry_failed: bool = False,
        individual_results: bool = True,
        on_event: OnEvent | None = None,
        event_buffer: int = BUFFERED,
    ) -> Self:
        """Return the evaluation that goes on with an interrupted run; the settings are the run's own.

        The arguments are those of `make_bench_resume_plan` and of a new evaluation.
        """
        evaluation = cls._of(
            lambda: make_bench_resume_plan(
                run_dir, force=force, retry_failed=retry_failed, rag=rag, judge=judge
            ),
            on_event,
            event_buffer,
        )
        evaluation.individual_results = individual_results
        return evaluation

    async def _completed(self, run: Run[RagSummary], summary: RagSummary) -> RagSummary:
        if self.individual_results:
            path = run.directory.path / SUMMARY
            thread = CallThread("memfin-summary")
            try:
                listed = await thread.finish(lambda: list(iter_individual_results(path)))
            finally:
                thread.stop()
            summary = run.summary = summary.replace(individual_results=listed)
        return summary


class BenchmarkRunner:
    """Runner of a benchmark's questions, as the RAG benchmark schema names it.

    ``BenchmarkRunner("path/to/benchmark").run_benchmark(system, question_type="fact_exact")`` returns the
    summary, whose fields are also its items: ``summary["overall_percentage"]``.
    """

    def __init__(self, path: BenchmarkLike | None = None, **options: Any) -> None:
        """Prepare; nothing is read yet. The other arguments of `BenchEvaluation` are ``options``."""
        self._path = path
        self._options = options

    def run_benchmark(self, system: RagLike = "builtin", question_type: RagType | None = None) -> RagSummary:
        """Ask a system all questions, or those of one type, and return what its answers are worth.

        ``system`` is an object with a ``query`` method, a factory, or a reference as for ``--rag``. The
        artifacts go to ``runs_dir/run_id``, as those of any run. Inside a running event loop use
        `run_benchmark_async`.

        Raises:
            UsageError: a setting, the benchmark, the document or the system is unusable; a loop is running.
            RunFault: the machine failed under the run.
            GateFailed: the run is complete, but does not pass ``fail_under``, ``fail_on_error``,
                ``fail_on_judge_error`` or ``fail_on_regression``; the summary is its ``summary``.
        """
        try:
            asyncio.get_running_loop()
        except RuntimeError:
            return anyio.run(self.run_benchmark_async, system, question_type)
        raise UsageError(
            "an event loop is running here, as in a notebook: await runner.run_benchmark_async(system)"
        )

    async def run_benchmark_async(
        self, system: RagLike = "builtin", question_type: RagType | None = None
    ) -> RagSummary:
        """Do what `run_benchmark` does inside a running event loop."""
        evaluation = BenchEvaluation(self._path, rag=system, type=question_type, **self._options)
        return (await evaluation.complete()).summary
