"""Runs the memory service until it is told to stop, and lets the calls that are under way end."""

import logging
import signal
import sys
from collections.abc import Iterable
from pathlib import Path
from typing import Final

import anyio
import anyio.to_thread
from aiohttp import web

from memfin.errors import MemfinError, UsageError
from memfin.memory.access_tokens import TOKENS_FILE, TokenFile
from memfin.memory.drift import load_thresholds
from memfin.memory.store import MemoryStore
from memfin.memory.telemetry import MemoryTelemetry
from memfin.web.memory.application import memory_application
from memfin.web.memory.hosts import is_loopback
from memfin.web.memory.metering import UNDERWAY

DRAINED_WITHIN: Final = 15.0
"""Seconds that calls under way have to end."""
HOUSE_KEPT_EVERY: Final = 600.0
"""Seconds between two sweeps of expired contexts and of watch questions whose hour is over."""

_LOG: Final = logging.getLogger("memfin.web.memory")


def serve(
    data: Path,
    *,
    host: str = "127.0.0.1",
    port: int = 0,
    names: Iterable[str] = (),
    thresholds: Path | None = None,
) -> None:
    """Serve a data root until SIGINT or SIGTERM; prints one line with the address when it is ready.

    Args:
        data: the data root; created when it is missing.
        host: the address to listen on.
        port: the port; 0 takes a free one, which the line names.
        names: further host names under which the service may be asked for.
        thresholds: a file with those of the drift detectors; by default those that ship with MemFin.

    Raises:
        UsageError: the thresholds cannot be read, the address cannot be listened on, or is open to the
            network and there is no token.
    """
    limits = None if thresholds is None else load_thresholds(thresholds)
    tokens = TokenFile(data / TOKENS_FILE)
    if not is_loopback(host) and not tokens.exists:
        raise UsageError(
            f"memory server on {host}: the network can reach it and there is no token yet; "
            f"make one first: memfin memory token add USER --data {data}"
        )
    telemetry = MemoryTelemetry()
    with MemoryStore(data, telemetry=telemetry, thresholds=limits) as store:
        app = memory_application(store, tokens, telemetry=telemetry, host=host, names=names)
        anyio.run(_serve, app, store, host, port)


async def _serve(app: web.Application, store: MemoryStore, host: str, port: int) -> None:
    runner = web.AppRunner(
        app, access_log=None, logger=_wordless("memfin.web.memory.http"), shutdown_timeout=DRAINED_WITHIN
    )
    await runner.setup()
    try:
        site = web.TCPSite(runner, host, port)
        with anyio.open_signal_receiver(signal.SIGINT, signal.SIGTERM) as signals:
            try:
                await site.start()
            except OSError as problem:
                raise UsageError(
                    f"memory server on {host}:{port}: {problem.strerror or problem}"
                ) from problem
            address, actual = runner.addresses[0][:2]
            shown = f"[{address}]" if ":" in address else address
            sys.stdout.write(f"memfin memory server: http://{shown}:{actual}\n")
            sys.stdout.flush()
            async with anyio.create_task_group() as tasks:
                tasks.start_soon(keep_house, store, HOUSE_KEPT_EVERY, name="memfin-memory-house")
                async for _ in signals:
                    break
                tasks.cancel_scope.cancel()
        # aiohttp's own shutdown reads no more of a body that is still coming, so calls end before it
        await site.stop()
        with anyio.move_on_after(DRAINED_WITHIN):
            await app[UNDERWAY].none()
    finally:
        with anyio.CancelScope(shield=True):
            await runner.cleanup()


def _wordless(name: str) -> logging.Logger:
    """Return a logger without exceptions: those of malformed requests quote them, tokens included."""

    def without_exception(record: logging.LogRecord) -> bool:
        record.exc_info = record.exc_text = None
        return True

    logger = logging.getLogger(name)
    logger.addFilter(without_exception)
    return logger


async def keep_house(store: MemoryStore, interval: float) -> None:
    """Do at once and ever again what ``memfin memory expire`` does; ``interval`` is in seconds."""
    while True:
        try:
            sweep = await anyio.to_thread.run_sync(store.expire)
            if sweep.failed:
                _LOG.error("%d interrupted operations cannot be finished", sweep.failed)
            await anyio.to_thread.run_sync(store.scan_drift)
        except (MemfinError, OSError) as problem:
            _LOG.error("the sweep failed: %s", type(problem).__name__)
        await anyio.sleep(interval)
