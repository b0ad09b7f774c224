"""Leases between real processes, over TCP: a coordinator or a holder may be killed at any moment."""

import asyncio
import gc
import itertools
import json
import os
import signal
import socket
import sys
import time
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager, suppress
from pathlib import Path
from typing import Any

import anyio
import anyio.lowlevel
import pytest

from memfin.client.coordinator import RateLease, rate_coordinator
from memfin.client.errors import EndpointDown, RequestError
from memfin.client.leases import (
    LEASE,
    MAX_FRAME,
    TOKEN_VARIABLE,
    LeasedRate,
    Pool,
    RateCoordinator,
    RateLimits,
    parse_address,
)
from memfin.client.limiter import CallLimiter, StartLimiter
from memfin.client.windows import GUARD
from memfin.errors import UsageError
from tests.client.test_shares import max_within
from tests.support import length

PER_SECOND = 40
LIMITS = RateLimits(agent_rpm=60.0 * PER_SECOND)
SECONDS = float(length(2, 20))
SHARDS = length(4, 8)
USED = (
    length(50, 85) / 100
)  # of the limit, more than a fair share; the suite beside it takes some of the time
TOKEN = "of the tests"  # noqa: S105 - a made-up one
ROOT = Path(__file__).resolve().parents[2]


class ShardProcess:
    """A process that starts as often as it may; when it did is read while it works."""

    def __init__(self, process: asyncio.subprocess.Process) -> None:
        self.starts: list[float] = []
        self.warnings = ""
        self.process = process
        self.begun = asyncio.Event()
        self._reading = asyncio.create_task(self._read())

    async def _read(self) -> None:
        assert self.process.stdout is not None
        async for line in self.process.stdout:
            if line.endswith(b"\n"):
                self.starts.append(float(line))
                self.begun.set()

    async def killed(self) -> None:
        with suppress(ProcessLookupError):
            self.process.kill()
        await self._reading
        assert self.process.stderr is not None
        self.warnings = (await self.process.stderr.read()).decode()
        await self.process.wait()


@asynccontextmanager
async def shard_processes(lease: RateLease, count: int) -> AsyncIterator[list[ShardProcess]]:
    """Yield so many shards, all of which have started something; kill them at the end."""
    command = (sys.executable, "-m", "tests.client.leasing_process", lease.address)
    environment = {**os.environ, TOKEN_VARIABLE: lease.token}
    pipe = asyncio.subprocess.PIPE
    shards: list[ShardProcess] = []
    try:
        for _ in range(count):
            process = await asyncio.create_subprocess_exec(
                *command, cwd=ROOT, env=environment, stdout=pipe, stderr=pipe
            )
            shards.append(ShardProcess(process))
        with anyio.fail_after(60):
            for shard in shards:
                await shard.begun.wait()
        yield shards
    finally:
        for shard in shards:
            await shard.killed()


def all_starts(*shards: ShardProcess) -> list[float]:
    return sorted(at for shard in shards for at in shard.starts)


def coordinator_process() -> int:
    """Return the id of the coordinator that this process keeps."""
    children = Path(f"/proc/self/task/{os.getpid()}/children").read_text().split()
    commands = {int(each): Path(f"/proc/{each}/cmdline").read_bytes() for each in children}
    return next(each for each, command in commands.items() if b"memfin.client.coordinator" in command)


def used(starts: list[float], begin: float, seconds: float) -> float:
    """Return the share of the limit that was used from a moment on."""
    return sum(begin <= at < begin + seconds for at in starts) / (PER_SECOND * seconds)


async def test_the_limit_holds_while_the_coordinator_is_killed_and_started_again() -> None:
    deaths: list[str] = []
    async with (
        rate_coordinator(LIMITS, warn=deaths.append) as lease,
        shard_processes(lease, SHARDS) as shards,
    ):
        begun = time.monotonic()
        await asyncio.sleep(SECONDS)
        os.kill(coordinator_process(), signal.SIGKILL)
        killed = time.monotonic()
        with anyio.fail_after(30):
            reader, writer = await asyncio.open_connection(lease.host, lease.port)
            await reader.readline()
            serving = time.monotonic()
            writer.close()
            while not all(shard.starts[-1] > killed + 1 for shard in shards):  # noqa: ASYNC110
                await asyncio.sleep(0.05)
        await asyncio.sleep(SECONDS)
        ended = time.monotonic()
    starts = all_starts(*shards)
    assert max_within(starts, 1.0) <= PER_SECOND
    assert len(deaths) == 1
    assert "signal 9" in deaths[0]
    assert all("is away" in shard.warnings and "is back" in shard.warnings for shard in shards)
    silence, again = max(itertools.pairwise(starts), key=lambda pair: pair[1] - pair[0])
    assert silence < killed + LEASE
    assert again - serving > 0.9  # the next coordinator remembers nothing, so it was silent for a period
    assert used(starts, begun, killed - begun) >= USED
    assert used(starts, again, ended - again) >= USED
    shares = [len([at for at in shard.starts if again < at < ended]) for shard in shards]
    assert min(shares) >= 0.5 * max(shares)


async def test_one_busy_shard_uses_what_idle_and_killed_ones_leave() -> None:
    async with rate_coordinator(LIMITS, warn=lambda _: None) as lease:
        idle = LeasedRate(lease.address, lease.token, "agent", LIMITS, patience=1.0, warn=lambda _: None)
        await idle.start(0.0)
        async with shard_processes(lease, 3) as shards:
            others, busy = shards[1:], shards[0]
            for shard in others:
                await shard.killed()
            killed = time.monotonic()
            await asyncio.sleep(SECONDS)
        await idle.close()
    assert max_within(all_starts(*shards), 1.0) <= PER_SECOND
    period = 1 + GUARD + LEASE  # a part of one may be the pause at its end
    assert used(busy.starts, killed + 0.5, (SECONDS - 0.5) // period * period) >= USED


@asynccontextmanager
async def coordinator(limits: RateLimits, *, silent: bool = False, port: int = 0) -> AsyncIterator[str]:
    """Serve in this process; yield the address."""
    listener = socket.create_server(("127.0.0.1", port))
    serving = asyncio.create_task(RateCoordinator(limits, TOKEN, silent=silent).serve(listener))
    try:
        yield f"127.0.0.1:{listener.getsockname()[1]}"
    finally:
        serving.cancel()
        await asyncio.wait([serving])


def leased(
    address: str, pool: Pool = "judge", *, token: str = TOKEN, warnings: list[str] | None = None, **own: float
) -> LeasedRate:
    kept = [] if warnings is None else warnings
    return LeasedRate(address, token, pool, RateLimits(**own), patience=0.3, warn=kept.append)


async def test_real_usage_is_reported_to_the_coordinator() -> None:
    """An estimate of nearly the whole minute leaves no room until the real usage is known."""
    limits = RateLimits(judge_tpm=6_000_000.0)
    async with coordinator(limits) as address:
        gates = [CallLimiter(workers=9, rate=leased(address), on_warning=print) for _ in range(2)]

        async def attempt() -> int:
            return 10

        with anyio.fail_after(5):
            for gate in gates * 2:
                await gate.call(attempt, tokens=5_900_000, used=lambda value: value)
        for gate in gates:
            await gate.close()


async def test_a_question_that_is_cancelled_takes_no_start() -> None:
    async with coordinator(RateLimits(judge_rpm=60.0)) as address:
        first, second = leased(address), leased(address)
        await first.start(0.0)
        with anyio.move_on_after(0.2):
            await first.start(0.0)
        begin = time.monotonic()
        await second.start(0.0)
        assert 0.5 < time.monotonic() - begin < 1.0 + GUARD + LEASE
        await first.close()
        await second.close()


async def test_a_coordinator_that_stays_away_ends_the_calls() -> None:
    warnings: list[str] = []
    async with coordinator(RateLimits(judge_rpm=6000.0)) as address:
        rate = leased(address, warnings=warnings)
        await rate.start(0.0)
    with pytest.raises(EndpointDown, match=r"the rate coordinator 127.0.0.1:\d+ has been away for \d s"):
        await rate.start(0.0)
    assert len(warnings) == 1
    gate = CallLimiter(workers=1, rate=rate, on_warning=warnings.append)
    with pytest.raises(RequestError, match="has been away") as caught:
        await gate.call(anyio.lowlevel.checkpoint)
    assert caught.value.kind == "unavailable"


async def test_other_limits_and_other_tokens_are_refused() -> None:
    async with coordinator(RateLimits(judge_rpm=60.0)) as address:
        with pytest.raises(UsageError, match=r"judge_rpm: is 90, but 60 at the rate coordinator"):
            await leased(address, judge_rpm=90.0).start(0.0)
        with pytest.raises(UsageError, match=r"agent_rpm: is 90, but none at the rate coordinator"):
            await leased(address, "agent", agent_rpm=90.0).start(0.0)
        with pytest.raises(UsageError, match=f"refuses the token in {TOKEN_VARIABLE}"):
            await leased(address, token="another").start(0.0)  # noqa: S106 - a wrong one
        unlimited = StartLimiter(leased(address, "agent"))
        for _ in range(3):
            await unlimited.admit()
        await unlimited.close()


async def test_strangers_and_broken_frames_are_disconnected() -> None:
    reported: list[dict[str, Any]] = []
    asyncio.get_running_loop().set_exception_handler(lambda _, context: reported.append(context))
    async with coordinator(RateLimits(judge_rpm=60.0)) as address:
        host, port = parse_address(address)
        for sent in (
            b"x" * (MAX_FRAME * 3) + b"\n",
            b"not json\n",
            b'{"type":"hello","pool":"judge","proof":"\xff"}\n',
            json.dumps({"type": "ask", "number": 1, "tokens": 1}).encode() + b"\n",
            json.dumps({"type": "hello", "pool": "judge", "proof": "é"}).encode() + b"\n",
        ):
            reader, writer = await asyncio.open_connection(host, port)
            assert b"challenge" in await reader.readline()
            writer.write(sent)
            with anyio.fail_after(5):
                try:
                    rest = await reader.read()
                except ConnectionError:
                    rest = b""
            assert b"welcome" not in rest
            writer.close()
        rate = leased(address)
        await rate.start(0.0)
        await rate.close()
    gc.collect()  # tasks with an error that nobody asks for report it when they go
    assert not reported
