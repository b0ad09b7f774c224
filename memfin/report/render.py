"""Rendering of reports as one self-contained HTML file and as Markdown, and writing of both."""

import os
import re
from collections.abc import Callable
from functools import cache
from pathlib import Path
from tempfile import NamedTemporaryFile
from typing import TYPE_CHECKING, Final

from memfin.contracts import EvalSummary
from memfin.errors import RunFault
from memfin.language import Language, current_language, tr, use_language
from memfin.report.dialog_report import load_dialog_report, summary_report
from memfin.report.model import Report
from memfin.report.rag_report import RESULTS, load_rag_report
from memfin.report.soak_report import SUMMARY, load_soak_report
from memfin.text.lines import flat

if TYPE_CHECKING:
    from jinja2 import Environment

_ACTIVE: Final = re.compile(r"[\\`*_{}\[\]#|~$@!]|:(?=//)|(?<=\bwww)\.", re.IGNORECASE)
_BLANK_LINES: Final = re.compile(r"\n{3,}")
_BAR: Final = 20


def load_report(run_dir: Path) -> Report:
    """Read the directory of a run, a benchmark's run or a soak and make the content of its report.

    Raises:
        UsageError: when the directory is no finished run, or a file of it does not fit the contract.
    """
    if (run_dir / SUMMARY).is_file():
        return load_soak_report(run_dir)
    return load_rag_report(run_dir) if (run_dir / RESULTS).is_file() else load_dialog_report(run_dir)


def write_reports(run_dir: Path, language: Language | None = None) -> tuple[Path, Path]:
    """Write ``report.md`` and ``report.html`` into a run directory, or a soak's, and return their paths.

    The language is that of the context, English unless `use_language` sets another. A reader sees the old
    file or the new one, never a part. The same input files give the same bytes.

    Raises:
        UsageError: when the directory is no finished run, or a file of it does not fit the contract.
        RunFault: when a report cannot be written.
    """
    markdown, html = Path(run_dir) / "report.md", Path(run_dir) / "report.html"
    with use_language(language or current_language()):
        report = load_report(Path(run_dir))
        replace_file(markdown, render_markdown_report(report))
        replace_file(html, render_html_report(report))
    return markdown, html


def render_html_report(report: Report) -> str:
    """Return the report as a document that needs no network, no script and no other file.

    jinja2 escapes every value, and the content security policy forbids scripts and requests.
    """
    return environment().get_template("report.html.j2").render(report=report)


def render_markdown_report(summary: EvalSummary | Report) -> str:
    """Return the report as Markdown (metrics contract section 7); text out of the run stays plain text.

    A summary alone gives the metrics; the report of a run directory gives everything.
    """
    report = summary if isinstance(summary, Report) else summary_report(summary)
    text = environment(escape_markdown).get_template("report.md.j2").render(report=report, bar=bar)
    return _BLANK_LINES.sub("\n\n", text).strip() + "\n"


@cache
def environment(escape: Callable[[str], str] | None = None) -> "Environment":
    """Return the template environment of the reports; templates are compiled once per process.

    With ``escape`` every expression passes through that function unless it is marked safe; without
    it jinja2's HTML escaping is on. Either way a template cannot forget to escape.
    """
    from jinja2 import Environment, PackageLoader, StrictUndefined  # noqa: PLC0415 - only a report needs it

    made = Environment(
        loader=PackageLoader("memfin", "data/templates"),
        autoescape=escape is None,  # noqa: S701 - `finalize` escapes where this does not
        undefined=StrictUndefined,
        trim_blocks=True,
        lstrip_blocks=True,
        # a marked string is a subclass of str and stays as it is
        finalize=(lambda value: escape(value) if type(value) is str else value) if escape else None,
    )
    made.globals["tr"] = tr
    return made


def escape_markdown(text: str) -> str:
    """Return text that Markdown (CommonMark and GitHub's) shows as it is, on one line.

    Markup, code, links, mentions, formulas, table bars and HTML lose their meaning. The result may
    stand in a table cell or inside a paragraph, not at the start of a line.
    """
    line = flat(text).replace("&", "&amp;").replace("<", "&lt;").replace(">", "&gt;")
    return _ACTIVE.sub(lambda found: "\\" + found.group(), line)


def bar(share: float) -> str:
    """Return a share of 0 to 1 as a bar of 20 characters."""
    filled = round(min(max(share, 0.0), 1.0) * _BAR)
    return "█" * filled + "░" * (_BAR - filled)


def replace_file(path: Path, text: str) -> None:
    """Write a file at once; a reader sees the old one or the new one.

    Raises:
        RunFault: it cannot be written.
    """
    partial: Path | None = None
    try:
        with NamedTemporaryFile("wb", dir=path.parent, prefix=f".{path.name}.", delete=False) as file:
            partial = Path(file.name)
            file.write(text.encode())
            file.flush()
            os.fsync(file.fileno())
        partial.chmod(0o644 & path.parent.stat().st_mode)  # as open as the directory
        partial.replace(path)
    except OSError as problem:
        if partial is not None:
            partial.unlink(missing_ok=True)
        raise RunFault(f"{path}: cannot be written: {problem.strerror}") from problem
