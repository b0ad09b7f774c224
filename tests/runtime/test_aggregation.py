"""Metrics of recorded rows with the traces of their run."""

from pathlib import Path
from typing import Any

import pytest

import memfin
from memfin.contracts import Counters, Warned
from memfin.errors import UsageError
from memfin.report import write_reports
from memfin.report.tables import summary_table
from memfin.runtime import aggregate_rows
from memfin.runtime.rescore import make_rescore_plan
from memfin.runtime.run import Run
from memfin.validation import validate_path
from tests.support import dataset, dialog, read_jsonl, write_jsonl


class Failing:
    """Fails at the second question of a dialogue."""

    def __init__(self, session: Any, observer: Any) -> None:
        del session, observer

    async def reply(self, user_text: str) -> str:
        if "第2个" in user_text:
            raise ValueError("no answer")
        return "市场存在不确定性，仅供参考。"


@pytest.fixture
async def run(tmp_path: Path) -> Path:
    """Return the directory of a run of which two turns failed."""
    data = dataset(tmp_path / "data.jsonl", 2)
    await memfin.evaluate(data, agent=Failing, run_id="r", runs_dir=str(tmp_path))
    return tmp_path / "r"


def counts(rows: Path, run: Path) -> dict[str, Any]:
    summary, problems = aggregate_rows(rows, run / "dialog_trace.jsonl", run.parent / "data.jsonl")
    assert problems == []
    return {name: metric.counts for name, metric in summary.metrics.items()}


async def test_rows_of_plain_v1_take_the_status_of_their_trace(run: Path) -> None:
    rows = read_jsonl(run / "turn_eval.jsonl")
    plain = [{name: row[name] for name in row if name != "turn_status"} for row in rows]
    assert counts(write_jsonl(run / "plain.jsonl", plain), run) == counts(run / "turn_eval.jsonl", run)


async def test_records_of_the_older_draft_amount_to_the_same(run: Path) -> None:
    """Neither its rows nor its traces have a version, and its traces no status of a dialogue."""
    for name in ("turn_eval.jsonl", "dialog_trace.jsonl"):
        draft = [
            {field: value for field, value in line.items() if field not in ("trace_version", "dialog_status")}
            for line in read_jsonl(run / name)
        ]
        for turn in (turn for line in draft for turn in line.get("turns", ())):
            turn["status"] = turn.pop("turn_status")
        write_jsonl(run / f"draft_{name}", draft)
    data, rows, traces = run.parent / "data.jsonl", run / "turn_eval.jsonl", run / "draft_dialog_trace.jsonl"
    expected = aggregate_rows(rows, run / "dialog_trace.jsonl", data)
    assert aggregate_rows(run / "draft_turn_eval.jsonl", traces, data) == expected
    scored = await Run(make_rescore_plan(traces, data, run / "again")).run()
    assert scored.metrics == expected[0].metrics


@pytest.mark.parametrize(
    ("changes", "problem"),
    [
        ({"run_id": "other"}, "is of run 'other', the trace "),
        ({"dialog_id": "other"}, "turn 1 of 'other' is not in the trace "),
        ({"turn_pair_id": 4}, "turn 4 of 'd0000' is not in the trace "),
        ({"turn_status": "timeout"}, "turn 1 of 'd0000' has turn_status 'timeout', in the trace "),
    ],
)
async def test_traces_of_another_run_are_refused(run: Path, changes: dict[str, Any], problem: str) -> None:
    row = next(row for row in read_jsonl(run / "turn_eval.jsonl") if row["dialog_id"] == "d0000")
    rows = write_jsonl(run / "other.jsonl", [row | changes])
    with pytest.raises(UsageError, match="give the trace of the same run") as refusal:
        counts(rows, run)
    assert str(refusal.value).startswith(f"{rows}:1: {problem}")


async def test_unscored_turn_pairs_are_counted_and_told(tmp_path: Path) -> None:
    partly = dialog("partly", 3)
    partly["turns"][1]["turn_tags"] = None
    del partly["turns"][5]
    data = write_jsonl(tmp_path / "data.jsonl", [partly, dialog("whole")])
    warnings: list[Warned] = []
    summary = (
        await memfin.evaluate(
            data,
            agent=Failing,
            run_id="r",
            runs_dir=str(tmp_path),
            on_event=lambda event: warnings.append(event) if isinstance(event, Warned) else None,
        )
    ).summary
    assert summary.counters == Counters(
        total_dialogs=2, valid_dialogs=2, total_turn_pairs=5, unscored_turn_pairs=2
    )
    told = [warned.message for warned in warnings if warned.dialog_id == "partly"]
    assert told[0].startswith(
        f"{data}:1: turn pairs not scored, for want of a reply or of usable turn_tags: 2"
    )
    row = next(row for row in read_jsonl(tmp_path / "r" / "turn_eval.jsonl") if row["dialog_id"] == "partly")
    assert not any(row[f"eligible_{metric}"] for metric in ("m1", "m3", "m4", "m5"))
    again, _ = aggregate_rows(tmp_path / "r" / "turn_eval.jsonl", tmp_path / "r" / "dialog_trace.jsonl", data)
    assert again.counters == summary.counters
    assert list(validate_path(tmp_path / "r")) == []
    assert str(summary_table(summary).caption).endswith("5 turn pairs, 2 of the dataset not scored")
    assert "2 turn pairs not scored" in write_reports(tmp_path / "r")[0].read_text("utf-8")


async def test_traces_of_several_runs_are_refused(run: Path) -> None:
    traces = read_jsonl(run / "dialog_trace.jsonl")
    write_jsonl(run / "dialog_trace.jsonl", [traces[0], traces[1] | {"run_id": "other"}])
    with pytest.raises(UsageError, match=r"dialog_trace\.jsonl:2: is of run 'other', the first trace of 'r'"):
        counts(run / "turn_eval.jsonl", run)
