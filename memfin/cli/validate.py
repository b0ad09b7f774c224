"""``memfin validate`` and ``memfin schema``: the contracts, and files checked against them."""

import json
from collections.abc import Iterator
from itertools import islice
from pathlib import Path

import click
import msgspec

from memfin.cli.output import counted, note
from memfin.contracts.catalog import CONTRACTS, FILE_KINDS, QUESTIONS, contract, json_schema
from memfin.errors import GateFailed, RunFault, UsageError
from memfin.journal.repair import repair as repair_run
from memfin.rag.benchmark import check_benchmark
from memfin.validation import Finding, validate_path
from memfin.validation.files import holds_questions
from memfin.validation.rag import is_benchmark


@click.command("validate")
@click.argument("files", metavar="FILE...", nargs=-1, required=True)
@click.option(
    "--kind", metavar="NAME", help=f"Contract of the files, whatever their names: {', '.join(FILE_KINDS)}."
)
@click.option("--json", "as_json", is_flag=True, help="Print each finding as a JSON object.")
@click.option(
    "--max", "limit", type=click.IntRange(min=1), help="Stop after this many findings per file or directory."
)
@click.option("--repair", is_flag=True, help="Write a repaired copy of one damaged run directory.")
@click.option(
    "--out", type=click.Path(path_type=Path), help="Directory to create for the copy; with --repair."
)
def command(
    files: tuple[str, ...],
    kind: str | None,
    *,
    as_json: bool,
    limit: int | None,
    repair: bool,
    out: Path | None,
) -> None:
    """Report every violation of the contract as file:line: path: message.

    \b
    memfin validate data.jsonl                       a dataset
    memfin validate runs/20260219_101855_ab12cd      all artifacts of a run, and whether they agree
    memfin validate my-benchmark                     questions, and their document beside them
    memfin validate --kind turn-eval rows.jsonl      a file under another name
    memfin validate --repair runs/damaged --out runs/repaired

    With --repair, every commit that is provably as it was written goes into a new directory, where
    resume continues it; dropped parts are listed, and the original is left as it is.

    Exit code 0: no findings. 1: findings. 2: something cannot be read.
    """
    if repair or out is not None:
        _repair(files, kind, out if repair else None)
        return
    if kind is not None and contract(kind).file_format is None:
        raise UsageError(f"no file holds {kind!r} records alone; there are files of {', '.join(FILE_KINDS)}")
    total, affected, unreadable = 0, set[str](), 0
    for file in files:
        count = 0
        try:
            for finding in islice(_findings(file, kind), limit):
                click.echo(msgspec.json.encode(finding) if as_json else str(finding))
                affected.add(finding.file)
                count += 1
        except UsageError as problem:
            if len(files) == 1:
                raise
            note(str(problem))
            unreadable += 1
        if count == limit:
            note(f"{file}: stopped after {counted(count, 'finding')}; there may be more")
        total += count
    summary = f"{counted(total, 'finding')} in {counted(len(affected), 'file')}"
    if unreadable:
        raise UsageError(
            f"{unreadable} of {len(files)} arguments cannot be checked; {summary} among the others"
        )
    if total:
        raise GateFailed(summary)
    note("no findings")


def _repair(files: tuple[str, ...], kind: str | None, out: Path | None) -> None:
    if out is None or len(files) != 1 or kind is not None:
        raise UsageError("a repair is: memfin validate --repair RUN_DIR --out NEW_DIR")
    source = Path(files[0])
    try:
        repaired = repair_run(source, out)
    except OSError as problem:
        raise RunFault(f"{problem.filename or out}: {problem.strerror or problem}") from problem
    for dropped in repaired.dropped:
        click.echo(str(source / str(dropped)))
    if not repaired.dropped:
        note(f"{source} needs no repair; {out} is a copy")
        return
    note(
        f"{out} holds {counted(repaired.replays, 'replay')} and "
        f"{counted(repaired.judgements, 'judgement')}; {counted(len(repaired.dropped), 'thing')} dropped; "
        f"memfin resume {out} does again what is missing"
    )


def _findings(path: str, kind: str | None) -> Iterator[Finding]:
    """Check a path; of a benchmark also whether its document, where it is there, bears it out."""
    if Path(path).is_dir():
        asks = kind is None and is_benchmark(path)
    else:
        asks = holds_questions(path) if kind is None else contract(kind) is QUESTIONS
    return check_benchmark(path) if asks else validate_path(path, kind)


@click.command("schema")
@click.argument("name", required=False)
def schema(name: str | None) -> None:
    """Print the JSON Schema (2020-12) of a contract, or the list of contracts.

    \b
    memfin schema                      names, each with what it describes
    memfin schema turn-eval            the schema of one line of turn_eval.jsonl
    memfin schema dataset > d.json     the schema of one line of a dataset
    """
    if name is not None:
        click.echo(json.dumps(json_schema(contract(name)), ensure_ascii=False, indent=2))
        return
    width = max(map(len, CONTRACTS))
    for entry in CONTRACTS.values():
        where = f" ({entry.file_name})" if entry.file_name else ""
        click.echo(f"{entry.name:{width}}  {entry.title}{where}")
