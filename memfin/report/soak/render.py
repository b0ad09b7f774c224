"""Renders the report of a soak as Markdown and as one self-contained HTML file."""

import re
from typing import Any, Final

from memfin.report.drawing import Chart, drawn, look, pygal
from memfin.report.markdown import escape_markdown
from memfin.report.soak.model import Course, SoakReportModel, in_unit
from memfin.report.templates import environment

_BLANK_LINES: Final = re.compile(r"\n{3,}")
_FEW: Final = 2
_DOTS: Final = 40
_TOPS: Final = {"share": 1, "percent": 100}
"""The greatest value of units that have one."""


def render_soak_markdown(model: SoakReportModel) -> str:
    """Return the report as Markdown text; whatever came out of the soak stays plain text."""
    text = environment(escape_markdown).get_template("soak_report.md.j2").render(model=model, in_unit=in_unit)
    return _BLANK_LINES.sub("\n\n", text).strip() + "\n"


def render_soak_html(model: SoakReportModel) -> str:
    """Return the report as a document without scripts, requests and other files."""
    charts = [chart for course in model.courses if (chart := course_chart(course)) is not None]
    return (
        environment().get_template("soak_report.html.j2").render(model=model, charts=charts, in_unit=in_unit)
    )


def course_chart(course: Course) -> Chart | None:
    """Draw values over epochs; None where there are fewer than two points."""
    lines = {label: points for label, points in course.lines.items() if len(points) >= _FEW}
    if not lines:
        return None
    epochs = sorted({epoch for points in lines.values() for epoch, _ in points})
    every = max(len(epochs) // 8, 1)
    top = _TOPS.get(course.unit)
    settings: dict[str, Any] = {} if top is None else {"range": (0, top)}
    chart = pygal().Line(
        **look(),
        **settings,
        width=620,
        height=260,
        show_legend=len(lines) > 1,
        legend_at_bottom=True,
        legend_at_bottom_columns=len(lines),
        show_dots=len(epochs) <= _DOTS,
        dots_size=2,
        include_x_axis=top is None,
        truncate_label=-1,
        show_minor_x_labels=False,
        x_labels_major_every=every,
        x_title="epoch",
        value_formatter=lambda value: in_unit(course.unit, value),
    )
    chart.x_labels = [str(epoch) for epoch in epochs]
    words = []
    for label, points in lines.items():
        at = dict(points)
        chart.add(label, [at.get(epoch) for epoch in epochs], allow_interruptions=True)
        (first, begin), (last, end) = points[0], points[-1]
        words.append(
            f"{label} from {in_unit(course.unit, begin)} in epoch {first} to "
            f"{in_unit(course.unit, end)} in epoch {last}"
        )
    lead = f"Each point is the mean of {course.thinned} epochs. " if course.thinned > 1 else ""
    return drawn(chart, f"chart-{course.name}", course.title, words, lead)
