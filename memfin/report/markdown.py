"""Renders a report as Markdown; whatever came out of the run stays plain text."""

import re
from typing import Final

from memfin.contracts import EvalSummary
from memfin.report.load import summary_model
from memfin.report.model import ReportModel
from memfin.report.templates import environment
from memfin.text.lines import flat

_ACTIVE: Final = re.compile(r"[\\`*_{}\[\]#|~$@!]|:(?=//)|(?<=\bwww)\.", re.IGNORECASE)
_BLANK_LINES: Final = re.compile(r"\n{3,}")
_BAR: Final = 20


def escape_markdown(text: str) -> str:
    """Return text that Markdown (CommonMark and GitHub's) shows as it is, on one line.

    Markup, code, links, mentions, formulas, table bars and HTML lose their meaning. The result may
    stand in a table cell or inside a paragraph, not at the start of a line.
    """
    line = flat(text).replace("&", "&amp;").replace("<", "&lt;").replace(">", "&gt;")
    return _ACTIVE.sub(lambda found: "\\" + found.group(), line)


def render_markdown_report(summary: EvalSummary | ReportModel) -> str:
    """Return the report as Markdown text (metrics contract section 7).

    A summary alone gives the metrics; the model of a run directory gives the whole report.
    """
    model = summary if isinstance(summary, ReportModel) else summary_model(summary)
    template = environment(escape_markdown).get_template("report.md.j2")
    return _BLANK_LINES.sub("\n\n", template.render(model=model, bar=bar)).strip() + "\n"


def bar(share: float) -> str:
    """Return a share of 0 to 1 as a bar of 20 characters."""
    filled = round(min(max(share, 0.0), 1.0) * _BAR)
    return "█" * filled + "░" * (_BAR - filled)
