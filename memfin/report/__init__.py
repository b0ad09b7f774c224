"""Reports of a run: Markdown, self-contained HTML, and the table for the terminal.

jinja2, pygal and rich are loaded by the functions that need them, not by importing this package.
"""

from memfin.report.html import render_html_report
from memfin.report.load import load_report, summary_model
from memfin.report.markdown import render_markdown_report
from memfin.report.model import ReportModel
from memfin.report.table import summary_table
from memfin.report.write import write_reports

__all__ = [
    "ReportModel",
    "load_report",
    "render_html_report",
    "render_markdown_report",
    "summary_model",
    "summary_table",
    "write_reports",
]
