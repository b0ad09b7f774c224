"""M2, rule by rule (spec section 6, metrics contract 6.2)."""

from fractions import Fraction
from typing import Any

import msgspec
import pytest

from memfin.contracts import Dialog, DialogTrace, ProfileTruth
from memfin.metrics.m2_profile import compute_m2_profile_accuracy, set_agreement
from tests.support import each_case

TRUTH = ProfileTruth(
    risk_level_gt="稳健",
    horizon_gt="2年以上",
    liquidity_need_gt="高",
    constraints_gt=["不使用杠杆", "最大回撤<10%"],
    preferences_gt=["宽基指数基金", "高等级信用债"],
)
PERFECT = {
    "risk_level": "medium",
    "investment_horizon": "long",
    "liquidity_need": "high",
    "forbidden_assets": ["杠杆"],
    "max_acceptable_loss": 0.1,
    "preferred_topics": ["宽基指数基金", "高等级信用债"],
}


def dialog(dialog_id: str = "d", truth: ProfileTruth = TRUTH) -> Dialog:
    return Dialog(dialog_id=dialog_id, profile_gt=truth, turns=[])


def trace(*snapshots: Any, dialog_id: str = "d", **fields: Any) -> DialogTrace:
    """Return a trace with one turn a snapshot; a pair gives a turn's status as well."""
    turns = []
    for number, given in enumerate(snapshots, 1):
        status, snapshot = given if isinstance(given, tuple) else ("ok", given)
        turns.append(
            {
                "turn_pair_id": number,
                "user_turn_abs_idx": 2 * number - 2,
                "gt_assistant_abs_idx": 2 * number - 1,
                "user_text": "我要稳健",
                "gt_assistant_text": "",
                "gt_turn_tags": {},
                "turn_status": status,
                "profile_snapshot": snapshot,
            }
        )
    plain = {
        "trace_version": "v1",
        "run_id": "r",
        "dialog_id": dialog_id,
        "dataset_index": 1,
        "dialog_status": "ok",
        "valid_dialog": True,
        "turns": turns,
        **fields,
    }
    return msgspec.convert(plain, DialogTrace)


def micro(*snapshots: Any, truth: ProfileTruth = TRUTH) -> dict[str, float]:
    return compute_m2_profile_accuracy([trace(*snapshots)], {"d": dialog(truth=truth)}).micro


def test_a_perfect_profile_scores_one_everywhere() -> None:
    assert set(micro(PERFECT).values()) == {1.0}


@pytest.mark.parametrize(
    ("field", "value", "name"),
    [
        ("risk_level", "low", "risk_level_acc"),
        ("investment_horizon", "short", "horizon_acc"),
        ("liquidity_need", "unknown", "liquidity_acc"),
    ],
)
def test_each_level_is_right_or_wrong(field: str, value: str, name: str) -> None:
    values = micro(PERFECT | {field: value})
    assert values[name] == 0.0
    assert values["profile_score"] == pytest.approx(4 / 5)


def test_constraints_compare_as_predicates() -> None:
    values = micro(PERFECT | {"forbidden_assets": []})  # only max_acceptable_loss 0.1 is left of two
    assert values["constraints_precision"] == 1.0
    assert values["constraints_recall"] == 0.5
    assert values["constraints_f1"] == pytest.approx(2 / 3)


def test_preferences_compare_as_terms() -> None:
    values = micro(PERFECT | {"preferred_topics": ["宽基指数基金", "黄金"]})
    assert values["preferences_precision"] == 0.5
    assert values["preferences_recall"] == 0.5
    assert values["preferences_f1"] == 0.5


@pytest.mark.parametrize(
    ("predicted", "truth", "expected"),
    [
        (set(), set(), (1, 1, 1)),
        (set(), {"a"}, (0, 0, 0)),
        ({"a"}, set(), (0, 0, 0)),
        ({"a"}, {"b"}, (0, 0, 0)),
        ({"a", "b", "c"}, {"a", "d"}, (Fraction(1, 3), Fraction(1, 2), Fraction(2, 5))),
    ],
)
def test_sets_agree_by_precision_recall_and_f1(
    predicted: set[str], truth: set[str], expected: tuple[Fraction, ...]
) -> None:
    assert set_agreement(predicted, truth) == expected


def test_only_the_last_snapshot_counts() -> None:
    assert micro(PERFECT, {})["profile_score"] == 0.0
    assert micro({}, PERFECT)["profile_score"] == 1.0


def test_a_snapshot_of_a_failed_turn_does_not_count() -> None:
    assert micro(PERFECT, ("error", {}))["profile_score"] == 1.0
    assert micro({}, ("timeout", PERFECT))["profile_score"] == 0.0


def test_an_answered_turn_without_a_snapshot_leaves_the_last_one() -> None:
    assert micro(PERFECT, None)["profile_score"] == 1.0


@pytest.mark.parametrize("snapshots", [(), (None,), (None, ("error", PERFECT))])
def test_no_snapshot_is_an_empty_prediction_in_the_denominator(snapshots: tuple[Any, ...]) -> None:
    result = compute_m2_profile_accuracy([trace(*snapshots)], {"d": dialog()})
    assert set(result.micro.values()) == {0.0}
    assert (result.counts["eligible_count"], result.counts["no_snapshot_count"]) == (1, 1)


def test_nothing_of_the_truth_leaks_into_the_prediction() -> None:
    # The user's words and the trace's own copy of the truth both say the right level.
    own = msgspec.to_builtins(TRUTH)
    result = compute_m2_profile_accuracy([trace({}, profile_gt=own)], {"d": dialog()})
    assert set(result.micro.values()) == {0.0}


def test_the_true_profile_of_a_trace_is_used_where_the_dataset_has_none() -> None:
    result = compute_m2_profile_accuracy([trace(PERFECT, profile_gt=msgspec.to_builtins(TRUTH))], {})
    assert result.micro["profile_score"] == 1.0


@pytest.mark.parametrize("missing", ["risk_level_gt", "horizon_gt", "liquidity_need_gt"])
def test_an_incomplete_true_profile_leaves_the_denominator(missing: str) -> None:
    result = compute_m2_profile_accuracy(
        [trace(PERFECT)], {"d": dialog(truth=TRUTH.replace(**{missing: None}))}
    )
    assert [result.counts[f"{name}_count"] for name in ("eligible", "skipped", "failed")] == [0, 1, 0]


def test_empty_lists_are_a_complete_profile() -> None:
    truth = TRUTH.replace(constraints_gt=[], preferences_gt=[])
    snapshot = {key: PERFECT[key] for key in ("risk_level", "investment_horizon", "liquidity_need")}
    assert micro(snapshot, truth=truth)["profile_score"] == 1.0
    assert micro(PERFECT, truth=truth)["profile_score"] == pytest.approx(3 / 5)


@pytest.mark.parametrize(
    ("fields", "expected"),
    [
        ({"dialog_status": "failed"}, [1, 0, 1]),
        ({"dialog_status": "skipped", "valid_dialog": False, "skip_reason": "missing_turns"}, [1, 1, 0]),
        ({"valid_dialog": False}, [1, 1, 0]),
        ({"dialog_status": "partial"}, [2, 0, 0]),
    ],
)
def test_invalid_and_failed_dialogues_leave_the_denominator(
    fields: dict[str, Any], expected: list[int]
) -> None:
    traces = [trace(PERFECT, dialog_id="good"), trace({}, **fields)]
    result = compute_m2_profile_accuracy(traces, {"d": dialog(), "good": dialog("good")})
    assert [result.counts[f"{name}_count"] for name in ("eligible", "skipped", "failed")] == expected
    assert result.micro["profile_score"] == (1.0 if expected[0] == 1 else 0.5)


def test_micro_and_macro_are_the_mean_over_dialogues() -> None:
    traces = [trace(PERFECT, dialog_id="a"), trace({}, dialog_id="b"), trace({}, dialog_id="c")]
    result = compute_m2_profile_accuracy(traces, {name: dialog(name) for name in "abc"})
    assert result.micro["profile_score"] == result.macro["profile_score"] == pytest.approx(1 / 3)
    assert result.by_dialog["a"]["profile_score"] == 1.0
    assert list(result.by_dialog) == ["a", "b", "c"]
    low, high = result.ci95["profile_score"]
    assert 0 < low < 1 / 3 < high < 1


def test_a_zero_denominator_gives_zero() -> None:
    result = compute_m2_profile_accuracy([], {})
    assert set(result.micro.values()) == {0.0}
    assert result.counts["eligible_count"] == 0


@each_case(
    "bad",
    [None, 3, {}, {"dialog_id": ["d"]}, {"dialog_id": "d", "trace_version": "v1"}, trace(trace_version="v2")],
)
def test_a_trace_that_is_none_is_counted_and_changes_nothing_else(bad: Any) -> None:
    result = compute_m2_profile_accuracy([trace(PERFECT), bad], {"d": dialog()})
    assert (result.counts["bad_rows"], result.counts["failed_count"]) == (1, 1)
    assert result.micro["profile_score"] == 1.0


def test_a_true_profile_of_another_shape_is_counted() -> None:
    result = compute_m2_profile_accuracy([trace(PERFECT)], {"d": {"profile_gt": {"constraints_gt": "无"}}})
    assert result.counts["bad_rows"] == 1


def test_plain_data_counts_like_structs() -> None:
    plain = [msgspec.to_builtins(trace(PERFECT | {"risk_level": "low"}))]
    expected = compute_m2_profile_accuracy([trace(PERFECT | {"risk_level": "low"})], {"d": dialog()})
    assert compute_m2_profile_accuracy(plain, {"d": msgspec.to_builtins(dialog())}) == expected
