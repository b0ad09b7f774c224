"""The builtin agent's reading of a client: her own statements, all of them, and nothing else."""

from typing import Any

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from memfin.agents.builtin.clauses import detect_language, read_clauses
from memfin.agents.builtin.extraction import extract
from memfin.agents.builtin.profile import ClientProfile, profile_lines, profile_snapshot
from memfin.agents.builtin.rules import profile_rules
from memfin.contracts import Language
from tests.support import each_case


def heard(*turns: str) -> ClientProfile:
    profile = ClientProfile()
    for text in turns:
        rules = profile_rules(detect_language(text, "en" if text.isascii() else "zh"))
        profile = profile.after(extract(read_clauses(text, rules), rules))
    return profile


def seen(*turns: str) -> dict[str, Any]:
    return profile_snapshot(heard(*turns))


@each_case(
    ("text", "level"),
    [
        ("我属于保守型", "low"),
        ("说实话我不想亏钱", "low"),
        ("太大的跌幅不行，我承受不了大波动", "low"),
        ("风险承受能力比较弱", "low"),
        ("稳健一点吧", "medium"),
        ("我可以接受小幅波动", "medium"),
        ("我能承受较大波动", "high"),
        ("我不怕短期下跌，偏进取", "high"),
        ("I'm fairly conservative.", "low"),
        ("I don't want to lose money.", "low"),
        ("I can accept moderate risk.", "medium"),
        ("I am willing to take high risk.", "high"),
        ("Aggressive.", "high"),
    ],
)
def test_risk_level_is_read_from_words_and_paraphrases(text: str, level: str) -> None:
    assert seen(text)["risk_level"] == level


@each_case(
    ("text", "horizon"),
    [
        ("这笔钱三年不用", "long"),
        ("这笔钱半年内要用", "short"),
        ("我打算持有十八个月", "medium"),
        ("投资期限2年以上", "long"),
        ("两年内就要买房付首付", "medium"),
        ("半年不用这笔钱", "medium"),
        ("大概四年后要用来装修", "long"),
        ("我准备放3-5年", "long"),
        ("I won't need it for five years.", "long"),
        ("We need the money within six months.", "short"),
        ("I plan to invest for 12 to 18 months.", "medium"),
    ],
)
def test_horizon_is_read_from_when_the_money_is_needed(text: str, horizon: str) -> None:
    assert seen(text)["investment_horizon"] == horizon


@each_case(
    "text",
    [
        "我炒股八年了",
        "过去三年收益怎么样我不清楚",
        "十年期国债跌了",
        "2030年再说",
        "其中一部分我半年内要用",
        "I have worked for ten years.",
        "The fund gained 5% a year over the past 3 years.",
    ],
)
def test_other_durations_are_no_horizon(text: str) -> None:
    assert seen(text)["investment_horizon"] == "unknown"


@each_case(
    ("text", "need"),
    [
        ("钱随时要用", "high"),
        ("我对流动性要求不高", "low"),
        ("都是闲钱", "low"),
        ("流动性需求一般", "medium"),
        ("I may need the money at short notice.", "high"),
        ("I can lock the money away.", "low"),
    ],
)
def test_liquidity_need(text: str, need: str) -> None:
    assert seen(text)["liquidity_need"] == need


@each_case(
    ("text", "constraints"),
    [
        (
            "我不使用杠杆，最大回撤<12%，还要保留25%现金应急",
            ["不使用杠杆", "最大回撤<12%", "保留25%现金应急"],
        ),
        ("股票我不碰，期货、期权也别推荐", ["股票我不碰"]),
        ("不碰期货和期权", ["不碰期货", "不碰期权"]),
        ("绝不买ST股", ["绝不买ST股"]),
        ("单只基金别超过20%", ["单只基金别超过20%"]),
        ("我只买基金", ["只买基金"]),
        ("债券至少四成", ["债券至少四成"]),
        ("不想投资医药行业", ["不想投资医药行业"]),
        ("亏损超过15%，我就受不了", ["亏损超过15%，我就受不了"]),
        ("No leverage, and keep at least 20% in cash.", ["No leverage", "keep at least 20% in cash"]),
        ("No more than 30% in stocks.", ["No more than 30% in stocks"]),
        ("I never buy options or crypto.", ["never buy options", "never buy crypto"]),
    ],
)
def test_constraints_are_kept_in_the_clients_words(text: str, constraints: list[str]) -> None:
    assert seen(text)["constraints"] == constraints


@each_case(
    ("text", "loss"),
    [
        ("最大回撤不能超过8%", 0.08),
        ("我最多能亏百分之十", 0.1),
        ("两成以内的亏损没问题，能承受20%的亏损", 0.2),
        ("我总共有40万，最多亏2万", 0.05),
        ("绝对不能亏本金", 0.0),
        ("I can lose up to 7%.", 0.07),
        ("If I lose more than 10%, I'd panic.", 0.1),
        ("没说过亏损的事", None),
        ("我总共有4万，最多亏5万", None),
        ("最大回撤不超过300%", None),
    ],
)
def test_largest_acceptable_loss_is_a_fraction(text: str, loss: float | None) -> None:
    assert seen(text)["max_acceptable_loss"] == loss


@pytest.mark.parametrize(
    ("text", "topics"),
    [
        ("我喜欢红利指数基金、短债基金和国债", ["红利指数基金", "短债基金", "国债"]),
        ("我偏好国债，大额存单，还有黄金", ["国债", "大额存单", "黄金"]),
        ("我更愿意买高等级信用债", ["高等级信用债"]),
        ("I prefer index funds, government bonds and gold.", ["index funds", "government bonds", "gold"]),
    ],
)
def test_preferences_are_the_investments_named_after_a_liking(text: str, topics: list[str]) -> None:
    assert seen(text)["preferred_topics"] == topics


@each_case(
    "text",
    [
        "保守型投资者是什么意思？",
        "为什么不能用杠杆？",
        "我应该更激进一点吗",
        "我朋友很保守，只买国债",
        "经理说不要买股票",
        "如果我比较激进，会买期货",
        "央行实行稳健的货币政策",
        "我觉得这个方案太保守了",
        "这只基金最大回撤是30%",
        "我太太喜欢黄金",
        "我不是不买股票",
        "What is a conservative investor?",
        "My friend is aggressive and loves crypto.",
        "If I were aggressive, I would buy futures.",
        "Should I avoid leverage?",
        "A conservative estimate would be 3%.",
    ],
)
def test_questions_suppositions_and_other_people_state_nothing(text: str) -> None:
    assert seen(text) == profile_snapshot(ClientProfile())


def test_nothing_is_known_of_a_client_who_said_nothing() -> None:
    assert seen("你好") == {
        "risk_level": "unknown",
        "investment_horizon": "unknown",
        "liquidity_need": "unknown",
        "preferred_topics": [],
        "forbidden_assets": [],
        "max_acceptable_loss": None,
        "constraints": [],
        "principal": None,
    }


def test_later_statements_override_earlier_ones() -> None:
    profile = seen("我偏保守，最大回撤不超过5%", "我之前说保守，其实更偏稳健", "回撤可以放宽到15%")
    assert profile["risk_level"] == "medium"
    assert profile["constraints"] == ["回撤可以放宽到15%"]
    assert profile["max_acceptable_loss"] == 0.15


def test_denied_level_is_taken_back_and_not_replaced_by_a_guess() -> None:
    assert seen("我比较激进", "其实我不是激进型")["risk_level"] == "unknown"
    assert seen("我不是激进型，偏稳健")["risk_level"] == "medium"
    assert seen("I'd say balanced rather than aggressive.")["risk_level"] == "medium"


def test_permission_lifts_a_ban_and_dislike_drops_a_preference() -> None:
    assert seen("我不用杠杆，也不碰股票")["forbidden_assets"] == ["杠杆", "股票"]
    assert seen("我不用杠杆，也不碰股票", "股票现在可以买一点")["forbidden_assets"] == ["杠杆"]
    assert seen("我喜欢可转债", "我不喜欢可转债了")["preferred_topics"] == []
    assert seen("I avoid gold.", "I'm ok with gold now.")["forbidden_assets"] == []


def test_repeated_preference_is_kept_once() -> None:
    assert seen("我喜欢国债和黄金", "我还是喜欢国债")["preferred_topics"] == ["黄金", "国债"]


def test_a_ban_ends_the_liking_of_the_same_asset() -> None:
    profile = seen("我喜欢黄金", "以后不买黄金")
    assert (profile["preferred_topics"], profile["forbidden_assets"]) == ([], ["黄金"])


def test_lines_are_labelled_and_hold_canonical_and_own_words() -> None:
    profile = heard("我比较保守，这笔钱五年不用，随时能取最好不过，不使用杠杆，我喜欢国债，最大回撤不超过6%")
    assert profile_lines(profile, profile_rules("zh")) == [
        "风险等级: 保守",
        "投资期限: 2年以上 (原话: 这笔钱五年不用)",
        "流动性需求: 高 (原话: 随时能取)",
        "约束: 不使用杠杆",
        "约束: 最大回撤不超过6%",
        "偏好: 国债",
        "可接受的最大亏损: 6%",
    ]
    english = profile_lines(
        heard("I'm conservative and won't need this money for five years."), profile_rules("en")
    )
    assert english[:2] == [
        "risk level: low (in the words: conservative)",
        "investment horizon: long (in the words: five years)",
    ]


def test_full_width_forms_read_like_half_width_ones() -> None:
    assert seen("最大回撤＜１０％")["max_acceptable_loss"] == 0.1


@pytest.mark.parametrize(
    "text",
    [
        "最大回撤" + "改成控制在" * 110 + "10%",
        "其实是" * 190 + "保守",
        "可以一点点" * 110 + "杠杆",
        "回撤不超过" * 110 + "%",
        "no more than " * 45 + "%",
    ],
)
def test_repetition_does_not_make_reading_explode(text: str) -> None:
    # A pattern with two ways to read each repetition would not come back from these.
    assert isinstance(seen(text), dict)


fragments = st.sampled_from(
    [
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
        "国债",
        "、",
        "50万",
        "最多亏",
        "I",
        " don't ",
        "buy ",
        "stocks",
        ", ",
        "at most ",
        "5% ",
        "prefer ",
        "gold",
        "9" * 40,
        "年",
        "成",
        "百分之",
        "\n",
    ]
)


@given(st.lists(fragments, max_size=20), st.sampled_from(["zh", "en"]))
def test_any_words_give_a_finite_profile(parts: list[str], language: Language) -> None:
    rules = profile_rules(language)
    profile = ClientProfile().after(extract(read_clauses("".join(parts), rules), rules))
    snapshot = profile_snapshot(profile)
    assert msgspec.json.decode(msgspec.json.encode(snapshot)) == snapshot
    loss = snapshot["max_acceptable_loss"]
    assert loss is None or 0.0 <= loss <= 1.0
    assert "\n".join(profile_lines(profile, rules)) is not None


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
