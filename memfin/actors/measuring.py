"""Custom metrics of a run: imports by reference, checks, and measuring in threads with a time-out."""

import asyncio
import inspect
import math
import re
from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from copy import deepcopy
from typing import Any, Final

import anyio

from memfin.contracts import CustomValue, Dialog, DialogTrace, TurnEvalRow
from memfin.errors import UsageError
from memfin.metrics.custom import CustomMetric, DialogMetric, TurnMetric
from memfin.metrics.state import is_failed
from memfin.sandbox.plugins import plugin_reference
from memfin.sandbox.references import check_signature, describe, import_reference, one_line, reference_of
from memfin.sandbox.thread import CallThread

MetricLike = str | CustomMetric | type[CustomMetric]

MAX_ERROR: Final = 200
"""Characters of an error in a row."""

MAX_OF: Final = 2**53
"""Bound of a denominator, up to which floats are exact."""

_NAME: Final = re.compile(r"[A-Za-z_][A-Za-z0-9_]{0,63}\Z")
_OWN: Final = re.compile(r"[mM][1-5](_|\Z)|memory\Z")
_FORMS: Final = "pkg.module:Name"
_EXPECTED: Final = "a subclass of memfin.TurnMetric or memfin.DialogMetric"


def metric_reference(metric: MetricLike) -> str:
    """Return the reference of a metric, as settings have it."""
    if isinstance(metric, str):
        return plugin_reference("metric", metric, _FORMS, "memfin.metrics")
    return reference_of(type(metric) if isinstance(metric, CustomMetric) else metric)


def resolve_metrics(metrics: Sequence[MetricLike]) -> dict[str, CustomMetric]:
    """Return the metrics of a run by their names.

    Raises:
        UsageError: a reference does not import, a class declares no usable name, version, value or range, or
            two have the same name.
    """
    if isinstance(metrics, str) or not isinstance(metrics, Sequence):
        raise UsageError(f"metrics: must be a list of classes or references, not {type(metrics).__name__}")
    found: dict[str, CustomMetric] = {}
    for each in metrics:
        reference = metric_reference(each)
        metric = _checked(each, reference)
        if metric.name in found:
            raise UsageError(f"metric {reference!r}: there is another metric named {metric.name!r}")
        found[metric.name] = metric
    return found


def directions_of(metrics: Mapping[str, CustomMetric]) -> dict[str, bool]:
    """Return the values of custom metrics, each with True if less is better."""
    return {f"{name}.{metric.blank().value}": metric.lower_is_better for name, metric in metrics.items()}


def _checked(made: Any, reference: str) -> CustomMetric:
    label = f"metric {reference!r}"
    if isinstance(made, str):
        made = import_reference("metric", reference, _FORMS)
    if callable(made) and not isinstance(made, CustomMetric):
        try:
            made = made()
        except (Exception, SystemExit) as problem:
            why = f"cannot be created without arguments: {describe(problem)}; in Python, give an instance"
            raise UsageError(f"{label}: {why}") from problem
    if not isinstance(made, TurnMetric | DialogMetric):
        raise UsageError(f"{label}: expected {_EXPECTED}, got {type(made).__name__}")
    _check_declared(made, label)
    if inspect.iscoroutinefunction(made.measure):
        raise UsageError(f"{label}: measure must be a plain method, not an async one")
    takes = ("dialog", "turn", "row") if isinstance(made, TurnMetric) else ("dialog", "trace", "rows")
    check_signature(f"{label}: measure", made.measure, takes, f"({', '.join(takes)})")
    return made


def _check_declared(made: CustomMetric, label: str) -> None:
    """Raise `UsageError` for an unusable name, version, range or name of the value."""
    name, value, version = (getattr(made, key, None) for key in ("name", "value", "version"))
    if not isinstance(name, str) or not _NAME.match(name) or _OWN.match(name):
        raise UsageError(f"{label}: name must be an identifier that does not begin as m1 to m5, not {name!r}")
    if not isinstance(version, str) or not version:
        raise UsageError(f"{label}: version must be a string such as '1', not {version!r}")
    low: Any = made.low
    high: Any = made.high
    if not all(isinstance(each, float | int) and math.isfinite(each) for each in (low, high)) or low >= high:
        raise UsageError(f"{label}: low and high must be numbers, low below high, not {low!r} and {high!r}")
    if not isinstance(value, str) or (value and not _NAME.match(value)):
        raise UsageError(f"{label}: value must be an identifier, not {value!r}")
    if (low, high) != (0, 1) and value and not value.endswith("mean"):
        raise UsageError(
            f"{label}: a value from {low:g} to {high:g} needs a name that ends in mean: {value!r}"
        )


class Measuring:
    """Measuring of a run's custom metrics, each in a thread of its own with a time-out.

    An exception, a value out of range or a time-out costs one value, with one warning per metric.
    """

    def __init__(
        self, metrics: Mapping[str, CustomMetric], timeout: float, warn: Callable[[str, str], None]
    ) -> None:
        self._callers = [_Caller(metric, timeout, warn) for metric in metrics.values()]

    async def rows(
        self, dialog: Dialog, trace: DialogTrace, rows: Sequence[TurnEvalRow]
    ) -> list[TurnEvalRow]:
        """Return the rows of a dialogue with the values of all metrics."""
        found: list[dict[str, CustomValue]] = [{} for _ in rows]
        whole = dialog, trace, rows
        for caller in self._callers if rows else ():
            metric, name = caller.metric, caller.metric.name
            with suppress(RecursionError):  # of deeply nested arguments of tools, which are then shared
                dialog, trace, rows = deepcopy(whole)  # a metric may change what it is given
            if isinstance(metric, DialogMetric) and all(map(is_failed, rows)):
                found[-1][name] = metric.blank().replace(error="no answer")
                continue
            if isinstance(metric, DialogMetric):
                found[-1][name] = await caller.value(trace.dialog_id, dialog, trace, rows)
                continue
            for place, (turn, row) in enumerate(zip(trace.turns, rows, strict=True)):
                if is_failed(row):
                    found[place][name] = metric.blank().replace(error=row.scoring_error or "no answer")
                else:
                    where = f"{trace.dialog_id}:{turn.turn_pair_id}"
                    found[place][name] = await caller.value(where, dialog, turn, row)
        return [row.replace(custom=each) for row, each in zip(whole[2], found, strict=True)]


class _Caller:
    """Calls of one metric, one after another."""

    def __init__(self, metric: CustomMetric, timeout: float, warn: Callable[[str, str], None]) -> None:
        self.metric = metric
        self._timeout = timeout
        self._warn = warn
        self._warned = False
        self._thread = CallThread(f"memfin-metric-{metric.name}")
        self._lock = anyio.Lock()

    async def value(self, where: str, *given: Any) -> CustomValue:
        """Return the value of a turn or a dialogue, or the reason for which there is none."""
        metric: Any = self.metric
        blank, problem = self.metric.blank(), f"took longer than {self._timeout:g} s (score_timeout)"
        async with self._lock:
            if self._thread.busy:  # of a call that timed out
                return blank.replace(error="is busy with an earlier value")
            with anyio.move_on_after(self._timeout):
                try:
                    hits, of = await self._thread.call(_measured, metric, given)
                    return blank.replace(hits=hits, of=of)
                except Exception as error:  # noqa: BLE001 - a user's code
                    problem = one_line(describe(error), MAX_ERROR)
        if not self._warned:
            self._warned = True
            counted = "such values count as failed, without more warnings"
            self._warn(f"metric {metric.name}: {problem} ({where}); {counted}", where.rpartition(":")[0])
        return blank.replace(error=problem)


def _measured(metric: Any, given: tuple[Any, ...]) -> tuple[float, int]:
    """Return numerator and denominator of a value; in the thread of the metric."""
    try:
        return _parts(metric.measure(*given), metric)
    except (SystemExit, GeneratorExit, asyncio.CancelledError) as problem:  # would end the run
        raise RuntimeError(describe(problem)) from problem


def _parts(value: Any, metric: CustomMetric) -> tuple[float, int]:
    """Return numerator and denominator of what a metric returned.

    Raises:
        TypeError: it is nothing of the kind.
        ValueError: it is out of range.
    """
    if value is None:
        return 0.0, 0
    hits, of = value, 1
    if isinstance(value, tuple):
        with suppress(ValueError):
            hits, of = value
    elif hasattr(value, "hits") and hasattr(value, "of"):
        hits, of = value.hits, value.of
    if not isinstance(hits, float | int) or not isinstance(of, int) or not 0 <= of < MAX_OF:
        kind = type(value).__name__
        raise TypeError(f"measure returned {kind}; expected a bool, a number, (hits, of) or None")
    if not metric.low * of <= hits <= metric.high * of:
        raise ValueError(f"measure returned {value!r}, out of the range {metric.low:g} to {metric.high:g}")
    return float(hits), int(of)
