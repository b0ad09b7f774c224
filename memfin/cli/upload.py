"""``memfin upload``, ``memfin download`` and ``--upload``: finished runs at an address of fsspec."""

from collections.abc import Sequence
from pathlib import Path
from typing import Final

import click

from memfin.cli.output import MIB, counted, note, noted_at_intervals
from memfin.errors import MemfinError, RunFault
from memfin.scale.upload import OnTransfer, download_run, shown_address, upload_run

QUIET: Final = click.option("--quiet", is_flag=True, help="No progress.")


@click.command("upload")
@click.argument("run_dir", type=click.Path(path_type=Path))
@click.argument("url")
@QUIET
def command(run_dir: Path, url: str, *, quiet: bool) -> None:
    """Copy the finished run RUN_DIR to URL/RUN_ID, read every file back, and print the address.

    \b
    memfin upload runs/my_run s3://bucket/runs
    memfin upload runs/my_run /mnt/archive

    URL is any address of fsspec: s3://, gs://, az://, sftp://, or a path. Needs pip install 'memfin[upload]'
    and most schemes a package of their own, such as s3fs, which takes credentials from its own settings.

    artefacts.json, with the size and SHA-256 of each file, is written last: without it an upload is
    incomplete and can be repeated. A complete one is brought up to date: files that changed are sent again.

    Exit codes: 0 done, 2 bad usage or address, 3 the store failed or gave other bytes back.
    """
    try:
        click.echo(_uploaded(run_dir, url, quiet=quiet))
    except RunFault as problem:
        raise RunFault(f"{problem}; repeat the command when the cause is gone") from problem


@click.command("download")
@click.argument("url")
@click.option(
    "--out", type=click.Path(path_type=Path), required=True, help="Directory to create for the run."
)
@QUIET
def download(url: str, out: Path, *, quiet: bool) -> None:
    """Copy the run that was uploaded to URL into a new directory, verify every file, and print its path.

    \b
    memfin download s3://bucket/runs/my_run --out runs/my_run

    The directory appears when size and SHA-256 of every file are those of artefacts.json.

    Exit codes: 0 done, 2 bad usage or address, 3 the store failed or a file is another.
    """
    index = download_run(url, out, None if quiet else _progress("download"))
    click.echo(out)
    note(f"run {index.run_id}: {counted(len(index.files), 'file')}, all as uploaded")


def finish_upload(directory: Path, url: str | None, gates: Sequence[str], *, quiet: bool) -> None:
    """Upload a finished run to the address of ``--upload``, if there is one.

    Raises:
        RunFault: it failed; the message names the failed ``gates``, too, since the exit code cannot.
    """
    if url is None:
        return
    try:
        note(f"uploaded to {_uploaded(directory, url, quiet=quiet)}")
    except MemfinError as problem:
        again = f"the run is complete; memfin upload {directory} {shown_address(url)} uploads it"
        raise RunFault("; ".join((f"{problem}", again, *gates))) from problem


def _uploaded(directory: Path, url: str, *, quiet: bool) -> str:
    """Upload a run and return its address."""
    result = upload_run(directory, url, None if quiet else _progress("upload"))
    for name in result.left_out:
        note(f"not uploaded: {directory / name}: no file of a run")
    if not quiet:
        sent = f"{result.sent} sent ({result.sent_bytes / MIB:.1f} MiB)"
        note(f"{counted(result.files, 'file')} verified, {sent}")
    return result.url


def _progress(what: str) -> OnTransfer:
    return noted_at_intervals(
        lambda transfer: (
            f"{what}: {transfer.done / max(1, transfer.total):.0%} of {transfer.total / MIB:,.0f} MiB, "
            f"at {transfer.name}"
        )
    )
