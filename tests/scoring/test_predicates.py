"""Constraint texts to predicates: the known strings, their variants, the vocabulary itself."""

import json
from collections.abc import Iterator
from pathlib import Path

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from memfin.scoring.constraints.predicates import (
    AllowedUniverse,
    AssetClassCap,
    CashFloor,
    ForbiddenAsset,
    ForbiddenPractice,
    LowFee,
    MaxDrawdown,
    MaxDuration,
    MaxLockUp,
    MaxPremium,
    MaxVolatility,
    MinHolding,
    MinRating,
    NoConstraint,
    Predicate,
    Preferred,
    SingleAssetCap,
)
from memfin.scoring.constraints.texts import parse_constraint, parse_constraints
from memfin.scoring.constraints.vocabulary import load_vocabulary
from memfin.scoring.text.forms import normalize

SHARED = Path(__file__).resolve().parents[2] / ".." / "shared" / "data"

SAME_MEANING: list[tuple[Predicate, list[str]]] = [
    (
        MaxDrawdown(0.1),
        [
            "最大回撤<10%",
            "回撤别超过一成",
            "Max drawdown under 10%",
            "最大亏损控制在１０％以内",
            "最多亏百分之十",
        ],
    ),
    (MaxDrawdown(0.15), ["最大回撤<15%", "最大回撤 ≤ 15%", "Max drawdown under 15%"]),
    (
        SingleAssetCap(0.3, "asset"),
        [
            "单一资产仓位不超过30%",
            "单个品种不超过三成",
            "No single asset above 30%",
            "No single position above 30%",
        ],
    ),
    (SingleAssetCap(0.2, "fund"), ["单只基金仓位不超过20%", "单只基金最多两成", "No single fund above 20%"]),
    (
        AssetClassCap("equity", 0.6),
        ["权益类总仓位不超过60%", "权益资产最多占六成", "Equity exposure at most 60%", "股票别超过六成"],
    ),
    (AssetClassCap("equity", 0.5), ["股票和偏股基金加起来别超过五成", "Equities capped at 50%"]),
    (CashFloor(share=0.2), ["保留20%现金应急", "Keep at least 20% in cash", "现金不少于两成"]),
    (CashFloor(amount=100_000), ["至少留出10万元现金", "手头至少留十万元现金"]),
    (
        ForbiddenPractice("leverage"),
        ["不使用杠杆", "别加杠杆", "全程不借钱投资", "No leverage", "never use leverage"],
    ),
    (ForbiddenPractice("margin_trading"), ["不使用融资融券", "不做两融", "No margin trading"]),
    (ForbiddenPractice("off_market_financing"), ["不参与场外配资", "不碰配资"]),
    (
        ForbiddenPractice("short_term_trading"),
        ["不做短线交易", "不炒短线", "No short-term trading", "不做 T+0 交易"],
    ),
    (ForbiddenPractice("theme_speculation"), ["不参与题材炒作", "不跟风炒概念"]),
    (ForbiddenPractice("chasing_rallies"), ["不追高", "涨多了不追"]),
    (ForbiddenPractice("high_volatility"), ["不接受高波动策略"]),
    (ForbiddenAsset("st_stocks"), ["不买ST及*ST股票", "带ST帽子的股票一律不买"]),
    (ForbiddenAsset("single_small_cap"), ["不买单一小盘股"]),
    (ForbiddenAsset("structured_fund"), ["不投分级基金"]),
    (ForbiddenAsset("low_rated_credit"), ["不投低评级信用债", "No low-rated bonds"]),
    (ForbiddenAsset("high_valuation_growth"), ["回避高估值成长股", "太贵的成长股不要"]),
    (ForbiddenAsset("convertible_bond"), ["不配置可转债", "不要转债"]),
    (ForbiddenAsset("overseas_market"), ["不投海外市场", "No overseas assets", "只买A股"]),
    (ForbiddenAsset("hk_us_stocks"), ["不碰港股美股"]),
    (ForbiddenAsset("precious_metals"), ["不投贵金属", "No gold"]),
    (ForbiddenAsset("stocks"), ["不碰股票"]),
    (
        AllowedUniverse("public_funds"),
        ["仅考虑公募基金", "只买公募，不碰私募", "Mutual funds only", "Fund products only"],
    ),
    (MinRating("AA+"), ["仅投高等级信用债", "信用债只要AAA和AA+"]),
    (MinRating("AA+", "main"), ["债券资产以利率债和高等级信用债为主"]),
    (MinRating("AAA"), ["Only AAA-rated bonds", "债券只买AAA级"]),
    (MaxDuration(3.0), ["组合久期控制在3年以内", "久期不超过三年"]),
    (MaxDuration(2.0), ["久期不超过2年"]),
    (MinHolding(1.0), ["Holding period of at least one year", "持有期不少于一年"]),
    (
        MaxLockUp(1.0),
        ["不买封闭期超过一年的产品", "锁定期不超过12个月", "Nothing locked up for more than 12 months"],
    ),
    (
        ForbiddenAsset("lock_up_products"),
        ["不买有封闭期的产品", "资金要随时能取", "No lock-up products", "Must be able to withdraw any time"],
    ),
    (CashFloor(months=6.0), ["至少留六个月生活费", "Keep six months of expenses liquid"]),
    (MaxPremium(15000.0), ["全年保费不超过1.5万元"]),
    (MaxVolatility(0.06), ["组合波动率不高于6%", "Portfolio volatility at most 6%"]),
    (AllowedUniverse("safe"), ["只买国债和存款", "Only government bonds and deposits", "仅限国债、定期存款"]),
    (AllowedUniverse("liquid"), ["只做货币基金和存款", "Only bank deposits and money market funds"]),
    (AllowedUniverse("index_funds"), ["只买指数基金", "Index funds only"]),
    (ForbiddenAsset("active_funds"), ["不买主动基金", "No actively managed funds"]),
    (ForbiddenAsset("derivatives"), ["不碰期货期权", "No options"]),
    (ForbiddenAsset("crypto"), ["不碰币圈", "不买虚拟币", "No crypto"]),
    (LowFee(), ["优先低费率基金", "费率低的基金优先"]),
    (Preferred("quarterly_performance"), ["偏好季度可观察业绩的基金"]),
    (NoConstraint(), ["无明确约束", "没有特别限制", "No constraints"]),
]


@pytest.mark.parametrize(("expected", "texts"), SAME_MEANING, ids=[repr(entry[0]) for entry in SAME_MEANING])
def test_texts_of_one_meaning_are_one_predicate(expected: Predicate, texts: list[str]) -> None:
    assert [parse_constraint(text) for text in texts] == [expected] * len(texts)


def wordings() -> Iterator[tuple[str, str]]:
    named = json.loads(Path(__file__).with_name("constraint_wordings.json").read_text("utf-8"))
    for constraint, others in named.items():
        for other in others:
            yield constraint, other


@pytest.mark.parametrize(("constraint", "other"), list(wordings()))
def test_a_known_constraint_may_be_worded_freely(constraint: str, other: str) -> None:
    assert parse_constraints(other) == parse_constraints(constraint)


def test_distinct_meanings_are_distinct_and_hashable() -> None:
    assert len({expected for expected, _ in SAME_MEANING}) == len(SAME_MEANING)


def test_predicates_travel_as_tagged_json() -> None:
    for expected, _ in SAME_MEANING:
        assert msgspec.json.decode(msgspec.json.encode(expected), type=Predicate) == expected


def known_constraints() -> Iterator[str]:
    for path in (SHARED / "labels").glob("*.jsonl"):
        for line in path.read_text("utf-8").splitlines():
            yield from json.loads(line)["constraints"]
    dialogs = SHARED / "recorded" / "MemFinConv.jsonl"
    for line in dialogs.read_text("utf-8").splitlines():
        yield from json.loads(line)["profile_gt"]["constraints_gt"]


@pytest.mark.skipif(not SHARED.is_dir(), reason="shared label files are not beside this checkout")
def test_every_known_constraint_is_understood() -> None:
    texts = sorted(set(known_constraints()))
    vocabulary = {term.id for term in load_vocabulary().terms}
    assert texts
    for text in texts:
        predicate = parse_constraint(text)
        assert predicate is not None, text
        if isinstance(predicate, ForbiddenAsset | ForbiddenPractice):
            assert predicate.term in vocabulary, text


def test_an_unknown_asset_stays_as_a_free_term() -> None:
    assert parse_constraint("不投殡葬公司") == ForbiddenAsset("殡葬公司")
    assert parse_constraint("No funeral homes") == ForbiddenAsset("funeral homes")


@pytest.mark.parametrize("text", ["", "   ", "希望收益稳定增长吗", "今天天气很好"])
def test_what_is_no_constraint(text: str) -> None:
    assert parse_constraint(text) is None or isinstance(parse_constraint(text), Preferred)


@given(
    st.integers(1, 60),
    st.sampled_from(["最大回撤<{}%", "回撤不超过{}％", "Max drawdown under {}%", "最大亏损 {} % 以内"]),
)
def test_numbers_of_the_drawdown_are_free(percent: int, form: str) -> None:
    assert parse_constraint(form.format(percent)) == MaxDrawdown(round(percent / 100, 6))


@pytest.mark.parametrize("text", [text for _, texts in SAME_MEANING for text in texts])
def test_width_case_and_outer_space_change_nothing(text: str) -> None:
    wide = "".join(chr(ord(char) + 0xFEE0) if "!" <= char <= "~" else char for char in text)
    expected = parse_constraint(text)
    assert parse_constraint(f"  {wide} ") == expected
    assert parse_constraint(text.upper()) == expected


def test_all_words_of_the_vocabulary_are_in_normalized_form() -> None:
    vocabulary = load_vocabulary()
    words = [word for term in vocabulary.terms for word in (*term.names, *term.words, *term.acts)]
    words += [word for entry in (*vocabulary.classes, *vocabulary.preferences) for word in entry.words]
    words += [*vocabulary.blockers, *vocabulary.all_in, *vocabulary.share_signs, *vocabulary.holding]
    assert [word for word in words if normalize(word) != word] == []


def test_narrower_terms_are_in_the_closure() -> None:
    vocabulary = load_vocabulary()
    assert {"leverage", "margin_trading", "off_market_financing"} <= vocabulary.closure("leverage")
    assert vocabulary.closure("殡葬公司") == {"殡葬公司"}
