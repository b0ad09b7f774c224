"""Use of a shared limit: shards with leases, a coordinator that is killed, and shares without one.

Run it as ``python benchmarks/rates.py [--shards 8] [--rpm 600] [--seconds 60]``. Each shard is a process that
starts as often as it may. Printed are the share of the limit that was used, the most starts in any second,
and the fewest and most starts of a shard. The figures of docs/rates.md come from here.
"""

import argparse
import asyncio
import itertools
import os
import signal
import sys
import time
from pathlib import Path

import anyio

from memfin.client.coordinator import rate_coordinator
from memfin.client.leases import TOKEN_VARIABLE, LeasedRate, RateLimits
from memfin.client.limiter import StartLimiter
from memfin.client.windows import Rate, Windows
from memfin.shards import Shard


async def shard(place: str, seconds: float, rpm: float) -> None:
    """Print when something starts: by a share K/N, or by a coordinator's leave."""
    rate: Rate
    if "/" in place:
        rate = Windows(rpm, shard=Shard.parse(place))
    else:
        token = os.environ[TOKEN_VARIABLE]
        rate = LeasedRate(place, token, "agent", RateLimits(), patience=60.0, warn=lambda _: None)
    limiter = StartLimiter(rate)
    with anyio.move_on_after(seconds):
        while True:
            await limiter.admit()
            sys.stdout.write(f"{time.monotonic()}\n")
            sys.stdout.flush()
    await limiter.close()


async def starts_of(
    places: list[str], seconds: float, rpm: float, token: str = "", *, killing: bool = False
) -> list[list[float]]:
    """Run shards at the same time, and kill the coordinator meanwhile; return the starts of each."""
    command = (sys.executable, __file__, "--seconds", str(seconds), "--rpm", str(rpm))
    shards = [
        await asyncio.create_subprocess_exec(
            *command,
            "--place",
            place,
            env={**os.environ, TOKEN_VARIABLE: token},
            stdout=asyncio.subprocess.PIPE,
        )
        for place in places
    ]
    first = [await each.stdout.readline() for each in shards if each.stdout is not None]
    if killing:
        await asyncio.sleep(seconds / 2)
        os.kill(coordinator_of(os.getpid()), signal.SIGKILL)
    rest = [(await each.communicate())[0] for each in shards]
    return [[float(line) for line in (one + more).split()] for one, more in zip(first, rest, strict=True)]


def report(name: str, shards: list[list[float]], rpm: float, silence: float = 0.0) -> None:
    """Print a row; what was started while all shards worked counts."""
    begin, end = max(each[0] for each in shards), min(each[-1] for each in shards)
    starts = sorted(at for each in shards for at in each)
    most = max(sum(at <= other <= at + 1 for other in starts[n : n + 1000]) for n, at in enumerate(starts))
    used = sum(begin <= at < end for at in starts) / ((end - begin - silence) * rpm / 60)
    counts = [sum(begin <= at < end for at in each) for each in shards]
    print(f"| {name} | {used:.1%} | {most} | {min(counts)} to {max(counts)} |", flush=True)


def coordinator_of(parent: int) -> int:
    """Return the process of the coordinator."""
    children = Path(f"/proc/{parent}/task/{parent}/children").read_text().split()
    commands = {int(each): Path(f"/proc/{each}/cmdline").read_bytes() for each in children}
    return next(each for each, command in commands.items() if b"memfin.client.coordinator" in command)


async def main(shards: int, rpm: float, seconds: float) -> None:
    """Measure and print a table."""
    print(f"{shards} shards, {rpm:g} requests per minute, {seconds:g} s\n")
    print("| | used | most in a second | starts of a shard |\n|---|---|---|---|")
    own = await starts_of([f"{index}/{shards}" for index in range(shards)], seconds, rpm)
    report("shares", own, rpm)
    async with rate_coordinator(RateLimits(agent_rpm=rpm), warn=lambda _: None) as lease:
        report("leases", await starts_of([lease.address] * shards, seconds, rpm, lease.token), rpm)
        report("leases, one busy shard", await starts_of([lease.address], seconds, rpm, lease.token), rpm)
        made = await starts_of([lease.address] * shards, seconds, rpm, lease.token, killing=True)
        starts = sorted(at for each in made for at in each)
        silence = max(after - before for before, after in itertools.pairwise(starts))
        report(f"leases, coordinator killed: silent for {silence:.1f} s", made, rpm, silence)


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--shards", type=int, default=8)
    parser.add_argument("--rpm", type=float, default=600.0)
    parser.add_argument("--seconds", type=float, default=60.0)
    parser.add_argument("--place", default="", help=argparse.SUPPRESS)
    given = parser.parse_args()
    if given.place:
        asyncio.run(shard(given.place, given.seconds, given.rpm))
    else:
        asyncio.run(main(given.shards, given.rpm, given.seconds))
