"""Reports of a run: Markdown, self-contained HTML, and tables for the terminal.

jinja2 and rich are loaded by the functions that need them, not by importing this package.
"""

from memfin.report.dialog_report import summary_report
from memfin.report.model import Report
from memfin.report.render import load_report, render_html_report, render_markdown_report, write_reports
from memfin.report.tables import summary_table

__all__ = [
    "Report",
    "load_report",
    "render_html_report",
    "render_markdown_report",
    "summary_report",
    "summary_table",
    "write_reports",
]
