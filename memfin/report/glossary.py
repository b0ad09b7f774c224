"""Labels and explanations of metrics and scores, and the warnings, from ``data/templates/report.toml``."""

from collections.abc import Iterator, Mapping
from importlib.resources import files
from typing import Any, Final, Literal

import msgspec

from memfin.report.model import ReportWarning
from memfin.report.reader import Figures


class ValueText(msgspec.Struct, frozen=True):
    """A value of a metric; ``denominator`` is the count that it is divided by.

    A ``share`` of 0 to 1 is written as per cent, a ``score`` is a mark of 1 to 5.
    """

    key: str
    label: str
    meaning: str
    better: Literal["higher", "lower"] = "higher"
    scale: Literal["share", "score"] = "share"
    denominator: str = "eligible_count"


class MetricText(msgspec.Struct, frozen=True):
    """One metric; ``values`` in the order of display."""

    name: str
    code: str
    title: str
    meaning: str
    values: tuple[ValueText, ...]

    @property
    def headline(self) -> ValueText:
        """Return the value that stands for the metric in comparisons: the first that should be high."""
        return next(value for value in self.values if value.better == "higher")


class TypeText(msgspec.Struct, frozen=True):
    """A type of benchmark question; ``parts`` of its score have a name, a label and a weight."""

    name: str
    title: str
    meaning: str
    parts: tuple[tuple[str, str, float], ...]


class _Warning(msgspec.Struct):
    title: str
    text: str
    level: Literal["warning", "note"] = "warning"


class _Glossary(msgspec.Struct):
    warnings: dict[str, _Warning]
    metrics: tuple[MetricText, ...]
    types: tuple[TypeText, ...]
    labels: dict[str, dict[str, str]]
    notes: dict[str, dict[str, str]]


_GLOSSARY: Final = msgspec.toml.decode(
    (files("memfin") / "data" / "templates" / "report.toml").read_text("utf-8"), type=_Glossary
)
METRICS: Final = _GLOSSARY.metrics
TYPES: Final = _GLOSSARY.types
NOTES: Final = {name: tuple(notes.items()) for name, notes in _GLOSSARY.notes.items()}
"""Explanations at the end of a report: ``dialog``, ``rag``, and ``rag_judge`` for runs with a judge."""

LABELS: Final = _GLOSSARY.labels
MARKS: Final = LABELS["marks"]
"""A judge's marks for answers of a benchmark, by their names in results."""

MARK_SCALE: Final = (1.0, 5.0)
SCORES: Final = frozenset(
    value.key for metric in METRICS for value in metric.values if value.scale == "score"
)
_DENOMINATORS: Final = {value.key: value.denominator for metric in METRICS for value in metric.values}


def warning(name: str, /, level: Literal["warning", "note"] | None = None, **values: Any) -> ReportWarning:
    """Return a warning of ``report.toml`` with its fields filled in."""
    words = _GLOSSARY.warnings[name]
    return ReportWarning(words.title.format(**values), words.text.format(**values), level or words.level)


def is_measured(key: str, counts: Mapping[str, int]) -> bool:
    """Return False for a value of a metric without a denominator, which is a bare 0."""
    eligible = counts.get("eligible_count", 0)
    return counts.get(_DENOMINATORS.get(key, "eligible_count"), eligible) > 0


def measured(key: str, figures: Figures) -> tuple[float | None, float | None]:
    """Return the micro and macro value, None for a value without a denominator."""
    known = is_measured(key, figures.counts)
    return (figures.micro.get(key), figures.macro.get(key)) if known else (None, None)


def metric_rows(text: MetricText, figures: Figures) -> Iterator[tuple[ValueText, tuple[int, ...] | None]]:
    """Yield the values that a summary has; beside the first the eligible, skipped and failed counts."""
    counts = tuple(figures.counts.get(f"{kind}_count", 0) for kind in ("eligible", "skipped", "failed"))
    shown = [value for value in text.values if value.key in figures.micro]
    yield from ((value, None if place else counts) for place, value in enumerate(shown))


def format_value(key: str, value: float | None) -> str:
    """Write a value of a summary: per cent, or judge scores with two decimals; None as a dash."""
    if value is None:
        return "-"
    return f"{value:.2f}" if key in SCORES else f"{100 * value:.1f} %"


def format_interval(key: str, bounds: tuple[float, float] | None) -> str:
    """Write a confidence interval in the unit of its value; a dash when there is none."""
    if bounds is None:
        return "-"
    low, high = bounds
    return f"{low:.2f} to {high:.2f}" if key in SCORES else f"{100 * low:.1f} to {100 * high:.1f} %"
