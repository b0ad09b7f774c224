"""Gates of a benchmark run: the thresholds that turn a finished one into exit code 1."""

import hashlib
from collections.abc import Iterable, Iterator, Mapping
from pathlib import Path
from typing import Final

from memfin.contracts import BenchConfig, RunConfig, RunStats
from memfin.contracts.rag import SUMMARY, RagIndividual, RagSummary, iter_individual_results
from memfin.errors import UsageError
from memfin.runtime.gates import (
    Gate,
    GatedValue,
    failure_gates,
    gates_of,
    judge_gates_failed_by,
    value_directions,
    value_gates,
)

PERCENTAGE: Final = "overall_percentage"
"""The value that gates hold against their limits."""

MAX_NAMED: Final = 20
"""Questions that a gate names one by one."""

RightFacts = Mapping[str, bytes]
"""Fact questions that an earlier run has right: a digest of their words, by id."""


DIRECTIONS: Final = {PERCENTAGE: False}
"""The values that gates of a benchmark may name; more is better of each."""


def right_facts(run_dir: str | None) -> RightFacts:
    """Return the fact questions that a finished run answered right.

    Raises:
        UsageError: the directory holds no finished run of a benchmark, or its summary cannot be read.
    """
    if run_dir is None:
        return {}
    from memfin.rag.aggregation import is_right_fact  # noqa: PLC0415 - scoring of documents loads slowly

    path = Path(run_dir) / SUMMARY
    if not path.is_file():
        raise UsageError(
            f"--fail-on-regression {run_dir}: holds no {SUMMARY}; name the directory of a finished "
            "memfin bench"
        )
    return {one.id: _words(one) for one in iter_individual_results(path) if is_right_fact(one)}


def failed_bench_gates(
    summary: RagSummary, directory: Path, stats: RunStats, config: BenchConfig, before: RightFacts
) -> list[str]:
    """Return one line for every gate that the finished run in a directory does not pass.

    ``before`` are the fact questions that must not have got worse; one that is no longer asked, or
    asked in other words, blocks nothing. A run in which the system failed on every question passes no
    gate at all.
    """
    total, failed = summary.total_tests, total_errors(stats)
    return [
        *score_gates(summary.overall_percentage, total, failed, config, summary.ci95),
        *regression_gates(directory, config, before),
        *answers_judged(stats.judged_turns, stats.judge_failures, config),
    ]


def answers_judged(judged: int, failed: int, config: BenchConfig) -> list[str]:
    """Return one line for every gate that so many failures of the answers that were judged do not pass."""
    return judge_gates_failed_by(judged, failed, config.fail_on_judge_error, "answers")


def score_gates(
    percentage: float,
    total: int,
    failed: int,
    config: BenchConfig,
    intervals: Mapping[str, tuple[float, float]],
) -> list[str]:
    """Return one line for every gate that a score, and so many failures of all questions, do not pass."""
    every = f"the system failed on every one of the {total} questions"
    some = f"--fail-on-error {{:g}}: the system failed on {failed} of {total} questions"
    gates = [bench_gate(gate) for gate in gates_of(config, DIRECTIONS)]
    interval = score_interval(intervals)
    return [
        *failure_gates(failed, total, config.fail_on_error, every, some),
        *value_gates(gates, {PERCENTAGE: GatedValue(percentage, interval)}),
    ]


def bench_gate(gate: Gate) -> Gate:
    """Return the gate with its text as it is written for a benchmark, without the one value's name."""
    return gate._replace(text=gate.text.replace(f" {PERCENTAGE}=", " "))


def gate_texts(config: RunConfig) -> list[str]:
    """Return the gates of a run's or a benchmark's settings, as the lines of failed ones begin."""
    texts = [bench_gate(gate).text for gate in gates_of(config, {**value_directions(), **DIRECTIONS})]
    limits = ((name, config[name]) for name in ("fail_on_error", "fail_on_judge_error"))
    texts += [f"--{name.replace('_', '-')} {limit:g}" for name, limit in limits if limit is not None]
    before = config.fail_on_regression if isinstance(config, BenchConfig) else None
    return texts if before is None else [*texts, f"--fail-on-regression {before}"]


def score_interval(intervals: Mapping[str, tuple[float, float]]) -> tuple[float, float] | None:
    """Return the 95 % interval of the score in percent, of those of a summary."""
    bounds = intervals.get("score")
    return None if bounds is None else (100 * bounds[0], 100 * bounds[1])


def regression_gates(directory: Path, config: BenchConfig, before: RightFacts) -> list[str]:
    """Return the line that names the fact questions of ``before`` that got worse, if there are any."""
    from memfin.rag.aggregation import regressions  # noqa: PLC0415 - as above

    worse = regressions(before, _same(directory, before))
    if not worse:
        return []
    named = ", ".join(worse[:MAX_NAMED]) + (", ..." if len(worse) > MAX_NAMED else "")
    line = f"{len(worse)} fact questions that were right are wrong now: {named}"
    return [f"--fail-on-regression {config.fail_on_regression}: {line}"]


def total_errors(stats: RunStats) -> int:
    """Return on how many questions the system failed."""
    return sum(stats.turns_by_status.values()) - stats.turns_by_status.get("ok", 0)


def not_asked(directory: Path, before: RightFacts) -> list[str]:
    """Return the ids of questions that were right before and are not asked now in the same words."""
    asked = {one.id for one in _same(directory, before)}
    return [name for name in before if name not in asked]


def _same(directory: Path, before: RightFacts) -> Iterator[RagIndividual]:
    """Yield the results of a run of the questions that were asked before in the same words."""
    listed: Iterable[RagIndividual] = iter_individual_results(directory / SUMMARY) if before else ()
    return (one for one in listed if before.get(one.id) == _words(one))


def _words(one: RagIndividual) -> bytes:
    return hashlib.blake2b(one.question.encode(), digest_size=16).digest()
