"""``memfin validate``: checks datasets and artefacts against the contract."""

from itertools import islice

import click
import msgspec

from memfin.contracts.catalog import FILE_KINDS, contract
from memfin.errors import GateFailed, UsageError
from memfin.validation import Finding, validate_path


@click.command("validate")
@click.argument("files", metavar="FILE...", nargs=-1, required=True)
@click.option(
    "--kind", metavar="NAME", help=f"What the files hold, whatever their names: {', '.join(FILE_KINDS)}."
)
@click.option("--json", "as_json", is_flag=True, help="Print each finding as a JSON object.")
@click.option(
    "--max", "limit", type=click.IntRange(min=1), help="Stop after this many findings a file or directory."
)
def command(files: tuple[str, ...], kind: str | None, as_json: bool, limit: int | None) -> None:
    """Report every violation of the contract as file:line: path: message.

    \b
    memfin validate data.jsonl                       a dataset
    memfin validate runs/20260219_101855_ab12cd      all artefacts of a run, and whether they agree
    memfin validate --kind turn-eval rows.jsonl      a file under another name

    Exit code 0: no findings. 1: findings. 2: something cannot be read.
    """
    if kind is not None and contract(kind).file_format is None:
        raise UsageError(f"no file holds {kind!r} records alone; there are files of {', '.join(FILE_KINDS)}")
    total, affected, unreadable = 0, set[str](), 0
    for file in files:
        count = 0
        try:
            for finding in islice(validate_path(file, kind), limit):
                click.echo(_line(finding, as_json=as_json))
                affected.add(finding.file)
                count += 1
        except UsageError as problem:
            if len(files) == 1:
                raise
            click.echo(f"memfin: {problem}", err=True)
            unreadable += 1
        if count == limit:
            click.echo(
                f"memfin: {file}: stopped after {_counted(count, 'finding')}; there may be more", err=True
            )
        total += count
    summary = f"{_counted(total, 'finding')} in {_counted(len(affected), 'file')}"
    if unreadable:
        raise UsageError(
            f"{unreadable} of {len(files)} arguments cannot be checked; {summary} among the others"
        )
    if total:
        raise GateFailed(summary)
    click.echo("memfin: no findings", err=True)


def _line(finding: Finding, *, as_json: bool) -> str:
    return msgspec.json.encode(finding).decode() if as_json else str(finding)


def _counted(number: int, noun: str) -> str:
    return f"{number} {noun}{'' if number == 1 else 's'}"
