"""The ``memfin`` command: finds the subcommand, turns errors into one line and an exit code."""

import importlib
import os
import sys
from typing import Final, NoReturn

import click

from memfin import __version__
from memfin.errors import MemfinError, RunFault
from memfin.foreign.references import describe, one_line

BROKEN_PIPE_EXIT: Final = 128 + 13
"""What a shell reports of a program that SIGPIPE ended."""

COMMANDS: Final = {
    "run": "memfin.cli.run",
    "score": "memfin.cli.score",
    "aggregate": "memfin.cli.aggregate",
    "validate": "memfin.cli.validate",
    "schema": "memfin.cli.schema",
    "report": "memfin.cli.report",
}
"""Subcommand to the module whose ``command`` implements it, imported when asked for."""


class LazyGroup(click.Group):
    """A group that imports a subcommand only when it is used."""

    def list_commands(self, ctx: click.Context) -> list[str]:
        """Return the names in the order of the documentation."""
        del ctx
        return list(COMMANDS)

    def get_command(self, ctx: click.Context, cmd_name: str) -> click.Command | None:
        """Import and return the subcommand, or None when there is none of that name."""
        del ctx
        if cmd_name not in COMMANDS:
            return None
        command = importlib.import_module(COMMANDS[cmd_name]).command
        if not isinstance(command, click.Command):
            raise TypeError(f"{COMMANDS[cmd_name]}.command is no click command")
        return command


@click.command(
    cls=LazyGroup, context_settings={"help_option_names": ["-h", "--help"], "max_content_width": 100}
)
@click.version_option(__version__, prog_name="memfin")
def memfin() -> None:
    """Evaluate financial-advice agents that remember.

    \b
    memfin run                    evaluate the built-in agent on the built-in dataset
    memfin COMMAND --help         options and examples of a command
    """


def main() -> NoReturn:
    """Run the command line; every expected error is one line on stderr, never a traceback."""
    if "" not in sys.path:  # the console script, unlike ``python -m``, does not look here for agents
        sys.path.insert(0, "")
    try:
        code = memfin.main(standalone_mode=False)
    except click.exceptions.Exit as stop:
        code = stop.exit_code
    except click.exceptions.NoArgsIsHelpError as problem:
        problem.show()
        code = problem.exit_code
    except click.ClickException as problem:
        click.echo(f"memfin: {one_line(problem.format_message())}", err=True)
        code = problem.exit_code
    except click.Abort:
        click.echo("memfin: interrupted", err=True)
        code = 130
    except MemfinError as problem:
        click.echo(f"memfin: {problem}", err=True)
        code = problem.exit_code
    except BrokenPipeError:
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())  # nothing may fail again at exit
        code = BROKEN_PIPE_EXIT
    except Exception as problem:
        if os.environ.get("MEMFIN_DEBUG"):
            raise
        click.echo(
            f"memfin: internal error, please report it: {describe(problem)} (MEMFIN_DEBUG=1 shows where)",
            err=True,
        )
        code = RunFault.exit_code
    sys.exit(code if isinstance(code, int) else 0)
