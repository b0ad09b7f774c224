"""The ``memfin`` command: finds the subcommand, turns errors into one line and an exit code."""

import importlib
import os
import sys
import threading
import traceback
from typing import Final, NoReturn

import click

from memfin.errors import MemfinError, RunFault
from memfin.sandbox.references import describe, one_line
from memfin.secrets import scrubber_of_environment
from memfin.version import __version__

INTERRUPTED_EXIT: Final = 130
BROKEN_PIPE_EXIT: Final = 128 + 13
"""What a shell reports of a program that SIGPIPE ended."""

COMMANDS: Final = {
    "run": "memfin.cli.run",
    "resume": "memfin.cli.resume",
    "soak": "memfin.cli.soak",
    "score": "memfin.cli.score",
    "aggregate": "memfin.cli.aggregate",
    "validate": "memfin.cli.validate",
    "schema": "memfin.cli.schema",
    "report": "memfin.cli.report",
    "compare": "memfin.cli.compare",
    "bench": "memfin.cli.bench",
    "check": "memfin.cli.check",
    "validity": "memfin.cli.validity",
    "memory": "memfin.cli.memory",
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
    for name in ("stdout", "stderr"):
        if getattr(sys, name) is None:  # closed by whoever started us, as for a daemon
            setattr(sys, name, open(os.devnull, "w", encoding="utf-8"))  # noqa: SIM115, PTH123 - for good
    try:
        code = memfin.main(standalone_mode=False)
    except Exception as problem:  # noqa: BLE001 - whatever it is, it is told and gives the exit code
        if os.environ.get("MEMFIN_DEBUG") and not isinstance(problem, MemfinError | click.ClickException):
            click.echo(scrubber_of_environment().scrub(traceback.format_exc()), err=True, nl=False)
        code = told(problem)
    code = code if isinstance(code, int) else 0
    if threading.active_count() > 1:
        from memfin.cli.signals import end_with_threads  # noqa: PLC0415 - after most commands there are none

        end_with_threads(code)
    sys.exit(code)


def told(problem: Exception) -> int:
    """Tell the user what ended the command, in one line, and return its exit code."""
    match problem:
        case click.exceptions.Exit():
            return problem.exit_code
        case click.exceptions.NoArgsIsHelpError():
            problem.show()
            return problem.exit_code
        case click.ClickException():
            line, code = problem.format_message(), problem.exit_code
        case click.Abort():
            line, code = "interrupted", INTERRUPTED_EXIT
        case MemfinError():
            line, code = str(problem), problem.exit_code
        case BrokenPipeError():
            os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())  # nothing may fail again at exit
            return BROKEN_PIPE_EXIT
        case OSError():
            line, code = str(problem), RunFault.exit_code
        case _:
            line = f"internal error, please report it: {describe(problem)} (MEMFIN_DEBUG=1 shows where)"
            code = RunFault.exit_code
    click.echo(f"memfin: {one_line(line)}", err=True)
    return code
