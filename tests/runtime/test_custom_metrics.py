"""Custom metrics of a run: in rows, summary, gates, report and comparison, after a stop and in soaks."""

import asyncio
import json
import os
import signal
import sys
import time
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import pytest

import memfin
from memfin.contracts import (
    Dialog,
    DialogDone,
    DialogTrace,
    EvalSummary,
    RunConfig,
    SoakLimits,
    TurnEvalRow,
    TurnTrace,
)
from memfin.errors import GateFailed, UsageError
from memfin.report import write_reports
from memfin.report.comparison import compare_runs
from memfin.runtime import aggregate_rows, make_plan
from memfin.runtime.api import Evaluation
from memfin.runtime.rescore import make_rescore_plan
from memfin.runtime.run import Run
from memfin.runtime.soak import Soak
from memfin.runtime.soak_plan import make_soak_plan
from memfin.validation import validate_path
from tests.commands import Command, run_command
from tests.support import dataset, each_case, read_jsonl

ROOT = Path(__file__).resolve().parents[2]
OWN = "m1_context_continuity"


class Fee(memfin.TurnMetric):
    """Replies that mention fees."""

    name = "fee"
    version = "1"
    value = "mention_rate"

    def measure(self, dialog: Dialog, turn: TurnTrace, row: TurnEvalRow) -> bool:
        return "费" in (turn.pred_assistant_text or "")


class Length(memfin.DialogMetric):
    """Characters per reply."""

    name = "length"
    version = "1"
    low, high = 0, 10_000
    lower_is_better = True

    def measure(self, dialog: Dialog, trace: DialogTrace, rows: Sequence[TurnEvalRow]) -> tuple[int, int]:
        assert len(rows) == len(trace.turns)
        return sum(len(turn.pred_assistant_text or "") for turn in trace.turns), len(trace.turns)


class Odd(memfin.TurnMetric):
    """A value, none, an exception and a value out of range in turn."""

    name = "odd"
    version = "1"

    def measure(self, dialog: Dialog, turn: TurnTrace, row: TurnEvalRow) -> float | None:
        if turn.turn_pair_id == 3:
            raise RuntimeError("no\nvalue")
        return {1: 0.5, 2: None}.get(turn.turn_pair_id, 1.5)


class Slow(memfin.TurnMetric):
    """A metric that takes longer than it may, once."""

    name = "slow"
    version = "1"

    def measure(self, dialog: Dialog, turn: TurnTrace, row: TurnEvalRow) -> bool:
        while row.turn_pair_id == 1 and dialog.dialog_id == "d0000":
            time.sleep(0.01)
            if Path(os.environ["MEMFIN_TEST_GO"]).exists():
                break
        return True


class Answering:
    """Answers with fees in the first turn."""

    def __init__(self, session: Any, observer: Any) -> None:
        self.turn = 0

    async def reply(self, user_text: str) -> str:
        self.turn += 1
        return "管理费每年百分之一" if self.turn == 1 else "没有"


class Held(Answering):
    """Answers from the third dialogue on only once it may."""

    free = False

    def __init__(self, session: Any, observer: Any) -> None:
        super().__init__(session, observer)
        self.first = session.dialog_id < "d0002"

    async def reply(self, user_text: str) -> str:
        if not self.first and not Held.free:
            await asyncio.sleep(60)
        return await super().reply(user_text)


class Failing(Answering):
    """Fails in every turn of one dialogue, and in one turn of the others."""

    def __init__(self, session: Any, observer: Any) -> None:
        super().__init__(session, observer)
        self.always = session.dialog_id == "d0000"

    async def reply(self, user_text: str) -> str:
        text = await super().reply(user_text)
        if self.always or self.turn == 3:
            raise ValueError("fails")
        return text


class Silent(Answering):
    """Never speaks of fees."""

    async def reply(self, user_text: str) -> str:
        return "没有"


def here(metric: type) -> str:
    return f"{__name__}:{metric.__name__}"


async def evaluated(tmp_path: Path, name: str = "r", dialogs: int = 4, **more: Any) -> EvalSummary:
    data = dataset(tmp_path / "data.jsonl", dialogs)
    settings: dict[str, Any] = {"agent": Answering, "workers_score": 0, "metrics": [Fee, Length()]}
    return (await memfin.evaluate(data, runs_dir=tmp_path, run_id=name, **settings | more)).summary


async def test_values_are_in_rows_summary_report_and_aggregate(tmp_path: Path) -> None:
    summary = await evaluated(tmp_path)
    fee, length = summary.metrics["fee"], summary.metrics["length"]
    assert list(summary.metrics)[5:] == ["fee", "length"]
    assert fee.micro == fee.macro == {"mention_rate": pytest.approx(1 / 3)}
    assert fee.by_dialog["d0000"] == {"mention_rate": pytest.approx(1 / 3)}
    low, high = fee.ci95["mention_rate"]
    assert 0 < low < 1 / 3 < high < 1
    assert fee.counts == {"eligible_count": 12, "skipped_count": 0, "failed_count": 0, "bad_rows": 0}
    assert length.counts["eligible_count"] == 4
    assert length.micro == {"mean": pytest.approx((9 + 2 + 2) / 3)}
    rows = read_jsonl(tmp_path / "r" / "turn_eval.jsonl")
    assert rows[0]["custom"] == {"fee": {"value": "mention_rate", "hits": 1.0, "of": 1}}
    assert [sorted(row["custom"]) for row in rows[:3]] == [["fee"], ["fee"], ["fee", "length"]]
    again, problems = aggregate_rows(tmp_path / "r" / "turn_eval.jsonl")
    assert not problems
    for name in ("fee", "length"):
        described = again.metrics[name].replace(description=summary.metrics[name].description)
        assert described == summary.metrics[name]
    markdown, html = (path.read_text("utf-8") for path in write_reports(tmp_path / "r"))
    for text in (markdown, html):
        assert "Replies that mention fees." in text
        assert "33.3 %" in text
        assert "Characters per reply." in text
        assert "4.33" in text
    assert list(validate_path(tmp_path / "r")) == []


@pytest.mark.parametrize(
    ("gate", "problem"),
    [
        ({"gate": ["fee.mention_rate>=0.1"]}, None),
        ({"gate": ["fee.mention_rate>=0.3@95"]}, "the bound of its 95 % interval"),
        ({"fail_under": {"fee.macro.mention_rate": 0.5}}, "the value is 0.333333"),
        ({"fail_over": {"length.mean": 4}}, "the value is 4.33333"),
    ],
)
async def test_gates_hold_values(tmp_path: Path, gate: dict[str, Any], problem: str | None) -> None:
    if problem is None:
        await evaluated(tmp_path, **gate)
        return
    with pytest.raises(GateFailed, match=problem):
        await evaluated(tmp_path, **gate)


@each_case(
    ("gate", "problem"),
    [
        ("fee.rate>=0.1", "unknown value 'fee.rate'; known: fee.mention_rate"),
        ("fees.mention_rate>=0.1", "unknown value 'fees.mention_rate'; did you mean fee.mention_rate"),
        ("fee.macro.mention_rate>=80", "fee.macro.mention_rate is from 0 to 1"),
        ("length.mean>=1", "of length.mean less is better"),
    ],
)
def test_other_gates_are_refused(gate: str, problem: str) -> None:
    with pytest.raises(UsageError, match=problem):
        make_plan(metrics=[Fee, Length], gate=[gate])


async def test_runs_are_compared_by_them(tmp_path: Path) -> None:
    await evaluated(tmp_path, "a")
    await evaluated(tmp_path, "b", agent=Silent)
    found = compare_runs(tmp_path / "a", tmp_path / "b")
    fee, length = found.values["fee.mention_rate"], found.values["length.mean"]
    assert fee.a == pytest.approx(1 / 3)
    assert (fee.b, fee.units, fee.worsened) == (0, 12, 4)
    assert (length.units, length.improved, length.higher_is_better) == (4, 4, False)
    assert fee.p_adjusted is not None
    runs = (tmp_path / "a", tmp_path / "b")
    shown = run_command("compare", *runs, "--gate", "fee.mention_rate>=0.1")
    assert shown.returncode == 1
    assert "fee Mention rate" in shown.stdout
    assert "--gate fee.mention_rate>=0.1: the value is 0" in shown.stderr


async def test_a_stopped_run_goes_on_to_the_same_summary(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    whole = await evaluated(tmp_path, "whole", dialogs=6)
    settings: dict[str, Any] = {"agent": Held, "workers_score": 0, "runs_dir": tmp_path}
    data = tmp_path / "data.jsonl"
    stopped = Evaluation(data, run_id="r", workers_dialog=1, metrics=[Fee, Length], **settings)
    async with stopped:
        async for event in stopped:
            if isinstance(event, DialogDone):
                await stopped.stop(0.5)
                break
    assert stopped.summary is None
    monkeypatch.setattr(Held, "free", True)
    async with Evaluation.resume(tmp_path / "r") as resumed:
        summary = (await resumed.wait()).summary
    assert summary.metrics == whole.metrics
    config = json.loads((tmp_path / "r" / "config.json").read_text("utf-8"))
    assert config["fingerprint_inputs"]["metrics"] == {"fee": "1", "length": "1"}
    assert config["settings"]["metric"] == [here(Fee), here(Length)]


class Newer(Fee):
    """Another definition."""

    version = "2"


async def test_another_version_is_another_input(tmp_path: Path) -> None:
    await evaluated(tmp_path)
    with pytest.raises(UsageError, match="not as it was when the run began: metrics;"):
        async with Evaluation.resume(tmp_path / "r", metrics=[Newer, Length]):
            pass


async def test_a_recorded_trace_is_scored_with_them(tmp_path: Path) -> None:
    summary = await evaluated(tmp_path)
    trace, data = tmp_path / "r" / "dialog_trace.jsonl", tmp_path / "data.jsonl"
    names = [here(Fee), here(Length)]
    scored = await Run(make_rescore_plan(trace, data, tmp_path / "s", metric=names)).run()
    assert scored.metrics["fee"] == summary.metrics["fee"]
    assert scored.metrics["length"] == summary.metrics["length"]


async def test_what_cannot_be_measured_costs_one_value(tmp_path: Path) -> None:
    data = dataset(tmp_path / "data.jsonl", 2, turns=4)
    summary = (
        await memfin.evaluate(
            data, agent=Answering, workers_score=0, metrics=[Odd], runs_dir=tmp_path, run_id="r"
        )
    ).summary
    odd = summary.metrics["odd"]
    assert odd.micro == {"rate": 0.5}
    assert odd.counts == {"eligible_count": 2, "skipped_count": 2, "failed_count": 4, "bad_rows": 0}
    assert summary.metrics[OWN].counts["failed_count"] == 0
    events = read_jsonl(tmp_path / "logs" / "progress_r.jsonl")
    (warning,) = [event["message"] for event in events if "metric" in event.get("message", "")]
    assert warning.startswith("metric odd: RuntimeError: no value (d")
    errors = [row["custom"]["odd"].get("error") for row in read_jsonl(tmp_path / "r" / "turn_eval.jsonl")]
    out = "ValueError: measure returned 1.5, out of the range 0 to 1"
    assert errors == 2 * [None, None, "RuntimeError: no value", out]


class Changing(memfin.DialogMetric):
    name = "changing"
    version = "1"

    def measure(self, dialog: Dialog, trace: DialogTrace, rows: Sequence[TurnEvalRow]) -> bool:
        assert isinstance(rows, list)
        rows[0].risk_pred_tags.append("credit_risk")
        dialog.turns.clear()
        trace.turns.clear()
        rows.clear()
        return True


async def test_a_metric_that_changes_what_it_is_given_changes_no_other_value(tmp_path: Path) -> None:
    settings: dict[str, Any] = {"agent": "oracle", "limit": 1, "runs_dir": tmp_path}
    plain = await memfin.evaluate(**settings, run_id="plain")
    changed = await memfin.evaluate(**settings, run_id="changed", metrics=[Changing])
    metrics = dict(changed.summary.metrics)
    assert metrics.pop("changing").micro == {"rate": 1.0}
    assert metrics == plain.summary.metrics
    tags = [[row.risk_pred_tags for row in run.rows()] for run in (plain, changed)]
    assert tags[0] == tags[1]


class Nesting:
    def __init__(self, session: Any, observer: Any) -> None:
        self.observer = observer

    def reply(self, user_text: str) -> str:
        nested: dict[str, Any] = {}
        for _ in range(400):
            nested = {"inner": nested}
        self.observer.tool(tool_name="quote", args=nested)
        return user_text


async def test_deeply_nested_arguments_of_tools_are_measured(tmp_path: Path) -> None:
    run = await memfin.evaluate(agent=Nesting, limit=1, runs_dir=tmp_path, metrics=[Length])
    assert run.summary.metrics[Length.name].counts["eligible_count"] == 1


async def test_a_metric_has_a_time_out(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("MEMFIN_TEST_GO", str(tmp_path / "go"))
    summary = await evaluated(tmp_path, metrics=[Slow, Fee], score_timeout=0.2, dialogs=2)
    (tmp_path / "go").touch()
    assert summary.metrics["fee"].counts["eligible_count"] == 6
    errors = {row["custom"]["slow"].get("error") for row in read_jsonl(tmp_path / "r" / "turn_eval.jsonl")}
    assert errors - {None} == {
        "took longer than 0.2 s (score_timeout)",
        "is busy with an earlier value",
    }


async def test_soaks_follow_them(tmp_path: Path) -> None:
    data = dataset(tmp_path / "data.jsonl", 2)
    plan = make_soak_plan(
        data,
        agent=Answering,
        workers_score=0,
        metric=[here(Fee)],
        gate=["fee.mention_rate>=0.5"],
        runs_dir=str(tmp_path),
        run_id="s",
        limits=SoakLimits(epochs=2),
    )
    summary = await Soak(plan).run()
    assert summary.metrics["fee.mention_rate"].mean == pytest.approx(1 / 3)
    assert [gate.partition(": ")[0] for gate in summary.gates] == ["--gate fee.mention_rate>=0.5"]
    assert "Mention rate" in write_reports(tmp_path / "s")[0].read_text("utf-8")


class Mention(memfin.TurnMetric):
    """Replies with a word; leaves without one."""

    version = "1"

    def __init__(self, word: str) -> None:
        self.word = word
        self.name = f"mention_{word}"
        self.lower_is_better = word == "bad"

    def measure(self, dialog: Dialog, turn: TurnTrace, row: TurnEvalRow) -> Any:
        if self.word == "exit":
            sys.exit(1)
        return (True, True) if self.word in "good" else "no"


async def test_instances_have_values_of_their_own(tmp_path: Path) -> None:
    words = ("good", "bad", "exit")
    summary = await evaluated(tmp_path, metrics=[Mention(word) for word in words])
    good, bad, ended = (summary.metrics[f"mention_{word}"] for word in words)
    assert good.micro == {"rate": 1.0}
    assert (good.lower_is_better, bad.lower_is_better) == (False, True)
    assert bad.not_measured == ended.not_measured == {"rate": "it could not be measured anywhere"}
    assert ended.counts["failed_count"] == 12
    with pytest.raises(UsageError, match="in Python, give an instance"):
        make_plan(metrics=[here(Mention)])


async def test_failed_turns_and_dialogues_have_no_value(tmp_path: Path) -> None:
    summary = await evaluated(tmp_path, agent=Failing)
    fee, length = summary.metrics["fee"].counts, summary.metrics["length"].counts
    assert (fee["eligible_count"], fee["failed_count"]) == (6, 6)
    assert (length["eligible_count"], length["failed_count"]) == (3, 1)


async def test_a_row_out_of_range_is_bad(tmp_path: Path) -> None:
    await evaluated(tmp_path)
    path = tmp_path / "r" / "turn_eval.jsonl"
    path.write_text(path.read_text("utf-8").replace('"hits":1.0', '"hits":7.0', 1), "utf-8")
    summary, problems = aggregate_rows(path)
    assert summary.metrics["fee"].counts["bad_rows"] == 1
    assert len(problems) == 1
    assert "fee has 7 of 1, out of its range" in str(list(validate_path(path)))


AGENT = """
import pathlib, time
from memfin import TurnMetric

class Fee(TurnMetric):
    name = "fee"
    version = "1"

    def measure(self, dialog, turn, row):
        return "费" in turn.pred_assistant_text

class Agent:
    def __init__(self, session, observer):
        self.last = session.dialog_id == "d0003"

    def reply(self, user_text):
        if self.last and not pathlib.Path("patient").exists():
            pathlib.Path("hanging").touch()
            time.sleep(60)
        return "管理费"
"""


@pytest.mark.parametrize("number", [signal.SIGKILL, signal.SIGINT])
def test_values_outlive_a_signal(tmp_path: Path, number: signal.Signals) -> None:
    (tmp_path / "fees.py").write_text(AGENT, "utf-8")
    dataset(tmp_path / "data.jsonl", 4)
    (tmp_path / "memfin.toml").write_text('metric = ["fees:Fee"]\n', "utf-8")
    env = os.environ | {"PYTHONPATH": f"{ROOT}{os.pathsep}{tmp_path}"}
    words = ("run", "data.jsonl", "--agent", "fees:Agent", "--run-id", "r", "--workers-dialog", "2")
    commits = tmp_path / "runs" / "r" / "commits.log"
    process = Command(*words, "--workers-score", "0", cwd=tmp_path, env=env)
    try:
        while not ((tmp_path / "hanging").exists() and commits.read_bytes().count(b'"judged"') >= 1):
            assert process.poll() is None
            time.sleep(0.02)
        process.send_signal(number)
        process.communicate(30)
    finally:
        process.kill()
    (tmp_path / "patient").touch()
    run_command("resume", "runs/r", cwd=tmp_path, env=env)
    summary = json.loads((tmp_path / "runs" / "r" / "metrics_summary.json").read_text("utf-8"))
    assert summary["metrics"]["fee"]["counts"]["eligible_count"] == 12
    assert summary["metrics"]["fee"]["micro"] == {"rate": 1.0}


def made(**attributes: Any) -> type[memfin.TurnMetric]:
    return type("Made", (Fee,), {"__doc__": None, **attributes})


async def late(*given: Any) -> bool:
    return True


@each_case(
    ("metrics", "problem"),
    [
        (lambda: [made(name="m3_mine")], "name must be an identifier that does not begin as m1 to m5"),
        (lambda: [made(name="a b")], "name must be an identifier"),
        (lambda: [made(name=None)], "name must be an identifier"),
        (lambda: [made(version=1)], "version must be a string such as '1', not 1"),
        (lambda: [made(low=1)], "low and high must be numbers, low below high"),
        (lambda: [made(high=5)], "a value from 0 to 5 needs a name that ends in mean"),
        (lambda: [made(value="a.b")], "value must be an identifier"),
        (lambda: [made(measure=late)], "measure must be a plain method"),
        (lambda: [made(measure=lambda self, turn: 1)], r"measure: takes \(turn\) and is called with"),
        (lambda: [Fee, Newer], "there is another metric named 'fee'"),
        (
            lambda: [RunConfig],
            "expected a subclass of memfin.TurnMetric or memfin.DialogMetric, got RunConfig",
        ),
        (lambda: [made(__init__=lambda self, x: None)], "cannot be created without arguments"),
        (lambda: ["nowhere:Fee"], "module 'nowhere' cannot be imported"),
        (lambda: "fees:Fee", "must be a list"),
    ],
)
def test_unusable_metrics_are_refused_in_one_line(metrics: Callable[[], Any], problem: str) -> None:
    with pytest.raises(UsageError, match=problem) as refused:
        make_plan(metrics=metrics())
    assert len(str(refused.value).splitlines()) == 1
