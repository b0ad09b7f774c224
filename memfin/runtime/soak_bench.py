"""Plans of soaks of a benchmark: the same questions, epoch after epoch (RAG benchmark schema)."""

import os
from pathlib import Path
from typing import Any

from memfin.contracts import NO_JUDGE, BenchConfig, BenchConfigFile, SoakLimits
from memfin.contracts.rag import RagSummary
from memfin.journal import JUDGED_QUESTIONS, QUESTIONS
from memfin.rag.aggregation import headline_values
from memfin.runtime.bench import make_bench_resume_plan
from memfin.runtime.bench_gates import (
    answers_judged,
    check_gate_name,
    regression_gates,
    right_facts,
    score_gates,
)
from memfin.runtime.bench_plan import RagLike, make_bench_plan
from memfin.runtime.judging import JudgeLike
from memfin.runtime.settings import checked_config
from memfin.runtime.soak_plan import SoakPlan, SoakSuite, absolute, new_soak, resumed_soak
from memfin.runtime.soak_stats import SoakStats


def _suite(
    config: BenchConfig, rag: RagLike, judge: JudgeLike, *, force: bool = False
) -> SoakSuite[RagSummary]:
    """Return the questions of a benchmark as a soak repeats them.

    Raises:
        UsageError: the run of ``fail_on_regression`` cannot be read.
    """
    document, before = absolute(config.document), right_facts(config.fail_on_regression)

    def failed_gates(stats: SoakStats, last: Path) -> list[str]:
        """Check the mean score, all failures, and the fact questions of the last epoch."""
        score, errors = stats.means().get("rag.overall_percentage", 0.0), stats.errors
        return [
            *score_gates(score, stats.turns, errors.failed_turns, config),
            *answers_judged(errors.judged_turns, errors.judge_failures, config),
            *(regression_gates(last, config, before) if before else ()),
        ]

    return SoakSuite(
        make=lambda path, **settings: make_bench_plan(
            path, rag=rag, document=document, judge=judge, **settings
        ),
        resume=lambda directory: make_bench_resume_plan(directory, force=force, rag=rag, judge=judge),
        values=headline_values,
        failed_gates=failed_gates,
        name="rag",
        layout=QUESTIONS if judge in (None, NO_JUDGE) else JUDGED_QUESTIONS,
    )


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

    The arguments and errors are those of `make_bench_plan` and of `memfin.runtime.soak_plan.make_soak_plan`.
    """
    given = {
        **settings,
        "dataset": None if path is None else os.fspath(path),
        "document": None if document is None else os.fspath(document),
    }
    config = checked_config(given, BenchConfig, check_gate_name)
    return new_soak(config, limits, lambda named: _suite(named, rag, judge))


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
    return resumed_soak(
        Path(directory),
        BenchConfigFile,
        lambda config: _suite(
            config,
            config.agent if rag is None else rag,
            config.judge if judge is None else judge,
            force=force,
        ),
        "rag",
        force=force,
        metrics_port=metrics_port,
    )
