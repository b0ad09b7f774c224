"""M5, rule by rule (spec section 6, metrics contract 6.5)."""

from typing import Any

import msgspec
import pytest

from memfin.contracts import TurnEvalRow
from memfin.metrics.m5_explainability import compute_m5_explainability
from tests.support import each_case


def row(dialog_id: str, required: str, hits: str, score: float | None, **fields: Any) -> TurnEvalRow:
    given: dict[str, Any] = {
        "trace_version": "v1",
        "run_id": "r",
        "dialog_id": dialog_id,
        "turn_pair_id": 1,
        **{f"eligible_m{number}": True for number in range(1, 6)},
        "rubric_required": list(required),
        "rubric_hit_items": list(hits),
        "judge_score_1_5": score,
    }
    return TurnEvalRow(**{**given, **fields})


def test_rubric_rate_sums_hits_over_required_items() -> None:
    result = compute_m5_explainability(
        [row("a", "xyz", "x", 3), row("a", "x", "x", 5), row("b", "xy", "", 1)]
    )
    assert result.micro["rubric_hit_rate"] == pytest.approx(2 / 6)
    assert result.macro["rubric_hit_rate"] == pytest.approx((2 / 4 + 0) / 2)
    assert (result.counts["rubric_required_total"], result.counts["rubric_hit_total"]) == (6, 2)


def test_items_nobody_required_are_no_hits() -> None:
    assert compute_m5_explainability([row("a", "xy", "xzq", 3)]).micro["rubric_hit_rate"] == 0.5


def test_the_mean_score_is_over_scored_turns() -> None:
    result = compute_m5_explainability(
        [row("a", "x", "x", 3.67), row("a", "x", "x", None), row("b", "x", "", 2)]
    )
    assert result.micro["judge_score_mean"] == pytest.approx((3.67 + 2) / 2)
    assert result.macro["judge_score_mean"] == pytest.approx((3.67 + 2) / 2)
    assert result.counts["judge_scored_turns"] == 2


def test_a_failed_judge_gives_no_score_and_leaves_the_rubric() -> None:
    failed = row("a", "xy", "", None, judge_error="HTTP 500")
    result = compute_m5_explainability([failed, row("a", "x", "x", 4)])
    assert result.micro == {"rubric_hit_rate": 1.0, "judge_score_mean": 4.0}
    assert result.counts["judge_failed_turns"] == 1
    assert [result.counts[f"{name}_count"] for name in ("eligible", "skipped", "failed")] == [1, 0, 1]


def test_a_score_beside_a_judge_error_is_not_taken() -> None:
    result = compute_m5_explainability([row("a", "x", "x", 5, judge_error="refused")])
    assert (result.counts["judge_scored_turns"], result.counts["judge_failed_turns"]) == (0, 1)


def test_an_eligible_turn_without_a_score_is_a_failed_judgement() -> None:
    result = compute_m5_explainability([row("a", "xy", "x", None)])
    assert result.counts["judge_failed_turns"] == 1
    assert result.micro == {"rubric_hit_rate": 0.5, "judge_score_mean": 0.0}


def test_a_run_without_a_judge_fails_no_judgement() -> None:
    result = compute_m5_explainability([row("a", "xy", "", None, detectors={"judge": "none"})])
    assert (result.counts["judge_failed_turns"], result.counts["eligible_count"]) == (0, 0)


def test_a_turn_without_a_rubric_is_not_in_the_denominator() -> None:
    result = compute_m5_explainability(
        [row("a", "", "", 1), row("a", "x", "x", 4), row("b", "x", "", 1, eligible_m5=False)]
    )
    assert result.micro == {"rubric_hit_rate": 1.0, "judge_score_mean": 4.0}
    assert [result.counts[f"{name}_count"] for name in ("eligible", "skipped", "failed")] == [1, 2, 0]


def test_failed_turns_are_counted_apart() -> None:
    result = compute_m5_explainability([row("a", "x", "", 1, turn_status="error"), row("a", "x", "x", 4)])
    assert result.micro == {"rubric_hit_rate": 1.0, "judge_score_mean": 4.0}
    assert (result.counts["failed_count"], result.counts["judge_failed_turns"]) == (1, 0)


def test_a_dialogue_without_a_score_has_none_in_its_entry() -> None:
    result = compute_m5_explainability([row("a", "x", "x", None), row("b", "x", "x", 3)])
    assert "judge_score_mean" not in result.by_dialog["a"]
    assert result.macro["judge_score_mean"] == 3.0


def test_a_zero_denominator_gives_zero() -> None:
    result = compute_m5_explainability([])
    assert result.micro == {"rubric_hit_rate": 0.0, "judge_score_mean": 0.0}
    assert result.counts["eligible_count"] == result.counts["eligible_turns"] == 0


def test_the_interval_of_the_score_keeps_to_its_scale() -> None:
    result = compute_m5_explainability([row("a", "x", "x", 1), row("b", "x", "x", 5)])
    low, high = result.ci95["judge_score_mean"]
    assert 1 <= low < 1.2
    assert 4.8 < high <= 5


@each_case("score", [0.99, 5.01, -1.0, float("nan"), float("inf"), "4"])
def test_a_score_off_the_scale_makes_a_bad_row(score: Any) -> None:
    result = compute_m5_explainability([row("a", "x", "x", 4), row("a", "x", "", score)])
    assert (result.counts["bad_rows"], result.counts["failed_count"]) == (1, 1)
    assert result.micro == {"rubric_hit_rate": 1.0, "judge_score_mean": 4.0}


def test_plain_rows_count_like_structs() -> None:
    rows = [row("a", "xy", "x", 3.3), row("b", "x", "x", 1)]
    assert compute_m5_explainability(
        [msgspec.to_builtins(each) for each in rows]
    ) == compute_m5_explainability(rows)
