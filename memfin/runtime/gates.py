"""Gates: the thresholds that turn a finished run into exit code 1."""

import math
import re
from collections.abc import Iterable, Mapping
from difflib import get_close_matches
from pathlib import Path
from types import MappingProxyType
from typing import Final, NamedTuple

import msgspec

from memfin.contracts import CorrectedValue, EvalSummary, MetricResult, RunConfig, RunStats
from memfin.errors import UsageError
from memfin.metrics.aggregate import MetricsState
from memfin.metrics.corrected import RATES

_GATE: Final = re.compile(r"\s*([\w./-]+)\s*(<=|>=)\s*([^\s@<>=]+)\s*(@95)?\s*\Z")
_NAMED: Final = re.compile(r"\s*([\w./-]+)\s*=\s*([^\s=]+)\s*\Z")


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


CORRECTED: Final = ".corrected"
"""Ending of the names of rates as labels correct them."""


class Gate(NamedTuple):
    """A bound on a value; ``text`` is the option as it was given."""

    text: str
    name: str
    limit: float
    at_most: bool
    """True if the value must be at most the limit, False if at least."""
    at_bound: bool = False
    """True if the bound of the 95 % interval must hold, not the value alone."""


class GatedValue(NamedTuple):
    """A value that gates may name; ``not_measured`` is the reason where it says nothing."""

    value: float
    interval: tuple[float, float] | None = None
    not_measured: str | None = None


Directions = Mapping[str, bool]
"""The values that gates may name, each with True if less is better."""


def gates_of(config: RunConfig, directions: Directions) -> list[Gate]:
    """Return the gates on values that the settings ask for, checked.

    Raises:
        UsageError: a gate has another form, names no value, or points in the wrong direction.
    """
    gates = [
        *(
            Gate(f"--fail-under {name}={limit:g}", name, limit, at_most=False)
            for name, limit in config.fail_under.items()
        ),
        *(
            Gate(f"--fail-over {name}={limit:g}", name, limit, at_most=True)
            for name, limit in config.fail_over.items()
        ),
        *map(parse_gate, config.gate),
    ]
    for gate in gates:
        check_gate(gate, directions)
    return gates


def parse_gate(text: str) -> Gate:
    """Return the gate of ``metric.value<=x``, ``metric.value>=x``, or either with ``@95``.

    Raises:
        UsageError: the text has another form.
    """
    match = _GATE.match(text)
    try:
        limit = float(match[3]) if match else math.nan
    except ValueError:
        limit = math.nan
    if match is None or not math.isfinite(limit):
        raise UsageError(
            f"--gate {text!r}: expected metric.value<=number or >=, such as "
            "m4_compliance.severe_violation_rate<=0.01 or, for the bound of its interval, <=0.01@95"
        )
    return Gate(
        f"--gate {match[1]}{match[2]}{match[3]}{match[4] or ''}",
        match[1],
        limit,
        match[2] == "<=",
        match[4] is not None,
    )


def check_gate(gate: Gate, directions: Directions) -> None:
    """Raise `UsageError` unless there is a value of that name with this direction and range."""
    option = gate.text.partition(" ")[0]
    if gate.name not in directions:
        metric = gate.name.partition(".")[0]
        raw = [name for name in directions if not name.endswith(CORRECTED)] or list(directions)
        values = [name for name in raw if name.startswith(f"{metric}.")]
        whole = {name.partition(".")[2] or name: name for name in raw if ".macro." not in name}
        known = {**whole, **{name: name for name in directions}}
        close = list(dict.fromkeys(known[each] for each in get_close_matches(gate.name, known, cutoff=0.75)))
        near = f"known: {', '.join(values or whole.values())}"
        if close:
            near = f"did you mean {' or '.join(close)}?"
        raise UsageError(f"{option}: unknown value {gate.name!r}; {near}")
    if directions[gate.name] != gate.at_most:
        less, way, sign = (
            ("less", "--fail-over", "<=") if directions[gate.name] else ("more", "--fail-under", ">=")
        )
        raise UsageError(
            f"{option}: of {gate.name} {less} is better; use {way} {gate.name}={gate.limit:g} or "
            f"--gate '{gate.name}{sign}{gate.limit:g}'"
        )
    if gate.at_bound and ".macro." in gate.name:
        raise UsageError(f"{option}: {gate.name} has no interval; leave out @95 or .macro")
    for state in MetricsState().own:
        for share in state.shares:
            if gate.name.replace(".macro.", ".").removesuffix(CORRECTED) == f"{state.name}.{share.name}":
                check_limit(gate, share.low, share.high)


def check_limit(gate: Gate, low: float, high: float) -> None:
    """Raise `UsageError` for a limit outside the range of the value."""
    if not low <= gate.limit <= high:
        raise UsageError(f"{gate.text}: the limit is out of range; {gate.name} is from {low:g} to {high:g}")


def custom_directions(metrics: Mapping[str, MetricResult]) -> dict[str, bool]:
    """Return the values of the custom metrics among results, each with True if less is better."""
    return {
        f"{name}.{value}": result.lower_is_better
        for name, result in metrics.items()
        if result.lower_is_better is not msgspec.UNSET
        for value in result.micro
    }


def value_directions(custom: Mapping[str, bool] = MappingProxyType({})) -> Directions:
    """Return the values of the metrics: ``metric.value``, ``metric.macro.value``, ``metric.value.corrected``.

    ``custom`` are the values of custom metrics with their directions.
    """
    own = {
        f"{state.name}.{prefix}{share.name}": share.lower_is_better
        for state in MetricsState().own
        for prefix in ("", "macro.")
        for share in state.shares
        if share.broken_down or not prefix
    }
    corrected = {f"{name}{CORRECTED}": own[name] for name in RATES}
    return {
        **own,
        **{
            prefix.join(name.partition(".")[::2]): less
            for name, less in custom.items()
            for prefix in (".", ".macro.")
        },
        **corrected,
    }


def failed_gates(
    summary: EvalSummary,
    stats: RunStats,
    gates: Iterable[Gate],
    fail_on_error: float | None,
    fail_on_judge_error: float | None = None,
    directory: Path | None = None,
) -> list[str]:
    """Return one line for every gate that a run fails, on its turns, its values and its judgements."""
    return [
        *turn_gates(stats.turns_by_status, fail_on_error),
        *value_gates(gates, summary_values(summary, directory)),
        *judge_gates_failed_by(stats.judged_turns, stats.judge_failures, fail_on_judge_error),
    ]


def value_gates(gates: Iterable[Gate], values: Mapping[str, GatedValue]) -> list[str]:
    """Return one line for every gate that the values do not pass; what was not measured passes none."""
    return [f"{gate.text}: {problem}" for gate in gates if (problem := _problem(gate, values[gate.name]))]


def _problem(gate: Gate, found: GatedValue) -> str | None:
    if found.not_measured is not None:
        return f"the value was not measured: {found.not_measured}"
    shown = f"the value is {found.value:.6g}"
    held = found.value
    if gate.at_bound:
        if found.interval is None:
            return f"{shown}, and too few dialogues have it for an interval"
        held = found.interval[1 if gate.at_most else 0]
        shown += f" and the bound of its 95 % interval {held:.6g}"
    passed = held <= gate.limit if gate.at_most else held >= gate.limit
    return None if passed else shown


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


def turn_gates(turns_by_status: Mapping[str, int], fail_on_error: float | None) -> list[str]:
    """Return one line for every gate on failed turns that is not passed; see `failure_gates` for the limit.

    A run in which every turn failed passes no gate at all.
    """
    total = sum(turns_by_status.values())
    failed = total - turns_by_status.get("ok", 0)
    some = f"--fail-on-error {{:g}}: {failed} of {total} turns failed"
    every = f"every one of the {total} turns failed" if total > 1 else "the only turn failed"
    return failure_gates(failed, total, fail_on_error, every, some)


def gated_values(metrics: Mapping[str, MetricResult]) -> dict[str, GatedValue]:
    """Return the values that gates may name: ``metric.value``, and ``metric.macro.value`` for macro ones."""
    return {
        f"{metric}.{prefix}{value}": GatedValue(
            number, None if prefix else result.ci95.get(value), result.not_measured.get(value)
        )
        for metric, result in metrics.items()
        for prefix, values in (("", result.micro), ("macro.", result.macro))
        for value, number in values.items()
    }


def summary_values(summary: EvalSummary, directory: Path | None = None) -> dict[str, GatedValue]:
    """Return the values of a run that gates may name, corrected ones included."""
    return gated_values(summary.metrics) | corrected_values(directory, summary.corrected)


def corrected_values(
    directory: Path | None, values: Mapping[str, CorrectedValue | None] | msgspec.UnsetType
) -> dict[str, GatedValue]:
    """Return the corrected rates of the run in a directory; without labels they were not measured."""
    run = directory or "RUN"
    reason = (
        f"no labels of its turns; memfin label {run} makes them, or memfin plan {run} --draw N --out FILE"
    )
    if values:
        reason = "fewer than two dialogues have labels for it"
    return {
        f"{name}{CORRECTED}": GatedValue(0.0, not_measured=reason)
        if (found := (values or {}).get(name)) is None
        else GatedValue(found.value, found.ci95)
        for name in RATES
    }


def unmeasured_values(metrics: Mapping[str, MetricResult]) -> dict[str, str]:
    """Return the reasons of values that were not measured, by ``metric.value``."""
    return {
        f"{metric}.{value}": reason
        for metric, result in metrics.items()
        for value, reason in result.not_measured.items()
    }


def headline_values(metrics: Mapping[str, MetricResult]) -> dict[str, float]:
    """Return the values of `gated_values` that were measured."""
    return {name: each.value for name, each in gated_values(metrics).items() if each.not_measured is None}
