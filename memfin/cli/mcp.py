"""``memfin mcp``: runs and detectors for coding assistants, over the Model Context Protocol."""

import signal
from collections.abc import Awaitable, Callable
from pathlib import Path

import anyio
import click

from memfin.cli.check import Reply, check_reply
from memfin.cli.output import note
from memfin.contracts import CheckedReply
from memfin.errors import UsageError


@click.command("mcp")
@click.argument("runs_dir", type=click.Path(path_type=Path), default=Path("runs"))
@click.option("--allow-run", is_flag=True, help="Offer the tool run_evaluation, which starts small runs.")
@click.option(
    "--agent",
    "agents",
    metavar="REF",
    multiple=True,
    help="Agent that run_evaluation may run; the first is its default. Repeatable.  [default: builtin]",
)
@click.option(
    "--datasets",
    metavar="DIR",
    type=click.Path(path_type=Path),
    help="Directory of the datasets that run_evaluation may read.  [default: the built-in sample alone]",
)
def command(runs_dir: Path, *, allow_run: bool, agents: tuple[str, ...], datasets: Path | None) -> None:
    """Serve the runs in RUNS_DIR (default: runs) to an MCP client on stdin and stdout.

    \b
    memfin mcp runs
    memfin mcp runs --allow-run --agent mypackage.agent:create --datasets data

    The client starts the command, with an absolute path, as by this entry of its configuration:

    \b
    {"mcpServers": {"memfin": {"command": "memfin", "args": ["mcp", "/path/to/runs"]}}}

    The tools list runs, show their values and worst turns, read dialogues, compare runs and check a reply;
    they read RUNS_DIR alone and write nothing. --allow-run adds one that evaluates up to 20 dialogues.
    Needs pip install 'memfin[mcp]'.
    """
    if not allow_run and (agents or datasets):
        raise UsageError("--agent and --datasets are for run_evaluation; add --allow-run to offer it")
    for path in (datasets, None if allow_run else runs_dir):
        if path is not None and not path.is_dir():
            raise UsageError(f"{path}: no such directory; give the one that holds the runs, or the datasets")
    check_mcp("memfin mcp")
    from memfin.web.run_server import RunServer, serve  # noqa: PLC0415 - needs the extra

    note(f"serving the runs of {runs_dir} to an MCP client on stdin and stdout")
    allowed = (agents or ("builtin",)) if allow_run else ()
    serve_mcp(serve, RunServer(runs_dir, _check, allowed, datasets))


def check_mcp(command: str) -> None:
    """Raise `UsageError` without the SDK of the protocol, which a command needs."""
    try:
        import mcp.server.lowlevel  # noqa: F401, PLC0415 # pyright: ignore[reportMissingImports]
    except ImportError as problem:
        raise UsageError(f"{problem}; {command} needs the extra: pip install 'memfin[mcp]'") from problem


def serve_mcp(serve: Callable[..., Awaitable[None]], *arguments: object) -> None:
    """Serve a client on stdin and stdout until the former ends, or SIGINT."""
    signal.signal(signal.SIGINT, signal.SIG_DFL)  # the SDK would wait for the next line of a thread's stdin
    anyio.run(serve, *arguments)


def _check(text: str, user_text: str, constraints: tuple[str, ...]) -> CheckedReply:
    return check_reply(Reply(1, None, text, user_text, constraints, is_file=True), "reply")
