"""What a user sees of a run in shards."""

import io
import re
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from memfin.cli import engine as shards_view
from memfin.cli.engine import ShardsView
from memfin.contracts import (
    Counters,
    DialogDone,
    ProgressEvent,
    RunFinished,
    RunManifest,
    RunResumed,
    RunStarted,
    TurnDone,
    Warned,
)
from memfin.contracts.settings import EngineSettings
from memfin.runtime.outputs import pretty_json
from memfin.scale.engine import State
from memfin.scale.plan import EnginePlan, make_engine_plan
from tests.support import dataset

BASE: dict[str, Any] = {"ts": "2024-01-01T00:00:00Z", "run_id": "r"}
TURN = TurnDone(**BASE, dialog_id="d", turn_pair_id=1, turn_status="ok")
DONE = DialogDone(**BASE, dialog_id="d", status="ok", turns=2)


def a_plan(folder: Path, workers: int = 2, dialogs: int = 6) -> EnginePlan:
    data = dataset(folder / "data.jsonl", dialogs)
    engine = EngineSettings(engine="processes", engine_workers=workers)
    return make_engine_plan(str(data), engine, run_id="r", runs_dir=str(folder / "runs"), workers_score=1)


def started(dialogs: int = 3) -> ProgressEvent:
    return RunStarted(**BASE, dataset_path="data.jsonl", dialogs=dialogs)


def test_the_counts_of_all_shards_are_added_up(tmp_path: Path) -> None:
    plan, stream = a_plan(tmp_path), io.StringIO()
    one, other = plan.shards
    with ShardsView(stream, "plain", plan) as view:
        for shard in plan.shards:
            view.on_shard_event(shard, started())
            view.on_state(shard, State("running"))
        for event in (TURN, TURN, DONE):
            view.on_shard_event(one, event)
        view.on_shard_event(other, TURN)
        view.on_shard_event(other, TURN.replace(turn_status="error"))
    begin, end = stream.getvalue().splitlines()
    assert begin == "memfin: run r started in 2 shards"
    assert re.fullmatch(
        r"memfin: dialogues 1/6  turns 4  [\d.]+/s  errors 1  eta \S+  shards: 2 running", end
    )


def test_a_retry_counts_what_is_done_once(tmp_path: Path) -> None:
    plan, stream = a_plan(tmp_path), io.StringIO()
    one, other = plan.shards
    with ShardsView(stream, "plain", plan) as view:
        for event in (started(), TURN, TURN, DONE, TURN):
            view.on_shard_event(one, event)
        view.on_state(one, State("retrying", 1, "its worker was ended by SIGKILL"))
        view.on_shard_event(one, RunResumed(**BASE, dialogs_done=1, dialogs=3))
        view.on_shard_event(one, DONE)
        assert view.counts.dialogs == 1  # the bars move a few times a second
        view.on_state(one, State("complete", 1))
        assert (view.counts.dialogs, view.counts.total) == (2, 6)
        view.on_state(other, State("failed", 3, "disk full"))
    assert stream.getvalue().splitlines()[1:3] == [
        "memfin: warning: shard 0/2: its worker was ended by SIGKILL; retry 1 of 3",
        "memfin: warning: shard 1/2: disk full; the other shards go on",
    ]


def test_what_all_workers_say_at_their_start_is_shown_once(tmp_path: Path) -> None:
    plan, stream = a_plan(tmp_path, 3), io.StringIO()
    with ShardsView(stream, "quiet", plan) as view:
        for shard in plan.shards:
            view.on_line(shard, "a model is loaded")
            view.on_shard_event(shard, started())
            view.on_shard_event(shard, Warned(**BASE, message="the agent is slow"))
            view.on_line(shard, "answered")
    lines = stream.getvalue().splitlines()
    assert sorted(lines) == sorted(
        ["a model is loaded", "memfin: warning: the agent is slow", *["answered"] * 3]
    )


@pytest.mark.parametrize("workers", [3, shards_view.MAX_ROWS + 1])
def test_a_terminal_has_a_line_for_each_of_a_few_shards(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, workers: int
) -> None:
    monkeypatch.setenv("COLUMNS", "120")
    plan, stream = a_plan(tmp_path, workers, dialogs=workers), io.StringIO()
    with ShardsView(stream, "bar", plan) as view:
        for shard in plan.shards:
            view.on_shard_event(shard, started(1))
            view.on_shard_event(shard, DONE)
            view.on_shard_event(shard, RunFinished(**BASE, **COUNTERS))
            view.on_state(shard, State("complete"))
        view.on_state(plan.shards[1], State("running", 2))
    shown = [line.rstrip() for line in stream.getvalue().splitlines() if "━" in line]
    assert f"{workers}/{workers}" in shown[0]
    if workers <= shards_view.MAX_ROWS:
        assert len(shown) == workers + 1
        assert shown[2].startswith("  shard 1/3")
        assert shown[2].endswith("1/1 running, retry 2 of 3")
    else:
        assert len(shown) == 2
        assert shown[1].endswith("16/17 16 complete, 1 running")


COUNTERS: dict[str, Any] = {
    "total_dialogs": 1,
    "valid_dialogs": 1,
    "skipped_dialogs": 0,
    "failed_dialogs": 0,
    "total_turn_pairs": 2,
}


def test_shards_of_users_have_other_sizes_than_equal_parts(tmp_path: Path) -> None:
    plan, stream = a_plan(tmp_path), io.StringIO()
    one, other = plan.shards
    with ShardsView(stream, "plain", plan) as view:
        for event in (started(), DONE, DONE, DONE, DONE):
            view.on_shard_event(one, event)
        assert view.counts.total == 6
        view.on_shard_event(one, RunFinished(**BASE, **COUNTERS))
        view.on_state(one, State("complete"))
        view.on_state(other, State("failed", 3, "disk full"))
        assert (view.counts.dialogs, view.counts.total) == (4, 6)


def test_no_worker_is_without_a_dialogue(tmp_path: Path) -> None:
    assert [str(shard) for shard in a_plan(tmp_path, workers=500, dialogs=2).shards] == ["0/2", "1/2"]


def test_workers_share_what_runs_at_the_same_time(tmp_path: Path) -> None:
    data = str(dataset(tmp_path / "data.jsonl", 6))
    engine = EngineSettings(engine="processes", engine_workers=3)
    plan = make_engine_plan(data, engine, workers_dialog=8, workers_judge=2, workers_score=4)
    tasks = [plan.task(shard).settings for shard in plan.shards]
    assert [task.workers_dialog for task in tasks] == [3, 3, 2]
    assert [task.workers_judge for task in tasks] == [1, 1, 1]
    assert [task.workers_score for task in tasks] == [2, 1, 1]
    assert [task.shard for task in tasks] == ["0/3", "1/3", "2/3"]


def test_with_force_no_shard_is_complete_since_all_record_what_has_changed(tmp_path: Path) -> None:
    plan = replace(a_plan(tmp_path), resumed=True)
    manifest = RunManifest(
        trace_version="v1",
        run_id="r",
        dataset_path="d",
        started_at="1",
        model_name="m",
        workers_dialog=1,
        workers_judge=1,
        counters=Counters(**COUNTERS),
        ended_at="2",
    )
    shard = plan.directory / plan.shards[0].name
    shard.mkdir(parents=True)
    (shard / "run_manifest.json").write_bytes(pretty_json(manifest))
    assert plan.complete_shards() == {plan.shards[0]: COUNTERS["total_dialogs"]}
    assert replace(plan, force=True).complete_shards() == {}
