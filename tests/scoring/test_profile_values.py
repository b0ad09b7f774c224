"""Profiles in canonical form: levels, horizons, sets, and what a snapshot says."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from memfin.contracts import ProfileTruth
from memfin.scoring.predicates import ForbiddenAsset, ForbiddenPractice, MaxDrawdown
from memfin.scoring.profile import (
    canonical_horizon,
    canonical_level,
    constraint_terms,
    preference_terms,
    snapshot_values,
    truth_values,
)
from tests.support import each_case


@pytest.mark.parametrize(
    ("expected", "values"),
    [
        ("low", ["保守", "保守型", "低", "low", "LOW", "conservative", "R1", "C2", "谨慎型", "中低"]),
        ("medium", ["稳健", "稳健型", "平衡型", "中", "medium", "balanced", "R3", "中等"]),
        ("high", ["进取", "进取型", "激进", "高", "high", "aggressive", "R5", "积极型", "中高"]),
        (None, ["unknown", "", None, "null", "N/A", "未知", 3, True, {"value": "low"}]),
    ],
)
def test_levels(expected: str | None, values: list[object]) -> None:
    assert [canonical_level(value) for value in values] == [expected] * len(values)


@pytest.mark.parametrize(
    ("expected", "values"),
    [
        ("short", ["<=6月", "半年以内", "short", "短期", "3 months", "6个月以内", 0.5]),
        ("medium", ["6-24月", "medium", "中期", "一年左右", "1-2年", "12 months", 1]),
        ("long", ["2年以上", "long", "长期持有", "3 years", "3-5年", "5年", "中长期", 3]),
        (None, ["unknown", "", None, "未明确", 0, True]),
    ],
)
def test_horizons(expected: str | None, values: list[object]) -> None:
    assert [canonical_horizon(value) for value in values] == [expected] * len(values)


@each_case("loss", [0.1, 10, 10.0, "10%", "0.1", -0.1, "10%以内", "一成"])
def test_the_acceptable_loss_matches_the_drawdown_constraint(loss: object) -> None:
    snapshot = snapshot_values({"max_acceptable_loss": loss})
    assert snapshot.constraints == constraint_terms(["最大回撤<10%"]) == {MaxDrawdown(0.1)}


@pytest.mark.parametrize("asset", ["leverage", "杠杆", "不使用杠杆", "Leverage", "no leverage"])
def test_a_forbidden_asset_matches_its_constraint(asset: str) -> None:
    snapshot = snapshot_values({"forbidden_assets": [asset]})
    assert snapshot.constraints == constraint_terms(["不使用杠杆"]) == {ForbiddenPractice("leverage")}


def test_a_whole_snapshot_equals_its_truth() -> None:
    truth = truth_values(
        ProfileTruth(
            risk_level_gt="稳健",
            horizon_gt="2年以上",
            liquidity_need_gt="高",
            constraints_gt=["最大回撤<10%", "不使用杠杆", "不买ST及*ST股票"],
            preferences_gt=["宽基指数基金", "高等级信用债"],
        )
    )
    snapshot = snapshot_values(
        {
            "user_id": "u1",
            "risk_level": "medium",
            "investment_horizon": "long",
            "liquidity_need": "high",
            "preferred_topics": ["宽基ETF", "investment-grade bonds"],
            "forbidden_assets": ["leverage", "ST"],
            "max_acceptable_loss": 0.1,
        }
    )
    assert snapshot == truth


def test_an_empty_snapshot_predicts_nothing() -> None:
    empty = snapshot_values(
        {
            "risk_level": "unknown",
            "investment_horizon": "unknown",
            "liquidity_need": None,
            "preferred_topics": [],
            "forbidden_assets": [],
            "max_acceptable_loss": None,
        }
    )
    assert empty == snapshot_values({}) == (None, None, None, frozenset(), frozenset())


def test_no_constraint_is_the_empty_set() -> None:
    assert constraint_terms(["无明确约束"]) == frozenset()
    assert snapshot_values({"forbidden_assets": ["无"]}).constraints == frozenset()


def test_unknown_terms_stay_as_text_and_still_compare() -> None:
    assert constraint_terms(["不买殡葬公司"]) == {ForbiddenAsset("殡葬公司")}
    assert snapshot_values({"forbidden_assets": ["殡葬公司"]}).constraints == constraint_terms(
        ["不买殡葬公司"]
    )
    assert preference_terms(["可爱的债 券梯"]) == preference_terms(["可爱的债券梯"])


@each_case("value", [float("nan"), 0, -0.0, 1000, "没有", [], {}])
def test_a_meaningless_loss_is_no_constraint(value: object) -> None:
    assert snapshot_values({"max_acceptable_loss": value}).constraints == frozenset()


@given(
    st.dictionaries(
        st.sampled_from(
            [
                "risk_level",
                "investment_horizon",
                "forbidden_assets",
                "preferred_topics",
                "max_acceptable_loss",
            ]
        ),
        st.none()
        | st.booleans()
        | st.integers()
        | st.floats()
        | st.text(max_size=12)
        | st.lists(st.text(max_size=6), max_size=3),
    )
)
def test_any_snapshot_is_read_without_errors(snapshot: dict[str, object]) -> None:
    assert snapshot_values(snapshot) == snapshot_values(dict(reversed(list(snapshot.items()))))


def test_integers_that_no_float_can_hold_are_read_like_any_large_number() -> None:
    huge = 10**400
    values = snapshot_values({"investment_horizon": huge, "max_acceptable_loss": huge})
    assert values.horizon == "long"
    assert values.constraints == frozenset()
    assert snapshot_values({"max_acceptable_loss": -huge}).constraints == frozenset()
