"""Shards: each line of a dataset is in one of them, and each of them is a run of its own."""

import re
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from memfin.contracts import EvalSummary, RunStarted, SoakLimits
from memfin.errors import RunStopped, UsageError
from memfin.report.dialog_report import load_dialog_report
from memfin.report.tables import summary_table
from memfin.runtime.bench_plan import make_bench_plan
from memfin.runtime.plan import make_plan
from memfin.runtime.resume import make_resume_plan
from memfin.runtime.run import Run
from memfin.runtime.soak_plan import make_soak_plan
from memfin.shards import MAX_SHARDS, Shard
from memfin.validation import validate_run
from tests.support import dialog, each_case, read_jsonl, write_jsonl

COUNTS = st.integers(1, 40)
USERS = st.text("aZ09_- é中😀", max_size=12)
"""Ids of users; of all characters, whose table takes seconds to make, no shard would see more."""

RUN_ID = "big"


@given(COUNTS, st.integers(1, 10_000), st.none() | USERS)
def test_a_line_is_in_one_shard(count: int, line: int, user: str | None) -> None:
    assert sum(Shard(index, count).holds(line, user) for index in range(count)) == 1


@given(COUNTS, st.integers(1, 10_000), st.integers(1, 10_000), USERS)
def test_all_lines_of_a_user_are_in_one_shard(count: int, one: int, other: int, user: str) -> None:
    shards = [Shard(index, count) for index in range(count)]
    assert [each.holds(one, user) for each in shards] == [each.holds(other, user) for each in shards]


@given(COUNTS, st.integers(0, 300))
def test_lines_counts_what_a_shard_holds(count: int, total: int) -> None:
    for index in range(count):
        shard = Shard(index, count)
        assert shard.lines(total) == sum(shard.holds(line) for line in range(1, total + 1))


@each_case(
    "text", ["", "1", "1/", "/2", "2/2", "-1/2", "0/0", "1/2/3", "a/2", "0/1.5", f"0/{MAX_SHARDS + 1}"]
)
def test_what_is_no_shard_is_refused(text: str) -> None:
    with pytest.raises(UsageError, match=r"shard .*: must be K/N with K from 0 to N - 1, such as 0/4"):
        Shard.parse(text)


def a_dataset(path: Path) -> Path:
    """Write 11 dialogues, of which three users have two or three, a broken line and a duplicate."""
    users = {0: "anna", 3: "anna", 8: "anna", 1: "bo", 2: "bo", 4: "", 5: "cy", 10: "cy"}
    lines: list[Any] = [dialog(f"d{number:04}") for number in range(11)]
    for number, user in users.items():
        lines[number]["user_id"] = user
    lines[6:6] = ["not an object", lines[3]]
    return write_jsonl(path, lines)


async def run_shard(dataset: Path, shard: str | None, **settings: Any) -> Run[EvalSummary]:
    given = {"agent": "oracle", "run_id": RUN_ID, "runs_dir": dataset.parent, "shard": shard, **settings}
    run = Run(make_plan(dataset, **given))
    await run.run()
    return run


@pytest.mark.anyio
async def test_every_line_is_evaluated_in_one_shard_and_users_stay_together(tmp_path: Path) -> None:
    data = a_dataset(tmp_path / "data.jsonl")
    whole = await run_shard(data, None)
    found: list[dict[str, Any]] = []
    homes: dict[str, set[int]] = {}
    for index in range(3):
        run = await run_shard(data, f"{index}/3")
        assert run.directory.path == tmp_path / "big.shards" / f"{index}-of-3"
        assert run.directory.progress == tmp_path / "logs" / f"progress_big.{index}-of-3.jsonl"
        assert [*validate_run(run.directory.path)] == []
        traces = read_jsonl(run.directory.path / "dialog_trace.jsonl")
        assert run.plan.dialogs == len(traces)
        assert {trace["run_id"] for trace in traces} == {RUN_ID}
        found += traces
        for trace in traces:
            if trace["valid_dialog"]:
                homes.setdefault(trace["dialog_id"], set()).add(index)

    def lines(traces: list[dict[str, Any]]) -> list[tuple[Any, ...]]:
        names = ("dataset_index", "dialog_id", "skip_reason", "dialog_status")
        return sorted(tuple(str(trace[name]) for name in names) for trace in traces)

    assert lines(found) == lines(read_jsonl(whole.directory.path / "dialog_trace.jsonl"))
    for together in (["d0000", "d0003", "d0008"], ["d0001", "d0002"], ["d0005", "d0010"]):
        assert len(set.union(*(homes[name] for name in together))) == 1


@pytest.mark.anyio
async def test_a_shard_has_the_fingerprint_of_the_run_and_goes_on_where_it_stopped(tmp_path: Path) -> None:
    data = a_dataset(tmp_path / "data.jsonl")
    plan = make_plan(data, agent="oracle", run_id=RUN_ID, runs_dir=tmp_path)
    shard = make_plan(data, agent="oracle", run_id=RUN_ID, runs_dir=tmp_path, shard="1/3", agent_rpm=600)
    assert shard.fingerprint == plan.fingerprint
    stopped = Run(shard, lambda event: stopped.stop("for a test") if isinstance(event, RunStarted) else None)
    with pytest.raises(RunStopped, match=r"memfin resume .*big\.shards/1-of-3 goes on"):
        await stopped.run()
    resumed = make_resume_plan(shard.directory)
    assert (resumed.directory, resumed.progress) == (shard.directory, shard.progress)
    again = Run(resumed)
    summary = await again.run()
    whole = await run_shard(data, "1/3", run_id="other")
    assert summary.metrics == (whole.summary and whole.summary.metrics)


@pytest.mark.anyio
async def test_a_shard_without_a_dialogue_is_complete(tmp_path: Path) -> None:
    data = write_jsonl(tmp_path / "data.jsonl", [dialog("d1"), "not an object"])
    runs = []
    for index in range(5):
        run = await run_shard(data, f"{index}/5", fail_under={"m3_risk_coverage.risk_coverage": 1.0})
        assert run.summary is not None
        assert run.stats is not None
        assert run.summary.counters.total_dialogs == (1 if index in (1, 2) else 0)
        assert run.plan.failed_gates(run.summary, run.stats, run.directory.path) == []  # of the merged run
        runs.append((run.summary, run.plan))
    summary, plan = runs[-1]
    assert str(summary_table(summary, plan.config).title).endswith(", shard 4/5")
    assert ("Shard", "4/5") in load_dialog_report(plan.directory).facts


@each_case(
    ("settings", "message"),
    [
        ({"shard": "0/2"}, "shard 0/2: needs a run id (--run-id), the same for all 2 shards"),
        ({"shard": "2/2", "run_id": RUN_ID}, "shard '2/2': must be K/N"),
        ({"run_id": "r.shards"}, "run id 'r.shards': must not end like the name of shards"),
        ({"run_id": "r.0-of-2"}, "run id 'r.0-of-2': must not end like the name of shards"),
    ],
)
def test_a_shard_that_cannot_be_is_refused(settings: Any, message: str, tmp_path: Path) -> None:
    with pytest.raises(UsageError, match=re.escape(message)):
        make_plan(None, runs_dir=tmp_path, **settings)


def test_soaks_and_benchmarks_have_no_shards(tmp_path: Path) -> None:
    with pytest.raises(UsageError, match="shard 0/2: soaks and repeats of a run have no shards"):
        make_soak_plan(None, limits=SoakLimits(epochs=2), runs_dir=tmp_path, run_id=RUN_ID, shard="0/2")
    with pytest.raises(UsageError, match="shard 0/2: a benchmark has no shards"):
        make_bench_plan(None, runs_dir=tmp_path, run_id=RUN_ID, shard="0/2")


@pytest.mark.anyio
async def test_a_dataset_in_memory_is_kept_in_the_shard(tmp_path: Path) -> None:
    plan = make_plan(
        [dialog("d1"), dialog("d2")], agent="oracle", run_id=RUN_ID, runs_dir=tmp_path, shard="0/2"
    )
    await Run(plan).run()
    assert len(read_jsonl(tmp_path / "big.shards" / "0-of-2" / "dataset.jsonl")) == 2
    assert not (tmp_path / RUN_ID).exists()


@pytest.mark.anyio
async def test_only_the_first_shard_has_controls_of_the_judge(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("MEMFIN_JUDGE_BASE_URL", "http://127.0.0.1:9")
    data, places = a_dataset(tmp_path / "data.jsonl"), []
    for index in range(2):
        plan = make_plan(
            data, agent="oracle", judge="openai:m", run_id=RUN_ID, runs_dir=tmp_path, shard=f"{index}/2"
        )
        places.append(bool(plan.controls))
        await plan.close()
    assert places == [True, False]
