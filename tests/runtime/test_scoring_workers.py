import json
import os
import signal
import time
from pathlib import Path
from typing import Any

import anyio
import psutil
import pytest
from anyio.lowlevel import checkpoint

from memfin.contracts import DialogStarted, EvalSummary, ProgressEvent, TurnDone, Warned
from memfin.dataset import SAMPLE
from memfin.runtime.api import Evaluation
from memfin.runtime.plan import make_plan
from memfin.runtime.rescore import make_rescore_plan
from memfin.runtime.run import Run
from memfin.scoring.rows import DialogScorer
from memfin.validation import validate_run
from tests.support import DENSE, ENDLESS, dataset, length, read_jsonl

SHORT = "市场存在不确定性，仅供参考。"
ROWS = "turn_eval.jsonl"


class Advisor:
    """Answers the second turn of each dialogue with `reply`."""

    reply_to_second = DENSE

    def __init__(self, session: object, observer: object) -> None:
        self._asked = 0

    async def reply(self, user_text: str) -> str:
        self._asked += 1
        return self.reply_to_second if self._asked == 2 else SHORT


def saying(reply: str) -> type[Advisor]:
    """Return an agent that says this at the second turn."""
    return type("Saying", (Advisor,), {"reply_to_second": reply})


def rows_of(run_dir: Path) -> list[dict[str, object]]:
    """Return the rows of a run in the order of dialogues and turns."""
    return sorted(read_jsonl(run_dir / ROWS), key=lambda row: (row["dialog_id"], row["turn_pair_id"]))


def warnings_of(tmp_path: Path, run_id: str) -> list[str]:
    events = read_jsonl(tmp_path / "logs" / f"progress_{run_id}.jsonl")
    return [event["message"] for event in events if event["event"] == "warning"]


def children() -> set[int]:
    """Return the processes that this one has started and not reaped."""
    return {child.pid for child in psutil.Process().children()}


async def new_child(before: set[int]) -> int:
    """Wait until this process has started another and return its id."""
    while True:
        for pid in children() - before:
            return pid
        await anyio.sleep(0.001)


def has_content(path: Path) -> bool:
    return path.exists() and path.stat().st_size > 0


async def committed(rows: Path) -> None:
    """Wait until the first rows of a run are on disk."""
    while True:
        if has_content(rows):
            return
        await anyio.sleep(0.001)


async def test_results_are_the_same_for_any_number_of_processes(tmp_path: Path) -> None:
    results = []
    for workers in (0, 2):
        runs_dir = tmp_path / str(workers)
        settings: dict[str, Any] = {"limit": length(5, 14), "workers_score": workers}
        await Run(make_plan(agent="builtin", runs_dir=runs_dir, run_id="r", **settings)).run()
        run_dir = runs_dir / "r"
        plan = make_rescore_plan(
            run_dir / "dialog_trace.jsonl",
            SAMPLE,
            runs_dir / "again",
            workers_score=workers,
            judge="heuristic",
        )
        await Run(plan).run()
        results.append(
            (
                (run_dir / "metrics_summary.json").read_bytes(),
                (runs_dir / "again" / "metrics_summary.json")
                .read_bytes()
                .partition(b'"config_fingerprint"')[0],
                rows_of(run_dir),
                rows_of(runs_dir / "again"),
            )
        )
        assert warnings_of(runs_dir, "r") == []
    assert results[0] == results[1]
    assert results[0][2] == results[0][3]


async def test_this_process_scores_nothing_where_another_does(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def prepare(self: DialogScorer, *args: object, **options: object) -> None:
        raise AssertionError("scored in the host's process")

    monkeypatch.setattr(DialogScorer, "__init__", prepare)
    data = dataset(tmp_path / "data.jsonl", 2)
    await Run(make_plan(data, agent=saying(DENSE * 30), runs_dir=tmp_path, run_id="r", workers_score=1)).run()
    rows = read_jsonl(tmp_path / "r" / ROWS)
    assert [row["scoring_error"] for row in rows] == [None] * 6


async def test_a_reply_that_takes_too_long_costs_its_turn_alone(tmp_path: Path) -> None:
    data = dataset(tmp_path / "data.jsonl", 1)
    plan = make_plan(
        data,
        agent=saying(ENDLESS),
        runs_dir=tmp_path,
        run_id="r",
        workers_score=1,
        score_timeout=1,
        score_chars=10**7,
    )
    summary = await Run(plan).run()
    for name in ("m1_context_continuity", "m3_risk_coverage", "m4_compliance", "m5_explainability"):
        counts = summary.metrics[name].counts
        assert (counts["failed_count"], counts["eligible_count"]) == (1, 2), name
    late = [row for row in rows_of(tmp_path / "r") if row["scoring_error"]]
    assert [(row["dialog_id"], row["turn_pair_id"]) for row in late] == [("d0000", 2)]
    assert {row["scoring_error"] for row in late} == {"took longer than 1 s (score_timeout)"}
    assert sum("could not be scored" in line for line in warnings_of(tmp_path, "r")) == 1
    assert list(validate_run(tmp_path / "r")) == []


async def test_of_a_long_reply_the_beginning_is_scored_and_the_rows_say_so(tmp_path: Path) -> None:
    data = dataset(tmp_path / "data.jsonl", 2)
    beginning = SHORT * 3
    rows = {}
    for name, reply in (("long", beginning + "保证收益，稳赚不赔。" * 50), ("short", beginning)):
        plan = make_plan(
            data,
            agent=saying(reply),
            runs_dir=tmp_path,
            run_id=name,
            score_chars=len(beginning),
            workers_score=int(name == "long"),
        )
        await Run(plan).run()
        rows[name] = [row | {"run_id": ""} for row in rows_of(tmp_path / name)]
    cut = [row for row in rows["long"] if "scored_chars" in row]
    assert [(row["turn_pair_id"], row["scored_chars"]) for row in cut] == [(2, len(beginning))] * 2
    for row in cut:
        del row["scored_chars"]
    assert rows["long"] == rows["short"]
    (line,) = warnings_of(tmp_path, "long")
    assert f"the first {len(beginning)} characters are scored" in line
    assert warnings_of(tmp_path, "short") == []
    assert list(validate_run(tmp_path / "long")) == []


def test_the_fingerprint_tells_how_much_of_a_reply_is_scored_and_not_where() -> None:
    usual = make_plan().fingerprint
    assert make_plan(workers_score=7, score_timeout=3).fingerprint == usual
    assert make_plan(score_chars=7).fingerprint != usual


async def test_a_run_survives_the_death_of_its_scoring_process(tmp_path: Path) -> None:
    data = dataset(tmp_path / "data.jsonl", 4)
    summaries: list[EvalSummary] = []
    for name in ("undisturbed", "killed"):
        plan = make_plan(
            data,
            agent=saying(DENSE * 400),
            runs_dir=tmp_path / name,
            run_id="r",
            workers_score=int(name == "killed"),
            fsync_interval=0,
        )
        run = Run(plan)
        before = children()
        async with anyio.create_task_group() as group:
            group.start_soon(run.run)
            if name == "killed":
                pid = await new_child(before)
                await committed(tmp_path / name / "r" / ROWS)
                os.kill(pid, signal.SIGKILL)
        assert run.summary is not None
        assert warnings_of(tmp_path / name, "r") == []
        summaries.append(run.summary)
    assert summaries[0] == summaries[1]
    assert rows_of(tmp_path / "killed" / "r") == rows_of(tmp_path / "undisturbed" / "r")


@pytest.mark.parametrize("workers", [0, 1])
async def test_a_host_that_is_cancelled_waits_for_no_reply_to_be_scored(tmp_path: Path, workers: int) -> None:
    data = dataset(tmp_path / "data.jsonl", 1)
    before = children()
    events: list[ProgressEvent] = []
    began = 0.0
    with anyio.CancelScope() as scope:
        async with Evaluation(
            data,
            agent=saying(
                ENDLESS if workers else ENDLESS[:200_000]
            ),  # a thread goes on to the end of the turn
            runs_dir=tmp_path,
            run_id="r",
            workers_score=workers,
            score_chars=10**7,
            on_event=events.append,
        ) as evaluation:
            while sum(isinstance(event, TurnDone) for event in events) < 3:
                await evaluation.__anext__()
            if workers:
                await new_child(before)
            began = time.perf_counter()
            scope.cancel()
            await checkpoint()
    assert time.perf_counter() - began < 1
    assert children() <= before
    assert any(isinstance(event, DialogStarted) for event in events)


async def test_where_processes_cannot_be_started_a_run_says_so_once_and_goes_on(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("sys.executable", "/nonexistent/python")
    events: list[ProgressEvent] = []
    data = dataset(tmp_path / "data.jsonl", 5)
    plan = make_plan(data, agent="echo", runs_dir=tmp_path, run_id="r", workers_score=3)
    summary = await Run(plan, events.append).run()
    assert summary.counters.valid_dialogs == 5
    (warning,) = [event for event in events if isinstance(event, Warned)]
    assert "no process can be started" in warning.message


async def test_a_resumed_run_scores_with_the_processes_of_the_machine_it_is_on(tmp_path: Path) -> None:
    await Run(make_plan(agent="echo", limit=1, runs_dir=tmp_path, run_id="r")).run()
    assert json.loads((tmp_path / "r" / "config.json").read_bytes())["settings"]["workers_score"] is None
