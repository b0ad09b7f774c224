"""Early ends of a run behind a slow judge: answers are durable, and a stop may be shortened."""

import asyncio
import time
from collections.abc import AsyncIterator, Callable
from contextlib import AbstractAsyncContextManager, asynccontextmanager, suppress
from pathlib import Path
from typing import Any

import anyio
import pytest

import memfin
from memfin.contracts import JudgeRequest, Verdict, Warned
from memfin.errors import RunStopped
from memfin.journal.disk import Disk
from memfin.journal.recovery import examine
from memfin.runtime.pipeline import DRAIN_LIMIT
from memfin.runtime.plan import make_plan
from memfin.runtime.run import Run
from tests.support import dataset

DIALOGS = 12
TURNS = 2
SLACK = 2.0
"""Seconds that a busy machine may add."""


class Quick:
    """Answers at once, and counts."""

    answered = 0

    def __init__(self, session: Any, observer: Any) -> None:
        del session, observer

    async def reply(self, user_text: str) -> str:
        await asyncio.sleep(0)
        Quick.answered += 1
        return f"市场存在不确定性，仅供参考：{user_text}"


class Waiting:
    """Has judged nothing yet."""

    async def judge(self, request: JudgeRequest) -> Verdict:
        await asyncio.sleep(3600)
        raise AssertionError(request)


class Agreeing(Waiting):
    """The same judge on a better day."""

    async def judge(self, request: JudgeRequest) -> Verdict:
        return Verdict(score=3.0, rubric_items=request.rubric_required[:1])


Agreeing.__qualname__ = Waiting.__qualname__


@pytest.fixture(autouse=True)
def nothing_answered() -> None:
    Quick.answered = 0


def evaluation(data: Path, folder: Path) -> memfin.Evaluation:
    return memfin.Evaluation(
        data, agent=Quick, judge=Waiting, runs_dir=folder, run_id="r", workers_dialog=4, workers_judge=1
    )


async def all_answered() -> None:
    """Wait until every replayer has nothing left to ask."""
    while Quick.answered < DIALOGS * TURNS:  # noqa: ASYNC110 - agents count
        await asyncio.sleep(0.001)


End = Callable[[memfin.Evaluation], AbstractAsyncContextManager[None]]


@asynccontextmanager
async def by_the_hosts_time_out(run: memfin.Evaluation) -> AsyncIterator[None]:
    with anyio.CancelScope() as scope:
        async with run:
            yield
            scope.cancel()
            await anyio.sleep_forever()


@asynccontextmanager
async def by_an_exception_in_the_block(run: memfin.Evaluation) -> AsyncIterator[None]:
    with suppress(ZeroDivisionError):
        async with run:
            yield
            raise ZeroDivisionError


@asynccontextmanager
async def by_stop(run: memfin.Evaluation) -> AsyncIterator[None]:
    async with run:
        yield
        await run.stop(within=0.5)


@pytest.mark.parametrize("end", [by_the_hosts_time_out, by_an_exception_in_the_block, by_stop])
async def test_no_answer_is_asked_for_again_however_a_run_ends_behind_a_slow_judge(
    tmp_path: Path, end: End
) -> None:
    data = dataset(tmp_path / "data.jsonl", DIALOGS, TURNS)
    async with end(evaluation(data, tmp_path)):
        await all_answered()
    committed = examine(Disk(), tmp_path / "r").committed
    assert len(committed) == DIALOGS
    assert not any(dialog.judged for dialog in committed)
    async with memfin.Evaluation.resume(tmp_path / "r", agent=Quick, judge=Agreeing) as again:
        await again.wait()
    assert Quick.answered == DIALOGS * TURNS


class Patient(Quick):
    """Takes its time."""

    async def reply(self, user_text: str) -> str:
        Quick.answered += 1
        await asyncio.sleep(3600)
        return user_text


async def asked(count: int) -> None:
    while Quick.answered < count:  # noqa: ASYNC110 - agents count
        await asyncio.sleep(0.001)


async def test_of_two_stops_the_earlier_deadline_counts(tmp_path: Path) -> None:
    data = dataset(tmp_path / "data.jsonl", 4, 1)
    async with memfin.Evaluation(data, agent=Patient, runs_dir=tmp_path, run_id="r") as run:
        await asked(1)
        async with anyio.create_task_group() as group:
            group.start_soon(run.stop, 600.0)
            await anyio.wait_all_tasks_blocked()
            start = time.monotonic()
            await run.stop(within=0.3)
            assert time.monotonic() - start < 0.3 + SLACK


async def test_a_later_deadline_does_not_lengthen_a_stop(tmp_path: Path) -> None:
    data = dataset(tmp_path / "data.jsonl", 4, 1)
    async with memfin.Evaluation(data, agent=Patient, runs_dir=tmp_path, run_id="r") as run:
        await asked(1)
        start = time.monotonic()
        async with anyio.create_task_group() as group:
            group.start_soon(run.stop, 0.3)
            await anyio.wait_all_tasks_blocked()
            await run.stop(within=600.0)
        assert time.monotonic() - start < 0.3 + SLACK


async def test_leaving_shortens_the_end_that_a_judge_given_up_has_begun(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("MEMFIN_JUDGE_BASE_URL", "http://127.0.0.1:9/v1")
    data = dataset(tmp_path / "data.jsonl", 4, 1)

    class Mixed(Patient):
        """Answers its first dialogue, which the judge is then asked about."""

        async def reply(self, user_text: str) -> str:
            return await (Quick if "d0000" in user_text else Patient).reply(self, user_text)

    start = 0.0
    with pytest.raises(memfin.RunFault, match="the judge was given up"):  # noqa: PT012 - the block is what fails
        async with memfin.Evaluation(
            data, agent=Mixed, judge="openai:x", judge_patience=0.2, runs_dir=tmp_path, run_id="r"
        ) as run:
            async for event in run:
                if isinstance(event, Warned) and "given up" in event.message:
                    break
            start = time.monotonic()
    assert time.monotonic() - start < DRAIN_LIMIT + SLACK  # the turn that is asked has 120 s


async def test_a_stop_before_the_start_is_obeyed(tmp_path: Path) -> None:
    data = dataset(tmp_path / "data.jsonl", 4, 1)
    run = Run(make_plan(data, agent=Patient, runs_dir=tmp_path, run_id="r"))
    run.stop("too late", within=0.3)
    with pytest.raises(RunStopped, match="too late"), anyio.fail_after(0.3 + SLACK):
        await run.run()
