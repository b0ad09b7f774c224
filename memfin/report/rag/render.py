"""Renders the report of a benchmark run as Markdown and as one self-contained HTML file."""

import re
from typing import Final

from memfin.report.markdown import bar, escape_markdown
from memfin.report.rag.model import RagReportModel
from memfin.report.rag.words import JUDGE_NOTES, NOTES
from memfin.report.templates import environment

_BLANK_LINES: Final = re.compile(r"\n{3,}")


def render_rag_markdown(model: RagReportModel) -> str:
    """Return the report as Markdown text; whatever came out of the run stays plain text."""
    template = environment(escape_markdown).get_template("rag_report.md.j2")
    text = template.render(model=model, bar=bar, guide=_guide(model))
    return _BLANK_LINES.sub("\n\n", text).strip() + "\n"


def render_rag_html(model: RagReportModel) -> str:
    """Return the report as a document without scripts, requests and other files."""
    return environment().get_template("rag_report.html.j2").render(model=model, guide=_guide(model))


def _guide(model: RagReportModel) -> tuple[tuple[str, str], ...]:
    return NOTES if model.judging is None else NOTES + JUDGE_NOTES
