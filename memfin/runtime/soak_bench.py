"""A benchmark as a soak knows it: the same questions, epoch after epoch (RAG benchmark schema)."""

import os
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any, ClassVar, Final

import msgspec

from memfin.contracts import NO_JUDGE, BenchConfig, BenchConfigFile, RunStats
from memfin.contracts.rag import RagSummary
from memfin.contracts.run import Suite
from memfin.contracts.soak import SoakLimits
from memfin.journal import JUDGED_QUESTIONS, QUESTIONS, RAG_RESULTS, Layout
from memfin.rag.aggregation import headline_values
from memfin.runtime.bench import make_bench_resume_plan
from memfin.runtime.bench_gates import (
    answers_judged,
    check_gate_name,
    regression_gates,
    right_facts,
    score_gates,
    total_errors,
)
from memfin.runtime.bench_plan import BenchPlan, RagLike, make_bench_plan
from memfin.runtime.judging import CACHE, JudgeLike
from memfin.runtime.settings import checked_config
from memfin.runtime.soak_latencies import answer_latencies
from memfin.runtime.soak_plan import SoakPlan, began, checked_limits, going_on, soak_config
from memfin.runtime.soak_suite import SoakSuite, absolute
from memfin.runtime.soak_tally import SoakTally

_OF_THE_SOAK: Final = frozenset(
    {
        "dataset",
        "agent",
        "judge",
        "document",
        "run_id",
        "fail_under",
        "fail_on_error",
        "fail_on_judge_error",
        "fail_on_regression",
    }
)
"""Settings that epochs do not take over as they are; gates are for the soak as a whole."""


class SoakedBenchmark(SoakSuite[RagSummary]):
    """The questions of a benchmark; system and judge belong to one epoch alone."""

    suite: ClassVar[Suite | msgspec.UnsetType] = "rag"
    layout: Layout = QUESTIONS

    def __init__(
        self,
        config: BenchConfig,
        directory: Path,
        rag: RagLike,
        judge: JudgeLike,
        *,
        force: bool = False,
    ) -> None:
        """Prepare; ``rag`` and ``judge`` are as for `make_bench_plan`.

        Raises:
            UsageError: the run of ``fail_on_regression`` cannot be read.
        """
        super().__init__(config, directory, force=force)
        self._config = config
        self._rag = rag
        self._judge = judge
        if judge not in (None, NO_JUDGE):
            self.layout = JUDGED_QUESTIONS
        self._document = absolute(config.document)
        self._before = right_facts(config.fail_on_regression)
        self._settings = {name: config[name] for name in config if name not in _OF_THE_SOAK} | {
            "runs_dir": str(self._epochs),
            "judge_cache_dir": absolute(config.judge_cache_dir or str(Path(config.runs_dir) / CACHE)),
            "agent_system": absolute(config.agent_system),
        }

    def _new(self, run_id: str) -> BenchPlan:
        return make_bench_plan(
            self._dataset,
            rag=self._rag,
            document=self._document,
            judge=self._judge,
            **(self._settings | {"run_id": run_id}),
        )

    def _again(self, directory: Path) -> BenchPlan:
        return make_bench_resume_plan(directory, force=self._force, rag=self._rag, judge=self._judge)

    def values(self, summary: RagSummary) -> dict[str, float]:
        """Return the headline values: of all questions, of those of each type, and a judge's marks."""
        return headline_values(summary)

    def latencies(self, directory: Path) -> Iterator[float]:
        """Yield the latency of every answer."""
        return answer_latencies(directory / RAG_RESULTS)

    def dialogs(self, stats: RunStats) -> Mapping[str, int]:
        """Return how many questions were answered and how many were not: each counts as a dialogue."""
        failed = total_errors(stats)
        return {"complete": sum(stats.turns_by_status.values()) - failed, "failed": failed}

    def failed_gates(self, tally: SoakTally, last: Path) -> list[str]:
        """Return one line for every gate that is not passed.

        The score is the mean over the epochs, failures are those of all of them; no fact question may have
        got worse in the last one.
        """
        score = tally.means().get("rag.overall_percentage", 0.0)
        errors = tally.errors
        problems = score_gates(score, tally.turns, errors.failed_turns, self._config)
        problems += answers_judged(errors.judged_turns, errors.judge_failures, self._config)
        if self._before:
            problems += regression_gates(last, self._config, self._before)
        return problems


def make_bench_soak_plan(
    path: str | os.PathLike[str] | None = None,
    *,
    limits: SoakLimits,
    rag: RagLike = "builtin",
    document: str | os.PathLike[str] | None = None,
    judge: JudgeLike = NO_JUDGE,
    **settings: Any,
) -> SoakPlan:
    """Resolve and check everything that asking a benchmark again and again needs.

    The arguments are those of `make_bench_plan` and of `memfin.runtime.soak_plan.make_soak_plan`.

    Raises:
        UsageError: neither a duration nor a number of epochs is set, or a setting, the benchmark, the
            document or the system is unusable.
    """
    given = {
        **settings,
        "dataset": None if path is None else os.fspath(path),
        "document": None if document is None else os.fspath(document),
    }
    config = soak_config(checked_config(given, BenchConfig, check_gate_name))
    limits = checked_limits(limits)
    directory = Path(config.runs_dir) / str(config.run_id)
    return SoakPlan(config, limits, directory, SoakedBenchmark(config, directory, rag, judge))


def make_bench_soak_resume_plan(
    directory: str | os.PathLike[str],
    *,
    force: bool = False,
    metrics_port: int | None = None,
    rag: RagLike | None = None,
    judge: JudgeLike = None,
) -> SoakPlan:
    """Return the plan that goes on with the soak of a benchmark, under the settings it began with.

    Args:
        directory: that of the soak.
        force: go on although the questions, the document or the system are others than they were.
        metrics_port: one for this process.
        rag: the system, where the soak was started with one instead of a reference.
        judge: likewise.

    Raises:
        UsageError: there is no such soak to go on with, something that it needs is unusable, or it is another
            than when the soak began and ``force`` is not set.
    """
    path = Path(directory)
    recorded, summary = began(path, BenchConfigFile, SoakedBenchmark.suite)
    config = recorded.settings.replace(run_id=recorded.run_id)
    suite = SoakedBenchmark(
        config,
        path,
        config.agent if rag is None else rag,
        config.judge if judge is None else judge,
        force=force,
    )
    return going_on(path, recorded, summary, suite, force=force, metrics_port=metrics_port)
