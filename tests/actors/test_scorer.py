from pathlib import Path

import pytest

from memfin.contracts import TurnEvalRow, TurnTrace
from memfin.runtime.api import evaluate
from memfin.scoring.rows import DialogScorer
from tests.support import dataset, read_jsonl


async def test_a_turn_on_which_the_rules_fail_is_counted_and_reported_and_the_others_are_scored(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    original = DialogScorer.row

    def row(self: DialogScorer, turn: TurnTrace) -> TurnEvalRow:
        if turn.turn_pair_id == 2 and "d0001" in turn.user_text:
            raise ZeroDivisionError("a rule is broken")
        return original(self, turn)

    monkeypatch.setattr(DialogScorer, "row", row)
    summary = await evaluate(dataset(tmp_path / "data.jsonl", 3), agent="echo", runs_dir=tmp_path, run_id="r")
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
    summary = await evaluate(dataset(tmp_path / "data.jsonl", 3), agent="echo", runs_dir=tmp_path, run_id="r")
    assert summary.metrics["m3_risk_coverage"].counts["failed_count"] == 3
    assert len(read_jsonl(tmp_path / "r" / "turn_eval.jsonl")) == 9
