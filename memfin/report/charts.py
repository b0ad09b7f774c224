"""The charts of a dialogue run's report."""

from collections.abc import Sequence
from typing import Any, Final

from memfin.report.drawing import Chart, drawn, look, pygal
from memfin.report.glossary import METRICS, SOURCES, format_interval, format_value
from memfin.report.model import GroupTable, MetricView, ReportModel
from memfin.text.lines import one_line

_LABEL_LIMIT: Final = 18
_MIN_GROUPS: Final = 2
_MAX_GROUPS: Final = 10


def headline_chart(metrics: Sequence[MetricView]) -> Chart | None:
    """Draw the headline shares of the metrics with their confidence intervals."""
    shown = [view for view in metrics if view.eligible and view.text.headline.key in view.micro]
    if not shown:
        return None
    bars: list[dict[str, Any]] = []
    words: list[str] = []
    for view in shown:
        key = view.text.headline.key
        value, bounds = view.micro[key], view.ci95.get(key)
        bar: dict[str, Any] = {"value": value}
        if bounds is not None:
            bar["ci"] = {"low": bounds[0], "high": bounds[1]}
        bars.append(bar)
        interval = f" (95 % interval {format_interval(key, bounds)})" if bounds is not None else ""
        words.append(f"{view.text.code} {view.text.headline.label} {format_value(key, value)}{interval}")
    labels = [
        f"{view.text.code} {view.text.headline.label} {format_value(key, view.micro[key])}"
        for view in shown
        for key in (view.text.headline.key,)
    ]
    return _bars("chart-headline", "Headline values", words, labels, [("Value", bars)], 54 * len(shown))


def source_chart(memory: MetricView) -> Chart | None:
    """Draw which memory sources held the required keys (M1 source attribution)."""
    total = memory.counts.get("required_key_total", 0)
    if not total:
        return None
    hits = [(label, memory.counts.get(f"{stem}_hit_total", 0)) for stem, label in SOURCES]
    hits.append(("In no source", total - memory.counts.get("required_key_hit_total", 0)))
    words = [f"{label} {count} of {total} ({100 * count / total:.1f} %)" for label, count in hits]
    return _bars(
        "chart-sources",
        "Where required keys were found",
        words,
        [f"{label} {100 * count / total:.1f} %" for label, count in hits],
        [("Share of required keys", [{"value": count / total} for _, count in hits])],
        46 * len(hits),
    )


def group_chart(name: str, table: GroupTable) -> Chart | None:
    """Draw the headline shares by group, one colour a metric; None unless 2 to 10 groups compare."""
    rows = table.rows
    if not _MIN_GROUPS <= len(rows) <= _MAX_GROUPS or table.omitted:
        return None
    # codes only: pygal gives every entry of the legend the width of the longest
    series = [
        (metric.code, [{"value": row.values.get(metric.headline.key)} for row in rows]) for metric in METRICS
    ]
    words = [
        f"{row.label}: "
        + ", ".join(
            f"{metric.code} {format_value(metric.headline.key, value)}"
            for metric in METRICS
            if (value := row.values.get(metric.headline.key)) is not None
        )
        for row in rows
    ]
    labels = [one_line(row.label, _LABEL_LIMIT) for row in rows]
    return _bars(f"chart-{name}", table.title, words, labels, series, 78 * len(rows), legend=True)


def histogram_chart(view: MetricView) -> Chart | None:
    """Draw how many dialogues have which value of a metric's headline, in ten bins."""
    spread = view.histogram
    if spread is None or spread.dialogs < 2:  # noqa: PLR2004 - one dialogue has no distribution
        return None
    labels = [f"{10 * number}" if number % 2 == 0 else "" for number in range(10)]
    words = [
        f"{10 * number} to {10 * (number + 1)} %: {count}"
        for number, count in enumerate(spread.counts)
        if count
    ]
    chart = pygal().Bar(
        **look(),
        width=270,
        height=190,
        show_legend=False,
        range=(0, max(spread.counts)),
        x_title="%",
        y_labels=sorted({0, (max(spread.counts) + 1) // 2, max(spread.counts)}),
        print_values=False,
        formatter=lambda count: f"{count:.0f}",
        spacing=4,
        show_y_guides=True,
    )
    chart.x_labels = labels
    chart.add("Dialogues", list(spread.counts))
    title = f"{view.text.code} {view.text.headline.label}"
    return drawn(chart, f"chart-spread-{view.text.code.lower()}", title, words, "Dialogues by value. ")


def charts_of(model: ReportModel) -> dict[str, Chart]:
    """Draw every chart that a report has the figures for, by name."""
    found: dict[str, Chart | None] = {"headline": headline_chart(model.metrics)}
    for view in model.metrics:
        if view.text.code == "M1":
            found["sources"] = source_chart(view)
        found[f"spread-{view.text.code}"] = histogram_chart(view)
    for number, table in enumerate(model.groups):
        found[f"group-{number}"] = group_chart(f"group-{number}", table)
    return {name: chart for name, chart in found.items() if chart is not None}


def _bars(
    name: str,
    title: str,
    words: Sequence[str],
    labels: Sequence[str],
    series: Sequence[tuple[str, Sequence[dict[str, Any]]]],
    height: int,
    *,
    legend: bool = False,
) -> Chart:
    """Draw horizontal bars on a scale of 0 to 100 %; pygal stacks rows upwards, so all is reversed."""
    chart = pygal().HorizontalBar(
        **look(),
        width=620,
        height=height + (110 if legend else 60),
        show_legend=legend,
        legend_at_bottom=True,
        legend_at_bottom_columns=len(series),
        range=(0, 1),
        y_labels=[{"value": step / 4, "label": f"{25 * step} %"} for step in range(5)],
        print_values=False,  # they would lie across the ends of the bars and the intervals
        spacing=14,
        show_y_guides=True,
    )
    chart.x_labels = list(reversed(labels))
    for label, values in series:
        chart.add(label, list(reversed(values)))
    return drawn(chart, name, title, words, "")
