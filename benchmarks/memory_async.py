"""The largest stall of an event loop while clients of an `AsyncMemoryStore` read and write.

    python benchmarks/memory_async.py                     50 clients of 10 rounds
    python benchmarks/memory_async.py --clients 10 --root /data

A ticker in the loop sleeps for a millisecond again and again; a stall is by how much a tick is late. The same
rounds are then made with the blocking store in the loop, for comparison. Files are real and are removed.
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


async def stalls(work: Callable[[], Awaitable[Any]]) -> list[float]:
    """Return by how many milliseconds each tick was late while work was done, sorted."""
    late: list[float] = []

    async def tick() -> None:
        while True:
            begun = time.perf_counter()
            await asyncio.sleep(TICK)
            late.append((time.perf_counter() - begun - TICK) * 1000)

    ticker = asyncio.create_task(tick())
    await asyncio.sleep(0)
    try:
        await work()
    finally:
        ticker.cancel()
    return sorted(late)


def figures(late: list[float], seconds: float) -> dict[str, float]:
    """Return the percentiles and the largest of the stalls, in milliseconds."""
    shares = {f"p{100 * share:g}_ms": round(late[int(share * (len(late) - 1))], 2) for share in SHARES}
    return {**shares, "largest_ms": round(late[-1], 2), "seconds": round(seconds, 2)}


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
