"""Charts as inline SVG, drawn by pygal (docs/adr/0004-report-charts.md).

A chart leaves here without scripts, comments, links or any other reference, with a title and a
description for those who cannot see it, and coloured by the page's CSS variables so that it
follows the light or dark theme. pygal is imported when the first chart is drawn.
"""

import sys
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, Final
from xml.etree import ElementTree as ET

from memfin.report.excerpt import one_line
from memfin.report.glossary import METRICS, SOURCES, format_interval, format_value
from memfin.report.model import GroupTable, MetricView, ReportModel

_LABEL_LIMIT: Final = 18
_MIN_GROUPS: Final = 2
_MAX_GROUPS: Final = 10
_COLOURS: Final = tuple(f"var(--series-{number})" for number in range(1, 6))


@dataclass(frozen=True, slots=True, kw_only=True)
class Chart:
    """A drawn chart: ``svg`` is safe to embed as it is, ``alt`` says in words what it shows."""

    title: str
    alt: str
    svg: str


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
    chart = _pygal().Bar(
        **_look(),
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
    return _drawn(chart, f"chart-spread-{view.text.code.lower()}", title, words, "Dialogues by value. ")


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
    chart = _pygal().HorizontalBar(
        **_look(),
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
    return _drawn(chart, name, title, words, "")


def _pygal() -> Any:
    """Import the library, without the import hook of an old kind that it puts in place for its plug-ins.

    Whatever the program imports afterwards would stumble over that hook.
    """
    import pygal  # type: ignore[import-untyped]  # noqa: PLC0415 - slow, only reports need it

    sys.meta_path[:] = [finder for finder in sys.meta_path if hasattr(finder, "find_spec")]
    return pygal


def _look() -> dict[str, Any]:
    style = _pygal().style.Style(
        background="transparent",
        plot_background="transparent",
        foreground="var(--ink-soft)",
        foreground_strong="var(--ink)",
        foreground_subtle="var(--rule)",
        guide_stroke_color="var(--rule)",
        major_guide_stroke_color="var(--rule)",
        guide_stroke_dasharray="none",
        major_guide_stroke_dasharray="none",
        colors=_COLOURS,
        value_colors=("var(--ink)",) * len(_COLOURS),
        ci_colors=("var(--ink)",) * len(_COLOURS),
        font_family="inherit",
        label_font_size=13,
        major_label_font_size=13,
        value_font_size=13,
        legend_font_size=13,
        title_font_size=13,
        opacity="1",
        transition="0s",
    )
    return {"style": style, "js": (), "margin": 8, "margin_right": 26, "rounded_bars": 2, "show_title": False}


def _drawn(chart: Any, name: str, title: str, words: Sequence[str], lead: str) -> Chart:
    chart.uuid = name.removeprefix("chart-")  # the default is random; pygal puts "chart-" before it
    chart.no_data_text = "no data"
    alt = lead + "; ".join(words)
    return Chart(title=title, alt=alt, svg=_embeddable(chart.render(is_unicode=True), title, alt))


def _embeddable(document: str, title: str, alt: str) -> str:
    """Return an SVG document as an element for HTML: figures only, named and described."""
    # The parser drops comments (they hold the date and links) and processing instructions.
    root = ET.fromstring(document.encode())  # noqa: S314 - pygal's own output
    for parent in list(root.iter()):
        for child in list(parent):
            tag = child.tag.rpartition("}")[2]
            if tag in {"script", "desc", "title"} or "tooltip-overlay" in child.get("class", ""):
                parent.remove(child)
    for element in root.iter():
        element.tag = element.tag.rpartition("}")[2]  # HTML knows the namespace by itself
    for tag, text in (("desc", alt), ("title", title)):
        label = ET.Element(tag)
        label.text = text
        root.insert(0, label)
    root.set("role", "img")
    root.set("aria-label", f"{title}. {alt}")
    root.set("preserveAspectRatio", "xMinYMid meet")
    return ET.tostring(root, encoding="unicode", short_empty_elements=False)
