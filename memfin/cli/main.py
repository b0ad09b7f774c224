"""The ``memfin`` command: lazy subcommands, errors as one line and an exit code."""

import importlib
import os
import sys
import threading
import time
import traceback
from contextlib import suppress
from difflib import get_close_matches
from typing import Final, NoReturn

import click

from memfin.errors import MemfinError, RunFault
from memfin.sandbox.references import describe, one_line
from memfin.secrets import scrubber_of_environment
from memfin.version import __version__

INTERRUPTED_EXIT: Final = 130
BROKEN_PIPE_EXIT: Final = 128 + 13  # as shells report a program ended by SIGPIPE
THREADS_END: Final = 0.2  # seconds that threads which are about to end have for it

COMMANDS: Final = {
    "init": "Write a starter dataset, an agent and memfin.toml.",
    "import": "Make a dataset of chat logs.",
    "dataset": "Start, extend and check a dataset.",
    "run": "Evaluate an agent on a dataset.",
    "resume": "Continue an interrupted run.",
    "merge": "Make one run of all shards of a run.",
    "soak": "Evaluate again and again, and see what drifts.",
    "score": "Score a recorded trace without asking an agent.",
    "aggregate": "Compute the metrics of recorded rows.",
    "validate": "Report violations of the contract as file:line: path: message.",
    "schema": "Print the JSON Schema of a contract.",
    "report": "Write the reports of a run or a soak.",
    "view": "Read every turn of runs in a browser.",
    "compare": "Compare two runs, dialogue by dialogue.",
    "bench": "Ask a retrieval system the questions of a benchmark.",
    "check": "Print the findings of the detectors in replies.",
    "validity": "Measure the detectors, or a judge, against labelled replies.",
    "plan": "Count the labels that corrected rates need, and draw turns.",
    "label": "Label turns of a run in a browser.",
    "correct": "Correct the rates of a run by labels of some of its turns.",
    "signoff": "Write the sign-off page of a run, to print and sign.",
    "bundle": "Write the evidence of a run into one zip file.",
    "verify": "Check the evidence of a run.",
    "plugins": "List the agents, judges and other plugins of installed packages.",
    "export": "Write the rows of a run as CSV or Parquet.",
    "mcp": "Serve runs to coding assistants (MCP).",
    "memory": "Serve the governed memory layer, and look after its data.",
}
"""Subcommands, each the ``command`` of the module of its name unless `PLACES` has it, imported on use."""

PLACES: Final = {
    "bundle": "signoff:bundle",
    "export": "imports:export",
    "import": "imports:command",
    "plan": "correct:plan",
    "resume": "bench:resume",
    "score": "run:score",
    "report": "run:report",
    "schema": "validate:schema",
    "verify": "signoff:verify",
}
"""Modules and names of the other subcommands."""


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
        module, _, name = PLACES.get(cmd_name, f"{cmd_name}:command").partition(":")
        command = getattr(importlib.import_module(f"memfin.cli.{module}"), name)
        assert isinstance(command, click.Command)  # noqa: S101 - by the rule of `COMMANDS`
        return command

    def resolve_command(
        self, ctx: click.Context, args: list[str]
    ) -> tuple[str | None, click.Command | None, list[str]]:
        """Find the subcommand; suggest the one that a misspelt name is close to.

        ``help NAME`` is ``NAME --help``, and ``help`` alone the help of the group.
        """
        if args[0] == "help":
            if not args[1:]:
                click.echo(ctx.get_help())
                ctx.exit()
            args = [*args[1:], "--help"]
        if args[0] not in COMMANDS and (near := get_close_matches(args[0], COMMANDS, n=1)):
            raise click.UsageError(f"No such command {args[0]!r}. Did you mean {near[0]!r}?", ctx)
        return super().resolve_command(ctx, args)

    def format_commands(self, ctx: click.Context, formatter: click.HelpFormatter) -> None:
        """Write the subcommands without importing them."""
        del ctx
        with formatter.section("Commands"):
            formatter.write_dl(list(COMMANDS.items()))


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
    except Exception as problem:  # noqa: BLE001 - every problem gives a line and an exit code
        if os.environ.get("MEMFIN_DEBUG") and not isinstance(problem, MemfinError | click.ClickException):
            click.echo(scrubber_of_environment().scrub(traceback.format_exc()), err=True, nl=False)
        code = report_problem(problem)
    code = code if isinstance(code, int) else 0
    end_with_threads(code)
    sys.exit(code)


def report_problem(problem: Exception) -> int:
    """Print what ended the command in one line, and return its exit code."""
    match problem:
        case click.exceptions.Exit():
            return problem.exit_code
        case click.exceptions.NoArgsIsHelpError():
            problem.show()
            return problem.exit_code
        case click.NoSuchOption(option_name=name) if near := problem.possibilities:
            bare = get_close_matches(name.lstrip("-"), [each.lstrip("-") for each in near])
            near[:] = [each for each in near if each.lstrip("-") in bare]  # dashes make all options alike
            line, code = problem.format_message(), problem.exit_code
        case click.ClickException():
            line, code = problem.format_message(), problem.exit_code
        case click.Abort():
            line, code = "interrupted", INTERRUPTED_EXIT
        case BrokenPipeError():
            os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())  # nothing may fail again at exit
            return BROKEN_PIPE_EXIT
        case _:
            line, code = failure(problem)
    click.echo(f"memfin: {one_line(line)}", err=True)
    return code


def failure(problem: Exception) -> tuple[str, int]:
    """Return the line and the exit code of what is no error of the command line."""
    if isinstance(problem, MemfinError):
        return str(problem), problem.exit_code
    if isinstance(problem, OSError):
        return str(problem), RunFault.exit_code
    line = f"internal error, please report it: {describe(problem)} (MEMFIN_DEBUG=1 shows where)"
    return line, RunFault.exit_code


def end_with_threads(code: int) -> None:
    """End the process at once where threads still run that hinder its end; return otherwise.

    1. The interpreter waits for threads that are no daemons, such as an agent's own.
    2. A daemon thread of MemFin may still be in a function that cannot be stopped, such as scoring. The
       interpreter ends such a thread inside compiled code, which can abort the process.
    """
    deadline = time.monotonic() + THREADS_END
    for thread in threading.enumerate():
        ours = thread.name.startswith("memfin")
        if (ours or not thread.daemon) and thread is not threading.main_thread():
            thread.join(max(0.0, deadline - time.monotonic()))
            if thread.is_alive():
                for stream in (sys.stdout, sys.stderr):
                    with suppress(OSError, ValueError):
                        stream.flush()
                os._exit(code)
