"""Print the command-line reference as Markdown, made from the commands' own help."""

from collections.abc import Iterator

import click

from memfin.cli.main import memfin

HEADER = """# Command line

This page is made from the commands' help by `make generated`; `memfin COMMAND --help` shows the same.

Data goes to standard output, everything else to standard error. Exit codes: 0 done; 1 done, but a
gate failed or there are findings; 2 bad usage or input; 3 stopped by a fault of the machine;
130 and 143 stopped by a signal.
"""


def commands(context: click.Context) -> Iterator[click.Context]:
    """Yield the context of every command below one, those of groups before their own commands."""
    group = context.command
    if isinstance(group, click.Group):
        for name in group.list_commands(context):
            command = group.get_command(context, name)
            if command is not None:
                inner = click.Context(
                    command, info_name=name, parent=context, max_content_width=100, terminal_width=100
                )
                yield inner
                yield from commands(inner)


def main() -> None:
    """Print the reference."""
    print(HEADER)
    context = click.Context(memfin, info_name="memfin", max_content_width=100, terminal_width=100)
    for inner in commands(context):
        print(f"## {inner.command_path}\n\n```text\n{inner.command.get_help(inner)}\n```\n")


if __name__ == "__main__":
    main()
