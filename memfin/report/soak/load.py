"""Makes the model of a soak's report from its summary and its lines."""

from collections.abc import Callable, Iterator, Mapping, Sequence
from itertools import islice
from pathlib import Path
from statistics import fmean
from typing import Any, Final

from memfin.contracts import ConfigFile
from memfin.contracts.reading import iter_jsonl, read_json
from memfin.contracts.soak import Drift, SoakEpoch, SoakSummary
from memfin.report.glossary import METRICS
from memfin.report.model import Caution
from memfin.report.rag.words import TYPES
from memfin.report.soak.model import (
    OPERATION,
    RAG,
    WORDS,
    Course,
    SoakReportModel,
    SoakWords,
    TrendRow,
    TrendTable,
    change_in_unit,
    unit_of,
)

SUMMARY: Final = "soak_summary.json"
LINES: Final = "soak.jsonl"

_MOST_EPOCHS: Final = 40
_MOST_POINTS: Final = 120
_MOST_GROWTH: Final = 1 << 20
_HEADLINES: Final = {f"{metric.name}.{metric.headline.key}": metric.code for metric in METRICS}
_SCORES: Final = {f"{RAG}.overall_percentage": "All"} | {
    f"{RAG}.{kind.name}.percentage": kind.title for kind in TYPES
}
_RAG_WORDS: Final = (
    {f"{RAG}.overall_percentage": "Score", f"{RAG}.pass_rate": "Questions that passed"}
    | {f"{RAG}.{kind.name}.percentage": f"{kind.title}: score" for kind in TYPES}
    | {f"{RAG}.{kind.name}.pass_rate": f"{kind.title}: passed" for kind in TYPES}
)
_WATCHED: Final = _HEADLINES | {f"{RAG}.overall_percentage": "RAG"}
"""Values whose drift is worth a warning, with the names that it gives them."""


def is_soak_directory(path: Path) -> bool:
    """Say whether a directory is that of a soak."""
    return (path / SUMMARY).is_file()


def load_soak_report(directory: Path) -> SoakReportModel:
    """Read a soak's directory and make the model of its report; the soak may still be going on.

    Raises:
        UsageError: a file of the directory does not fit the contract.
    """
    summary = read_json(directory / SUMMARY, SoakSummary)
    config = read_json(directory / "config.json", ConfigFile)
    epochs = list(_epochs(directory / LINES, summary.epochs))
    words = WORDS[summary.suite or "dialog"]
    return SoakReportModel(
        summary=summary,
        words=words,
        agent=config.settings.agent,
        dataset=config.settings.dataset or "the built-in sample",
        cautions=list(_cautions(summary)),
        metrics=list(_tables(summary.metrics)),
        operation=TrendTable(
            title="The runtime and the machine",
            rows=[
                TrendRow(
                    label=label.format(unit=words.unit, units=words.units).capitalize(),
                    unit=unit,
                    drift=summary.operation[name],
                )
                for name, (label, unit) in OPERATION.items()
                if name in summary.operation
            ],
        ),
        courses=list(_courses(epochs, words)),
        epochs=epochs[-_MOST_EPOCHS:],
        omitted=max(len(epochs) - _MOST_EPOCHS, 0),
    )


def _epochs(path: Path, number: int) -> Iterator[SoakEpoch]:
    """Yield the epochs that the summary counts, without centroids; a line behind them may not be whole."""
    if number and path.is_file():
        for _, epoch in islice(iter_jsonl(path, SoakEpoch), number):
            yield epoch.replace(
                turn_latency_ms=epoch.turn_latency_ms.replace(centroids=[]),
                loop_lag_ms=epoch.loop_lag_ms.replace(centroids=[]),
            )


def _tables(metrics: Mapping[str, Drift]) -> Iterator[TrendTable]:
    """Yield a table for each metric: its values in the glossary's words, then all others but the means."""
    titles = {metric.name: f"{metric.code} {metric.title}" for metric in METRICS} | {RAG: "Benchmark"}
    words = {
        f"{metric.name}.{item.key}": item.label for metric in METRICS for item in metric.values
    } | _RAG_WORDS
    rows: dict[str, list[TrendRow]] = {}
    for name in (*(name for name in words if name in metrics), *sorted(metrics.keys() - words.keys())):
        metric, _, value = name.partition(".")
        if not value.startswith("macro."):
            label, unit = words.get(name, value), unit_of(metric, value)
            rows.setdefault(metric, []).append(TrendRow(label=label, unit=unit, drift=metrics[name]))
    known = [name for name in titles if name in rows]
    for name in (*known, *sorted(rows.keys() - titles.keys())):
        yield TrendTable(title=titles.get(name, name), rows=rows[name])


def _courses(epochs: Sequence[SoakEpoch], words: SoakWords) -> Iterator[Course]:
    for name, title, unit, names in (
        ("metrics", "Headline values", "share", _HEADLINES),
        ("rag", "Score", "percent", _SCORES),
    ):
        heads = {
            label: [epoch.metrics.get(value) for epoch in epochs]
            for value, label in names.items()
            if any(value in epoch.metrics for epoch in epochs)
        }
        if heads:
            yield _course(name, title, unit, heads)
    pieces: tuple[tuple[str, str, Any, dict[str, Callable[[SoakEpoch], float]]], ...] = (
        ("memory", "Resident memory after each epoch", "bytes", {"RSS": lambda e: e.resources.rss_bytes}),
        (
            "latency",
            f"{words.unit.capitalize()} latency",
            "ms",
            {"p50": lambda e: e.turn_latency_ms.p50, "p99": lambda e: e.turn_latency_ms.p99},
        ),
        ("lag", "Event-loop lag", "ms", {"p99": lambda e: e.loop_lag_ms.p99}),
    )
    for name, title, unit, lines in pieces:
        values = {label: [float(of(epoch)) for epoch in epochs] for label, of in lines.items()}
        yield _course(name, title, unit, values)


def _course(name: str, title: str, unit: Any, values: Mapping[str, Sequence[float | None]]) -> Course:
    """Return a course of at most `_MOST_POINTS` points; a point stands for so many epochs as it takes."""
    count = max(map(len, values.values()))
    step = max(-(-count // _MOST_POINTS), 1)
    lines = {
        label: [
            (low + 1, fmean(known))
            for low in range(0, len(line), step)
            if (known := [value for value in line[low : low + step] if value is not None])
        ]
        for label, line in values.items()
    }
    return Course(name=name, title=title, unit=unit, lines=lines, thinned=step)


def _cautions(summary: SoakSummary) -> Iterator[Caution]:
    ended = {
        "interrupted": "The soak was interrupted",
        "failed": "The soak failed",
        "running": "The soak goes on, or its process was killed",
    }
    if summary.state in ended:
        detail = summary.reason or "memfin resume goes on with it"
        yield Caution(
            level="note" if summary.state == "running" else "warning",
            title=ended[summary.state],
            detail=detail,
        )
    for gate in summary.gates:
        yield Caution(level="warning", title="A gate is not passed", detail=gate)
    if summary.changed:
        yield Caution(
            level="warning", title="Inputs changed under the soak", detail=", ".join(summary.changed)
        )
    for name, drift in summary.metrics.items():
        metric, _, value = name.partition(".")
        if drift.drifting and name in _WATCHED and drift.ci95 is not None:
            unit = unit_of(metric, value)
            low, high = (change_in_unit(unit, bound) for bound in drift.ci95)
            yield Caution(
                level="warning",
                title=f"{_WATCHED[name]} {value} drifts",
                detail=f"{change_in_unit(unit, drift.slope)} an epoch, 95 % interval {low} to {high}",
            )
    growth, bounds = summary.rss_bytes_per_100k_turns, summary.rss_ci95
    units = WORDS[summary.suite or "dialog"].units
    if growth is not None and bounds is not None and bounds[0] > _MOST_GROWTH:
        low, high = (change_in_unit("bytes", bound) for bound in bounds)
        yield Caution(
            level="warning",
            title="Memory grows",
            detail=f"{change_in_unit('bytes', growth)} in 100,000 {units}, 95 % interval {low} to {high}",
        )
    if summary.epochs and all(drift.ci95 is None for drift in summary.metrics.values()):
        yield Caution(
            level="note",
            title="Too few epochs for a trend",
            detail=f"{summary.epochs} epochs say nothing about drift; intervals need more",
        )
