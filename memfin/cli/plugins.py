"""``memfin plugins``: names that installed packages offer in entry points."""

import json

import click

from memfin.cli.output import note
from memfin.sandbox.plugins import Plugin, installed_plugins


@click.command("plugins")
@click.option("--json", "as_json", is_flag=True, help="Print a JSON array of objects.")
def command(*, as_json: bool) -> None:
    """List the agents, judges and other plugins of installed packages, without importing them.

    \b
    memfin plugins              group, name, package, version, object
    memfin plugins --json       the same as a JSON array

    A name in the group memfin.agents is an --agent, in memfin.judges a --judge, in memfin.metrics a --metric,
    in memfin.detectors a --detector, in memfin.datasets a DATASET, in memfin.exporters one of export --to.
    """
    plugins = installed_plugins()
    if as_json:
        click.echo(json.dumps([each._asdict() for each in plugins], ensure_ascii=False, indent=2))
    elif plugins:
        rows = [tuple(field.upper() for field in Plugin._fields), *plugins]
        widths = [max(map(len, column)) for column in zip(*rows, strict=True)]
        for row in rows:
            cells = (f"{cell:{width}}" for cell, width in zip(row, widths, strict=True))
            click.echo("  ".join(cells).rstrip())
    else:
        note("no installed package offers plugins")
