"""Writes the reports of a run directory into it."""

import os
from pathlib import Path
from tempfile import NamedTemporaryFile

from memfin.errors import RunFault
from memfin.report.html import render_html_report
from memfin.report.load import load_report
from memfin.report.markdown import render_markdown_report
from memfin.report.rag.load import is_benchmark_run, load_rag_report
from memfin.report.rag.render import render_rag_html, render_rag_markdown
from memfin.report.soak.load import is_soak_directory, load_soak_report
from memfin.report.soak.render import render_soak_html, render_soak_markdown


def write_reports(run_dir: Path) -> tuple[Path, Path]:
    """Write ``report.md`` and ``report.html`` into a run directory, or a soak's, and return their paths.

    A reader sees the old file or the new one, never a part. The same input files give the same
    bytes.

    Raises:
        UsageError: when the directory is no finished run, or a file of it does not fit the contract.
        RunFault: when a report cannot be written.
    """
    run_dir = Path(run_dir)
    markdown, html = run_dir / "report.md", run_dir / "report.html"
    if is_soak_directory(run_dir):
        soak = load_soak_report(run_dir)
        texts = render_soak_markdown(soak), render_soak_html(soak)
    elif is_benchmark_run(run_dir):
        rag = load_rag_report(run_dir)
        texts = render_rag_markdown(rag), render_rag_html(rag)
    else:
        model = load_report(run_dir)
        texts = render_markdown_report(model), render_html_report(model)
    for path, text in zip((markdown, html), texts, strict=True):
        _replace(path, text)
    return markdown, html


def _replace(path: Path, text: str) -> None:
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
