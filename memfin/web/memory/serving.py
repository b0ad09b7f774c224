"""Server of the memory service; on SIGINT or SIGTERM it finishes the calls in progress."""

import logging
from collections.abc import Iterable
from functools import partial
from pathlib import Path
from typing import Final

import anyio
import anyio.to_thread

from memfin.errors import MemfinError, UsageError
from memfin.hosting import is_loopback, run
from memfin.memory.access_tokens import TOKENS_FILE, TokenFile
from memfin.memory.drift import load_thresholds
from memfin.memory.reading import load_skills
from memfin.memory.store import MemoryStore
from memfin.memory.telemetry import MemoryTelemetry
from memfin.web.memory.application import memory_application

SWEEP_INTERVAL: Final = 600.0
"""Seconds between two sweeps of expired contexts and due watch questions."""

_LOG: Final = logging.getLogger("memfin.web.memory")


def serve(
    data: Path,
    *,
    host: str = "127.0.0.1",
    port: int = 0,
    names: Iterable[str] = (),
    secure_cookies: bool = False,
    thresholds: Path | None = None,
    skills: Path | None = None,
) -> None:
    """Serve a data root until SIGINT or SIGTERM; prints one line with the address when it is ready.

    Args:
        data: the data root; created if missing.
        host: the address to listen on.
        port: the port; 0 takes a free one, which the line names.
        names: further host names under which the service may be asked for.
        secure_cookies: True to have browsers send the cookies of the pages only through TLS, behind a proxy.
        thresholds: a file with those of the drift detectors; by default those that ship with MemFin.
        skills: a file with the skills to recommend; none by default.

    Raises:
        UsageError: a file cannot be read, the address cannot be listened on, or is open to the
            network and there is no token.
    """
    limits = None if thresholds is None else load_thresholds(thresholds)
    known = () if skills is None else load_skills(skills)
    tokens = TokenFile(data / TOKENS_FILE)
    if not is_loopback(host) and not tokens.exists:
        raise UsageError(
            f"memory server on {host}: the network can reach it and there is no token yet; "
            f"make one first: memfin memory token add USER --data {data}"
        )
    telemetry = MemoryTelemetry()
    with MemoryStore(data, telemetry=telemetry, thresholds=limits) as store:
        app = memory_application(
            store,
            tokens,
            telemetry=telemetry,
            host=host,
            names=names,
            secure_cookies=secure_cookies,
            skills=known,
        )
        serving = partial(run, beside=partial(sweep_periodically, store, SWEEP_INTERVAL), drained=True)
        anyio.run(serving, app, "memory", host, port)


async def sweep_periodically(store: MemoryStore, interval: float) -> None:
    """Sweep like ``memfin memory expire``, now and every ``interval`` seconds."""
    while True:
        try:
            sweep = await anyio.to_thread.run_sync(store.expire)
            if sweep.failed:
                _LOG.error("%d interrupted operations cannot be finished", sweep.failed)
            await anyio.to_thread.run_sync(store.scan_drift)
        except (MemfinError, OSError) as problem:
            _LOG.error("the sweep failed: %s", type(problem).__name__)
        await anyio.sleep(interval)
