"""Plans of soaks of a benchmark: the same questions, epoch after epoch (RAG benchmark schema)."""

import os
from collections.abc import Callable
from pathlib import Path
from typing import Any, Final

from memfin.contracts import NO_JUDGE, BenchConfig, BenchConfigFile, SoakLimits
from memfin.contracts.rag import RagSummary
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
from memfin.runtime.soak_plan import SoakPlan, SoakSuite, new_soak, resumed_soak
from memfin.runtime.soak_stats import SoakStats


def _gates(config: BenchConfig) -> Callable[[SoakStats, Path], list[str]]:
    """Return what checks the mean score, all failures, and the fact questions of the last epoch.

    Raises:
        UsageError: the run of ``fail_on_regression`` cannot be read.
    """
    before = right_facts(config.fail_on_regression)

    def failed_gates(stats: SoakStats, last: Path) -> list[str]:
        score, errors = stats.means().get("rag.overall_percentage", 0.0), stats.errors
        return [
            *score_gates(score, stats.turns, errors.failed_turns, config),
            *answers_judged(errors.judged_turns, errors.judge_failures, config),
            *(regression_gates(last, config, before) if before else ()),
        ]

    return failed_gates


QUESTIONS: Final = SoakSuite[RagSummary](
    make=make_bench_plan,
    resume=make_bench_resume_plan,
    config_file=BenchConfigFile,
    system="rag",
    values=headline_values,
    gates=_gates,
    name="rag",
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
    return new_soak(QUESTIONS, config, limits, rag=rag, judge=judge)


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
    return resumed_soak(QUESTIONS, Path(directory), force=force, metrics_port=metrics_port, **system)
