"""``memfin schema``: the contracts as JSON Schema."""

import json

import click

from memfin.contracts.catalog import CONTRACTS, contract, json_schema


@click.command("schema")
@click.argument("name", required=False)
def command(name: str | None) -> None:
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
