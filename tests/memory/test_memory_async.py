"""The asynchronous store: the operations of the blocking one, never in the thread of the event loop."""

import asyncio
import inspect
import subprocess
import sys
import threading
import time
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import assert_type

import anyio
import anyio.to_thread
import pytest

from memfin.contracts.memory import MemoryItem, ThreadHeader
from memfin.errors import RunFault
from memfin.memory import MemoryStore
from memfin.memory.asynchronous import MAX_THREADS, AsyncItems, AsyncMemoryStore
from memfin.memory.errors import ConsentRequired, SensitiveInput
from memfin.memory.items import ItemMatch, Items
from memfin.memory.reading import StartedTask
from memfin.memory.store import IsolatedStore
from tests.memory.memory_disks import UnsyncedFiles, tree
from tests.memory.memory_world import EVERYTHING, Clock, open_store


class WatchedFiles(UnsyncedFiles):
    """Remembers the threads that look at a file or write one."""

    def __init__(self) -> None:
        self.threads: set[int] = set()

    def load(self, path: Path) -> bytes | None:
        self.threads.add(threading.get_ident())
        return super().load(path)

    def open(self, path: Path, flags: int) -> int:
        self.threads.add(threading.get_ident())
        return super().open(path, flags)


class HeldFiles(UnsyncedFiles):
    """Writes files only while it is let to."""

    def __init__(self) -> None:
        self.waiting = threading.Semaphore(0)
        self.go = threading.Event()
        self.go.set()

    def save(self, path: Path, data: bytes) -> None:
        self.waiting.release()
        self.go.wait()
        super().save(path, data)


def test_every_operation_is_there_with_its_parameters_and_its_docstring() -> None:
    with IsolatedStore(Clock()) as store:
        flat = {name: value for name, value in vars(store).items() if inspect.ismethod(value)}
    del flat["despite_full_disk"]  # takes work that blocks
    items = {name: value for name, value in vars(Items).items() if name[0] != "_" and name != "readable"}
    for operations, form in ((flat, AsyncMemoryStore), (items, AsyncItems)):
        for name, operation in operations.items():
            found = vars(form)[name]
            function = getattr(operation, "__func__", operation)
            assert (found.__wrapped__, found.__doc__) == (function, function.__doc__)


def test_results_and_refusals_are_those_of_the_blocking_store(tmp_path: Path) -> None:
    async def asynchronous() -> None:
        async with AsyncMemoryStore(tmp_path / "a", clock=Clock(), files=UnsyncedFiles()) as store:
            with pytest.raises(ConsentRequired):
                await store.items.add("ann", "a")
            consent = await store.grant_consent("ann", EVERYTHING)
            thread = await store.save_thread("ann", "snap_1", "Gold", {"type": "asset"})
            item = await store.items.add("ann", "no gold", kind="constraint", thread_id=thread.thread_id)
            started = await store.start_task("ann", "pre_execution", thread_id=thread.thread_id)
            with pytest.raises(SensitiveInput):
                await store.items.update("ann", item.item_id, "13800138000")
            assert_type(thread, ThreadHeader)
            assert_type(item, MemoryItem)
            assert_type(started, StartedTask)
            assert_type(await store.items.search("ann", "gold"), list[ItemMatch])
            assert started.memory.value("S8") == ("no gold",)
            assert (await store.consent_on_file("ann")).consent == consent

    asyncio.run(asynchronous())
    with MemoryStore(tmp_path / "b", clock=Clock(), files=UnsyncedFiles()) as store:
        store.grant_consent("ann", EVERYTHING)
        thread_id = store.save_thread("ann", "snap_1", "Gold", {"type": "asset"}).thread_id
        store.items.add("ann", "no gold", kind="constraint", thread_id=thread_id)
        store.start_task("ann", "pre_execution", thread_id=thread_id)
    assert tree(tmp_path / "a") == tree(tmp_path / "b")


def test_no_file_is_touched_in_the_thread_of_the_loop(tmp_path: Path) -> None:
    files = WatchedFiles()

    async def client(store: AsyncMemoryStore, user_id: str) -> None:
        await store.grant_consent(user_id, EVERYTHING)
        await store.items.add(user_id, "a")
        await store.start_task(user_id, "snapshot")
        await store.items.search(user_id, "a")
        await store.revoke_consent(user_id)
        await store.export_user(user_id)
        await store.expire()

    async def main() -> None:
        async with AsyncMemoryStore(tmp_path, files=files) as store:
            await asyncio.gather(*(client(store, f"u{number}") for number in range(6)))

    asyncio.run(main())
    assert threading.get_ident() not in files.threads
    assert 0 < len(files.threads) <= MAX_THREADS


def test_no_module_is_loaded_in_the_loop(tmp_path: Path) -> None:
    script = """
import asyncio, sys
from memfin.memory.asynchronous import AsyncMemoryStore

async def main():
    before = {*sys.modules}
    async with AsyncMemoryStore(sys.argv[1]) as store:
        await store.consent_state("ann")
    print(*{*sys.modules} - before)

asyncio.run(main())
"""
    command = [sys.executable, "-c", script, str(tmp_path)]
    assert subprocess.run(command, capture_output=True, text=True, check=True).stdout.split() == []


def test_fifty_clients_leave_the_loop_its_turns(tmp_path: Path) -> None:
    late: list[float] = []

    async def client(store: AsyncMemoryStore, user_id: str) -> None:
        await store.grant_consent(user_id, EVERYTHING)
        await store.items.add(user_id, "关注黄金与长期利率的关系")
        await store.start_task(user_id, "pre_execution", prompt="黄金还能买吗？")

    async def tick() -> None:
        while True:
            begun = time.perf_counter()
            await asyncio.sleep(0.001)
            late.append(time.perf_counter() - begun - 0.001)

    async def main() -> None:
        async with AsyncMemoryStore(tmp_path) as store:
            ticker = asyncio.create_task(tick())
            await asyncio.gather(*(client(store, f"u{number}") for number in range(50)))
            ticker.cancel()

    asyncio.run(main())
    # In the loop's thread, the same would be a single stall of a second. The bound is one of loaded machines:
    # benchmarks/memory_async.py prints the figures.
    assert len(late) > 20
    assert sorted(late)[int(0.9 * len(late))] < 0.05


def test_a_cancelled_write_is_whole_and_one_that_waits_for_its_turn_is_not_begun(tmp_path: Path) -> None:
    files = HeldFiles()

    async def main() -> None:
        async with AsyncMemoryStore(tmp_path, files=files, gate=lambda value, field: None) as store:
            users = [f"u{number}" for number in range(MAX_THREADS + 1)]
            for user_id in users:
                await store.grant_consent(user_id, EVERYTHING)
            while files.waiting.acquire(blocking=False):
                pass
            files.go.clear()
            with anyio.CancelScope() as scope:
                async with anyio.create_task_group() as group:
                    for user_id in users:
                        group.start_soon(store.items.add, user_id, "a")
                    for _ in range(MAX_THREADS):
                        await anyio.to_thread.run_sync(files.waiting.acquire)
                    scope.cancel()
                    files.go.set()
            assert scope.cancelled_caught
            kept = [len(await store.items.all(user_id)) for user_id in users]
            assert sorted(kept) == [0, *[1] * MAX_THREADS]

    asyncio.run(main())


def test_a_write_is_waited_for_when_asyncio_cancels_its_task_twice(tmp_path: Path) -> None:
    files = HeldFiles()

    async def main() -> None:
        async with AsyncMemoryStore(tmp_path, files=files) as store:
            await store.grant_consent("ann", EVERYTHING)
            while files.waiting.acquire(blocking=False):
                pass
            files.go.clear()
            adding = asyncio.create_task(store.items.add("ann", "a"))
            await asyncio.to_thread(files.waiting.acquire)
            for _ in range(2):
                adding.cancel()
                await asyncio.sleep(0.01)
            assert not adding.done()
            files.go.set()
            with pytest.raises(asyncio.CancelledError):
                await adding
            assert [each.text for each in await store.items.all("ann")] == ["a"]

    asyncio.run(main())


def test_a_call_that_asyncio_cancels_in_the_queue_has_no_effect(tmp_path: Path) -> None:
    async def main() -> None:
        async with AsyncMemoryStore(tmp_path, files=UnsyncedFiles()) as store:
            await store.grant_consent("ann", EVERYTHING)
            for moment in range(5):
                adding = asyncio.create_task(store.items.add("ann", f"text {moment}"))
                for _ in range(moment):
                    await asyncio.sleep(0)
                adding.cancel()
                with pytest.raises(asyncio.CancelledError):
                    await adding
                whole = await store.export_user("ann")  # takes the lock: nothing is under way
                assert await store.export_user("ann") == whole

    asyncio.run(main())


def test_two_loops_share_a_store(tmp_path: Path) -> None:
    store = AsyncMemoryStore(tmp_path, files=UnsyncedFiles())

    async def client(user_id: str) -> None:
        await store.grant_consent(user_id, EVERYTHING)
        for number in range(10):
            await store.items.add(user_id, f"text {number}")

    async def main(prefix: str) -> int:
        users = [f"{prefix}{number}" for number in range(2 * MAX_THREADS)]
        await asyncio.wait_for(asyncio.gather(*map(client, users)), timeout=30)
        return sum([len(await store.items.all(user_id)) for user_id in users])

    with ThreadPoolExecutor(2) as pool:
        kept = list(pool.map(lambda prefix: asyncio.run(main(prefix)), "ab"))
    assert kept == [20 * MAX_THREADS] * 2
    anyio.run(store.aclose, backend="trio")


def test_closing_waits_for_the_calls_of_the_loop(tmp_path: Path) -> None:
    async def main() -> None:
        store = AsyncMemoryStore(tmp_path, files=UnsyncedFiles())
        await store.grant_consent("ann", EVERYTHING)
        calls = [asyncio.create_task(store.start_task("ann", "snapshot")) for _ in range(3 * MAX_THREADS)]
        await anyio.wait_all_tasks_blocked()  # all of them run or wait for their turn
        await store.aclose()
        tasks = {(await call).context.task_id for call in calls}
        assert len(tasks) == len(calls)
        with pytest.raises(RunFault, match=r"\Amemory: this store is closed"):
            await store.items.all("ann")
        await store.aclose()
        with open_store(tmp_path) as reopened:
            assert {each.task_id for each in reopened.list_tasks("ann")} <= tasks

    asyncio.run(main())


def test_a_given_store_stays_open_and_serves_one_loop_after_another(tmp_path: Path) -> None:
    async def add(store: AsyncMemoryStore, text: str) -> None:
        async with store:
            await store.items.add("ann", text)

    with open_store(tmp_path) as given:
        given.grant_consent("ann", EVERYTHING)
        store = AsyncMemoryStore.of(given)
        for text in ("a", "b"):
            asyncio.run(add(store, text))
        assert [each.text for each in given.items.all("ann")] == ["a", "b"]


def test_a_store_without_async_with_opens_at_its_first_call(tmp_path: Path) -> None:
    async def main() -> None:
        store = AsyncMemoryStore(tmp_path / "data", files=UnsyncedFiles())
        assert not (tmp_path / "data").exists()
        assert await store.consent_state("ann") == "none"
        await store.aclose()

    anyio.run(main)
