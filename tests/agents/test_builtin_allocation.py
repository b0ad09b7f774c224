"""Example weights keep every constraint that weights can express."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from memfin.agents.builtin.allocation import BOND_FALL, STOCK_FALL, Allocation, allocate, vehicles
from memfin.agents.builtin.clauses import read_clauses
from memfin.agents.builtin.extraction import extract
from memfin.agents.builtin.profile import ClientProfile, Constraint, Level, Preference
from memfin.agents.builtin.rules import profile_rules

ZH = profile_rules("zh")
COMMON = {
    "cash": ["货币基金", "存款"],
    "bond": ["债券基金", "国债"],
    "equity": ["宽基指数基金", "分散持有的股票"],
}


def client(*turns: str) -> ClientProfile:
    profile = ClientProfile()
    for text in turns:
        profile = profile.after(extract(read_clauses(text, ZH), ZH))
    return profile


def weights(*turns: str) -> dict[str, int]:
    result = allocate(client(*turns), ZH).weights
    assert result is not None
    return result


def test_level_sets_the_target() -> None:
    shares = [weights(f"我{word}，这笔钱五年不用")["equity"] for word in ("比较保守", "稳健", "比较进取")]
    assert shares == [15, 35, 65]


def test_money_needed_soon_stays_out_of_stocks() -> None:
    assert weights("我比较进取，这笔钱半年内要用") == {"cash": 70, "bond": 30, "equity": 0}


def test_unknown_level_and_horizon_are_assumed_cautiously_and_named() -> None:
    result = allocate(ClientProfile(), ZH)
    assert result.assumed == ["risk_level", "horizon"]
    assert result.weights == {"cash": 20, "bond": 73, "equity": 7}


def test_drawdown_limits_stocks_by_the_stress_case() -> None:
    result = allocate(client("我比较进取，五年不用这笔钱，最大回撤不超过12%"), ZH)
    assert result.weights is not None
    assert result.stress_loss <= 12
    more = STOCK_FALL * (result.weights["equity"] + 1) + BOND_FALL * 0
    assert more + BOND_FALL * result.weights["bond"] > 11


def test_no_loss_at_all_leaves_cash() -> None:
    assert weights("我比较进取，绝对不能亏本金") == {"cash": 100, "bond": 0, "equity": 0}


def test_banned_and_only_classes() -> None:
    assert weights("我比较进取，五年不用这笔钱，股票我不碰")["equity"] == 0
    assert weights("我比较进取，五年不用这笔钱，只买债券")["equity"] == 0
    assert weights("我比较进取，五年不用这笔钱，不买可转债")["equity"] == 65
    assert weights("我比较进取，五年不用这笔钱，只买基金")["equity"] == 65


def test_floors_above_the_target_are_met() -> None:
    assert weights("我比较保守，五年不用这笔钱，股票至少30%")["equity"] == 30
    assert weights("我比较进取，五年不用这笔钱，现金不低于40%")["cash"] == 40


def test_contradictory_constraints_give_no_weights_but_their_words() -> None:
    result = allocate(client("现金不低于60%，债券至少50%"), ZH)
    assert result.weights is None
    assert result.conflicting == ["现金不低于60%", "债券至少50%"]


def test_single_cap_says_how_many_positions_each_class_needs() -> None:
    result = allocate(client("我比较进取，五年不用这笔钱，单只基金不超过20%"), ZH)
    assert result.weights == {"cash": 10, "bond": 25, "equity": 65}
    assert [split.positions for split in result.splits] == [{"bond": 2, "equity": 4}]


def test_what_weights_cannot_express_is_named_for_checking() -> None:
    result = allocate(client("债券评级要AA+以上，留6个月生活费，不使用杠杆"), ZH)
    assert result.unchecked == ["评级要AA+以上", "留6个月生活费"]


SHARES = ("max_drawdown", "cash_floor", "cap:股票", "cap:债券", "floor:股票", "floor:债券", "cap:货币基金")
percents = st.one_of(st.none(), st.sampled_from([0.0, 0.05, 0.1, 0.125, 0.2, 1 / 3, 0.5, 0.75, 1.0]))


@given(
    st.sampled_from([None, "low", "medium", "high"]),
    st.sampled_from([None, "short", "medium", "long"]),
    st.sampled_from([None, "high"]),
    st.fixed_dictionaries(
        dict.fromkeys(
            (
                "max_drawdown",
                "cash_floor",
                "cap:股票",
                "cap:债券",
                "floor:股票",
                "floor:债券",
                "cap:货币基金",
            ),
            percents,
        )
    ),
    st.sets(st.sampled_from(["股票", "债券", "可转债", "杠杆"])),
)
def test_weights_are_whole_sum_to_one_hundred_and_keep_every_constraint(
    level: str | None,
    horizon: str | None,
    liquidity: str | None,
    shares: dict[str, float | None],
    banned: set[str],
) -> None:
    constraints = [Constraint(words=asset, kind="forbidden", asset=asset) for asset in sorted(banned)]
    for name, share in shares.items():
        if share is not None:
            kind, _, asset = name.partition(":")
            constraints.append(
                Constraint(
                    words=name,
                    kind={"cap": "class_cap", "floor": "class_floor"}.get(kind, kind),
                    asset=asset or None,
                    amount=share,
                )
            )
    profile = ClientProfile(
        risk_level=Level(value=level, words="") if level else None,
        horizon=Level(value=horizon, words="") if horizon else None,
        liquidity_need=Level(value=liquidity, words="") if liquidity else None,
        constraints=constraints,
    )
    result = allocate(profile, ZH)
    if result.weights is None:
        assert not any(keeps(shares, banned, cash, bond) for cash in range(101) for bond in range(101 - cash))
        return
    assert sum(result.weights.values()) == 100
    assert keeps(shares, banned, result.weights["cash"], result.weights["bond"])
    check_stress(result, shares["max_drawdown"])


def keeps(shares: dict[str, float | None], banned: set[str], cash: int, bond: int) -> bool:
    """Say, constraint by constraint, whether whole weights keep what the client asked for."""
    equity = 100 - cash - bond
    small = 1e-6
    caps = {"cap:股票": equity, "cap:债券": bond, "cap:货币基金": cash}
    floors = {"cash_floor": cash, "floor:股票": equity, "floor:债券": bond}
    loss = shares["max_drawdown"]
    return (
        min(cash, bond, equity) >= 0
        and all((cap := shares[name]) is None or has <= 100 * cap + small for name, has in caps.items())
        and all((floor := shares[name]) is None or has >= 100 * floor - small for name, has in floors.items())
        and (loss is None or STOCK_FALL * equity + BOND_FALL * bond <= 100 * loss + small)
        and not ("股票" in banned and equity)
        and not ("债券" in banned and bond)
    )


def check_stress(result: Allocation, limit: float | None) -> None:
    assert result.weights is not None
    stress = STOCK_FALL * result.weights["equity"] + BOND_FALL * result.weights["bond"]
    assert result.stress_loss == pytest.approx(stress)
    if limit is not None:
        assert stress <= 100 * limit + 1e-6


def test_vehicles_follow_preferences_and_avoid_what_is_ruled_out() -> None:
    liked = client("我喜欢沪深300指数基金和国债")
    assert vehicles(liked, ZH, COMMON) == {"cash": "货币基金", "bond": "国债", "equity": "沪深300指数基金"}
    assert vehicles(client("我不买基金"), ZH, COMMON) == {
        "cash": "存款",
        "bond": "国债",
        "equity": "分散持有的股票",
    }
    stale = ClientProfile(
        preferences=[Preference(words="国债", asset="国债")],
        constraints=[Constraint(words="不买国债", kind="forbidden", asset="国债")],
    )
    assert vehicles(stale, ZH, COMMON)["bond"] == "债券基金"
