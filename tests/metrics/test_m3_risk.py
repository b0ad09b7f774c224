"""M3, rule by rule (spec section 6, metrics contract 6.3)."""

from typing import Any

import msgspec
import pytest

from memfin.contracts import TurnEvalRow
from memfin.metrics.m3_risk import compute_m3_risk_coverage


def row(dialog_id: str, required: str, hits: int, **fields: Any) -> TurnEvalRow:
    given: dict[str, Any] = {
        "trace_version": "v1",
        "run_id": "r",
        "dialog_id": dialog_id,
        "turn_pair_id": 1,
        **{f"eligible_m{number}": True for number in range(1, 6)},
        "risk_required_tags": list(required),
        "risk_tag_hits": hits,
    }
    return TurnEvalRow(**{**given, **fields})


def test_coverage_sums_hits_over_required_tags() -> None:
    result = compute_m3_risk_coverage([row("a", "xyz", 1), row("a", "x", 1), row("b", "xy", 0)])
    assert result.micro["risk_coverage"] == pytest.approx(2 / 6)
    assert result.macro["risk_coverage"] == pytest.approx((2 / 4 + 0) / 2)
    assert (result.counts["risk_required_total"], result.counts["risk_hit_total"]) == (6, 2)


def test_strict_coverage_needs_every_tag_of_the_turn() -> None:
    result = compute_m3_risk_coverage([row("a", "xy", 2), row("a", "xy", 1), row("b", "x", 1)])
    assert result.micro["strict_risk_coverage_rate"] == pytest.approx(2 / 3)
    assert result.macro["strict_risk_coverage_rate"] == pytest.approx((1 / 2 + 1) / 2)


def test_a_tag_required_twice_counts_once() -> None:
    result = compute_m3_risk_coverage([row("a", "xx", 1)])
    assert result.micro == {"risk_coverage": 1.0, "strict_risk_coverage_rate": 1.0}


def test_a_turn_that_requires_nothing_is_not_in_the_denominator() -> None:
    result = compute_m3_risk_coverage(
        [row("a", "", 0), row("a", "x", 1), row("b", "x", 0, eligible_m3=False)]
    )
    assert result.micro["risk_coverage"] == 1.0
    assert [result.counts[f"{name}_count"] for name in ("eligible", "skipped", "failed")] == [1, 2, 0]


def test_failed_turns_are_counted_apart() -> None:
    result = compute_m3_risk_coverage([row("a", "x", 0, turn_status="error"), row("a", "x", 1)])
    assert result.micro["risk_coverage"] == 1.0
    assert result.counts["failed_count"] == 1


def test_unknown_tags_stay_in_the_denominator_and_are_counted() -> None:
    result = compute_m3_risk_coverage([row("a", "x?", 1, risk_unmapped_tags=["?"])])
    assert result.micro["risk_coverage"] == 0.5
    assert result.counts["unmapped_tag_total"] == 1


def test_a_zero_denominator_gives_zero() -> None:
    result = compute_m3_risk_coverage([row("a", "", 0)])
    assert result.micro == result.macro == {"risk_coverage": 0.0, "strict_risk_coverage_rate": 0.0}
    assert result.counts["eligible_count"] == result.counts["eligible_turns"] == 0


@pytest.mark.parametrize(
    "bad", [row("a", "x", 2), row("a", "x", 1, risk_required_tags=None), {"dialog_id": "a"}]
)
def test_a_bad_row_is_counted_and_changes_nothing_else(bad: Any) -> None:
    result = compute_m3_risk_coverage([row("a", "xy", 1), bad])
    assert (result.counts["bad_rows"], result.counts["failed_count"]) == (1, 1)
    assert result.micro["risk_coverage"] == 0.5


def test_plain_rows_count_like_structs() -> None:
    rows = [row("a", "xy", 1), row("b", "x", 1)]
    assert compute_m3_risk_coverage([msgspec.to_builtins(each) for each in rows]) == compute_m3_risk_coverage(
        rows
    )
