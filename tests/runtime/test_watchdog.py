"""The watchdog of the event loop."""

import asyncio
import signal
import subprocess
import sys
import textwrap
import threading
import time

import anyio.to_thread
import pytest

from memfin.runtime import watchdog as watchdog_module
from memfin.runtime.watchdog import LoopWatchdog

LONG = 20.0


@pytest.fixture(autouse=True)
def short_patience(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(watchdog_module, "BEAT", 0.01)
    monkeypatch.setattr(watchdog_module, "PATIENCE", 0.15)


class Reports:
    """Collects what a watchdog reports; a test blocks its loop until a report has come."""

    def __init__(self) -> None:
        self.seconds: list[float] = []
        self.threads: list[threading.Thread] = []
        self._come = threading.Event()

    def __call__(self, seconds: float) -> None:
        self.seconds.append(seconds)
        self.threads.append(threading.current_thread())
        self._come.set()

    def block_until_told(self) -> bool:
        self._come.clear()
        return self._come.wait(LONG)


async def test_a_loop_that_is_blocked_is_reported_while_it_is() -> None:
    reports = Reports()
    async with LoopWatchdog(reports):
        assert reports.block_until_told()
    assert reports.seconds[0] >= 0.15
    assert reports.threads[0].name == "memfin-watchdog"
    assert reports.threads[0].daemon


async def test_each_block_is_reported_once() -> None:
    reports = Reports()
    async with LoopWatchdog(reports):
        for number in (1, 2):
            assert reports.block_until_told()
            time.sleep(0.2)  # noqa: ASYNC251 - it goes on, and is not reported again
            assert len(reports.seconds) == number
            await asyncio.sleep(0.1)  # several beats: the block is over


async def test_a_loop_that_turns_is_not_reported(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(watchdog_module, "PATIENCE", 0.3)
    reports = Reports()
    async with LoopWatchdog(reports, reports, deadline=0.3):
        await asyncio.sleep(0.5)
    assert reports.seconds == []


async def test_the_deadline_is_told_once_and_ends_the_watch() -> None:
    blocked, late = Reports(), Reports()
    async with LoopWatchdog(blocked, late, deadline=0.4):
        assert late.block_until_told()
        await anyio.to_thread.run_sync(late.threads[0].join, LONG)
        assert not late.threads[0].is_alive()
    assert [len(blocked.seconds), len(late.seconds)] == [1, 1]
    assert late.seconds[0] >= 0.4 > blocked.seconds[0]


async def test_without_a_deadline_nobody_gives_up() -> None:
    blocked, late = Reports(), Reports()
    async with LoopWatchdog(blocked, late):
        assert blocked.block_until_told()
        time.sleep(0.2)  # noqa: ASYNC251 - that is the misdeed
    assert late.seconds == []


async def test_leaving_ends_heartbeat_and_thread() -> None:
    reports = Reports()
    watchdog = LoopWatchdog(reports)
    async with watchdog:
        pass
    await anyio.to_thread.run_sync(watchdog._thread.join, LONG)
    assert not watchdog._thread.is_alive()
    beat = watchdog._last_beat
    await asyncio.sleep(0.05)
    assert watchdog._last_beat == beat


def test_a_process_that_was_stopped_blames_nobody() -> None:
    program = """
        import asyncio
        from memfin.runtime import watchdog

        watchdog.BEAT, watchdog.PATIENCE = 0.01, 0.3

        async def main():
            async with watchdog.LoopWatchdog(
                lambda s: print("blocked", flush=True), lambda s: print("gave up", flush=True), deadline=0.4
            ):
                print("ready", flush=True)
                await asyncio.get_running_loop().run_in_executor(None, input)
                await asyncio.sleep(0.1)
                print("done", flush=True)

        asyncio.run(main())
    """
    command = [sys.executable, "-c", textwrap.dedent(program)]
    with subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True) as process:
        assert process.stdout is not None
        assert process.stdout.readline() == "ready\n"
        for _ in range(3):
            process.send_signal(signal.SIGSTOP)
            time.sleep(0.5)  # time must pass, longer than the deadline
            process.send_signal(signal.SIGCONT)
            time.sleep(0.03)
        output, _ = process.communicate("go on\n", timeout=LONG)
    assert (process.returncode, output) == (0, "done\n")
