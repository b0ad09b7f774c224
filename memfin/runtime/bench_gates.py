"""Gates of a benchmark run: the thresholds that turn a finished one into exit code 1."""

from collections.abc import Mapping
from pathlib import Path
from typing import Final

from memfin.contracts import BenchConfig, RunStats
from memfin.contracts.rag import RagIndividual, RagSummary
from memfin.contracts.reading import read_json
from memfin.errors import UsageError
from memfin.rag.aggregation import is_right, regressions
from memfin.runtime.gates import reached

SUMMARY: Final = "rag_summary.json"

PERCENTAGE: Final = "overall_percentage"
"""The value that ``--fail-under`` holds against its threshold."""

MOST_NAMED: Final = 20
"""Questions that a gate names one by one."""


def check_gate_name(name: str) -> None:
    """Raise `UsageError` unless a gate may have that name."""
    if name != PERCENTAGE:
        raise UsageError(f"fail_under: unknown value {name!r}; known: {PERCENTAGE}")


def right_facts(run_dir: str | None) -> Mapping[str, RagIndividual]:
    """Return the fact questions that a finished run answered right, by id.

    Raises:
        UsageError: the directory holds no finished run of a benchmark, or its summary cannot be read.
    """
    if run_dir is None:
        return {}
    path = Path(run_dir) / SUMMARY
    if not path.is_file():
        raise UsageError(
            f"--fail-on-regression {run_dir}: holds no {SUMMARY}; name the directory of a finished "
            "memfin bench"
        )
    results = read_json(path, RagSummary).individual_results
    return {one.id: one for one in results if one.type == "fact_exact" and is_right(one)}


def failed_bench_gates(
    summary: RagSummary, stats: RunStats, config: BenchConfig, before: Mapping[str, RagIndividual]
) -> list[str]:
    """Return one line for every gate that a finished run does not pass.

    ``before`` are the fact questions that must not have got worse, by id; one that is no longer asked, or
    asked in other words, blocks nothing. A run in which the system failed on every question passes no
    gate at all.
    """
    total, failed = summary.total_tests, total_errors(stats)
    return [
        *score_gates(summary.overall_percentage, total, failed, config),
        *regression_gates(summary, config, before),
    ]


def score_gates(percentage: float, total: int, failed: int, config: BenchConfig) -> list[str]:
    """Return one line for every gate that a score, and so many failures of all questions, do not pass."""
    problems: list[str] = []
    if total and failed == total:
        problems.append(f"the system failed on every one of the {total} questions")
    limit = config.fail_on_error
    if limit is not None and failed and reached(failed, total, limit):
        problems.append(
            f"--fail-on-error {limit:g}: the system failed on {failed} of {total} questions "
            f"({failed / total:.1%})"
        )
    threshold = config.fail_under.get(PERCENTAGE)
    if threshold is not None and percentage < threshold:
        problems.append(f"--fail-under {threshold:g}: the score is {percentage:.6g} %")
    return problems


def regression_gates(
    summary: RagSummary, config: BenchConfig, before: Mapping[str, RagIndividual]
) -> list[str]:
    """Return the line that names the fact questions of ``before`` that got worse, if there are any."""
    worse = regressions(before, _same(summary, before))
    if not worse:
        return []
    named = ", ".join(worse[:MOST_NAMED]) + (", ..." if len(worse) > MOST_NAMED else "")
    line = f"{len(worse)} fact questions that were right are wrong now: {named}"
    return [f"--fail-on-regression {config.fail_on_regression}: {line}"]


def total_errors(stats: RunStats) -> int:
    """Return on how many questions the system failed."""
    return sum(stats.turns_by_status.values()) - stats.turns_by_status.get("ok", 0)


def not_asked(summary: RagSummary, before: Mapping[str, RagIndividual]) -> list[str]:
    """Return the ids of questions that were right before and are not asked now in the same words."""
    asked = {one.id for one in _same(summary, before)}
    return [name for name in before if name not in asked]


def _same(summary: RagSummary, before: Mapping[str, RagIndividual]) -> list[RagIndividual]:
    """Return the results of the questions that were asked before in the same words."""
    return [
        one
        for one in summary.individual_results
        if one.id in before and before[one.id].question == one.question
    ]
