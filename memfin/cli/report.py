"""``memfin report``: write the reports of a finished run."""

from pathlib import Path

import click

from memfin.report import write_reports


@click.command("report", context_settings={"help_option_names": ["-h", "--help"]})
@click.argument("run_dir", metavar="RUN_DIR", type=click.Path(path_type=Path))
def command(run_dir: Path) -> None:
    """Write report.md and report.html into a run directory or a soak's and print their paths.

    \b
    memfin report runs/20260217_210500_abc123

    A soak's report shows what changed over its epochs; it can be written while the soak runs. The
    HTML file is self-contained: it needs no network and no other file. The same run gives the same bytes;
    reports that exist are replaced.
    """
    for path in write_reports(run_dir):
        click.echo(path)
