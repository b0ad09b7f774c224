"""A soak: its artifacts, drift, pruning, gates, and how it goes on after an end before its time."""

import asyncio
import gc
import json
import os
import shutil
import weakref
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import anyio
import msgspec
import pytest
from aiohttp.test_utils import TestServer

from memfin.agents.http import application
from memfin.contracts import (
    DialogDone,
    Distribution,
    EvalSummary,
    ProcessSample,
    ProgressEvent,
    RunStats,
    SoakEpoch,
    SoakLimits,
    SoakSummary,
    TurnDone,
)
from memfin.contracts.soak import rounded
from memfin.errors import RunFault, RunStopped, UsageError
from memfin.journal.disk import Disk
from memfin.metrics.aggregate import encode_summary
from memfin.report.soak_report import load_soak_report
from memfin.runtime.api import evaluate
from memfin.runtime.run import Run
from memfin.runtime.soak import Soak
from memfin.runtime.soak_directory import read_epochs
from memfin.runtime.soak_plan import (
    SoakPlan,
    checked_limits,
    make_soak_plan,
    make_soak_resume_plan,
    parse_duration,
)
from memfin.validation import validate_path
from tests.support import dataset, each_case, read_jsonl, write_jsonl

COVERAGE = "m3_risk_coverage.risk_coverage"
FIRST_ARTIFACTS = {"config.json", "metrics_summary.json", "run_manifest.json", "run_stats.json"}


class Steady:
    """Answers alike at all times."""

    made = 0

    def __init__(self, session: Any, observer: Any) -> None:
        type(self).made += 1
        self._session = session
        self._observer = observer

    async def reply(self, user_text: str) -> str:
        self._observer.recall(short_term_context=user_text, query=user_text)
        return "市场存在不确定性，本金可能亏损，仅供参考。"


class Fading(Steady):
    """Forgets to disclose risks in more and more dialogues, epoch after epoch."""

    async def reply(self, user_text: str) -> str:
        epoch = int(self._session.run_id.rpartition(".")[2])
        forgets = int(self._session.dialog_id[1:]) < epoch
        return "好的。" if forgets else await super().reply(user_text)


class Failing(Steady):
    """Fails in one dialogue."""

    async def reply(self, user_text: str) -> str:
        if self._session.dialog_id == "d0001":
            raise ValueError("fails")
        return await super().reply(user_text)


class Hanging(Steady):
    """Answers until the second epoch, in which one dialogue never gets its second answer."""

    release = False
    asked = 0

    async def reply(self, user_text: str) -> str:
        type(self).asked += 1
        stuck = self._session.run_id.endswith(".000002") and self._session.dialog_id == "d0003"
        if stuck and "第2个" in user_text and not self.release:
            await anyio.sleep(3600)
        return await super().reply(user_text)


@pytest.fixture(autouse=True)
def fresh_agents() -> Iterator[None]:
    yield
    for kind in (Steady, Fading, Failing, Hanging):
        kind.made = 0
    Hanging.release, Hanging.asked = False, 0


class OwnJudge:
    """Would judge."""

    async def judge(self, request: Any) -> Any:
        raise NotImplementedError


class Watching:
    """Notes what a listener is told."""

    def __init__(self) -> None:
        self.epochs: list[SoakEpoch] = []
        self.summaries: list[SoakSummary] = []
        self.samples: list[ProcessSample] = []
        self.events: list[ProgressEvent] = []
        self.lines: list[int] = []
        self.path: Path | None = None

    def on_event(self, event: ProgressEvent) -> None:
        self.events.append(event)

    def on_epoch(self, epoch: SoakEpoch, summary: SoakSummary) -> None:
        self.epochs.append(epoch)
        self.summaries.append(summary)
        if self.path is not None:
            self.lines.append(len(read_jsonl(self.path)))

    def on_sample(self, sample: ProcessSample) -> None:
        self.samples.append(sample)


def plan(
    tmp_path: Path, agent: Any = Steady, *, dialogs: int = 4, run_id: str = "s", **limits: Any
) -> SoakPlan:
    data = tmp_path / "data.jsonl"
    if not data.exists():
        dataset(data, dialogs)
    settings = {name: limits.pop(name) for name in list(limits) if name not in SoakLimits.__struct_fields__}
    return make_soak_plan(
        data, limits=SoakLimits(**limits), agent=agent, runs_dir=tmp_path / "runs", run_id=run_id, **settings
    )


def resumed(tmp_path: Path, agent: Any = Steady, **more: Any) -> SoakPlan:
    return make_soak_resume_plan(tmp_path / "runs" / "s", agent=agent, **more)


def lines(tmp_path: Path) -> list[SoakEpoch]:
    return list(read_epochs(tmp_path / "runs" / "s"))


def summary_of(tmp_path: Path) -> SoakSummary:
    return msgspec.json.decode((tmp_path / "runs" / "s" / "soak_summary.json").read_bytes(), type=SoakSummary)


def findings(tmp_path: Path) -> list[str]:
    return [str(finding) for finding in validate_path(tmp_path / "runs" / "s")]


async def test_every_epoch_is_an_ordinary_run_with_a_line_in_the_soak(tmp_path: Path) -> None:
    watching = Watching()
    watching.path = tmp_path / "runs" / "s" / "soak.jsonl"
    summary = await Soak(plan(tmp_path, epochs=3), [watching]).run()
    assert summary.state == "finished"
    assert summary == summary_of(tmp_path)
    assert watching.lines == [1, 2, 3]
    assert watching.epochs == lines(tmp_path)
    assert watching.samples
    assert sum(isinstance(event, TurnDone) for event in watching.events) == summary.turns == 3 * 12
    for number, line in enumerate(lines(tmp_path), 1):
        directory = tmp_path / "runs" / "s" / "epochs" / f"{number:06}"
        assert line.epoch_run_id == f"s.{number:06}"
        stats = msgspec.json.decode((directory / "run_stats.json").read_bytes(), type=RunStats)
        metrics = msgspec.json.decode((directory / "metrics_summary.json").read_bytes(), type=EvalSummary)
        assert stats.run_id == metrics.run_id == line.epoch_run_id
        assert line.turns == stats.turn_latency_ms.count == line.turn_latency_ms.count
        assert line.turn_latency_ms.max == rounded(stats.turn_latency_ms.max)
        name = "m3_risk_coverage"
        risk = metrics.metrics[name]
        assert line.headline_values[f"{name}.risk_coverage"] == rounded(risk.micro["risk_coverage"])
        assert line.headline_values[f"{name}.macro.risk_coverage"] == rounded(risk.macro["risk_coverage"])
        assert line.resources.rss_bytes > 1 << 20
        assert line.peak.rss_bytes >= line.resources.rss_bytes
        assert line.resources.open_files > 2
        assert line.resources.tasks >= 3
        progress = tmp_path / "runs" / "s" / "epochs" / "logs" / f"progress_{line.epoch_run_id}.jsonl"
        assert [event["event"] for event in read_jsonl(progress)][-1] == "run_finished"
    assert findings(tmp_path) == []


async def test_an_epoch_gives_the_metrics_of_a_run(tmp_path: Path) -> None:
    await Soak(plan(tmp_path, epochs=2)).run()
    alone = (
        await evaluate(tmp_path / "data.jsonl", agent=Steady, runs_dir=tmp_path / "runs", run_id="s.000002")
    ).summary
    epoch = (tmp_path / "runs" / "s" / "epochs" / "000002" / "metrics_summary.json").read_bytes()
    assert epoch == encode_summary(alone)


async def test_agents_are_made_anew_and_nothing_of_an_epoch_stays_in_memory(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    runs: list[weakref.ref[Any]] = []
    original = Run.__init__

    def noting(self: Run[EvalSummary], *args: Any, **more: Any) -> None:
        original(self, *args, **more)
        runs.append(weakref.ref(self))

    monkeypatch.setattr(Run, "__init__", noting)
    agents: list[weakref.ref[Any]] = []

    class Watched(Steady):
        def __init__(self, session: Any, observer: Any) -> None:
            super().__init__(session, observer)
            agents.append(weakref.ref(self))

    alive: list[int] = []

    class Counting(Watching):
        def on_epoch(self, epoch: SoakEpoch, summary: SoakSummary) -> None:
            alive.append(sum(ref() is not None for ref in (*runs, *agents)))

    await Soak(plan(tmp_path, Watched, epochs=5), [Counting()]).run()
    assert len(runs) == 5
    assert len(agents) == 5 * 4
    gc.collect()
    assert sum(ref() is not None for ref in (*runs, *agents)) == 0
    assert max(alive) <= 1 + 4  # what the frames of the last epoch may still hold


async def test_a_deterministic_agent_has_no_drift(tmp_path: Path) -> None:
    summary = await Soak(plan(tmp_path, epochs=6)).run()
    assert len(summary.metrics) > 20
    for name, drift in summary.metrics.items():
        assert (drift.slope, drift.ci95, drift.drifting) == (0.0, (0.0, 0.0), False), name
        assert drift.first == drift.last == drift.mean, name
    assert b"NaN" not in (tmp_path / "runs" / "s" / "soak_summary.json").read_bytes()
    assert b"null" not in msgspec.json.encode(summary.metrics)


async def test_an_agent_that_fades_drifts(tmp_path: Path) -> None:
    summary = await Soak(plan(tmp_path, Fading, dialogs=12, epochs=10)).run()
    drift = summary.metrics[COVERAGE]
    assert drift.first == rounded(11 / 12)
    assert drift.last == rounded(2 / 12)
    assert drift.slope == pytest.approx(-1 / 12)
    assert drift.drifting
    assert not summary.metrics["m4_compliance.severe_violation_rate"].drifting


async def test_percentiles_of_the_soak_are_those_of_all_turns(tmp_path: Path) -> None:
    summary = await Soak(plan(tmp_path, epochs=4)).run()
    found = sorted(
        turn["latency_ms"]
        for trace in (tmp_path / "runs" / "s" / "epochs").glob("*/dialog_trace.jsonl")
        for dialog in read_jsonl(trace)
        for turn in dialog["turns"]
    )
    latency = summary.turn_latency_ms
    assert (latency.count, latency.min, latency.max) == (len(found), rounded(found[0]), rounded(found[-1]))
    assert found[len(found) // 2 - 3] <= latency.p50 <= found[len(found) // 2 + 3]
    assert latency.mean == pytest.approx(sum(found) / len(found), rel=1e-3)
    assert latency.centroids == []


async def test_errors_are_counted_by_kind(tmp_path: Path) -> None:
    with (tmp_path / "data.jsonl").open("w") as file:
        file.write(dataset(tmp_path / "valid.jsonl", 3).read_text() + "no json\n")
    summary = await Soak(plan(tmp_path, Failing, epochs=2)).run()
    assert summary.errors.failed_turns == 2 * 3
    assert summary.errors.failed_dialogs == 2
    assert summary.errors.skipped_dialogs == 2
    assert summary.error_rate == pytest.approx(1 / 3)
    assert summary.dialogs == 2 * 3
    assert lines(tmp_path)[0].errors.failed_turns == 3
    assert findings(tmp_path) == []


@pytest.mark.parametrize("keep", [2, 0])
async def test_old_epochs_leave_only_their_lines(tmp_path: Path, keep: int) -> None:
    gate = {COVERAGE: 0.1}
    summary = await Soak(plan(tmp_path, epochs=5, keep_epochs=keep, fail_under=gate)).run()
    assert summary.pruned_epochs == 5 - keep
    assert summary.gates == []
    epochs = tmp_path / "runs" / "s" / "epochs"
    kept = {f"{number:06}" for number in range(6 - keep, 6)}
    assert {path.name for path in epochs.iterdir()} == kept | {"logs"} | ({"000005"} if not keep else set())
    for number in kept:
        assert {path.name for path in (epochs / number).iterdir()} > FIRST_ARTIFACTS | {"dialog_trace.jsonl"}
    if not keep:
        assert {path.name for path in (epochs / "000005").iterdir()} == FIRST_ARTIFACTS
    assert {path.name for path in (epochs / "logs").iterdir()} == {
        f"progress_s.{name}.jsonl" for name in kept
    }
    assert max(map(len, (tmp_path / "runs" / "s" / "soak.jsonl").read_bytes().splitlines())) < 2048
    assert findings(tmp_path) == []
    assert len(load_soak_report(epochs.parent).sections) > 1


async def test_the_rest_of_a_pruned_epoch_is_removed_when_the_soak_goes_on(tmp_path: Path) -> None:
    await stopped_in_the_second_epoch(tmp_path, keep_epochs=1)
    left = summary_of(tmp_path).replace(pruned_epochs=1)  # the process was killed while it removed the epoch
    (tmp_path / "runs" / "s" / "soak_summary.json").write_bytes(msgspec.json.encode(left))
    (tmp_path / "runs" / "s" / "epochs" / "000001" / "config.json").unlink()
    Hanging.release = True
    await Soak(resumed(tmp_path, Hanging)).run()
    assert not (tmp_path / "runs" / "s" / "epochs" / "000001").exists()
    assert findings(tmp_path) == []


async def test_no_epoch_begins_after_the_duration(tmp_path: Path) -> None:
    """A clock that an epoch moves by ten seconds: 0, 10, 20, and no epoch at 30."""
    now = [0.0]

    class Ticking(Watching):
        def on_epoch(self, epoch: SoakEpoch, summary: SoakSummary) -> None:
            now[0] += 10

    soak = Soak(plan(tmp_path, duration_seconds=25), [Ticking()], clock=lambda: now[0])
    assert (await soak.run()).epochs == 3


async def test_a_short_duration_has_one_epoch_all_the_same(tmp_path: Path) -> None:
    assert (await Soak(plan(tmp_path, duration_seconds=1e-9)).run()).epochs == 1


async def test_gates_are_for_the_soak_as_a_whole(tmp_path: Path) -> None:
    made = plan(
        tmp_path,
        Fading,
        dialogs=12,
        epochs=5,
        fail_under={COVERAGE: 0.8, "m3_risk_coverage.macro.risk_coverage": 0.7},
    )
    summary = await Soak(made).run()
    assert summary.gates == ["--fail-under m3_risk_coverage.risk_coverage=0.8: the value is 0.75"]
    counted = await Soak(plan(tmp_path, Failing, run_id="t", epochs=2, fail_on_error=6)).run()
    assert counted.gates == ["--fail-on-error 6: 6 of 72 turns failed (8.3%)"]
    passed = await Soak(plan(tmp_path, Failing, run_id="u", epochs=2, fail_on_error=7)).run()
    assert passed.gates == []


async def stopped_in_the_second_epoch(tmp_path: Path, *, cancelled: bool = False, **limits: Any) -> None:
    """Run until all but one turn of the second epoch are answered, then stop."""
    begun = anyio.Event()

    class Waiting(Watching):
        def on_event(self, event: ProgressEvent) -> None:
            super().on_event(event)
            done = [e for e in self.events if isinstance(e, DialogDone) and e.run_id.endswith(".000002")]
            if len(done) == 3:
                begun.set()

    settings: dict[str, Any] = {"epochs": 4} | limits
    soak = Soak(plan(tmp_path, Hanging, **settings), [Waiting()])
    async with anyio.create_task_group() as group:

        async def run() -> None:
            with (
                pytest.raises(RunStopped) if not cancelled else pytest.raises(anyio.get_cancelled_exc_class())
            ):
                await soak.run()
            if cancelled:
                raise anyio.get_cancelled_exc_class()

        group.start_soon(run)
        with anyio.fail_after(60):
            await begun.wait()
        if cancelled:
            group.cancel_scope.cancel()
        else:
            soak.stop("SIGTERM", within=1.0)


@pytest.mark.parametrize("cancelled", [False, True])
async def test_an_interrupted_epoch_goes_on_and_then_the_next_ones(tmp_path: Path, cancelled: bool) -> None:
    await stopped_in_the_second_epoch(tmp_path, cancelled=cancelled)
    early = summary_of(tmp_path)
    assert (early.state, early.epochs) == ("interrupted", 1)
    if not cancelled:
        assert early.reason == "SIGTERM"
    assert findings(tmp_path) == []
    Hanging.release = True
    Hanging.asked = 0
    summary = await Soak(resumed(tmp_path, Hanging)).run()
    assert (summary.state, summary.epochs, summary.processes) == ("finished", 4, 2)
    assert [(line.epoch, line.process, line.resumed) for line in lines(tmp_path)] == [
        (1, 1, False),
        (2, 2, True),
        (3, 2, False),
        (4, 2, False),
    ]
    assert (
        Hanging.asked <= 2 * 12 + 3
    )  # the three dialogues of epoch 2 that were complete are not asked again
    assert {line.turns for line in lines(tmp_path)} == {12}
    assert {line.turn_latency_ms.count for line in lines(tmp_path)} == {12}
    assert len({json.dumps(line.metrics) for line in lines(tmp_path)}) == 1
    assert summary.elapsed_seconds > early.elapsed_seconds
    assert findings(tmp_path) == []


async def test_the_duration_counts_time_already_spent(tmp_path: Path) -> None:
    await stopped_in_the_second_epoch(tmp_path, epochs=None, duration_seconds=1000)
    path = tmp_path / "runs" / "s" / "soak_summary.json"
    path.write_bytes(msgspec.json.encode(summary_of(tmp_path).replace(elapsed_seconds=995.0)))
    Hanging.release = True
    now = [0.0]

    class Ticking(Watching):
        def on_epoch(self, epoch: SoakEpoch, summary: SoakSummary) -> None:
            now[0] += 3

    summary = await Soak(resumed(tmp_path, Hanging), [Ticking()], clock=lambda: now[0]).run()
    assert summary.epochs == 3  # the second, which went on at 995 s, and the third at 998 s
    assert summary.elapsed_seconds == pytest.approx(1001)


async def test_a_crash_between_an_epoch_and_its_line_asks_nobody_again(tmp_path: Path) -> None:
    await Soak(plan(tmp_path, epochs=3)).run()
    before = (tmp_path / "runs" / "s" / "epochs" / "000003" / "metrics_summary.json").read_bytes()
    file = tmp_path / "runs" / "s" / "soak.jsonl"
    whole = file.read_bytes().splitlines(keepends=True)
    file.write_bytes(whole[0] + whole[1] + whole[2][:-40])  # torn, and its epoch complete
    Steady.made = 0
    summary = await Soak(resumed(tmp_path)).run()
    assert Steady.made == 0
    assert summary.epochs == 3
    assert lines(tmp_path)[2].turns == 12
    assert (tmp_path / "runs" / "s" / "epochs" / "000003" / "metrics_summary.json").read_bytes() == before
    assert findings(tmp_path) == []


@pytest.mark.parametrize("left", ["nothing", "a directory", "an opened journal"])
async def test_an_epoch_that_ended_before_it_began_begins_anew(tmp_path: Path, left: str) -> None:
    await Soak(plan(tmp_path, epochs=3)).run()
    root = tmp_path / "runs" / "s"
    file = root / "soak.jsonl"
    file.write_bytes(b"".join(file.read_bytes().splitlines(keepends=True)[:2]))
    third = root / "epochs" / "000003"
    log = (third / "commits.log").read_bytes().splitlines(keepends=True)[0]
    shutil.rmtree(third)
    if left != "nothing":
        third.mkdir()
    if left == "an opened journal":
        (third / "commits.log").write_bytes(log)
        (third / "dialog_trace.jsonl").touch()
    assert (await Soak(resumed(tmp_path)).run()).epochs == 3
    assert findings(tmp_path) == []


async def test_the_summary_is_whole_however_often_it_is_renewed(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Renewals from two tasks at once never meet in the same temporary file."""
    monkeypatch.setattr("memfin.runtime.soak.RENEW", 0.0)
    read: list[SoakSummary] = []

    class Reading(Watching):
        def on_event(self, event: ProgressEvent) -> None:
            read.append(summary_of(tmp_path))

    summary = await Soak(plan(tmp_path, epochs=8), [Reading()]).run()
    assert summary == summary_of(tmp_path)
    assert {each.state for each in read} == {"running"}
    assert [each.epochs for each in read] == sorted(each.epochs for each in read)
    assert [each.elapsed_seconds for each in read] == sorted(each.elapsed_seconds for each in read)


async def test_lines_of_an_earlier_release_are_read(tmp_path: Path) -> None:
    """Their values have flat names, and counts of 0 are there."""
    first = await Soak(plan(tmp_path, epochs=2)).run()
    flat = [{**msgspec.to_builtins(line), "metrics": line.headline_values} for line in lines(tmp_path)]
    assert COVERAGE in flat[0]["metrics"]
    write_jsonl(tmp_path / "runs" / "s" / "soak.jsonl", flat)
    again = await Soak(resumed(tmp_path)).run()
    assert (again.metrics, again.errors, again.turns) == (first.metrics, first.errors, first.turns)
    assert findings(tmp_path) == []


async def test_a_finished_soak_stays_finished(tmp_path: Path) -> None:
    first = await Soak(plan(tmp_path, epochs=2)).run()
    Steady.made = 0
    again = await Soak(resumed(tmp_path)).run()
    assert Steady.made == 0
    assert (again.state, again.epochs, again.turns) == ("finished", 2, first.turns)
    assert again.metrics == first.metrics
    first_times, times = first.turn_latency_ms, again.turn_latency_ms
    assert (times.count, times.min, times.max) == (first_times.count, first_times.min, first_times.max)
    assert times.p50 == pytest.approx(first_times.p50, rel=0.05)


async def test_a_dataset_that_changes_under_the_soak_ends_it(tmp_path: Path) -> None:
    class Editing(Watching):
        def on_epoch(self, epoch: SoakEpoch, summary: SoakSummary) -> None:
            if epoch.epoch == 2:
                dataset(tmp_path / "data.jsonl", 5)

    with pytest.raises(UsageError, match="not as it was when the soak began: dataset_sha256"):
        await Soak(plan(tmp_path, epochs=4), [Editing()]).run()
    assert (summary_of(tmp_path).state, summary_of(tmp_path).epochs) == ("failed", 2)
    with pytest.raises(UsageError, match=r"dataset_sha256.*--force"):
        resumed(tmp_path)
    summary = await Soak(resumed(tmp_path, force=True)).run()
    assert summary.changed == ["dataset_sha256"]
    assert [line.dialogs for line in lines(tmp_path)] == [4, 4, 5, 5]
    assert findings(tmp_path) == []


async def test_two_at_a_time_are_refused(tmp_path: Path) -> None:
    class First(Steady):
        begun, go_on = anyio.Event(), anyio.Event()

        async def reply(self, user_text: str) -> str:
            self.begun.set()
            await self.go_on.wait()
            return await super().reply(user_text)

    async def again() -> None:
        await First.begun.wait()
        with pytest.raises(UsageError, match="is in use by process"):
            await Soak(resumed(tmp_path, First)).run()
        First.go_on.set()

    async with anyio.create_task_group() as group:
        group.start_soon(again)
        assert (await Soak(plan(tmp_path, First, epochs=2)).run()).state == "finished"


async def test_a_name_that_is_taken_is_refused(tmp_path: Path) -> None:
    await Soak(plan(tmp_path, epochs=1)).run()
    with pytest.raises(UsageError, match="exists already; choose another name"):
        await Soak(plan(tmp_path, epochs=1)).run()
    assert summary_of(tmp_path).state == "finished"


async def test_a_soak_that_cannot_start_leaves_nothing(tmp_path: Path) -> None:
    (tmp_path / "data.jsonl").write_text('{"dialog_id": "a"}\n')
    with pytest.raises(UsageError, match="no valid dialogue"):
        await Soak(plan(tmp_path, epochs=2)).run()
    assert not (tmp_path / "runs" / "s").exists()


@pytest.mark.parametrize("limits", [{}, {"keep_epochs": 2}])
def test_a_soak_without_an_end_is_refused(tmp_path: Path, limits: dict[str, Any]) -> None:
    with pytest.raises(UsageError, match="--duration, such as 8h, or --epochs"):
        plan(tmp_path, **limits)


@pytest.mark.parametrize(
    "limits",
    [
        {"epochs": 0},
        {"epochs": 1, "keep_epochs": -1},
        {"epochs": 1, "metrics_port": 70_000},
        {"epochs": 101, "vary_seed": True},
        {"duration_seconds": 1.0, "vary_seed": True},
    ],
)
def test_limits_out_of_range_are_refused(limits: dict[str, Any]) -> None:
    with pytest.raises(UsageError, match="setting"):
        checked_limits(SoakLimits(**limits))


def test_a_run_id_leaves_room_for_the_number_of_the_epoch(tmp_path: Path) -> None:
    with pytest.raises(UsageError, match="at most 120 characters"):
        plan(tmp_path, run_id="x" * 121, epochs=1)


@each_case(
    ("text", "seconds"),
    [("8h", 28_800), ("30m", 1800), ("90s", 90), ("1d12h", 129_600), ("1.5h", 5400), (" 2M ", 120)],
)
def test_durations_are_read(text: str, seconds: float) -> None:
    assert parse_duration(text) == seconds


@each_case("text", ["", "8", "h", "8 h", "-1h", "0s", "1y", "8h!", "1e3s", "nan", "99999999d"])
def test_other_durations_are_refused(text: str) -> None:
    with pytest.raises(UsageError, match="--duration"):
        parse_duration(text)


async def test_a_full_disk_ends_the_soak_with_a_fault_and_it_goes_on_afterwards(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    free = [1 << 40]
    monkeypatch.setattr(Disk, "free", lambda self, path: free[0])

    class Filling(Watching):
        def on_epoch(self, epoch: SoakEpoch, summary: SoakSummary) -> None:
            if epoch.epoch == 2:
                free[0] = 0

    with pytest.raises(RunFault, match="MiB are free") as fault:
        await Soak(plan(tmp_path, epochs=4), [Filling()]).run()
    assert len(str(fault.value).splitlines()) == 1
    assert (summary_of(tmp_path).state, summary_of(tmp_path).epochs) == ("failed", 2)
    free[0] = 1 << 40
    assert (await Soak(resumed(tmp_path)).run()).epochs == 4
    assert findings(tmp_path) == []


@pytest.mark.parametrize("operation", ["write", "fsync", "open", "replace"])
async def test_a_disk_that_refuses_the_soaks_own_artifacts_is_a_fault(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, operation: str
) -> None:
    broken = [False]

    class Filling(Watching):
        def on_epoch(self, epoch: SoakEpoch, summary: SoakSummary) -> None:
            broken[0] = True

    made = Soak(plan(tmp_path, epochs=3), [Filling()])
    disk = made._directory._disk
    original = getattr(disk, operation)

    def refusing(*args: Any) -> Any:
        if broken[0]:
            raise OSError(28, "No space left on device")
        return original(*args)

    monkeypatch.setattr(disk, operation, refusing)
    with pytest.raises(
        RunFault, match=r"No space left on device; fix the cause, then memfin resume .*/s goes on"
    ):
        await made.run()
    broken[0] = False
    assert (await Soak(resumed(tmp_path)).run()).epochs == 3
    assert findings(tmp_path) == []


async def test_a_line_that_is_damaged_is_refused_with_its_place(tmp_path: Path) -> None:
    await Soak(plan(tmp_path, epochs=3)).run()
    file = tmp_path / "runs" / "s" / "soak.jsonl"
    good = file.read_text()
    file.write_text(good.replace('"epoch":2', '"epoch":7'))
    with pytest.raises(UsageError, match=r"soak\.jsonl:2: is epoch 7, where 2 belongs"):
        await Soak(resumed(tmp_path)).run()
    assert any("7 stands where 2 belongs" in line for line in findings(tmp_path))
    file.write_text(good.replace('"turns":12', '"turns":"x"', 1))
    with pytest.raises(UsageError, match=r"soak\.jsonl:1: \$\.turns"):
        await Soak(resumed(tmp_path)).run()


async def test_validate_finds_artifacts_that_do_not_agree(tmp_path: Path) -> None:
    await Soak(plan(tmp_path, epochs=2)).run()
    root = tmp_path / "runs" / "s"
    summary, file = summary_of(tmp_path), (root / "soak.jsonl")
    whole = file.read_text()
    for changed, expected in (
        (summary.replace(epochs=5), "$.epochs: 5, but soak.jsonl holds 2"),
        (summary.replace(turns=1), "$.turns: 1, but soak.jsonl amounts to 24"),
        (summary.replace(run_id="t"), "'s' differs from 't'"),
        (summary.replace(turn_latency_ms=Distribution(count=1, p50=2.0, p99=1.0)), "not in this order"),
        (summary.replace(pruned_epochs=9), "9 of 2 epochs"),
    ):
        (root / "soak_summary.json").write_bytes(msgspec.json.encode(changed))
        assert any(expected in finding for finding in findings(tmp_path)), expected
    (root / "soak_summary.json").write_bytes(msgspec.json.encode(summary))
    value = lines(tmp_path)[0].headline_values[COVERAGE]
    file.write_text(whole.replace(f'"risk_coverage":[{value}', '"risk_coverage":[0.5', 1))
    assert any("but the epoch's summary says" in finding for finding in findings(tmp_path))
    file.write_text(whole)
    shutil.rmtree(root / "epochs" / "000002")
    assert any("directory of epoch 2 is missing" in finding for finding in findings(tmp_path))


async def test_an_agent_that_wanders_off_does_not_take_the_soak_with_it(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    class Wandering(Steady):
        async def reply(self, user_text: str) -> str:
            os.chdir("/")
            return await super().reply(user_text)

    monkeypatch.chdir(tmp_path)
    dataset(tmp_path / "data.jsonl", 2)
    made = make_soak_plan(
        "data.jsonl", limits=SoakLimits(epochs=2), agent=Wandering, runs_dir="runs", run_id="s"
    )
    assert (await Soak(made).run()).epochs == 2
    os.chdir(tmp_path)
    manifest = json.loads((tmp_path / "runs" / "s" / "epochs" / "000002" / "run_manifest.json").read_bytes())
    assert manifest["dataset_path"] == "data.jsonl"


@pytest.mark.parametrize(
    ("limits", "pause"),
    [
        ({}, 0.0),
        ({"agent_rpm": 12.0}, 5.5),
        ({"judge_rpm": 600.0}, 1.1),
        ({"judge_rpm": 6.0}, 11.0),
        ({"judge_tpm": 10_000.0}, 66.0),
    ],
)
def test_a_judge_with_limits_has_a_pause_between_epochs(
    tmp_path: Path, limits: dict[str, Any], pause: float
) -> None:
    assert plan(tmp_path, epochs=1, run_id="offline", judge="heuristic").pause == 0.0
    assert plan(tmp_path, epochs=1, judge=OwnJudge, **limits).pause == pytest.approx(pause)


async def test_connections_of_agents_over_http_do_not_add_up(tmp_path: Path) -> None:
    server = TestServer(application(Steady))
    await server.start_server()
    try:
        made = plan(tmp_path, str(server.make_url("/")).rstrip("/"), epochs=6, workers_dialog=4)
        summary = await Soak(made).run()
    finally:
        await server.close()
    assert summary.errors.failed_turns == 0
    assert Steady.made == 6 * 4  # an agent of its own for each dialogue of each epoch
    files = [line.resources.open_files for line in lines(tmp_path)]
    assert max(files[1:]) <= files[0] + 1  # with those of the last epoch still open there would be more


async def test_what_a_factory_shares_is_closed_after_every_epoch_and_serves_the_next(tmp_path: Path) -> None:
    class Sharing:
        reference, model, version = "tests:Sharing", "shared", None
        inputs: dict[str, Any] = {}
        total_usage = None
        closed = 0

        def __call__(self, session: Any, observer: Any) -> Steady:
            return Steady(session, observer)

        async def close(self) -> None:
            self.closed += 1

    agents = Sharing()
    await Soak(plan(tmp_path, agents, epochs=3)).run()
    assert agents.closed == 3


async def test_a_soak_can_be_stopped_between_epochs(tmp_path: Path) -> None:
    """While it waits for a judge's window, which would take more than a minute."""
    made = plan(tmp_path, epochs=3, judge=OwnJudge, judge_tpm=1e9)
    assert made.pause > 60

    class Stopping(Watching):
        def on_epoch(self, epoch: SoakEpoch, summary: SoakSummary) -> None:
            asyncio.get_running_loop().call_later(0.05, soak.stop, "enough")

    soak = Soak(made, [Stopping()])
    with anyio.fail_after(30), pytest.raises(RunStopped, match="stopped: enough; memfin resume"):
        await soak.run()
    assert (summary_of(tmp_path).state, summary_of(tmp_path).epochs) == ("interrupted", 1)
