"""``memfin signoff``, ``memfin bundle`` and ``memfin verify``: a decision on a run, and its evidence."""

from pathlib import Path
from typing import Final

import click

from memfin.cli.options import FILE, LABEL_FILES, RUN_DATASET, with_language
from memfin.cli.output import counted, note
from memfin.errors import GateFailed
from memfin.version import __version__

RUN: Final = click.argument("run", type=click.Path(path_type=Path))


@click.command("signoff")
@RUN
@LABEL_FILES
@RUN_DATASET
@click.option("--out", metavar="FILE", type=FILE, help="File of the page.  [default: RUN/signoff.html]")
@with_language()
def command(run: Path, labels: tuple[Path, ...], dataset: Path | None, out: Path | None) -> None:
    """Write the sign-off page of RUN, one HTML file to print and sign, and print its path.

    \b
    memfin signoff runs/my_run
    memfin signoff runs/my_run --labels labels.jsonl --lang zh --out signoff.html

    It states what was tested, raw and corrected figures with 95 % intervals, who labelled how many turns,
    every violation with its words, what was not measured, and hashes. A page that exists is replaced.
    """
    from memfin.report.reader import label_files  # noqa: PLC0415 - loads slowly
    from memfin.report.render import replace_file  # noqa: PLC0415 - loads slowly
    from memfin.report.signoff import render_signoff  # noqa: PLC0415 - loads slowly
    from memfin.validity.evidence import read_readings  # noqa: PLC0415 - loads slowly

    readings = read_readings(run, label_files(run, labels), dataset)
    path = out or run / "signoff.html"
    replace_file(path, render_signoff(run, readings, __version__))
    if readings.contradict:
        note(f"warning: labels of the same turn contradict each other; memfin correct {run} names them")
    click.echo(path)


@click.command("bundle")
@RUN
@LABEL_FILES
@RUN_DATASET
@click.option("--no-dataset", is_flag=True, help="Leave the dataset out; only its hash is filed.")
@click.option("--out", metavar="FILE", type=FILE, help="File of the bundle.  [default: RUN_ID.zip]")
@click.option("--force", is_flag=True, help="Replace a file that exists.")
def bundle(
    run: Path,
    labels: tuple[Path, ...],
    dataset: Path | None,
    out: Path | None,
    *,
    no_dataset: bool,
    force: bool,
) -> None:
    """Write the evidence of RUN into one zip file, and print its SHA-256 and name.

    \b
    memfin bundle runs/my_run
    memfin bundle runs/my_run --labels labels.jsonl --no-dataset --out evidence.zip

    It holds the artifacts of the run, labels, dataset, the sign-off page in each language, and MANIFEST.json
    with the size and hash of each file and what is missing. The same run gives the same bytes. A run that
    has not finished is refused.
    """
    from memfin.validity.evidence import bundle_run  # noqa: PLC0415 - loads slowly

    path = out or Path(f"{run.resolve().name}.zip")
    sha256, missing = bundle_run(run, path, labels, dataset, with_dataset=not no_dataset, force=force)
    for line in missing:
        note(f"not in the bundle: {line}")
    click.echo(f"{sha256}  {path}")


@click.command("verify")
@click.argument("bundle", type=FILE)
def verify(bundle: Path) -> None:
    """Check BUNDLE, the evidence of a run, without a network.

    \b
    memfin verify my_run.zip

    Every hash fits, no file was added or is missing, the figures follow from the rows, corrected rates from
    the labels, and the sign-off pages show just that. Compare the SHA-256 that is printed with the one that
    was noted when the bundle was made: whoever can change a bundle can also make another.

    Exit codes: 0 it holds, 1 it does not, 2 it cannot be read.
    """
    from memfin.validity.evidence import verify_bundle  # noqa: PLC0415 - loads slowly

    found = verify_bundle(bundle)
    for line in found.unchecked:
        note(f"not checked: {line}")
    for line in found.problems:
        click.echo(line)
    if found.problems:
        raise GateFailed(f"{bundle}: does not hold: {counted(len(found.problems), 'problem')}")
    click.echo(f"{found.sha256}  {bundle}")
    what = "all that was checked follows from them" if found.unchecked else "the figures follow from them"
    note(f"run {found.run_id}: {counted(found.files, 'file')}, all as written; {what}")
