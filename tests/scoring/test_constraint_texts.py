"""Constraint texts to predicates: one row for each meaning, with the wordings that have it."""

import time

import msgspec
from hypothesis import given
from hypothesis import strategies as st

from memfin.scoring import predicates as p
from memfin.scoring.constraint_texts import forbidden, parse_constraint, parse_constraints, unread_constraints
from tests.support import each_case

# Wordings of one meaning, between bars.
MEANINGS: list[tuple[p.Predicate, str]] = [
    (p.MaxDrawdown(0.1), "最大回撤<10%|回撤别超过一成|最多亏百分之十|10%以上的回撤不考虑|最大回撤率<0.1"),
    (p.MaxDrawdown(0.1), "能接受的最大回撤是10%|Max drawdown under 10%|I can't lose more than 10%"),
    (p.MaxDrawdown(0.1), "Losses must stay under 10%|MDD limit 10%"),
    (p.MaxDrawdown(0.08), "最大回撤5%-8%|亏损不能超过本金的8%|以前亏过30%，这次回撤控制在8%以内"),
    (p.MaxDrawdown(0.0), "本金不能亏|不能亏钱|Never lose money"),
    (p.MaxLoss(50_000.0), "最大损失不超过5万元|最多能亏5万|Max loss $50,000"),
    (p.MaxVolatility(0.06), "组合波动率不高于6%|Portfolio volatility at most 6%"),
    (p.SingleAssetCap(0.3, "asset"), "单一资产仓位不超过30%|单个品种不超过三成"),
    (p.SingleAssetCap(0.3, "asset"), "股票债券黄金都可以，每一项不超过30%|No single asset above 30%"),
    (p.SingleAssetCap(0.3, "asset"), "Max 30% per holding|Not over 30% in any one asset"),
    (p.SingleAssetCap(0.2, "fund"), "单只基金仓位不超过20%|一只基金的仓位，最高就到两成吧"),
    (p.SingleAssetCap(0.2, "fund"), "No single fund above 20%"),
    (p.MaxPosition(50_000.0), "单笔申购不超过5万元|单只产品最多5万元"),
    (p.AssetClassCap("equity", 0.6), "权益类总仓位不超过60%|权益配置区间：0-60%|六成以上权益对我来说太高了"),
    (p.AssetClassCap("equity", 0.6), "非权益类资产至少占40%|Equity exposure at most 60%"),
    (p.AssetClassCap("equity", 0.6), "Equity above 60% is off the table.|Max equity 0.60"),
    (p.AssetClassCap("gold", 0.05), "黄金不超过5%|At most 5% in gold"),
    (p.AssetClassCap("overseas", 0.15), "海外资产不超过15%|Overseas assets no more than 15%"),
    (p.AssetClassCap("sector", 0.2), "单一行业不超过20%|No sector above 20%"),
    (p.AssetClassFloor("bond", 0.5), "债券不少于50%|债券占比至少一半|Bonds at least 50%"),
    (p.AssetClassFloor("government_bond", 0.25), "国债不低于两成半|At least 25% in government bonds"),
    (p.CashFloor(share=0.2), "保留20%现金应急|现金不少于两成|流动资金至少20%|十万里留两万现金应急"),
    (p.CashFloor(share=0.2), "最多投80%，剩下20%留现金应急|Keep at least 20% in cash"),
    (p.CashFloor(share=0.2), "A fifth of my money has to stay in cash for emergencies."),
    (p.CashFloor(share=0.4), "股票最多60%，其余现金"),
    (p.CashFloor(amount=100_000.0), "至少留出10万元现金|先给家里留10万，其余再投|Keep $100,000 in cash"),
    (p.CashFloor(months=6.0), "至少留六个月生活费|Keep six months of expenses liquid"),
    (p.MaxDuration(3.0), "组合久期控制在3年以内|久期<=3Y|久期不大于3|Duration cap 3.0"),
    (p.MaxDuration(3.0), "No more than three years' duration"),
    (p.MinHolding(1.0), "持有期不少于一年|至少拿一年|买了以后，一年之内别动"),
    (p.MinHolding(1.0), "Holding period of at least one year"),
    (p.MaxLockUp(1.0), "锁定期不超过12个月|不买封闭期超过一年的产品|持有不超过一年"),
    (p.MaxLockUp(1.0), "Nothing locked up for more than 12 months"),
    (p.MaxLockUp(0.5), "半年内要用钱|封闭期最长6个月"),
    (p.MaxFee(0.006), "总费率不超过0.6%|费率不超过60bp|Ongoing charge no higher than 0.6%"),
    (p.MaxFee(0.005, "management"), "基金管理费不高于0.5%|Management fee below 0.5%"),
    (p.MaxPremium(15_000.0), "全年保费不超过1.5万元"),
    (p.MaxInstalment(3000.0), "每月定投不超过3000元|月度定投不超过3000|Invest no more than $3,000 per month"),
    (p.MaxInstalment(2000.0, "time"), "定投每期不超过2000元"),
    (p.MaxBudget(80_000.0), "总投入不超过8万元|Budget is $80,000"),
    (p.MaxTurnover(4.0), "一年最多调仓四次|一个季度最多调一次仓|Rebalance at most once a quarter"),
    (p.MaxHoldings(6), "最多持有六只基金|No more than six funds"),
    (p.MinHoldings(5), "至少持有五只基金|At least five different funds"),
    (p.MaxRiskLevel(3), "风险等级不超过R3|R4以上的不要|Risk level up to R3"),
    (p.MinRating("AA+"), "仅投高等级信用债|信用债只要AAA和AA+|债券评级不低于AA+"),
    (p.MinRating("AA+"), "High-grade credit bonds only"),
    (p.MinRating("AA+", "main"), "债券资产以利率债和高等级信用债为主"),
    (p.MinRating("AA+", "main"), "Bonds: primarily rates + high-grade credit"),
    (p.MinRating("AAA"), "只投AAA级债券|Only AAA-rated bonds"),
    (p.MinRating("BBB"), "Only investment-grade bonds|Nothing below investment grade|不投BBB以下"),
    (p.AllowedUniverse("public_funds"), "仅考虑公募基金|公募以外免谈|Mutual funds only"),
    (p.AllowedUniverse("public_funds"), "Nothing but mutual funds"),
    (p.AllowedUniverse("index_funds"), "只买指数基金|Index funds only"),
    (p.AllowedUniverse("safe"), "只买国债和存款|Only government bonds and deposits"),
    (p.AllowedUniverse("liquid"), "只做货币基金和存款|Only bank deposits and money market funds"),
    (p.LowFee(), "优先低费率基金|买基金我先看费率，越低越好|Low-fee funds preferred"),
    (p.Preferred("quarterly_performance"), "偏好季度可观察业绩的基金"),
    (p.NoConstraint(), "无明确约束|无|没有什么特别要求|None|No explicit constraints"),
    (p.ForbiddenPractice("leverage"), "不使用杠杆|全程不借钱投资|杠杆：无|只用自有资金投资|No leverage"),
    (p.ForbiddenPractice("leverage"), "Leverage is not for me."),
    (p.ForbiddenPractice("margin_trading"), "不使用融资融券|不做两融|No margin trading"),
    (p.ForbiddenPractice("off_market_financing"), "不参与场外配资|不碰配资"),
    (p.ForbiddenPractice("short_term_trading"), "不做短线交易|不做 T+0 交易|长期持有|No short-term trading"),
    (p.ForbiddenPractice("theme_speculation"), "不参与题材炒作|题材来得快去得快，我不参与"),
    (p.ForbiddenPractice("theme_speculation"), "No hype or theme plays"),
    (p.ForbiddenPractice("chasing_rallies"), "不追高|涨多了不追|之前追高被套两年，再也不追了"),
    (p.ForbiddenPractice("chasing_rallies"), "Do not chase rallies"),
    (p.ForbiddenPractice("high_volatility"), "不接受高波动策略|只接受中低波动的策略"),
    (p.ForbiddenPractice("high_volatility"), "No high-volatility strategies"),
    (p.ForbiddenAsset("st_stocks"), "不买ST及*ST股票|带ST帽子的股票一律不买|No ST shares"),
    (p.ForbiddenAsset("single_small_cap"), "不买单一小盘股|不买北交所股票|No small caps"),
    (p.ForbiddenAsset("low_rated_credit"), "不投低评级信用债|严禁投资中低等级信用债|No high-yield bonds"),
    (p.ForbiddenAsset("high_valuation_growth"), "回避高估值成长股|太贵的成长股不要"),
    (p.ForbiddenAsset("high_valuation_growth"), "Avoid expensive growth stocks"),
    (p.ForbiddenAsset("convertible_bond"), "不配置可转债|可转债仓位0%|国债可以，转债除外"),
    (p.ForbiddenAsset("convertible_bond"), "Convertible bonds: excluded"),
    (p.ForbiddenAsset("overseas_market"), "不投海外市场|只买A股|No overseas assets|Domestic only"),
    (p.ForbiddenAsset("hk_us_stocks"), "不碰港股美股|不碰港股和美股"),
    (p.ForbiddenAsset("lock_up_products"), "不买有锁定期的产品|应急的钱随时要能取"),
    (p.ForbiddenAsset("lock_up_products"), "两年内要用的钱不买锁定期产品"),
    (p.ForbiddenAsset("stocks"), "不碰股票"),
    (p.ForbiddenAsset("credit_bonds"), "不碰城投债|债券只买国债和政金债"),
    (p.ForbiddenAsset("殡葬公司"), "不投殡葬公司|殡葬公司不买"),
    (p.ForbiddenAsset("funeral homes"), "No funeral homes|Avoid funeral homes"),
]  # fmt: skip
ROWS = [(text, meaning) for meaning, texts in MEANINGS for text in texts.split("|")]


@each_case(("text", "meaning"), ROWS, ids=[text for text, _ in ROWS])
def test_a_wording_has_its_meaning(text: str, meaning: p.Predicate) -> None:
    assert parse_constraints(text) == (meaning,)
    assert msgspec.json.decode(msgspec.json.encode(meaning), type=p.Predicate) == meaning


@each_case(
    ("text", "meanings"),
    [
        ("不碰煤炭和白酒", [p.ForbiddenAsset("fossil_fuels"), p.ForbiddenAsset("liquor_tobacco")]),
        ("不碰殡葬和军工", [p.ForbiddenAsset("defense"), p.ForbiddenAsset("殡葬")]),
        ("No tobacco, alcohol or weapons", [p.ForbiddenAsset("liquor_tobacco"), p.ForbiddenAsset("defense")]),
        ("只买公募，不碰私募", [p.AllowedUniverse("public_funds"), p.ForbiddenAsset("private_funds")]),
        ("不用杠杆，回撤控制在15%以内", [p.ForbiddenPractice("leverage"), p.MaxDrawdown(0.15)]),
        ("1. 不用杠杆 2. 回撤10%以内", [p.ForbiddenPractice("leverage"), p.MaxDrawdown(0.1)]),
        ("Max 30% in a single fund; no crypto", [p.SingleAssetCap(0.3, "fund"), p.ForbiddenAsset("crypto")]),
        ("债券不低于50%，股票不高于30%", [p.AssetClassFloor("bond", 0.5), p.AssetClassCap("equity", 0.3)]),
        ("信用债不超过30%，且评级AA+以上", [p.AssetClassCap("credit", 0.3), p.MinRating("AA+")]),
    ],
)
def test_a_text_of_several_constraints_has_them_all(text: str, meanings: list[p.Predicate]) -> None:
    assert list(parse_constraints(text)) == meanings


@each_case(
    "text",
    [
        *("可以使用少量杠杆", "少量杠杆可以接受", "不反对用杠杆", "不排斥小盘股", "短线可以做"),
        *("接受高波动", "不怕波动"),
        *("I have no problem with small caps", "Nothing against convertibles", "A little leverage is OK"),
        *("I don't mind high volatility", "I'm not opposed to leverage", "No limit on equities"),
    ],
)  # fmt: skip
def test_a_permission_rules_nothing_out(text: str) -> None:
    assert parse_constraints(text) == ()


UNREAD = [
    *("三年内没有大额支出", "五年内不用的钱", "存款到期了，想看看别的", "工作忙没时间盯盘", "别绕弯子"),
    *("费用别太贵", "没有海外投资经验", "不想错过新能源的机会", "不追求高收益", "年化收益目标5%"),
    *("股票占比不能高过债券", "看好央企改革", "股票和黄金合计不超过40%", "不需要随时能取", "今天天气很好"),
    *("Retiring in two years", "Long-only equity fund", "No rush", "Is leverage allowed?"),
    *("Not more than 3 trades a month", "I have no experience with options"),
]  # fmt: skip


@each_case("text", UNREAD)
def test_what_is_not_understood_is_named(text: str) -> None:
    assert parse_constraint(text) is None
    assert unread_constraints([text, "不使用杠杆", text, " "]) == [text]


@each_case(
    ("text", "ban"),
    [
        *((text, p.ForbiddenPractice("leverage")) for text in ("leverage", "杠杆", "不用杠杆")),
        *((text, p.ForbiddenAsset("st_stocks")) for text in ("ST", "st_stocks", "不买ST股")),
        *((text, p.ForbiddenAsset("殡葬公司")) for text in ("殡葬公司", "不投殡葬公司", "投资殡葬公司")),
        *((text, None) for text in ("", "20%", "无")),
        *((text, p.ForbiddenAsset("liquor_tobacco")) for text in ("酒", "Tobacco")),
    ],
)
def test_a_named_thing_is_forbidden(text: str, ban: p.ForbiddenAsset | p.ForbiddenPractice | None) -> None:
    assert forbidden(text) == ban


@given(st.integers(1, 60), st.sampled_from(["最大回撤<{}%", "回撤不超过{}％", "Max drawdown under {}%"]))
def test_numbers_are_free(percent: int, form: str) -> None:
    assert parse_constraint(form.format(percent)) == p.MaxDrawdown(round(percent / 100, 6))


@given(st.text())
def test_any_text_is_read(text: str) -> None:
    assert unread_constraints([text]) == ([] if parse_constraints(text) or not text.strip() else [text])
    assert isinstance(forbidden(text), p.ForbiddenAsset | p.ForbiddenPractice | None)


@each_case(
    "words",
    ["，且不", "a and no ", "现金10%,其余", "不买", "黄金、", "的", "30%", "any ", "我就都也请", "1,"],
)
def test_a_hostile_text_costs_little(words: str) -> None:
    began = time.perf_counter()
    parse_constraints((words * 16_000)[:16_000])
    forbidden((words * 16_000)[:16_000])
    assert time.perf_counter() - began < 1
