"""The thread of one dialogue's plain functions."""

import asyncio
import threading
from contextvars import ContextVar

import anyio.to_thread
import pytest

from memfin.sandbox.thread import CallThread

LONG = 20.0


async def test_results_and_errors_come_back() -> None:
    thread = CallThread("t")
    assert await thread.call(divmod, 7, 2) == (3, 1)
    with pytest.raises(ZeroDivisionError):
        await thread.call(divmod, 7, 0)
    nothing: dict[str, str] = {}
    assert [await thread.call(nothing.get, "key")] == [None]
    thread.stop()


async def test_no_thread_is_started_before_the_first_call() -> None:
    before = set(threading.enumerate())
    thread = CallThread("t")
    assert set(threading.enumerate()) <= before
    thread.stop()


async def test_calls_run_one_after_another_in_the_order_they_came() -> None:
    thread = CallThread("t")
    running: list[int] = []
    overlaps: list[int] = []
    order: list[int] = []

    def job(number: int) -> int:
        running.append(number)
        overlaps.append(len(running))
        order.append(number)
        running.pop()
        return number

    results = await asyncio.gather(*(thread.call(job, number) for number in range(50)))
    assert results == order == list(range(50))
    assert set(overlaps) == {1}
    thread.stop()


async def test_a_call_that_is_cancelled_before_its_turn_never_runs() -> None:
    thread = CallThread("t")
    release = threading.Event()
    ran: list[str] = []
    first = asyncio.ensure_future(thread.call(release.wait, LONG))
    second = asyncio.ensure_future(thread.call(ran.append, "second"))
    await asyncio.sleep(0)
    second.cancel()
    with pytest.raises(asyncio.CancelledError):
        await second
    release.set()
    assert await first is True
    await thread.call(ran.append, "third")
    assert ran == ["third"]
    thread.stop()


async def test_busy_says_whether_a_call_still_runs_wanted_or_not() -> None:
    thread = CallThread("t")
    begun, release = threading.Event(), threading.Event()

    def job() -> None:
        begun.set()
        release.wait(LONG)

    assert [thread.busy] == [False]
    call = asyncio.ensure_future(thread.call(job))
    await anyio.to_thread.run_sync(begun.wait, LONG)
    call.cancel()
    assert [thread.busy] == [True]
    release.set()
    await thread.call(int)
    assert [thread.busy] == [False]
    thread.stop()


async def test_the_context_of_the_caller_is_copied() -> None:
    variable: ContextVar[int] = ContextVar("variable", default=0)
    thread = CallThread("t")
    variable.set(1)

    def job() -> int:
        seen = variable.get()
        variable.set(2)
        return seen

    assert await thread.call(job) == 1
    assert variable.get() == 1
    thread.stop()


async def test_stop_ends_the_thread_after_the_calls_that_were_handed_in() -> None:
    thread = CallThread("t")
    workers: list[threading.Thread] = []
    call = asyncio.ensure_future(thread.call(lambda: workers.append(threading.current_thread())))
    await asyncio.sleep(0)
    thread.stop()
    await call
    await anyio.to_thread.run_sync(workers[0].join, LONG)
    assert not workers[0].is_alive()
    assert workers[0].daemon


def test_a_call_that_outlives_its_loop_ends_quietly() -> None:
    begun, release = threading.Event(), threading.Event()
    workers: list[threading.Thread] = []

    def job() -> None:
        workers.append(threading.current_thread())
        begun.set()
        release.wait(LONG)

    thread = CallThread("t")

    async def main() -> None:
        call = asyncio.ensure_future(thread.call(job))
        await anyio.to_thread.run_sync(begun.wait, LONG)
        call.cancel()

    asyncio.run(main())
    thread.stop()
    release.set()
    workers[0].join(LONG)
    assert not workers[0].is_alive()
