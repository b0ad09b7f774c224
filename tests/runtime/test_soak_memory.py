"""Memory stays flat: over many epochs, and in front of a disk that takes a second for every record."""

import json
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from threading import Condition
from typing import Any

import anyio
import psutil

from memfin.contracts import EvalSummary
from memfin.journal.disk import Disk
from memfin.journal.run_directory import RunDirectory
from memfin.runtime.plan import RunPlan, make_plan
from memfin.runtime.run import Run
from tests.support import LONG, dialog, length, unmeasured, write_jsonl

ROOT = Path(__file__).resolve().parents[2]
MIB = 1 << 20
DIALOGS = length(700, 10_000)
SOAKED = length(1_000, 50_000)
EPOCH = length(200, 1_000)
MAX_GROWTH = length(4, 16)
"""MiB from the first to the last epoch: in a short run a leak of 2 KiB per turn, less than a turn holds."""
WORKERS = 8
MOST_UNDER_WAY = 400
"""Dialogues between source and aggregator: a group of 256 turns that is being written, the writer's inbox
of 32, and what the other channels and the workers hold."""


def test_thousands_of_turns_leave_memory_descriptors_tasks_and_threads_flat() -> None:
    """The benchmark judges; a short run is not enough for the interval of the slope of resident memory."""
    done = subprocess.run(
        [sys.executable, "benchmarks/soak.py", "--turns", str(SOAKED), "--epoch", str(EPOCH), "--json"],
        cwd=ROOT,
        env=unmeasured(),
        capture_output=True,
        text=True,
        timeout=540,
        check=False,
    )
    assert done.returncode in (0, 1), done.stderr
    found = json.loads(done.stdout)
    assert [line for line in found["over_bounds"] if LONG or not line.startswith("resident memory")] == []
    assert found["turns"] == SOAKED
    assert found["rss_mib_last"] < found["rss_mib_first"] + MAX_GROWTH


class GatedDisk(Disk):
    """A disk on which every line of the commit log takes a second of a clock that the test turns.

    The writer's thread stands still in between, as it would before a slow medium.
    """

    def __init__(self) -> None:
        self._turned = Condition()
        self._log: set[int] = set()
        self._open = False
        self.now = 0.0
        self.waiting = 0

    def open(self, path: Path, flags: int) -> int:
        descriptor = super().open(path, flags)
        if path.name == "commits.log":
            self._log.add(descriptor)
        return descriptor

    def write(self, descriptor: int, data: bytes | memoryview) -> int:
        if descriptor in self._log:
            self._wait(bytes(data).count(b"\n"))
        return super().write(descriptor, data)

    def _wait(self, records: int) -> None:
        with self._turned:
            due = self.now + records
            self.waiting = records
            while self.now < due and not self._open:
                self._turned.wait()
            self.waiting = 0

    def turn(self) -> None:
        """Let the clock go on until what is being written is written."""
        with self._turned:
            self.now += self.waiting
            self._turned.notify_all()

    @contextmanager
    def opened_in_the_end(self) -> Iterator[None]:
        """Let the thread go whatever happens, or the test would never end."""
        try:
            yield
        finally:
            with self._turned:
                self._open = True
                self._turned.notify_all()


class Quick:
    def __init__(self, session: Any, observer: Any) -> None:
        self._observer = observer

    async def reply(self, user_text: str) -> str:
        self._observer.recall(short_term_context=user_text, query=user_text)
        return f"{user_text}：市场存在不确定性，仅供参考。" * 20


def slow_plan(tmp_path: Path) -> RunPlan:
    data = write_jsonl(tmp_path / "data.jsonl", [dialog(f"d{number:05}", 1) for number in range(DIALOGS)])
    return make_plan(data, agent=Quick, runs_dir=tmp_path / "runs", run_id="slow", workers_dialog=WORKERS)


async def standing(disk: GatedDisk, run: Run[EvalSummary]) -> bool:
    """Wait until the disk is waited for and nothing else moves; return False when the run is over.

    While there are dialogues left to replay, nothing stands before the queue of the disk is full: what
    has not come so far is only late, on whatever machine.
    """
    quiet, before = 0, None
    while quiet < 5 and run.summary is None:
        await anyio.sleep(0.004)
        actors = {entry.name: entry for entry in run.statistics()}
        now = [(entry.received, entry.sent, entry.waiting) for entry in actors.values()]
        full = not actors or actors["trace_writer"].waiting == actors["trace_writer"].capacity
        replayed = not actors or actors["source"].sent == DIALOGS
        quiet = quiet + 1 if disk.waiting and now == before and (full or replayed) else 0
        before = now
    return run.summary is None


async def test_a_disk_that_takes_a_second_a_record_bounds_what_is_held(tmp_path: Path) -> None:
    plan = slow_plan(tmp_path)
    disk = GatedDisk()
    run = Run(plan)
    run.directory = RunDirectory(plan.directory, plan.progress, disk=disk)
    process = psutil.Process()
    rss: list[int] = []
    under_way: list[int] = []
    async with anyio.create_task_group() as group:
        group.start_soon(run.run)
        with disk.opened_in_the_end(), anyio.fail_after(300):
            while await standing(disk, run):
                rss.append(process.memory_info().rss)
                actors = {entry.name: entry for entry in run.statistics()}
                for name, entry in actors.items():
                    assert entry.waiting <= entry.capacity, name
                if actors and 0 < actors["source"].sent < DIALOGS:
                    assert actors["trace_writer"].waiting == actors["trace_writer"].capacity
                    under_way.append(actors["source"].sent - actors["aggregator"].received)
                disk.turn()
    rss.append(process.memory_info().rss)
    assert run.summary is not None
    assert run.summary.counters.valid_dialogs == DIALOGS
    assert disk.now > 2 * DIALOGS  # a second for each replay and each judgement
    assert len(under_way) > length(5, 50)
    assert max(under_way) <= MOST_UNDER_WAY
    assert max(rss) - rss[0] < 32 * MIB
