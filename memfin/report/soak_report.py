"""The report of a soak, from its summary and its epochs; the soak may still be running."""

from collections.abc import Collection, Iterator, Mapping, Sequence
from itertools import groupby, islice
from pathlib import Path
from statistics import fmean
from typing import Final, Literal

from memfin.contracts import ConfigFile, many_failed
from memfin.contracts.soak import Drift, SoakEpoch, SoakSummary
from memfin.language import marked, tr, tr_counted
from memfin.metrics.reliability import spread
from memfin.report import model, reader
from memfin.report.glossary import (
    ALL_METRICS,
    METRICS,
    TYPES,
    format_interval,
    is_custom,
    is_score,
    labels,
    value_label,
    warning,
)
from memfin.report.model import duration, milliseconds, moment, percent
from memfin.text.lines import visible

SUMMARY: Final = "soak_summary.json"
LINES: Final = "soak.jsonl"

Unit = Literal["share", "percent", "score", "ms", "bytes", "count"]
Words = Mapping[str, str]

_MIB: Final = 1 << 20
_RAG: Final = "rag"
_MAX_EPOCHS: Final = 40
_MAX_POINTS: Final = 120
_MAX_GROWTH: Final = _MIB
_MAX_PASS_K: Final = 10
_MAX_UNRELIABLE: Final = 20
_MAX_LINES: Final = 5
_UNITS: Final[Mapping[Unit, tuple[float, str, str, float | None]]] = {
    "share": (100, "", marked("{change} pp"), 1),
    "percent": (1, "", marked("{change} pp"), 100),
    "score": (1, "{:.2f}", "{change}", None),
    "ms": (1, "", marked("{change} ms"), None),
    "bytes": (1 / _MIB, "{:,.1f} MiB", "{change} MiB", None),
    "count": (1, "{:,.0f}", "{change}", None),
}
"""Scale and form of a value, form of its changes, and the top of its charts."""

_HEADLINES: Final = {f"{metric.name}.{metric.headline.key}": metric.code for metric in METRICS}
_WATCHED: Final = {
    **{f"{metric.name}.{metric.headline.key}": metric.code for metric in ALL_METRICS},
    f"{_RAG}.overall_percentage": "RAG",
}
"""Values whose drift is worth a warning, with their names there."""

_WATCHED_OPERATION: Final = ("error_rate", "turn_latency_p50_ms", "turn_latency_p99_ms")

_TREND_NOTE: Final = marked(
    "The change per epoch is Sen's slope with its 95 % interval. A value drifts when the interval excludes 0 "
    "and the change over the soak is material, such as one percentage point."
)

_PASS_NOTES: Final = {
    "dialog": marked(
        "pass^k is the probability that k repeats of a dialogue all pass. A dialogue passes when every turn "
        "was answered, and no turn is a severe violation or contradicts a constraint of the client."
    ),
    "rag": marked("pass^k is the probability that a question passes in k of k repeats."),
}


def _scores() -> dict[str, str]:
    """Return the labels of the scores of a benchmark, all and by type."""
    return {f"{_RAG}.overall_percentage": tr("All")} | {
        f"{_RAG}.{kind.name}.percentage": kind.title for kind in TYPES
    }


def _labels() -> dict[str, str]:
    """Return the labels of values, in the order of tables."""
    return (
        {f"{metric.name}.{item.key}": item.label for metric in ALL_METRICS for item in metric.values}
        | {f"{_RAG}.overall_percentage": tr("Score"), f"{_RAG}.pass_rate": tr("Questions that passed")}
        | {f"{_RAG}.{kind.name}.percentage": tr("{type}: score", type=kind.title) for kind in TYPES}
        | {f"{_RAG}.{kind.name}.pass_rate": tr("{type}: passed", type=kind.title) for kind in TYPES}
    )


def load_soak_report(directory: Path) -> model.Report:
    """Read a soak's directory and make the content of its report.

    Raises:
        UsageError: a file of the directory does not fit the contract.
    """
    summary = reader.read(directory / SUMMARY, SoakSummary)
    settings = reader.read(directory / reader.CONFIG, ConfigFile).settings
    epochs = list(epochs_of(directory / LINES, summary.epochs))
    words = _words(summary)
    latency, errors = summary.turn_latency_ms, summary.errors
    counts = (
        (tr_counted(summary.epochs, marked("epoch"), marked("epochs")), summary.epochs, ""),
        (words["wholes"], summary.dialogs, ""),
        (words["units"], summary.turns, ""),
        (tr("{units} failed", units=words["units"]), errors.failed_turns, "bad"),
        (
            words["wholes"] and tr("{units} failed", units=words["wholes"]),
            errors.failed_dialogs or None,
            "bad",
        ),
        (tr("judgements failed"), errors.judge_failures or None, "bad"),
    )
    return model.report(
        tr("MemFin soak report"),
        summary.run_id,
        (
            (words["system"], settings.agent),
            (words["source"], settings.dataset or tr("the built-in sample")),
            (tr("State"), labels("soak_states")[summary.state]),
            (tr("Started"), moment(summary.started_at)),
            (tr("Duration"), duration(summary.elapsed_seconds)),
            (tr("{unit} latency p50", unit=words["unit"].capitalize()), milliseconds(latency.p50)),
            ("p90", milliseconds(latency.p90)),
            ("p99", milliseconds(latency.p99)),
            (tr("Max"), milliseconds(latency.max)),
            (tr("Event-loop lag p99"), milliseconds(summary.loop_lag_ms.p99)),
        ),
        (
            model.Counter(label, count, "bad" if level and count else "")
            for label, count, level in counts
            if label and count is not None
        ),
        (
            model.warnings_section(warnings_of(summary)),
            _repeats(summary),
            model.section(
                "trends",
                tr("Over the epochs"),
                model.Block("text", note=tr(_TREND_NOTE)),
                model.Block("linecharts", tuple(charts_of(summary, epochs))),
                *(trend_table(title, rows) for title, rows in trends(summary)),
                *(model.Block("text", note=line) for line in unmeasured_lines(summary)),
                nav=tr("Trends"),
            ),
            _epoch_section(epochs, words),
        ),
    )


def _repeats(summary: SoakSummary) -> model.Section | None:
    """Return the section with pass^k and the least reliable dialogues; None for a soak without repeats."""
    found = summary.reliability
    if not found:
        return None
    values = []
    for each in spread(found.pass_k, _MAX_PASS_K):
        interval = format_interval("pass_k", each.ci95) if each.ci95 else None
        values.append((f"pass^{each.k}", percent(each.value), interval, each.value))
    failing = sorted((passed, name) for name, passed in found.passes.items() if passed < found.repeats)
    rows = (
        (
            visible(name),
            tr("{count:,} of {total:,}", count=passed, total=found.repeats),
            passed / found.repeats,
        )
        for passed, name in failing[:_MAX_UNRELIABLE]
    )
    kind = summary.suite or "dialog"
    wholes, least, none = (
        (tr("Question"), tr("Least reliable questions"), tr("All questions passed in every repeat."))
        if kind == _RAG
        else (tr("Dialogue"), tr("Least reliable dialogues"), tr("All dialogues passed in every repeat."))
    )
    counts = {"count": len(failing), "total": len(found.passes)}
    return model.section(
        "reliability",
        tr("Reliability over {count} repeats", count=found.repeats),
        model.table("", ("", tr("Value"), tr("95 % interval"), ""), "lrrb", values, tr(_PASS_NOTES[kind])),
        model.table(
            least,
            (wholes, tr("Passed"), ""),
            "crb",
            rows,
            tr("{count:,} of {total:,} failed at least once.", **counts),
        )
        if failing
        else model.Block("text", note=none),
        nav=tr("Reliability"),
    )


def _words(summary: SoakSummary) -> Words:
    return labels(f"soak_{summary.suite or 'dialog'}")


def epochs_of(path: Path, number: int) -> Iterator[SoakEpoch]:
    """Yield the epochs that the summary counts, without centroids; a later line may be incomplete."""
    if number and path.is_file():
        for epoch in islice(reader.scan(path, SoakEpoch), number):
            yield epoch.replace(
                turn_latency_ms=epoch.turn_latency_ms.replace(centroids=[]),
                loop_lag_ms=epoch.loop_lag_ms.replace(centroids=[]),
            )


def _unit_of(metric: str, value: str) -> Unit:
    """Return the unit of a metric's value, MemFin's own or custom."""
    if metric == _RAG and not value.startswith("judge."):
        return "percent" if value.endswith("percentage") else "share"
    return "score" if metric == _RAG or is_score(value) else "share"


def unit_of(name: str) -> Unit:
    """Return the unit of ``metric.value``."""
    metric, _, value = name.partition(".")
    return _unit_of(metric, value)


def _is_custom(name: str) -> bool:
    metric, _, value = name.partition(".")
    return is_custom(name) and metric != _RAG and not value.startswith("macro.")


def in_unit(unit: Unit, value: float) -> str:
    """Write a value."""
    if unit == "ms":
        return milliseconds(value)
    scale, form, _, _ = _UNITS[unit]
    if unit in ("share", "percent"):
        return percent(value * scale / 100)
    return form.format(value * scale)


def change_in_unit(unit: Unit, value: float, *, bare: bool = False) -> str:
    """Write a change with its sign, ``bare`` without unit; shares change by percentage points."""
    scale, _, form, _ = _UNITS[unit]
    number = f"{value * scale:+.3g}" if value else "0"
    return number if bare or not value else tr(form, change=number)


def trends(summary: SoakSummary) -> Iterator[tuple[str, list[tuple[str, Unit, Drift]]]]:
    """Yield values by metric, those of the glossary first, without macro means, and those of operation."""
    metrics, words, texts = summary.metrics, _words(summary), _labels()
    titles = {metric.name: f"{metric.code} {metric.title}" for metric in ALL_METRICS}
    titles[_RAG] = tr("Benchmark")
    rows: dict[str, list[tuple[str, Unit, Drift]]] = {}
    for name in (*(name for name in texts if name in metrics), *sorted(metrics.keys() - texts.keys())):
        metric, _, value = name.partition(".")
        if not value.startswith("macro."):
            known = (texts.get(name) or value_label(value), _unit_of(metric, value), metrics[name])
            rows.setdefault(metric, []).append(known)
    for name in (*(name for name in titles if name in rows), *sorted(rows.keys() - titles.keys())):
        yield titles.get(name) or f"{name} {tr('Custom metric')}", rows[name]
    operation = summary.operation
    if names := [name for name in labels("operation") if name in operation]:
        yield (
            tr("Runtime and machine"),
            [(_operation_label(name, words), _operation_unit(name), operation[name]) for name in names],
        )


def unmeasured_lines(summary: SoakSummary) -> Iterator[str]:
    """Yield a line per metric and reason why headline values were not measured in the last epoch."""
    codes, texts, found = {each.name: each.code for each in ALL_METRICS}, _labels(), summary.not_measured
    reasons: dict[tuple[str, str], list[str]] = {}
    for name in (*(name for name in texts if name in found), *sorted(filter(is_custom, found))):
        metric, _, value = name.partition(".")
        label = texts.get(name) or value_label(value)
        reasons.setdefault((codes.get(metric, metric), found[name]), []).append(label)
    for (code, reason), names in reasons.items():
        text = f"{code} {tr(', ').join(names)}"
        yield tr("{value}: not measured, {reason}", value=text, reason=tr(reason))


def _operation_label(name: str, words: Words) -> str:
    return labels("operation")[name].format(**words).capitalize()


def _operation_unit(name: str) -> Unit:
    units: dict[str, Unit] = {"rate": "share", "ms": "ms", "bytes": "bytes"}
    return units.get(name.rpartition("_")[2], "count")


def trend_table(title: str, rows: Sequence[tuple[str, Unit, Drift]]) -> model.Table:
    """Return the table of some values with their changes per epoch."""

    def row(label: str, unit: Unit, drift: Drift) -> tuple[str, ...]:
        slope = change_in_unit(unit, drift.slope)
        if drift.ci95 is not None and drift.ci95[0] < drift.ci95[1]:  # of values that never change, none
            slope += f" ({_interval(unit, drift.ci95)})"
        trend = tr("none seen") if drift.ci95 is not None else tr("too few epochs")
        trend = tr("drifts") if drift.drifting else trend
        values = (drift.first, drift.last, drift.mean, drift.min, drift.max)
        return label, *(in_unit(unit, value) for value in values), slope, trend

    headings = (
        *(tr("Value"), tr("First"), tr("Last"), tr("Mean"), tr("Min"), tr("Max")),
        *(tr("Change per epoch"), tr("Trend")),
    )
    return model.table(title, headings, "lrrrrrrl", (row(*each) for each in rows))


def _epoch_section(epochs: Sequence[SoakEpoch], words: Words) -> model.Section | None:
    shown = epochs[-_MAX_EPOCHS:]
    title = tr("The last {count} epochs", count=len(shown)) if len(epochs) > len(shown) else tr("Epochs")
    headings = (
        *(tr("Epoch"), tr("Ended"), tr("Duration"), words["units"].capitalize(), tr("Failed")),
        *("p50", "p99", tr("Lag p99"), tr("Resident memory"), ""),
    )
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
            tr("resumed") if epoch.resumed else "",
        )
        for epoch in shown
    )
    found = model.table("", headings, "rlrrrrrrrl", rows)
    return model.section("epochs", title, found, nav=tr("Epochs")) if shown else None


def watched_values(summary: SoakSummary) -> dict[str, str]:
    """Return the short names of the values of a soak whose drift is worth a warning."""
    return {name: label for name, label in _WATCHED.items() if name in summary.metrics}


def charts_of(summary: SoakSummary, epochs: Sequence[SoakEpoch]) -> Iterator[model.LineChart]:
    """Yield the charts of values over the epochs that have lines with two points."""
    words = _words(summary)

    def values(names: Mapping[str, str]) -> dict[str, list[float | None]]:
        found = [epoch.headline_values for epoch in epochs]
        return {label: [each.get(name) for each in found] for name, label in names.items()}

    measured = dict.fromkeys(name for epoch in epochs for name in epoch.headline_values)
    custom = {
        name: f"{metric} {value_label(value)}"
        for name in measured
        for metric, _, value in (name.partition("."),)
        if _is_custom(name) and _unit_of(metric, value) == "share"
    }
    latencies: dict[str, list[float | None]] = {
        name: [epoch.turn_latency_ms[name] for epoch in epochs] for name in ("p50", "p99")
    }
    named = {**_HEADLINES, **custom, **_scores()}
    drifts = {named[name] for name, drift in summary.metrics.items() if drift.drifting and name in named}
    charts: tuple[tuple[str, Unit, dict[str, list[float | None]]], ...] = (
        (tr("Headline values"), "share", values(_HEADLINES)),
        (tr("Custom metrics"), "share", values(dict(islice(custom.items(), _MAX_LINES)))),
        (tr("Score"), "percent", values(_scores())),
        (
            tr("Resident memory after each epoch"),
            "bytes",
            {"RSS": [each.resources.rss_bytes for each in epochs]},
        ),
        (tr("{unit} latency", unit=words["unit"].capitalize()), "ms", latencies),
        (tr("Event-loop lag"), "ms", {"p99": [each.loop_lag_ms.p99 for each in epochs]}),
    )
    for title, unit, columns in charts:
        if (chart := _line_chart(title, unit, columns, len(epochs), drifts)) is not None:
            yield chart


def _line_chart(
    title: str,
    unit: Unit,
    columns: Mapping[str, Sequence[float | None]],
    epochs: int,
    drifts: Collection[str],
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
        lines.append(
            model.Line(label=label, strokes=tuple(strokes), first=first, last=last, drifts=label in drifts)
        )
    return model.LineChart(
        title=title,
        top=in_unit(unit, top),
        bottom=in_unit(unit, 0),
        epochs=epochs,
        lines=tuple(lines),
        note=tr("Each point is the mean of {count} epochs. ", count=step) if step > 1 else "",
    )


def _mean(values: Sequence[float | None]) -> float | None:
    known = [value for value in values if value is not None]
    return fmean(known) if known else None


def warnings_of(summary: SoakSummary) -> Iterator[model.ReportWarning]:
    """Yield the warnings about a soak."""
    if summary.state in ("interrupted", "failed", "running"):
        yield warning(summary.state, reason=summary.reason or tr("continue it with memfin resume"))
    for gate in summary.gates:
        yield warning("gate", gate=gate)
    if many_failed(failed := summary.errors.failed_turns, summary.turns):
        share = percent(failed / summary.turns)
        share = tr("{count:,} of {total:,} ({share})", count=failed, total=summary.turns, share=share)
        name = "failed_questions" if summary.suite == "rag" else "failed_turns"
        yield warning(name, share=share)
    if summary.changed:
        yield warning("changed_inputs", inputs=", ".join(summary.changed))
    yield from _drifts(summary)
    if summary.epochs and not (summary.reliability or any(each.ci95 for each in summary.metrics.values())):
        epochs = tr_counted(summary.epochs, marked("1 epoch"), marked("{count:,} epochs"))
        yield warning("few_epochs", epochs=epochs)


def _drifts(summary: SoakSummary) -> Iterator[model.ReportWarning]:
    for name, drift in summary.metrics.items():
        metric, _, value = name.partition(".")
        custom = _is_custom(name)
        if drift.drifting and (custom or name in _WATCHED) and drift.ci95 is not None:
            title = f"{metric} {value_label(value)}" if custom else f"{_WATCHED[name]} {_labels()[name]}"
            change = _change(_unit_of(metric, value), drift.slope, drift.ci95, tr("epoch"))
            yield warning("drift", name=title, change=change)
    for name in _WATCHED_OPERATION:
        found = summary.operation.get(name)
        if found is not None and found.drifting and found.ci95 is not None:
            change = _change(_operation_unit(name), found.slope, found.ci95, tr("epoch"))
            yield warning("drift", name=_operation_label(name, _words(summary)), change=change)
    growth, bounds = summary.rss_bytes_per_100k_turns, summary.rss_ci95
    if growth is not None and bounds is not None and bounds[0] > _MAX_GROWTH:
        per = tr("100,000 {units}", units=_words(summary)["units"])
        yield warning("memory_growth", change=_change("bytes", growth, bounds, per))


def _change(unit: Unit, slope: float, bounds: tuple[float, float], per: str) -> str:
    slope_text, interval = change_in_unit(unit, slope), _interval(unit, bounds)
    return tr("{slope} per {unit}, 95 % interval {interval}", slope=slope_text, unit=per, interval=interval)


def _interval(unit: Unit, bounds: tuple[float, float]) -> str:
    low, high = (change_in_unit(unit, bound) for bound in bounds)
    return tr("{low} to {high}", low=low, high=high)
