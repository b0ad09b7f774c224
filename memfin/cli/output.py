"""Output of the commands: notes on stderr, tables and JSON on stdout."""

import click

from memfin.sandbox.references import one_line


def note(line: str) -> None:
    """Print a line of the program's own on stderr."""
    click.echo(f"memfin: {one_line(line)}", err=True)


def counted(number: int, noun: str, plural: str | None = None) -> str:
    """Return a number with its noun."""
    return f"{number} {noun if number == 1 else plural or f'{noun}s'}"


def print_table(*tables: object, highlight: bool = True) -> None:
    """Print rich tables on stdout."""
    from rich.console import Console  # noqa: PLC0415 - rich loads slowly

    Console(highlight=highlight).print(*tables)
