import json
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import pytest

from memfin.actors.dialog_scoring import MAX_UNREAD
from memfin.contracts import JudgeRequest, TurnEvalRow, TurnTrace, Verdict
from memfin.report import load_report
from memfin.runtime.api import evaluate
from memfin.scoring.rows import DialogScorer
from tests.support import dataset, read_jsonl


async def test_a_turn_on_which_the_rules_fail_is_counted_and_reported_and_the_others_are_scored(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    original = DialogScorer.row

    def row(self: DialogScorer, turn: TurnTrace, earlier: Sequence[TurnTrace], **options: Any) -> TurnEvalRow:
        if turn.turn_pair_id == 2 and "d0001" in turn.user_text:
            raise ZeroDivisionError("a rule is broken")
        return original(self, turn, earlier, **options)

    monkeypatch.setattr(DialogScorer, "row", row)
    summary = (
        await evaluate(dataset(tmp_path / "data.jsonl", 3), agent="echo", runs_dir=tmp_path, run_id="r")
    ).summary
    for name in ("m1_context_continuity", "m3_risk_coverage", "m4_compliance", "m5_explainability"):
        counts = summary.metrics[name].counts
        assert counts["failed_count"] == 1, name
        assert counts["eligible_count"] == 8, name
    rows = read_jsonl(tmp_path / "r" / "turn_eval.jsonl")
    broken = [row for row in rows if row["scoring_error"]]
    assert [(row["dialog_id"], row["turn_pair_id"]) for row in broken] == [("d0001", 2)]
    assert broken[0]["scoring_error"] == "ZeroDivisionError: a rule is broken"
    events = read_jsonl(tmp_path / "logs" / "progress_r.jsonl")
    (warning,) = [event for event in events if event["event"] == "warning"]
    assert "could not be scored" in warning["message"]
    assert warning["dialog_id"] == "d0001"


async def test_a_dialogue_that_cannot_be_prepared_keeps_its_rows(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    original = DialogScorer.__init__

    def prepare(self: DialogScorer, *args: object, **options: object) -> None:
        if getattr(args[0], "dialog_id", "") == "d0002":
            raise RecursionError("too deep")
        original(self, *args, **options)  # type: ignore[arg-type]

    monkeypatch.setattr(DialogScorer, "__init__", prepare)
    summary = (
        await evaluate(dataset(tmp_path / "data.jsonl", 3), agent="echo", runs_dir=tmp_path, run_id="r")
    ).summary
    assert summary.metrics["m3_risk_coverage"].counts["failed_count"] == 3
    assert len(read_jsonl(tmp_path / "r" / "turn_eval.jsonl")) == 9


UNKNOWN = "本金安全优先"


def with_constraints(path: Path, constraints: list[str]) -> Path:
    lines = [json.loads(line) for line in path.read_text("utf-8").splitlines()]
    for dialog in lines:
        dialog["profile_gt"]["constraints_gt"] = constraints
    path.write_text("".join(json.dumps(dialog, ensure_ascii=False) + "\n" for dialog in lines), "utf-8")
    return path


async def test_a_constraint_that_is_not_understood_is_told_once_and_noted_in_every_row(
    tmp_path: Path,
) -> None:
    data = with_constraints(dataset(tmp_path / "data.jsonl", 2), [UNKNOWN, "不使用杠杆"])
    await evaluate(data, agent="echo", runs_dir=tmp_path, run_id="r")
    rows = read_jsonl(tmp_path / "r" / "turn_eval.jsonl")
    assert [row["unread_constraints"] for row in rows] == [[UNKNOWN]] * 6
    events = read_jsonl(tmp_path / "logs" / "progress_r.jsonl")
    (warning,) = [event for event in events if event["event"] == "warning"]
    assert f"do not understand the constraint '{UNKNOWN}'" in warning["message"]
    (shown,) = [each for each in load_report(tmp_path / "r").warnings if "not understood" in each.title]
    assert shown.detail.startswith("6 of 6 (100.0 %)")
    assert UNKNOWN in shown.detail


async def test_of_many_constraints_that_are_not_understood_the_first_are_told(tmp_path: Path) -> None:
    strange = [f"第{number}件事要顺利" * 20 for number in range(MAX_UNREAD + 5)]
    data = with_constraints(dataset(tmp_path / "data.jsonl", 1), [*strange, strange[0]])
    await evaluate(data, agent="echo", runs_dir=tmp_path, run_id="r")
    events = read_jsonl(tmp_path / "logs" / "progress_r.jsonl")
    warnings = [event["message"] for event in events if event["event"] == "warning"]
    assert len(warnings) == MAX_UNREAD + 1
    assert all(len(message) < 300 for message in warnings)
    assert "more constraints" in warnings[-1]


async def test_where_a_judge_reads_contradictions_no_constraint_is_unread(tmp_path: Path) -> None:
    data = with_constraints(dataset(tmp_path / "data.jsonl", 1), [UNKNOWN])

    class Reader:
        async def judge(self, request: JudgeRequest) -> Verdict:
            del request
            return Verdict(
                rubric_items=[], score=3.0, compliance="compliant", contradicted_constraints=[], risk_tags=[]
            )

    await evaluate(data, agent="echo", judge=Reader, judge_scope="all", runs_dir=tmp_path, run_id="r")
    assert all("unread_constraints" not in row for row in read_jsonl(tmp_path / "r" / "turn_eval.jsonl"))
    events = read_jsonl(tmp_path / "logs" / "progress_r.jsonl")
    assert not [event for event in events if event["event"] == "warning"]


async def test_constraints_that_are_understood_leave_no_trace(tmp_path: Path) -> None:
    data = with_constraints(dataset(tmp_path / "data.jsonl", 1), ["不使用杠杆", "无明确约束"])
    await evaluate(data, agent="echo", runs_dir=tmp_path, run_id="r")
    assert all("unread_constraints" not in row for row in read_jsonl(tmp_path / "r" / "turn_eval.jsonl"))
    assert not [each for each in load_report(tmp_path / "r").warnings if "not understood" in each.title]
