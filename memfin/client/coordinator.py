"""Process of a rate coordinator: started on a socket that its parent holds, and again when it dies.

``python -m memfin.client.coordinator`` reads its `Orders` as one line on its standard input, and ends when
that does.
"""

import asyncio
import secrets
import socket
import sys
import time
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager, suppress
from typing import Final, NamedTuple

import msgspec

from memfin.client.leases import RateCoordinator, RateLimits
from memfin.contracts.base import Record
from memfin.errors import RunFault

BACKLOG: Final = 1024
LIVED: Final = 5.0  # seconds after which a process counts as one that worked
MAX_DEATHS: Final = 5  # processes in a row that did not
PAUSE: Final = 0.2  # seconds before the next of these


class Orders(Record):
    """Input of a coordinator's process: a socket that listens, by its descriptor."""

    descriptor: int
    limits: RateLimits
    token: str
    silent: bool


class RateLease(NamedTuple):
    """Where a coordinator listens, and its token."""

    host: str
    port: int
    token: str

    @property
    def address(self) -> str:
        """The address as ``HOST:PORT``."""
        return f"{self.host}:{self.port}"


@asynccontextmanager
async def rate_coordinator(
    limits: RateLimits, *, warn: Callable[[str], None], bind: str = "127.0.0.1", fresh: bool = True
) -> AsyncIterator[RateLease]:
    """Run a coordinator in a process of its own, which is started again when it dies.

    ``fresh`` says that no earlier coordinator allowed starts within the last minute; else the first process
    is silent for one period of each limit, as its successors are. ``warn`` gets a line for each death.

    Raises:
        RunFault: there is no such address to listen on.
    """
    try:
        listener = socket.create_server((bind, 0), backlog=BACKLOG)
    except OSError as problem:
        raise RunFault(
            f"rate coordinator: cannot listen on {bind}: {problem.strerror or problem}"
        ) from problem
    with listener:
        token = secrets.token_urlsafe(24)
        orders = Orders(descriptor=listener.fileno(), limits=limits, token=token, silent=not fresh)
        keeper = asyncio.create_task(_keep(orders, warn), name="rate-coordinator")
        try:
            yield RateLease(bind, listener.getsockname()[1], token)
        finally:
            keeper.cancel()
            with suppress(asyncio.CancelledError):
                await keeper


async def _keep(orders: Orders, warn: Callable[[str], None]) -> None:
    """Run one process after the other until cancelled."""
    deaths, why = 0, ""
    while deaths < MAX_DEATHS:
        began = time.monotonic()
        try:
            why = await _run(orders)
        except OSError as problem:
            why = str(problem)
        deaths = deaths + 1 if time.monotonic() - began < LIVED else 0
        orders = orders.replace(silent=True)
        if deaths < MAX_DEATHS:
            warn(f"the rate coordinator ended ({why}) and is started again; requests wait meanwhile")
            await asyncio.sleep(PAUSE if deaths else 0.0)
    warn(f"the rate coordinator ended {deaths} times in a row ({why}) and is given up")


async def _run(orders: Orders) -> str:
    """Run one process to its end; return why it ended."""
    process = await asyncio.create_subprocess_exec(
        sys.executable,
        "-m",
        "memfin.client.coordinator",
        stdin=asyncio.subprocess.PIPE,
        stdout=asyncio.subprocess.DEVNULL,
        pass_fds=[orders.descriptor],
        start_new_session=True,  # Ctrl-C is for the parent, whose workers still need it
    )
    assert process.stdin is not None  # noqa: S101 - it is a pipe
    try:
        process.stdin.write(msgspec.json.encode(orders) + b"\n")
        code = await process.wait()
    finally:
        process.stdin.close()
        with suppress(ProcessLookupError):  # it has nothing to save
            process.kill()
        await process.wait()
    return f"signal {-code}" if code < 0 else f"exit {code}"


async def _serve(orders: Orders) -> None:
    listener = socket.socket(fileno=orders.descriptor)
    loop = asyncio.get_running_loop()
    reader = asyncio.StreamReader()
    pipe, _ = await loop.connect_read_pipe(lambda: asyncio.StreamReaderProtocol(reader), sys.stdin.buffer)
    coordinator = RateCoordinator(orders.limits, orders.token, silent=orders.silent)
    serving = asyncio.create_task(coordinator.serve(listener))
    ended = asyncio.create_task(reader.read())
    await asyncio.wait((serving, ended), return_when=asyncio.FIRST_COMPLETED)
    pipe.close()
    serving.cancel()
    with suppress(asyncio.CancelledError):
        await serving


if __name__ == "__main__":
    asyncio.run(_serve(msgspec.json.decode(sys.stdin.buffer.readline(), type=Orders)))
