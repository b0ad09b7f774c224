"""A small run, cancelled at every point at which any of its tasks waits.

A task factory counts the suspensions of all tasks that are started under it, and has the host
cancelled at the one that a test asks for. A run has hundreds of them: CI takes a seeded sample,
``TESTS_LONG=1`` takes every one.
"""

import asyncio
import random
import time
from collections.abc import Awaitable, Callable, Coroutine, Generator
from pathlib import Path
from typing import Any

import anyio
import anyio.lowlevel
import pytest

import memfin
from memfin.runtime.plan import make_plan
from memfin.runtime.resume import make_resume_plan
from memfin.runtime.run import Run
from memfin.validation import validate_run
from tests.leaks import NOTHING, footprint, left_since
from tests.support import LONG, dataset

SAMPLE = 5
SEED = 20260219

HASTE = 1.0
SLACK = 3.0
"""Seconds that a cancelled run has for its end, and what a busy machine may add."""

STEPS_AFTER = 400
"""Suspensions of all tasks together in which a cancelled run has ended: it waits for nobody."""

pytestmark = pytest.mark.skipif(not Path("/proc/self/fd").is_dir(), reason="needs /proc to count open files")


class Agent:
    """Has every method of the protocol, and waits in each."""

    def __init__(self, session: Any, observer: Any) -> None:
        self.session = session
        self.observer = observer
        self.said: list[str] = []

    async def reply(self, user_text: str) -> str:
        await asyncio.sleep(0)
        self.observer.recall(query=user_text, short_term_context="\n".join(self.said))
        self.observer.profile(risk_level="medium")
        return f"{self.session.dialog_id}-{len(self.said)}：市场存在不确定性，仅供参考。"

    async def commit(self, assistant_text: str) -> None:
        await asyncio.sleep(0)
        self.said.append(assistant_text)

    async def close(self) -> None:
        await asyncio.sleep(0)


class Snapshots(Agent):
    """Can go on within a dialogue, too."""

    def snapshot(self) -> bytes:
        return "\n".join(self.said).encode()

    def restore(self, state: bytes) -> None:
        self.said = state.decode().split("\n") if state else []


class Steps:
    """Counts the suspensions of all tasks; calls ``at_target`` once with the one that is asked for."""

    def __init__(self, target: int | None = None) -> None:
        self.count = 0
        self.target = target
        self.at_target: Callable[[], object] | None = None

    def task(
        self, loop: asyncio.AbstractEventLoop, coroutine: Coroutine[Any, Any, Any], **options: Any
    ) -> "asyncio.Task[Any]":
        return asyncio.Task(self.counted(coroutine), loop=loop, **options)

    async def counted(self, coroutine: Coroutine[Any, Any, Any]) -> Any:
        return await _Stepping(self, coroutine)

    def step(self) -> None:
        self.count += 1
        if self.count == self.target and self.at_target is not None:
            self.at_target()


class _Stepping:
    """Awaits a coroutine and counts its suspensions."""

    def __init__(self, steps: Steps, coroutine: Coroutine[Any, Any, Any]) -> None:
        self._steps = steps
        self._coroutine = coroutine

    def __await__(self) -> Generator[Any, Any, Any]:
        inner = self._coroutine.__await__()
        step: Callable[[], Any] = lambda: inner.send(None)  # noqa: E731 - the next step is a throw, or this again
        while True:
            try:
                waiting_for = step()
            except StopIteration as stop:
                return stop.value
            self._steps.step()
            try:
                yield waiting_for
            except BaseException as thrown:  # noqa: BLE001 - handed on to the coroutine
                step = lambda thrown=thrown: inner.throw(thrown)  # type: ignore[misc] # noqa: E731
            else:
                step = lambda: inner.send(None)  # noqa: E731


Door = Callable[[Path, str, Any], Awaitable[object]]


async def by_evaluate(folder: Path, run_id: str, agent: Any) -> object:
    return await memfin.evaluate(folder / "data.jsonl", **settings(folder, run_id, agent))


async def by_reading(folder: Path, run_id: str, agent: Any) -> object:
    evaluation = memfin.Evaluation(folder / "data.jsonl", **settings(folder, run_id, agent))
    async with evaluation:
        return [event async for event in evaluation]


async def by_run(folder: Path, run_id: str, agent: Any) -> object:
    """The core in the host's own task: every suspension of it is one of the host."""
    plan = make_plan(folder / "data.jsonl", **settings(folder, run_id, agent))
    return await Run(plan).run()


async def by_resuming(folder: Path, run_id: str, agent: Any) -> object:
    """Go on with a complete run: nothing is asked, everything is read."""
    if not (folder / run_id).exists():
        await by_run(folder, run_id, agent)
    return await Run(make_resume_plan(folder / run_id, agent=agent)).run()


def settings(folder: Path, run_id: str, agent: Any) -> dict[str, Any]:
    return {
        "agent": agent,
        "runs_dir": folder,
        "run_id": run_id,
        "workers_dialog": 2,
        "fsync_interval": 0,
    }


def in_loop(main: Callable[[], Coroutine[Any, Any, None]], steps: Steps | None) -> None:
    with asyncio.Runner() as runner:
        if steps is not None:
            runner.get_loop().set_task_factory(steps.task)  # type: ignore[arg-type]
        runner.run(main())


def length(folder: Path, door: Door, agent: Any) -> int:
    """Return how many suspensions a whole run has."""
    steps = Steps()

    async def main() -> None:
        await door(folder, "measured", agent)

    in_loop(main, steps)
    return steps.count


def points(count: int, seed: str) -> list[int]:
    """Return where to cancel; beyond the end, too, since no two runs are of exactly one length."""
    every = range(1, count + 10)
    if LONG:
        return list(every)
    return sorted({1, 2, 3, *random.Random(seed).sample(every, SAMPLE)})


def cancelled_at(folder: Path, door: Door, agent: Any, run_id: str, point: int, *, natively: bool) -> bool:
    """Cancel the host at a suspension; return whether the run was cut. Nothing of it may be left."""
    steps = Steps(point)
    cut: list[bool] = []

    async def host() -> None:
        before = footprint()
        task = asyncio.current_task()
        assert task is not None
        scope = anyio.CancelScope()
        at: list[float] = []

        def cancel() -> None:
            at.append(time.monotonic())
            steps.count, steps.target = 0, None
            if natively:
                assert task is not None
                task.cancel()
            else:
                scope.cancel()

        steps.count, steps.at_target = 0, cancel
        try:
            with scope:
                await door(folder, run_id, agent)
            cut.append(scope.cancelled_caught)
        except asyncio.CancelledError:
            assert natively
            task.uncancel()
            cut.append(True)
        if at:
            assert steps.count <= STEPS_AFTER, point
            assert time.monotonic() - at[0] < HASTE + SLACK, point
        assert left_since(before) == NOTHING, point

    async def main() -> None:
        await asyncio.create_task(host(), name="host")

    in_loop(main, steps)
    return cut[0]


def holds(folder: Path, run_id: str, agent: Any, expected: bytes, *, cut: bool) -> None:
    """Hold what a cancelled run has left against the contract, and its end against an uninterrupted run's."""
    directory = folder / run_id
    summary = directory / "metrics_summary.json"

    async def main() -> None:
        if not directory.exists():
            assert cut
            assert not (folder / "logs" / f"progress_{run_id}.jsonl").exists()
            await by_run(folder, run_id, agent)  # the name is free
        else:
            assert list(validate_run(directory)) == []
            await Run(make_resume_plan(directory, agent=agent)).run()
        assert list(validate_run(directory)) == []

    in_loop(main, None)
    assert summary.read_bytes().replace(run_id.encode(), b"") == expected


WAYS = [(Agent, True), (Snapshots, False), *([(Agent, False), (Snapshots, True)] if LONG else [])]


@pytest.mark.parametrize(("agent", "natively"), WAYS)
@pytest.mark.parametrize("door", [by_evaluate, by_reading, by_run, by_resuming])
def test_a_host_may_be_cancelled_at_any_await(
    tmp_path: Path, door: Door, agent: type[Agent], *, natively: bool
) -> None:
    dataset(tmp_path / "data.jsonl", 2, 2)
    in_loop(lambda: ignoring(by_run(tmp_path, "whole", agent)), None)
    expected = (tmp_path / "whole" / "metrics_summary.json").read_bytes().replace(b"whole", b"")
    count = length(tmp_path, door, agent)
    assert count > 20
    cuts = 0
    for point in points(count, f"{SEED} {door.__name__} {agent.__name__} {natively}"):
        run_id = f"at{point}"
        cut = cancelled_at(tmp_path, door, agent, run_id, point, natively=natively)
        holds(tmp_path, run_id, agent, expected, cut=cut)
        cuts += cut
    assert cuts >= SAMPLE // 2


async def ignoring(work: Awaitable[object]) -> None:
    await work


def test_the_shim_counts_every_suspension_and_hands_on_what_is_thrown() -> None:
    steps = Steps()
    order: list[str] = []

    async def work() -> str:
        try:
            for _ in range(3):
                await asyncio.sleep(0)
            await asyncio.sleep(60)
        except asyncio.CancelledError:
            order.append("cancelled")
        return "done"

    async def main() -> None:
        steps.count = 0
        task = asyncio.get_running_loop().create_task(work())
        steps.target, steps.at_target = 6, task.cancel  # each round of the loop suspends both tasks
        while not task.done():  # noqa: ASYNC110 - the steps are what is counted
            await asyncio.sleep(0)
        assert await task == "done"

    in_loop(main, steps)
    assert order == ["cancelled"]
