"""The report of a soak, from its summary and its epochs; the soak may still be running."""

from collections.abc import Iterator, Mapping, Sequence
from itertools import groupby, islice
from pathlib import Path
from statistics import fmean
from typing import Final, Literal

from memfin.contracts import ConfigFile, many_failed
from memfin.contracts.soak import Drift, SoakEpoch, SoakSummary
from memfin.report import model, reader
from memfin.report.glossary import LABELS, METRICS, SCORES, TYPES, warning
from memfin.report.model import duration, milliseconds, moment, percent

SUMMARY: Final = "soak_summary.json"
LINES: Final = "soak.jsonl"

Unit = Literal["share", "percent", "score", "ms", "bytes", "count", "number"]
Words = Mapping[str, str]

_MIB: Final = 1 << 20
_RAG: Final = "rag"
_MAX_EPOCHS: Final = 40
_MAX_POINTS: Final = 120
_MAX_GROWTH: Final = _MIB
_UNITS: Final[Mapping[Unit, tuple[float, str, str, float | None]]] = {
    "share": (100, "{:.1f} %", " pp", 1),
    "percent": (1, "{:.1f} %", " pp", 100),
    "score": (1, "{:.2f}", "", None),
    "ms": (1, "", " ms", None),
    "bytes": (1 / _MIB, "{:,.1f} MiB", " MiB", None),
    "count": (1, "{:,.0f}", "", None),
    "number": (1, "{:.4g}", "", None),
}
"""Scale and form of a value, the unit of its changes, and the top of its charts."""

_NAMES: Final = frozenset(metric.name for metric in METRICS)
_HEADLINES: Final = {f"{metric.name}.{metric.headline.key}": metric.code for metric in METRICS}
_SCORES: Final = {f"{_RAG}.overall_percentage": "All"} | {
    f"{_RAG}.{kind.name}.percentage": kind.title for kind in TYPES
}
_LABELS: Final = (
    {f"{metric.name}.{item.key}": item.label for metric in METRICS for item in metric.values}
    | {f"{_RAG}.overall_percentage": "Score", f"{_RAG}.pass_rate": "Questions that passed"}
    | {f"{_RAG}.{kind.name}.percentage": f"{kind.title}: score" for kind in TYPES}
    | {f"{_RAG}.{kind.name}.pass_rate": f"{kind.title}: passed" for kind in TYPES}
)
_WATCHED: Final = _HEADLINES | {f"{_RAG}.overall_percentage": "RAG"}
"""Values whose drift is worth a warning, with their names there."""

_WATCHED_OPERATION: Final = ("error_rate", "turn_latency_p50_ms", "turn_latency_p99_ms")

_TREND_NOTE: Final = (
    "The change per epoch is Sen's slope with its 95 % interval. A value drifts when the interval excludes 0 "
    "and the change over the soak is material, such as one percentage point."
)


def load_soak_report(directory: Path) -> model.Report:
    """Read a soak's directory and make the content of its report.

    Raises:
        UsageError: a file of the directory does not fit the contract.
    """
    summary = reader.read(directory / SUMMARY, SoakSummary)
    settings = reader.read(directory / reader.CONFIG, ConfigFile).settings
    epochs = list(_epochs(directory / LINES, summary.epochs))
    words = _words(summary)
    latency, errors = summary.turn_latency_ms, summary.errors
    counts = (
        ("epochs", summary.epochs, ""),
        (words["wholes"], summary.dialogs, ""),
        (words["units"], summary.turns, ""),
        (f"{words['units']} failed", errors.failed_turns, "bad"),
        (words["wholes"] and f"{words['wholes']} failed", errors.failed_dialogs or None, "bad"),
        ("judgements failed", errors.judge_failures or None, "bad"),
    )
    return model.report(
        "soak",
        summary.run_id,
        (
            (words["system"], settings.agent),
            (words["source"], settings.dataset or "the built-in sample"),
            ("State", summary.state),
            ("Started", moment(summary.started_at)),
            ("Duration", duration(summary.elapsed_seconds)),
            (f"{words['unit'].capitalize()} latency p50", milliseconds(latency.p50)),
            ("p90", milliseconds(latency.p90)),
            ("p99", milliseconds(latency.p99)),
            ("Max", milliseconds(latency.max)),
            ("Event-loop lag p99", milliseconds(summary.loop_lag_ms.p99)),
        ),
        (
            model.Counter(label, count, "bad" if level and count else "")
            for label, count, level in counts
            if label and count is not None
        ),
        (
            model.warnings_section(_warnings(summary)),
            model.section(
                "Over the epochs",
                model.Block("text", note=_TREND_NOTE),
                model.Block("linecharts", tuple(_charts(epochs, words))),
                *_trends(summary.metrics),
                _operation(summary, words),
                nav="Trends",
            ),
            _epoch_section(epochs, words),
        ),
    )


def _words(summary: SoakSummary) -> Words:
    return LABELS[f"soak_{summary.suite or 'dialog'}"]


def _epochs(path: Path, number: int) -> Iterator[SoakEpoch]:
    """Yield the epochs that the summary counts, without centroids; a later line may be incomplete."""
    if number and path.is_file():
        for epoch in islice(reader.scan(path, SoakEpoch), number):
            yield epoch.replace(
                turn_latency_ms=epoch.turn_latency_ms.replace(centroids=[]),
                loop_lag_ms=epoch.loop_lag_ms.replace(centroids=[]),
            )


def _unit_of(metric: str, value: str) -> Unit:
    """Return the unit of a metric's value; a metric that the glossary does not know is a plain number."""
    if metric == _RAG:
        return "percent" if value.endswith("percentage") else "share"
    if metric not in _NAMES:
        return "number"
    return "score" if value in SCORES else "share"


def in_unit(unit: Unit, value: float) -> str:
    """Write a value."""
    if unit == "ms":
        return milliseconds(value)
    scale, form, _, _ = _UNITS[unit]
    return form.format(value * scale)


def change_in_unit(unit: Unit, value: float) -> str:
    """Write a change with its sign; shares and percentages change by percentage points."""
    scale, _, suffix, _ = _UNITS[unit]
    return f"{value * scale:+.3g}{suffix}" if value else "0"


def _trends(metrics: Mapping[str, Drift]) -> Iterator[model.Table]:
    """Yield a table per metric: its values in the glossary's words, then all others but the macro means."""
    titles = {metric.name: f"{metric.code} {metric.title}" for metric in METRICS} | {_RAG: "Benchmark"}
    rows: dict[str, list[tuple[str, Unit, Drift]]] = {}
    for name in (*(name for name in _LABELS if name in metrics), *sorted(metrics.keys() - _LABELS.keys())):
        metric, _, value = name.partition(".")
        if not value.startswith("macro."):
            known = (_LABELS.get(name, value), _unit_of(metric, value), metrics[name])
            rows.setdefault(metric, []).append(known)
    for name in (*(name for name in titles if name in rows), *sorted(rows.keys() - titles.keys())):
        yield _trend_table(titles.get(name, name), rows[name])


def _operation(summary: SoakSummary, words: Words) -> model.Table | None:
    rows: list[tuple[str, Unit, Drift]] = [
        (_operation_label(name, words), _operation_unit(name), summary.operation[name])
        for name in LABELS["operation"]
        if name in summary.operation
    ]
    return _trend_table("Runtime and machine", rows) if rows else None


def _operation_label(name: str, words: Words) -> str:
    return LABELS["operation"][name].format(**words).capitalize()


def _operation_unit(name: str) -> Unit:
    units: dict[str, Unit] = {"rate": "share", "ms": "ms", "bytes": "bytes"}
    return units.get(name.rpartition("_")[2], "count")


def _trend_table(title: str, rows: Sequence[tuple[str, Unit, Drift]]) -> model.Table:
    def row(label: str, unit: Unit, drift: Drift) -> tuple[str, ...]:
        slope = change_in_unit(unit, drift.slope)
        if drift.ci95 is not None:
            slope += f" ({' to '.join(change_in_unit(unit, bound) for bound in drift.ci95)})"
        trend = "drifts" if drift.drifting else "none seen" if drift.ci95 is not None else "too few epochs"
        values = (drift.first, drift.last, drift.mean, drift.min, drift.max)
        return label, *(in_unit(unit, value) for value in values), slope, trend

    headings = ("Value", "First", "Last", "Mean", "Min", "Max", "Change per epoch", "Trend")
    return model.table(title, headings, "lrrrrrrl", (row(*each) for each in rows))


def _epoch_section(epochs: Sequence[SoakEpoch], words: Words) -> model.Section | None:
    shown = epochs[-_MAX_EPOCHS:]
    title = f"The last {len(shown)} epochs" if len(epochs) > len(shown) else "Epochs"
    times = ("p50", "p99", "Lag p99", "Memory", "")
    headings = ("Epoch", "Ended", "Duration", words["units"].capitalize(), "Failed", *times)
    rows = (
        (
            epoch.epoch,
            moment(epoch.ended_at),
            duration(epoch.wall_seconds),
            epoch.turns,
            epoch.errors.failed_turns,
            milliseconds(epoch.turn_latency_ms.p50),
            milliseconds(epoch.turn_latency_ms.p99),
            milliseconds(epoch.loop_lag_ms.p99),
            in_unit("bytes", epoch.resources.rss_bytes),
            "resumed" if epoch.resumed else "",
        )
        for epoch in shown
    )
    found = model.table("", headings, "rlrrrrrrrl", rows)
    return model.section(title, found, nav="Epochs") if shown else None


def _charts(epochs: Sequence[SoakEpoch], words: Words) -> Iterator[model.LineChart]:
    def values(names: Mapping[str, str]) -> dict[str, list[float | None]]:
        found = [epoch.headline_values for epoch in epochs]
        return {label: [each.get(name) for each in found] for name, label in names.items()}

    latencies: dict[str, list[float | None]] = {
        name: [epoch.turn_latency_ms[name] for epoch in epochs] for name in ("p50", "p99")
    }
    charts: tuple[tuple[str, Unit, dict[str, list[float | None]]], ...] = (
        ("Headline values", "share", values(_HEADLINES)),
        ("Score", "percent", values(_SCORES)),
        ("Resident memory after each epoch", "bytes", {"RSS": [each.resources.rss_bytes for each in epochs]}),
        (f"{words['unit'].capitalize()} latency", "ms", latencies),
        ("Event-loop lag", "ms", {"p99": [each.loop_lag_ms.p99 for each in epochs]}),
    )
    for title, unit, columns in charts:
        if (chart := _line_chart(title, unit, columns, len(epochs))) is not None:
            yield chart


def _line_chart(
    title: str, unit: Unit, columns: Mapping[str, Sequence[float | None]], epochs: int
) -> model.LineChart | None:
    """Draw values over epochs in at most `_MAX_POINTS` points; None where no line has two.

    A point is the mean of as many epochs as it takes; a gap in the values is a gap in the line.
    """
    step = max(-(-epochs // _MAX_POINTS), 1)
    drawn: dict[str, tuple[list[float | None], list[float]]] = {}
    for label, column in columns.items():
        points = [_mean(column[at : at + step]) for at in range(0, epochs, step)]
        known = [value for value in points if value is not None]
        if len(known) > 1:
            drawn[label] = points, known
    if not drawn:
        return None
    top = _UNITS[unit][3] or max(max(known) for _, known in drawn.values()) or 1.0
    width = max(-(-epochs // step) - 1, 1)
    lines = []
    for label, (points, known) in drawn.items():
        strokes = (
            tuple((at / width, value / top) for at, value in group if value is not None)
            for present, group in groupby(enumerate(points), key=lambda point: point[1] is not None)
            if present
        )
        first, last = (in_unit(unit, known[at]) for at in (0, -1))
        lines.append(model.Line(label=label, strokes=tuple(strokes), first=first, last=last))
    return model.LineChart(
        title=title,
        top=in_unit(unit, top),
        bottom=in_unit(unit, 0),
        epochs=epochs,
        lines=tuple(lines),
        note=f"Each point is the mean of {step} epochs. " if step > 1 else "",
    )


def _mean(values: Sequence[float | None]) -> float | None:
    known = [value for value in values if value is not None]
    return fmean(known) if known else None


def _warnings(summary: SoakSummary) -> Iterator[model.ReportWarning]:
    if summary.state in ("interrupted", "failed", "running"):
        yield warning(summary.state, reason=summary.reason or "continue it with memfin resume")
    for gate in summary.gates:
        yield warning("gate", gate=gate)
    if many_failed(failed := summary.errors.failed_turns, summary.turns):
        share = f"{failed} of {summary.turns} ({percent(failed / summary.turns)})"
        name = "failed_questions" if summary.suite == "rag" else "failed_turns"
        yield warning(name, share=share)
    if summary.changed:
        yield warning("changed_inputs", inputs=", ".join(summary.changed))
    yield from _drifts(summary)
    if summary.epochs and all(drift.ci95 is None for drift in summary.metrics.values()):
        yield warning("few_epochs", epochs=summary.epochs)


def _drifts(summary: SoakSummary) -> Iterator[model.ReportWarning]:
    for name, drift in summary.metrics.items():
        metric, _, value = name.partition(".")
        if drift.drifting and name in _WATCHED and drift.ci95 is not None:
            change = _change(_unit_of(metric, value), drift.slope, drift.ci95, "epoch")
            yield warning("drift", name=f"{_WATCHED[name]} {value}", change=change)
    for name in _WATCHED_OPERATION:
        found = summary.operation.get(name)
        if found is not None and found.drifting and found.ci95 is not None:
            change = _change(_operation_unit(name), found.slope, found.ci95, "epoch")
            yield warning("drift", name=_operation_label(name, _words(summary)), change=change)
    growth, bounds = summary.rss_bytes_per_100k_turns, summary.rss_ci95
    if growth is not None and bounds is not None and bounds[0] > _MAX_GROWTH:
        per = f"100,000 {_words(summary)['units']}"
        yield warning("memory_growth", change=_change("bytes", growth, bounds, per))


def _change(unit: Unit, slope: float, bounds: tuple[float, float], per: str) -> str:
    interval = " to ".join(change_in_unit(unit, bound) for bound in bounds)
    return f"{change_in_unit(unit, slope)} per {per}, 95 % interval {interval}"
