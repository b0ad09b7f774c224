"""The built-in agent's reading of a client, and example weights that keep what the client asked for."""

from typing import Any

import msgspec
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from memfin.agents.builtin.agent import BOND_FALL, STOCK_FALL, allocate
from memfin.agents.builtin.memory import detect_language
from memfin.agents.builtin.profile import (
    ClientProfile,
    Constraint,
    extract,
    position_lines,
    profile_rules,
    profile_snapshot,
    read_clauses,
)
from memfin.contracts import Language
from memfin.scoring import predicates as kinds
from tests.support import each_case


def heard(*turns: str) -> ClientProfile:
    profile = ClientProfile()
    for text in turns:
        rules = profile_rules(detect_language(text, "en" if text.isascii() else "zh"))
        profile = profile.after(extract(read_clauses(text, rules), rules, profile))
    return profile


def seen(*turns: str) -> dict[str, Any]:
    return profile_snapshot(heard(*turns), profile_rules("zh"))


@each_case(
    ("text", "field", "value"),
    [
        ("我属于保守型", "risk_level", "low"),
        ("说实话我不想亏钱", "risk_level", "low"),
        ("稳健一点吧", "risk_level", "medium"),
        ("我能承受较大波动", "risk_level", "high"),
        ("I'm fairly conservative.", "risk_level", "low"),
        ("I can accept moderate risk.", "risk_level", "medium"),
        ("Aggressive.", "risk_level", "high"),
        ("这笔钱三年不用", "investment_horizon", "long"),
        ("这笔钱半年内要用", "investment_horizon", "short"),
        ("我打算持有十八个月", "investment_horizon", "medium"),
        ("投资期限2年以上", "investment_horizon", "long"),
        ("I won't need it for five years.", "investment_horizon", "long"),
        ("We need the money within six months.", "investment_horizon", "short"),
        ("我炒股八年了", "investment_horizon", "unknown"),
        ("十年期国债跌了", "investment_horizon", "unknown"),
        ("I have worked for ten years.", "investment_horizon", "unknown"),
        ("钱随时要用", "liquidity_need", "high"),
        ("流动性需求一般", "liquidity_need", "medium"),
        ("I can lock the money away.", "liquidity_need", "low"),
        ("我总共有40万", "principal", 400000.0),
        ("I have $50,000 to invest.", "principal", 50000.0),
    ],
)
def test_slots_are_filled_from_words_and_paraphrases(text: str, field: str, value: object) -> None:
    assert seen(text)[field] == value


@each_case(
    ("text", "constraints"),
    [
        (
            "我不使用杠杆，最大回撤<12%，还要保留25%现金应急",
            ["不使用杠杆", "最大回撤<12%", "保留25%现金应急"],
        ),
        ("股票我不碰，单只基金别超过20%", ["股票我不碰", "单只基金别超过20%"]),
        ("我只买基金", ["只买基金"]),
        ("No leverage, and keep at least 20% in cash.", ["No leverage", "keep at least 20% in cash"]),
    ],
)
def test_constraints_are_kept_in_the_clients_words(text: str, constraints: list[str]) -> None:
    assert seen(text)["constraints"] == constraints


@each_case(
    ("text", "loss"),
    [
        ("最大回撤不能超过8%", 0.08),
        ("最大回撤＜１０％", 0.1),
        ("我总共有40万，最多亏2万", 0.05),
        ("绝对不能亏本金", 0.0),
        ("I can lose up to 7%.", 0.07),
        ("我总共有4万，最多亏5万", None),
        ("最大回撤不超过300%", None),
    ],
)
def test_largest_acceptable_loss_is_a_fraction(text: str, loss: float | None) -> None:
    assert seen(text)["max_acceptable_loss"] == loss


@each_case(
    "text",
    [
        "保守型投资者是什么意思？",
        "为什么不能用杠杆？",
        "我朋友很保守，只买国债",
        "经理说不要买股票",
        "如果我比较激进，会买期货",
        "央行实行稳健的货币政策",
        "我觉得这个方案太保守了",
        "这只基金最大回撤是30%",
        "我太太喜欢黄金",
        "我不是不买股票",
        "My friend is aggressive and loves crypto.",
        "If I were aggressive, I would buy futures.",
        "Should I avoid leverage?",
        "A conservative estimate would be 3%.",
        "你好",
    ],
)
def test_questions_suppositions_and_other_people_state_nothing(text: str) -> None:
    assert seen(text) == {
        "risk_level": "unknown",
        "investment_horizon": "unknown",
        "liquidity_need": "unknown",
        "preferred_topics": [],
        "forbidden_assets": [],
        "max_acceptable_loss": None,
        "constraints": [],
        "principal": None,
    }


def test_later_statements_override_and_withdraw_earlier_ones() -> None:
    profile = seen("我偏保守，最大回撤不超过5%", "我之前说保守，其实更偏稳健", "回撤可以放宽到15%")
    assert profile["risk_level"] == "medium"
    assert profile["constraints"] == ["回撤可以放宽到15%"]
    assert seen("我比较激进", "其实我不是激进型")["risk_level"] == "unknown"
    assert seen("我不用杠杆，也不碰股票")["forbidden_assets"] == ["杠杆", "股票"]
    assert seen("我不用杠杆，也不碰股票", "股票现在可以买一点")["forbidden_assets"] == ["杠杆"]
    assert seen("我喜欢可转债", "我不喜欢可转债了")["preferred_topics"] == []
    assert seen("我喜欢国债和黄金", "我还是喜欢国债")["preferred_topics"] == ["黄金", "国债"]
    assert seen("我喜欢黄金", "以后不买黄金")["preferred_topics"] == []


def test_preferences_are_the_investments_named_after_a_liking() -> None:
    assert seen("我喜欢红利指数基金、短债基金和国债")["preferred_topics"] == [
        "红利指数基金",
        "短债基金",
        "国债",
    ]
    assert seen("I prefer index funds and gold.")["preferred_topics"] == ["index funds", "gold"]


def test_lines_are_labelled_in_canonical_words() -> None:
    profile = heard("我比较保守，这笔钱五年不用，不使用杠杆，我喜欢国债，最大回撤不超过6%")
    assert position_lines(profile, profile_rules("zh")) == [
        "投资期限: 2年以上",
        "风险等级: 保守",
        "可接受的最大亏损: 6%",
        "偏好: 国债",
    ]


@pytest.mark.parametrize(
    "text",
    [
        "最大回撤" + "改成控制在" * 110 + "10%",
        "其实是" * 190 + "保守",
        "可以一点点" * 110 + "杠杆",
        "no more than " * 45 + "%",
        "我" + "不碰股票，" * 400,
    ],
)
def test_repetition_does_not_make_reading_explode(text: str) -> None:
    assert isinstance(seen(text), dict)


CHINESE_PARTS = [
    "我",
    "不",
    "保守",
    "最大回撤",
    "不超过",
    "10%",
    "三年",
    "，",
    "。",
    "？",
    "杠杆",
    "喜欢",
    "、",
    "50万",
]
ENGLISH_PARTS = [
    "I",
    " don't ",
    "buy ",
    "stocks",
    ", ",
    "at most ",
    "5% ",
    "prefer ",
    "gold",
    "9" * 26,
    "成",
    "\n",
]


@given(st.lists(st.sampled_from(CHINESE_PARTS + ENGLISH_PARTS), max_size=20), st.sampled_from(["zh", "en"]))
def test_any_words_give_a_finite_profile(parts: list[str], language: Language) -> None:
    rules = profile_rules(language)
    profile = ClientProfile()
    profile = profile.after(extract(read_clauses("".join(parts), rules), rules, profile))
    snapshot = profile_snapshot(profile, rules)
    assert msgspec.json.decode(msgspec.json.encode(snapshot)) == snapshot
    loss = snapshot["max_acceptable_loss"]
    assert loss is None or 0.0 <= loss <= 1.0


@pytest.mark.parametrize(
    ("text", "default", "language"),
    [
        ("我想买ETF", "en", "zh"),
        ("What about bonds then", "zh", "en"),
        ("ETF?", "zh", "zh"),
        ("ETF?", "en", "en"),
        ("", "en", "en"),
    ],
)
def test_language_is_that_of_the_words_when_they_show_it(text: str, default: Language, language: str) -> None:
    assert detect_language(text, default) == language


def weights(*turns: str) -> dict[str, int]:
    found = allocate(heard(*turns))
    assert found is not None
    return found


def test_weights_follow_level_and_horizon_and_give_way_to_constraints() -> None:
    shares = [weights(f"我{word}，这笔钱五年不用")["equity"] for word in ("比较保守", "稳健", "比较进取")]
    assert shares == [15, 35, 65]
    assert weights("我比较进取，这笔钱半年内要用")["equity"] == 0
    assert weights("我比较进取，绝对不能亏本金") == {"cash": 100, "bond": 0, "equity": 0}
    assert weights("我比较进取，五年不用这笔钱，股票我不碰")["equity"] == 0
    assert weights("我比较进取，五年不用这笔钱，不买可转债")["equity"] == 65
    assert weights("我比较保守，五年不用这笔钱，股票至少30%")["equity"] == 30
    assert weights("我比较进取，五年不用这笔钱，现金不低于40%")["cash"] == 40
    assert allocate(heard("现金不低于60%，债券至少50%")) is None


percents = st.one_of(st.none(), st.sampled_from([0.0, 0.05, 0.1, 0.125, 0.2, 1 / 3, 0.5, 0.75, 1.0]))


@settings(max_examples=30, deadline=None)
@given(
    st.sampled_from([None, "low", "medium", "high"]),
    st.sampled_from([None, "short", "medium", "long"]),
    st.tuples(*[percents] * 5),
    st.booleans(),
)
def test_weights_are_whole_sum_to_one_hundred_and_keep_every_constraint(
    level: str | None,
    horizon: str | None,
    shares: tuple[float | None, float | None, float | None, float | None, float | None],
    banned: bool,
) -> None:
    loss, cash_floor, stock_cap, bond_cap, stock_floor = shares
    made: list[kinds.Predicate] = [kinds.ForbiddenAsset("stocks")] if banned else []
    made += [kinds.MaxDrawdown(loss)] if loss is not None else []
    made += [kinds.CashFloor(share=cash_floor)] if cash_floor is not None else []
    made += [kinds.AssetClassCap("equity", stock_cap)] if stock_cap is not None else []
    made += [kinds.AssetClassCap("bond", bond_cap)] if bond_cap is not None else []
    made += [kinds.AssetClassFloor("equity", stock_floor)] if stock_floor is not None else []
    levels = {name: value for name, value in (("risk_level", level), ("horizon", horizon)) if value}
    constraints = [Constraint(words=str(each), predicate=each) for each in made]
    found = allocate(ClientProfile(levels=levels, constraints=constraints))

    def keeps(cash: int, bond: int) -> bool:
        equity, slack = 100 - cash - bond, 1e-6
        return (
            (loss is None or STOCK_FALL * equity + BOND_FALL * bond <= 100 * loss + slack)
            and (cash_floor is None or cash >= 100 * cash_floor - slack)
            and (stock_cap is None or equity <= 100 * stock_cap + slack)
            and (bond_cap is None or bond <= 100 * bond_cap + slack)
            and (stock_floor is None or equity >= 100 * stock_floor - slack)
            and not (banned and equity)
        )

    if found is None:
        assert not any(keeps(cash, bond) for cash in range(101) for bond in range(101 - cash))
    else:
        assert sum(found.values()) == 100
        assert min(found.values()) >= 0
        assert keeps(found["cash"], found["bond"])
