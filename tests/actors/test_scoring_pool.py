import gc
import os
import signal
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path

import anyio
import msgspec
import pytest

from memfin.actors import scoring_pool
from memfin.actors.scoring_pool import (
    BOOT,
    DEATHS,
    PACKAGE,
    ScoringPool,
    ScoringProcess,
    StartError,
    default_workers,
)
from memfin.agents.observer import Observed
from memfin.agents.replay import build_turn_trace
from memfin.contracts import TurnEvalRow
from memfin.dataset import align_turn_pairs, normalize_dialog
from memfin.scoring.worker import ScoringJob, read_frame, score_job, write_frame
from tests.support import DENSE, ENDLESS, dialog

SHORT = "市场存在不确定性，仅供参考。"


def job(*replies: str) -> ScoringJob:
    """Return a job of a dialogue with these replies."""
    told = normalize_dialog(dialog("d1", len(replies)), default_id="d1")
    pairs = align_turn_pairs(told)
    turns = [
        build_turn_trace(pair, reply, Observed(), 1.0) for pair, reply in zip(pairs, replies, strict=True)
    ]
    return ScoringJob(
        run_id="r", dialog=told, turns=turns, trace_version="v1", history="free", score_chars=10**9
    )


async def ready(pool: ScoringPool) -> int:
    """Wait until a process of the pool is ready and return its id."""
    while True:
        for process in pool._processes:
            if process._ready and process._process is not None:
                return process._process.pid
        await anyio.sleep(0.001)


def is_there(pid: int) -> bool:
    try:
        os.kill(pid, 0)
    except ProcessLookupError:
        return False
    return True


async def test_processes_start_as_dialogues_come_together_and_give_the_rows_of_this_one() -> None:
    warned: list[str] = []
    work = job(SHORT, DENSE, "", SHORT)
    big = job(SHORT)
    big = big.replace(dialog=big.dialog.replace(seed_data={"id": 10**30}))  # no machine word holds it
    async with ScoringPool(2, 60, warned.append) as pool:
        assert await pool.rows(work) == list(score_job(work))
        assert await pool.rows(work) == list(score_job(work))
        assert await pool.rows(big) == list(score_job(big))
        assert len(pool._processes) == 1
        async with anyio.create_task_group() as group:
            group.start_soon(pool.rows, job(SHORT))
            group.start_soon(pool.rows, job(SHORT))
        assert len(pool._processes) == pool.size == 2
    assert warned == []


async def test_a_turn_that_takes_too_long_is_not_scored_and_the_others_are() -> None:
    work = job(SHORT, ENDLESS, SHORT)
    async with ScoringPool(1, 1, list[str]().append) as pool:
        rows = await pool.rows(work)
        # A process that is stopped is late, too, though it uses no time.
        os.kill(await ready(pool), signal.SIGSTOP)
        stopped = await pool.rows(job(SHORT, SHORT))
    assert [row.scoring_error is None for row in stopped] == [False, True]
    assert [row.scoring_error for row in rows] == [None, "took longer than 1 s (score_timeout)", None]
    assert [rows[0], rows[2]] == list(score_job(work.replace(turns=[work.turns[0], work.turns[2]])))
    assert not any(rows[1][f"eligible_m{number}"] for number in range(1, 6))


async def test_a_process_that_is_killed_is_replaced_and_nothing_is_lost() -> None:
    work = job(SHORT, DENSE * 100, SHORT)
    rows: list[TurnEvalRow] = []
    async with ScoringPool(1, 60, list[str]().append) as pool, anyio.create_task_group() as group:
        killed: list[int] = []

        async def kill() -> None:
            killed.append(await ready(pool))
            os.kill(killed[0], signal.SIGKILL)

        group.start_soon(kill)
        rows = await pool.rows(work)
        idle = await ready(pool)
        assert idle != killed[0]
        os.kill(idle, signal.SIGKILL)
        assert await pool.rows(job(SHORT)) == list(score_job(job(SHORT)))
    assert rows == list(score_job(work))


async def test_a_turn_over_which_processes_keep_dying_is_given_up() -> None:
    killed: list[int] = []
    rows: list[TurnEvalRow] = []
    async with ScoringPool(1, 60, list[str]().append) as pool, anyio.create_task_group() as group:

        async def kill() -> None:
            while True:
                pid = await ready(pool)
                if pid not in killed:
                    killed.append(pid)
                    os.kill(pid, signal.SIGKILL)
                await anyio.sleep(0.001)

        group.start_soon(kill)
        rows = await pool.rows(job(ENDLESS))
        group.cancel_scope.cancel()
    (row,) = rows
    assert row.scoring_error == f"the scoring process ended with status -9, {DEATHS} times"
    assert len(killed) == DEATHS


@pytest.mark.parametrize("program", ["/nonexistent/python", "/bin/false", "", os.devnull])
async def test_where_no_process_can_be_started_a_thread_scores(
    program: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(sys, "executable", program)
    warned: list[str] = []
    async with ScoringPool(2, 60, warned.append) as pool:
        for _ in range(2):
            assert await pool.rows(job(SHORT, "")) == list(score_job(job(SHORT, "")))
    (line,) = warned
    assert line.startswith(
        "replies are scored in a thread, without a time-out, as no process can be started: "
    )


async def test_the_reason_why_a_process_does_not_start_is_told(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(scoring_pool, "PACKAGE", "/nonexistent/memfin/__init__.py")
    warned: list[str] = []
    async with ScoringPool(1, 60, warned.append) as pool:
        await pool.rows(job(SHORT))
    assert "No such file or directory: '/nonexistent/memfin/__init__.py'" in warned[0]


async def test_leaving_waits_for_no_reply_and_leaves_no_process() -> None:
    began = 0.0
    pid = 0
    pool = ScoringPool(1, 60, list[str]().append)
    with anyio.CancelScope() as scope:
        async with pool, anyio.create_task_group() as group:
            group.start_soon(pool.rows, job(ENDLESS))
            pid = await ready(pool)
            began = time.perf_counter()
            scope.cancel()
    assert time.perf_counter() - began < 1
    assert not is_there(pid)
    del pool
    gc.collect()  # a pipe that is open still would warn


async def test_leaving_while_a_process_starts_leaves_none() -> None:
    process: subprocess.Popen[bytes] | None = None
    pool = ScoringPool(1, 60, list[str]().append)
    with anyio.CancelScope() as scope:
        async with pool, anyio.create_task_group() as group:
            group.start_soon(pool.rows, job(SHORT))
            while not (pool._processes and pool._processes[0]._process):  # noqa: ASYNC110
                await anyio.sleep(0.001)
            process = pool._processes[0]._process
            assert not pool._processes[0]._ready
            scope.cancel()
    assert process is not None
    assert process.returncode is not None
    assert not is_there(process.pid)


def test_there_is_at_least_one_process_by_default() -> None:
    assert default_workers() >= 1


@pytest.fixture
def worker() -> Iterator["subprocess.Popen[bytes]"]:
    pipe = subprocess.PIPE
    command = [sys.executable, "-P", "-c", BOOT, PACKAGE, ""]
    with subprocess.Popen(command, stdin=pipe, stdout=pipe) as process:
        assert process.stdout is not None
        assert read_frame(process.stdout) == b""
        yield process
        process.kill()


def test_a_worker_ends_with_its_input(worker: "subprocess.Popen[bytes]") -> None:
    assert worker.stdin is not None
    worker.stdin.close()
    assert worker.wait(10) == 0


def test_a_worker_ends_with_its_input_in_the_middle_of_a_reply_and_leaves_interrupts_to_its_parent(
    worker: "subprocess.Popen[bytes]",
) -> None:
    assert worker.stdin is not None
    assert worker.stdout is not None
    os.kill(worker.pid, signal.SIGINT)
    write_frame(worker.stdin, msgspec.json.encode(job(SHORT)))
    (row,) = score_job(job(SHORT))
    assert msgspec.json.decode(read_frame(worker.stdout) or b"", type=TurnEvalRow) == row
    write_frame(worker.stdin, msgspec.json.encode(job(SHORT, ENDLESS)))
    assert read_frame(worker.stdout)
    worker.stdin.close()
    assert worker.wait(10) == 0
    assert worker.stdout.read() == b""


async def test_modules_of_the_current_directory_do_not_take_the_place_of_others(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    for name in ("queue", "signal", "msgspec", "memfin"):
        (tmp_path / f"{name}.py").write_text("raise SystemExit('the wrong module')\n", "utf-8")
    monkeypatch.chdir(tmp_path)
    monkeypatch.syspath_prepend(str(tmp_path))
    process = ScoringProcess(60)
    scored = await process.score(job(SHORT))
    process.close()
    await process.end()
    assert scored.problem is None


async def test_a_process_that_comes_after_its_pool_has_ended_is_killed_at_once() -> None:
    process = ScoringProcess(60)
    process.close()
    with pytest.raises(StartError):
        await process.score(job(SHORT))
    await process.end()


async def test_the_first_short_dialogues_start_no_process_and_a_long_one_does() -> None:
    async with ScoringPool(1, 60, list[str]().append, head_start=3) as pool:
        assert len(await pool.rows(job(SHORT, SHORT))) == 2
        assert not pool._processes
        await pool.rows(job("好" * 20_001))
        assert len(pool._processes) == 1
    async with ScoringPool(1, 60, list[str]().append, head_start=3) as pool:
        await pool.rows(job(SHORT, SHORT))
        await pool.rows(job(SHORT, SHORT))
        assert len(pool._processes) == 1
