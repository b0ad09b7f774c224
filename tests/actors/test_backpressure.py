import gc
import warnings
from collections.abc import Sequence
from pathlib import Path

import anyio
import pytest
from anyio.lowlevel import checkpoint

from memfin.actors.base import ActorStatistics
from memfin.contracts import DialogCheckpoint, EvalSummary
from memfin.errors import RunFault
from memfin.journal import TURN_EVAL, Entry, RunDirectory
from memfin.runtime.plan import make_plan
from memfin.runtime.run import Run
from tests.support import WanderingAgent, dataset, read_jsonl

DIALOGS = 300
WORKERS = 4


class StandingDisk(RunDirectory):
    """A run directory on a disk that takes rows only once it is released."""

    def __init__(self, original: RunDirectory) -> None:
        super().__init__(original.path, original.progress)
        self.released = anyio.Event()

    async def commit(self, entries: Sequence[Entry], begun: Sequence[DialogCheckpoint] = ()) -> None:
        await self.released.wait()
        await super().commit(entries, begun)


def by_name(evaluation: Run[EvalSummary]) -> dict[str, ActorStatistics]:
    return {entry.name: entry for entry in evaluation.statistics()}


async def settle(evaluation: Run[EvalSummary]) -> dict[str, ActorStatistics]:
    """Wait until nothing moves any more: the counts stay the same over many rounds of the loop."""
    before: dict[str, ActorStatistics] = {}
    quiet = 0
    while quiet < 30:
        await anyio.sleep(0.01)
        now = by_name(evaluation)
        quiet = quiet + 1 if now and now == before else 0
        before = now
    return before


async def test_a_disk_that_stands_still_stops_the_source_and_loses_nothing(tmp_path: Path) -> None:
    plan = make_plan(
        dataset(tmp_path / "data.jsonl", DIALOGS),
        agent=WanderingAgent,
        runs_dir=tmp_path / "runs",
        run_id="slow",
        workers_dialog=WORKERS,
    )
    evaluation = Run(plan)
    disk = evaluation.directory = StandingDisk(evaluation.directory)
    async with anyio.create_task_group() as group:
        group.start_soon(evaluation.run)
        standing = await settle(evaluation)
        held = sum(entry.in_progress + entry.waiting for entry in standing.values())
        room = sum(
            entry.capacity
            for name, entry in standing.items()
            if not name.startswith(("replayer-", "progress"))
        )
        assert standing["source"].sent < DIALOGS
        assert standing["source"].sent <= room + 3 * WORKERS + 40
        assert held > WORKERS
        assert standing["aggregator"].received == 0
        disk.released.set()
    assert evaluation.summary is not None
    assert evaluation.summary.counters.valid_dialogs == DIALOGS
    rows = read_jsonl(tmp_path / "runs" / "slow" / TURN_EVAL)
    assert len({(row["dialog_id"], row["turn_pair_id"]) for row in rows}) == len(rows) == DIALOGS * 3
    for name, entry in by_name(evaluation).items():
        assert entry.in_progress == 0, name
        assert entry.peak_waiting <= entry.capacity, name


async def test_every_actor_tells_its_statistics(tmp_path: Path) -> None:
    plan = make_plan(
        dataset(tmp_path / "data.jsonl", 6), agent="echo", runs_dir=tmp_path / "runs", run_id="stats"
    )
    evaluation = Run(plan)
    assert evaluation.statistics() == []
    await evaluation.run()
    found = by_name(evaluation)
    assert set(found) == {
        "source",
        *(f"replayer-{number}" for number in range(4)),
        "scorer",
        "judge_pool",
        "trace_writer",
        "aggregator",
        "progress_log",
    }
    for name in ("source", "scorer", "judge_pool", "aggregator"):
        assert found[name].received == 6, name
    assert found["trace_writer"].received == 6 * (3 + 2)  # each turn, replay and judgement
    assert sum(found[f"replayer-{number}"].received for number in range(4)) == 6
    assert found["progress_log"].received == 1 + 6 * (1 + 3 + 1 + 1) + 2


async def test_a_fault_of_the_disk_ends_the_run_with_what_was_written(tmp_path: Path) -> None:
    class FullDisk(RunDirectory):
        commits = 0

        async def commit(self, entries: Sequence[Entry], begun: Sequence[DialogCheckpoint] = ()) -> None:
            self.commits += 1
            if self.commits > 2:
                raise RunFault("run: No space left on device")
            await super().commit(entries, begun)

    plan = make_plan(
        dataset(tmp_path / "data.jsonl", 40),
        agent="echo",
        runs_dir=tmp_path / "runs",
        run_id="full",
        fsync_turns=3,
    )
    evaluation = Run(plan)
    evaluation.directory = FullDisk(evaluation.directory.path, evaluation.directory.progress)
    with pytest.raises(RunFault, match="No space left"):
        await evaluation.run()
    events = read_jsonl(tmp_path / "runs" / "logs" / "progress_full.jsonl")
    assert events[-1]["event"] == "run_interrupted"
    assert "No space left" in events[-1]["reason"]
    assert not (tmp_path / "runs" / "full" / "metrics_summary.json").exists()


@pytest.mark.parametrize("steps", range(12))
async def test_cancelling_before_the_actors_run_leaves_no_channel_open(tmp_path: Path, steps: int) -> None:
    """An end that nobody closed would warn, and warnings are errors; what earlier tests left is not meant."""
    with warnings.catch_warnings(action="ignore"):
        gc.collect()
    plan = make_plan(
        dataset(tmp_path / "data.jsonl", 3), agent="echo", runs_dir=tmp_path / "runs", run_id="early"
    )
    evaluation = Run(plan)
    async with anyio.create_task_group() as group:
        group.start_soon(evaluation.run)
        while not (tmp_path / "runs" / "early" / "config.json").exists():
            await checkpoint()
        for _ in range(steps):
            await checkpoint()
        group.cancel_scope.cancel()
    del evaluation
    gc.collect()
    events = read_jsonl(tmp_path / "runs" / "logs" / "progress_early.jsonl")
    assert events[-1]["event"] in ("run_interrupted", "run_finished")


async def test_cancelling_the_host_leaves_complete_lines_and_says_so(tmp_path: Path) -> None:
    class Endless:
        def __init__(self, session: object, observer: object) -> None: ...

        async def reply(self, user_text: str) -> str:
            await anyio.sleep_forever()
            return user_text

    plan = make_plan(
        dataset(tmp_path / "data.jsonl", 5), agent=Endless, runs_dir=tmp_path / "runs", run_id="cut"
    )
    evaluation = Run(plan)
    async with anyio.create_task_group() as group:
        group.start_soon(evaluation.run)
        while not by_name(evaluation).get("replayer-0", ActorStatistics(name="")).received:
            await checkpoint()
        group.cancel_scope.cancel()
    events = read_jsonl(tmp_path / "runs" / "logs" / "progress_cut.jsonl")
    assert events[-1]["event"] == "run_interrupted"
    assert evaluation.summary is None
