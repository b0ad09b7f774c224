"""Renders a report as one HTML file that needs no network, no script and no other file."""

from memfin.report.charts import charts_of
from memfin.report.model import ReportModel
from memfin.report.templates import environment


def render_html_report(model: ReportModel) -> str:
    """Return the report as a self-contained HTML document.

    jinja2 escapes every value; only the drawn charts are embedded as they are, and the page's
    content security policy forbids scripts and any request.
    """
    return environment().get_template("report.html.j2").render(model=model, charts=charts_of(model))
