"""Runs the memory service until it is told to stop, and lets the calls that are under way end."""

from collections.abc import Iterable
from pathlib import Path

import anyio

from memfin.agents.http.hosting import run_service
from memfin.errors import UsageError
from memfin.memory.access_tokens import TOKENS_FILE, TokenFile
from memfin.memory.store import MemoryStore
from memfin.memory.telemetry import MemoryTelemetry
from memfin.web.memory.application import memory_application
from memfin.web.memory.hosts import is_loopback


def serve(data: Path, *, host: str = "127.0.0.1", port: int = 0, names: Iterable[str] = ()) -> None:
    """Serve a data root until SIGINT or SIGTERM; prints one line with the address when it is ready.

    Args:
        data: the data root; created when it is missing.
        host: the address to listen on.
        port: the port; 0 takes a free one, which the line names.
        names: further host names under which the service may be asked for.

    Raises:
        UsageError: the address cannot be listened on, or is open to the network and there is no token.
    """
    tokens = TokenFile(data / TOKENS_FILE)
    if not is_loopback(host) and not tokens.exists:
        raise UsageError(
            f"memory server on {host}: the network can reach it and there is no token yet; "
            f"make one first: memfin memory token add USER --data {data}"
        )
    telemetry = MemoryTelemetry()
    with MemoryStore(data, telemetry=telemetry) as store:
        app = memory_application(store, tokens, telemetry=telemetry, host=host, names=names)
        anyio.run(run_service, app, "memory", host, port)
