"""``memfin rate-server``: a coordinator of the rates that runs on several machines share."""

import asyncio
import os
import secrets
import signal
import socket
from contextlib import suppress

import click

from memfin.cli.output import note
from memfin.client.leases import TOKEN_VARIABLE, RateCoordinator, RateLimits, parse_address
from memfin.contracts import RunConfig
from memfin.contracts.settings import check_settings
from memfin.errors import RunFault, UsageError


@click.command("rate-server")
@click.option("--judge-rpm", type=float, help="Judge requests per minute of all runs.")
@click.option("--judge-tpm", type=float, help="Tokens per minute of their openai judges.")
@click.option("--agent-rpm", type=float, help="Requests per minute to their agents.")
@click.option(
    "--bind",
    metavar="HOST:PORT",
    default="127.0.0.1:8770",
    show_default=True,
    help="Address to listen on; port 0 takes a free one.",
)
def command(judge_rpm: float | None, judge_tpm: float | None, agent_rpm: float | None, bind: str) -> None:
    """Grant the requests of several runs, so that together they hold limits per minute.

    \b
    memfin rate-server --judge-rpm 600
    memfin rate-server --judge-rpm 600 --agent-rpm 1200 --bind 0.0.0.0:8770

    Each run gets --rate-lease-address HOST:PORT, and the same token in MEMFIN_RATE_TOKEN. Without that
    variable the command makes a token and prints it, on loopback alone. At first nothing is granted, for
    about a second of requests and a minute of tokens: a server that was stopped just before may have
    granted them all. SIGINT and SIGTERM end the command.
    """
    given = {"judge_rpm": judge_rpm, "judge_tpm": judge_tpm, "agent_rpm": agent_rpm}
    limits = RateLimits.of(check_settings(RunConfig, given))
    if limits == RateLimits():
        raise UsageError("rate-server: there is no limit; give --judge-rpm, --judge-tpm or --agent-rpm")
    host, port = parse_address(bind)
    token = os.environ.get(TOKEN_VARIABLE, "")
    if not token and host not in ("127.0.0.1", "localhost", "::1"):
        raise UsageError(f"rate-server: {host} is no loopback address; set {TOKEN_VARIABLE} to a token")
    try:
        family = socket.AF_INET6 if ":" in host else socket.AF_INET
        listener = socket.create_server((host, port), family=family, backlog=1024)
    except OSError as problem:
        raise RunFault(f"rate-server: cannot listen on {bind}: {problem.strerror or problem}") from problem
    with listener:
        shown = f"[{host}]" if ":" in host else host
        click.echo(f"{shown}:{listener.getsockname()[1]}")
        if not token:
            token = secrets.token_urlsafe(24)
            click.echo(f"{TOKEN_VARIABLE}={token}")
        note("serving rates; end it with Ctrl-C")
        asyncio.run(_serve(RateCoordinator(limits, token, silent=True), listener))


async def _serve(coordinator: RateCoordinator, listener: socket.socket) -> None:
    serving = asyncio.create_task(coordinator.serve(listener))
    for number in (signal.SIGINT, signal.SIGTERM):
        asyncio.get_running_loop().add_signal_handler(number, serving.cancel)
    with suppress(asyncio.CancelledError):
        await serving
