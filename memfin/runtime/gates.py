"""Gates: the thresholds that turn a finished run into exit code 1."""

import math
import re
from collections.abc import Mapping
from typing import Final

from memfin.contracts import EvalSummary, MetricResult, RunStats
from memfin.errors import UsageError
from memfin.metrics.aggregate import MetricsState

_NAMED: Final = re.compile(r"\s*([\w.]+)\s*=\s*([^\s=]+)\s*\Z")


def parse_value(text: str, option: str) -> tuple[str, float]:
    """Return the name and the number of ``name=x``, as ``option`` takes it.

    Raises:
        UsageError: the text has another form.
    """
    match = _NAMED.match(text)
    try:
        number = float(match[2]) if match else math.nan
    except ValueError:
        number = math.nan
    if match is None or not math.isfinite(number):
        raise UsageError(
            f"{option} {text!r}: expected metric.value=number, such as m3_risk_coverage.risk_coverage=0.8"
        )
    return match[1], number


def parse_fail_under(text: str) -> tuple[str, float]:
    """Return the value's name and the threshold of ``metric.value=x``.

    Raises:
        UsageError: the text has another form, or names no value of any metric.
    """
    name, threshold = parse_value(text, "--fail-under")
    check_value_name(name)
    return name, threshold


def check_value_name(name: str) -> None:
    """Raise `UsageError` unless some metric has a value of that name."""
    known = value_names()
    if name in known:
        return
    metric = name.partition(".")[0]
    values = [candidate for candidate in known if candidate.startswith(f"{metric}.")]
    near = values or sorted({candidate.partition(".")[0] for candidate in known})
    raise UsageError(f"--fail-under: unknown value {name!r}; known: {', '.join(near)}")


def value_names() -> list[str]:
    """Return the names of all headline values, ``metric.value``."""
    return list(headline_values(MetricsState().results()))


def failed_gates(
    summary: EvalSummary,
    stats: RunStats,
    fail_under: Mapping[str, float],
    fail_on_error: float | None,
    fail_on_judge_error: float | None = None,
) -> list[str]:
    """Return one line for every gate of `gates_failed_by` and `judge_gates_failed_by` that a run fails."""
    values = headline_values(summary.metrics)
    return [
        *gates_failed_by(values, stats.turns_by_status, fail_under, fail_on_error),
        *judge_gates_failed_by(stats.judged_turns, stats.judge_failures, fail_on_judge_error),
    ]


def judge_gates_failed_by(
    judged: int, failed: int, fail_on_judge_error: float | None, what: str = "turns"
) -> list[str]:
    """Return one line for every gate that so many failed judgements do not pass.

    ``fail_on_judge_error`` is a share of what was put to the judge or a count, as ``fail_on_error`` is of
    turns; ``what`` is the word for it. A run whose judge gave no verdict at all passes no gate.
    """
    none = f"the judge gave no verdict on any of the {judged} {what} it was asked about"
    some = f"--fail-on-judge-error {{:g}}: {failed} of {judged} judgements failed"
    return failure_gates(failed, judged, fail_on_judge_error, none, some)


def failure_gates(failed: int, total: int, limit: float | None, every: str, some: str) -> list[str]:
    """Return a line where all failed, and one where the failures reach a limit, if one is set.

    A limit below 1 and above 0 is a share, otherwise a count; 0 stands for any. ``some`` has a place
    for the limit.
    """
    problems = [every] if total and failed == total else []
    if limit is not None and failed and (failed / total if 0 < limit < 1 else failed) >= limit:
        problems.append(f"{some.format(limit)} ({failed / total:.1%})")
    return problems


def gates_failed_by(
    values: Mapping[str, float],
    turns_by_status: Mapping[str, int],
    fail_under: Mapping[str, float],
    fail_on_error: float | None,
) -> list[str]:
    """Return one line for every gate that values and turns do not pass; see `failure_gates` for the limit.

    A run in which every turn failed passes no gate at all.
    """
    total = sum(turns_by_status.values())
    failed = total - turns_by_status.get("ok", 0)
    some = f"--fail-on-error {{:g}}: {failed} of {total} turns failed"
    return [
        *failure_gates(failed, total, fail_on_error, f"every one of the {total} turns failed", some),
        *(
            f"--fail-under {name}={threshold:g}: the value is {values[name]:.6g}"
            for name, threshold in fail_under.items()
            if values[name] < threshold
        ),
    ]


def headline_values(metrics: Mapping[str, MetricResult]) -> dict[str, float]:
    """Return the values that gates may name: ``metric.value``, and ``metric.macro.value`` for macro ones."""
    return {
        f"{metric}.{prefix}{value}": number
        for metric, result in metrics.items()
        for prefix, values in (("", result.micro), ("macro.", result.macro))
        for value, number in values.items()
    }
