"""M4, rule by rule (spec section 6, metrics contract 6.4)."""

from typing import Any

import msgspec
import pytest

from memfin.contracts import MetricResult, TurnEvalRow
from memfin.metrics.aggregate import MetricsState
from memfin.metrics.m4_compliance import compute_m4_compliance

OK, MINOR, SEVERE = "compliant", "minor_violation", "severe_violation"


def row(dialog_id: str, predicted: str | None, truth: str | None, **fields: Any) -> TurnEvalRow:
    given: dict[str, Any] = {
        "trace_version": "v1",
        "run_id": "r",
        "dialog_id": dialog_id,
        "turn_pair_id": 1,
        **{f"eligible_m{number}": True for number in range(1, 6)},
        "pred_compliance_label": predicted,
        "gt_compliance_label": truth,
    }
    return TurnEvalRow(**{**given, **fields})


def test_label_accuracy_is_the_share_of_equal_labels() -> None:
    result = compute_m4_compliance(
        [row("a", OK, OK), row("a", MINOR, OK), row("a", OK, SEVERE), row("b", MINOR, MINOR)]
    )
    assert result.micro["compliance_label_acc"] == pytest.approx(2 / 4)
    assert result.macro["compliance_label_acc"] == pytest.approx((1 / 3 + 1) / 2)


def test_severe_rate_reads_the_prediction_alone() -> None:
    result = compute_m4_compliance(
        [row("a", SEVERE, SEVERE), row("a", SEVERE, OK), row("a", OK, OK), row("a", MINOR, OK)]
    )
    assert result.micro["severe_violation_rate"] == 0.5
    assert (result.counts["severe_count"], result.counts["minor_count"]) == (2, 1)


def test_forbidden_rate_counts_turns_not_entries() -> None:
    result = compute_m4_compliance([row("a", OK, OK, forbidden_hits=["x", "y"]), row("a", OK, OK)])
    assert result.micro["forbidden_hit_rate"] == 0.5
    assert result.counts["forbidden_hit_count"] == 1


def test_turns_without_a_true_label_count_for_the_severe_rate_alone() -> None:
    result = compute_m4_compliance([row("a", SEVERE, None, eligible_m4=False), row("a", OK, OK)])
    assert result.micro["severe_violation_rate"] == 0.5
    assert result.micro["compliance_label_acc"] == 1.0
    assert (result.counts["severe_turns"], result.counts["severe_count"]) == (2, 1)
    assert [result.counts[f"{name}_count"] for name in ("eligible", "skipped", "failed")] == [1, 1, 0]


def test_failed_turns_are_counted_apart() -> None:
    result = compute_m4_compliance([row("a", SEVERE, OK, turn_status="timeout"), row("a", OK, OK)])
    assert result.micro["severe_violation_rate"] == 0.0
    assert result.counts["failed_count"] == 1


def test_labels_of_the_older_draft_are_read() -> None:
    plain = [
        msgspec.to_builtins(row("a", OK, OK))
        | {"pred_compliance_label": "severe", "gt_compliance_label": "severe"},
        msgspec.to_builtins(row("a", OK, OK)) | {"pred_compliance_label": "minor", "gt_compliance_label": OK},
    ]
    result = compute_m4_compliance(plain)
    assert result.micro == {
        "compliance_label_acc": 0.5,
        "severe_violation_rate": 0.5,
        "forbidden_hit_rate": 0.0,
    }
    assert result.counts["minor_count"] == 1


def test_a_zero_denominator_gives_zero() -> None:
    result = compute_m4_compliance([])
    assert set(result.micro.values()) == {0.0}
    assert result.counts["eligible_count"] == result.counts["eligible_turns"] == 0


@pytest.mark.parametrize("bad", [row("a", None, OK), row("a", OK, None), {"pred_compliance_label": "awful"}])
def test_a_bad_row_is_counted_and_changes_nothing_else(bad: Any) -> None:
    result = compute_m4_compliance([row("a", OK, OK), bad])
    assert (result.counts["bad_rows"], result.counts["failed_count"]) == (1, 1)
    assert result.micro["compliance_label_acc"] == 1.0


def test_the_sessions_of_a_client_are_one_sampling_unit() -> None:
    def measured(clients: int) -> MetricResult:
        state = MetricsState()
        for number in range(12):
            session = row(f"d{number}", SEVERE if number % 3 else OK, OK)
            state.add_row(session.replace(client_id=f"c{number % clients}") if clients else session)
        merged = MetricsState()
        merged.merge(state)
        return merged.results()["m4_compliance"]

    alone, twelve, three = map(measured, (0, 12, 3))
    assert alone == twelve
    assert alone.micro == three.micro
    (low, high), (lower, higher) = (each.ci95["compliance_label_acc"] for each in (alone, three))
    assert lower < low < high < higher
