"""Print the command-line reference as Markdown, made from the commands' own help."""

import click

from memfin.cli.main import memfin

HEADER = """# Command line

This page is made from the commands' help by `make docs`; `memfin COMMAND --help` shows the same.

Data goes to standard output, everything else to standard error. Exit codes: 0 done; 1 done, but a
gate failed or there are findings; 2 bad usage or input; 3 stopped by a fault of the machine;
130 and 143 stopped by a signal.
"""


def main() -> None:
    """Print the reference."""
    print(HEADER)
    context = click.Context(memfin, info_name="memfin", max_content_width=100, terminal_width=100)
    for name in memfin.list_commands(context):
        command = memfin.get_command(context, name)
        if command is None:
            continue
        inner = click.Context(
            command, info_name=name, parent=context, max_content_width=100, terminal_width=100
        )
        print(f"## memfin {name}\n\n```text\n{command.get_help(inner)}\n```\n")


if __name__ == "__main__":
    main()
