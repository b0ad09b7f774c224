"""The largest stall of an event loop while clients of an `AsyncMemoryStore` read and write.

    python benchmarks/memory_async.py                     50 clients of 10 rounds
    python benchmarks/memory_async.py --clients 10 --root /data

A ticker in the loop sleeps for a millisecond again and again; a stall is by how much a tick is late. Its own
part is without the time for which the loop's thread waited for a processor that other processes had (Linux).
The same rounds are then made with the blocking store in the loop. Files are real and are removed.
"""

import argparse
import asyncio
import json
import sys
import tempfile
import time
from collections.abc import Awaitable, Callable
from pathlib import Path
from typing import Any

from memfin.contracts.memory import ConsentScopes, Preferences
from memfin.memory import MemoryStore
from memfin.memory.asynchronous import AsyncMemoryStore

SCOPES = ConsentScopes(
    create_task=True, save_to_profile=True, save_to_thread=True, training_use_allowed=False
)
TICK = 0.001
SHARES = (0.5, 0.99, 0.999)


async def rounds(store: AsyncMemoryStore, user_id: str, count: int) -> None:
    """Do what an agent's turn does, again and again."""
    await store.grant_consent(user_id, SCOPES, Preferences(language_preference="zh"))
    for number in range(count):
        item = await store.items.add(user_id, f"关注黄金与长期利率的关系，第{number}次")
        await store.start_task(user_id, "pre_execution", prompt="黄金还能买吗？")
        await store.items.search(user_id, "gold 利率")
        await store.items.update(user_id, item.item_id, f"关注白银，第{number}次")
        await store.load_memory_slices(user_id, "snapshot")


def blocking_rounds(store: MemoryStore, user_id: str, count: int) -> None:
    """Do the same in the thread of the caller."""
    store.grant_consent(user_id, SCOPES, Preferences(language_preference="zh"))
    for number in range(count):
        item = store.items.add(user_id, f"关注黄金与长期利率的关系，第{number}次")
        store.start_task(user_id, "pre_execution", prompt="黄金还能买吗？")
        store.items.search(user_id, "gold 利率")
        store.items.update(user_id, item.item_id, f"关注白银，第{number}次")
        store.load_memory_slices(user_id, "snapshot")


def queued() -> float:
    """Return for how many milliseconds this thread has waited for a processor; 0 where that is unknown."""
    try:
        return int(Path("/proc/thread-self/schedstat").read_text("ascii").split()[1]) / 1e6
    except OSError:
        return 0.0


async def stalls(work: Callable[[], Awaitable[Any]]) -> list[tuple[float, float]]:
    """Return by how many milliseconds each tick was late while work was done, and the own part of it."""
    late: list[tuple[float, float]] = []

    async def tick() -> None:
        while True:
            begun, waited = time.perf_counter(), queued()
            await asyncio.sleep(TICK)
            stall = (time.perf_counter() - begun - TICK) * 1000
            late.append((stall, max(0.0, stall - (queued() - waited))))

    ticker = asyncio.create_task(tick())
    await asyncio.sleep(0)
    try:
        await work()
    finally:
        ticker.cancel()
    return late


def figures(late: list[tuple[float, float]], seconds: float) -> dict[str, Any]:
    """Return the percentiles and the largest of the stalls, in milliseconds."""
    found: dict[str, Any] = {"ticks": len(late), "seconds": round(seconds, 2)}
    for name, stalls_ms in zip(("all", "own"), map(sorted, zip(*late, strict=True)), strict=True):
        shares = {f"p{100 * share:g}_ms": stalls_ms[int(share * (len(late) - 1))] for share in SHARES}
        found[name] = {key: round(ms, 2) for key, ms in {**shares, "largest_ms": stalls_ms[-1]}.items()}
    return found


async def measured(root: Path, clients: int, count: int) -> dict[str, Any]:
    """Return the stalls of an idle loop, of one with the asynchronous store, and with the blocking one."""
    found: dict[str, Any] = {"clients": clients, "rounds": count}

    async def idle() -> None:
        await asyncio.sleep(2)

    async def asynchronous() -> None:
        async with AsyncMemoryStore(root / "async") as store:
            await asyncio.gather(*(rounds(store, f"u{number}", count) for number in range(clients)))

    async def blocking() -> None:
        with MemoryStore(root / "blocking") as store:
            for number in range(clients):
                blocking_rounds(store, f"u{number}", count)
                await asyncio.sleep(0)

    for work in (idle, asynchronous, blocking):
        begun = time.perf_counter()
        found[work.__name__] = figures(await stalls(work), time.perf_counter() - begun)
    return found


def main() -> int:
    """Measure, and print the figures as JSON."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawTextHelpFormatter)
    parser.add_argument("--clients", type=int, default=50)
    parser.add_argument("--rounds", type=int, default=10)
    parser.add_argument("--root", type=Path, help="an existing directory; the data is made below it")
    arguments = parser.parse_args()
    with tempfile.TemporaryDirectory(prefix="memfin-async-", dir=arguments.root) as room:
        print(json.dumps(asyncio.run(measured(Path(room), arguments.clients, arguments.rounds)), indent=2))
    return 0


if __name__ == "__main__":
    sys.exit(main())
