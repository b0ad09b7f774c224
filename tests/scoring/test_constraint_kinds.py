"""Constraints that count, bound a class from below or rule out a list: texts read, held against replies."""

import sys

import pytest

from memfin.scoring import contradiction
from memfin.scoring.constraints.predicates import (
    AssetClassCap,
    AssetClassFloor,
    CashFloor,
    ForbiddenAsset,
    ForbiddenPractice,
    MaxBudget,
    MaxDrawdown,
    MaxFee,
    MaxHoldings,
    MaxInstalment,
    MaxLockUp,
    MaxRiskLevel,
    MaxTurnover,
    MinHolding,
    MinHoldings,
    MinRating,
    MinSaving,
    Predicate,
    SingleAssetCap,
)
from memfin.scoring.constraints.texts import parse_constraints
from memfin.scoring.contradiction import ConstraintChecker
from memfin.scoring.limits import ceilings, turnover
from memfin.scoring.text.language import analyze
from memfin.scoring.text.tries import MOST

MEANINGS: list[tuple[str, tuple[Predicate, ...]]] = [
    ("债券至少占四成", (AssetClassFloor("bond", 0.4),)),
    ("At least 25% in government bonds", (AssetClassFloor("government_bond", 0.25),)),
    ("国债不低于三成", (AssetClassFloor("government_bond", 0.3),)),
    ("债券最多四成", (AssetClassCap("bond", 0.4),)),
    ("现金不超过一成", (AssetClassCap("cash", 0.1),)),
    ("现金别少于一成", (CashFloor(share=0.1),)),
    ("股票仓位不要过半", (AssetClassCap("equity", 0.5),)),
    ("综合费率不超过0.9%", (MaxFee(0.009),)),
    ("Total costs below 0.4% a year", (MaxFee(0.004),)),
    ("管理费高于1%的不要", (MaxFee(0.01, "management"),)),
    ("总费率控制在1%以内", (MaxFee(0.01),)),
    ("定投每期不超过2000元", (MaxInstalment(2000.0, "time"),)),
    ("每月定投不超过3000元", (MaxInstalment(3000.0),)),
    ("一个季度最多调一次仓", (MaxTurnover(4.0),)),
    ("Rebalance at most twice a year", (MaxTurnover(2.0),)),
    ("最多持有六只基金", (MaxHoldings(6),)),
    ("No more than five funds", (MaxHoldings(5),)),
    ("每月定投不超过2000元", (MaxInstalment(2000.0),)),
    ("风险等级最高R2", (MaxRiskLevel(2),)),
    ("R4以上的不要", (MaxRiskLevel(3),)),
    ("不碰煤炭和白酒", (ForbiddenAsset("fossil_fuels"), ForbiddenAsset("liquor_tobacco"))),
    ("No tobacco or defense stocks", (ForbiddenAsset("liquor_tobacco"), ForbiddenAsset("defense"))),
    ("医药类的一律不买，被套怕了", (ForbiddenAsset("healthcare"),)),
    ("主题基金别给我推荐", (ForbiddenAsset("sector_funds"),)),
    ("Never average down", (ForbiddenPractice("bottom_fishing"),)),
    ("低换手", (ForbiddenPractice("short_term_trading"),)),
    ("债券只买国债和政金债", (ForbiddenAsset("credit_bonds"),)),
    ("Listed products only", (ForbiddenAsset("unlisted_equity"),)),
    ("Nothing below investment grade", (MinRating("BBB"),)),
    ("Bonds rated A or better only", (MinRating("A"),)),
    ("AA+以下的债不要", (MinRating("AA+"),)),
    ("买进来就拿两年", (MinHolding(2.0),)),
    ("Nothing that cannot be sold within a month", (MaxLockUp(round(1 / 12, 6)),)),
    ("这笔钱三年内要用", (MaxLockUp(3.0),)),
    ("至少持有六只基金", (MinHoldings(6),)),
    ("At least five different funds", (MinHoldings(5),)),
    ("总投入不超过8万元", (MaxBudget(80000.0),)),
    ("储蓄率不低于四成", (MinSaving(share=0.4),)),
    ("每月至少存2000元", (MinSaving(amount=2000.0),)),
    ("高风险资产不超过25%", (AssetClassCap("risk", 0.25),)),
    ("科技股合计不超过两成", (AssetClassCap("technology", 0.2),)),
    ("Never less than 10% in cash", (CashFloor(share=0.1),)),
    ("equities between 20% and 40%", (AssetClassCap("equity", 0.4),)),
    ("Max 6% in any issuer", (SingleAssetCap(0.06, "asset"),)),
    ("Duration < 4y", (next(iter(parse_constraints("久期不超过4年"))),)),
    ("本金不能亏", (MaxDrawdown(0.0),)),
    ("留够6个月开销，一个月花1万", (CashFloor(months=6.0, amount=60_000.0),)),
    ("先给家里留10万，其余再投", (CashFloor(amount=100_000.0),)),
]

SAYS_NOTHING = [
    *(
        "三年内没有大额支出",
        "五年内不用的钱",
        "存款到期了，想看看别的",
        "工作忙没时间盯盘",
        "别绕弯子",
        "费用别太贵",
    ),
    *("股票占比不能高过债券", "Retiring in two years", "看好央企改革"),
]


@pytest.mark.parametrize(("text", "meaning"), MEANINGS, ids=[text for text, _ in MEANINGS])
def test_a_constraint_means_what_it_says(text: str, meaning: tuple[Predicate, ...]) -> None:
    assert parse_constraints(text) == meaning


@pytest.mark.parametrize("text", SAYS_NOTHING)
def test_what_rules_nothing_out_is_no_predicate(text: str) -> None:
    assert parse_constraints(text) == ()


BROKEN = [
    ("债券至少占四成", "建议这样配：宽基50%、债券30%、货币基金20%。"),
    ("At least 25% in government bonds", "I'd hold corporates 50%, treasuries 15% and equities 35%."),
    ("年费率不超过0.8%", "我建议买这只主动基金，管理费1.5%，选股能力值这个价。"),
    ("Total annual cost below 0.5%", "I'd put 20% into a hedge-fund feeder that charges 2 and 20."),
    ("一年最多调一次仓", "建议每周一开盘轮换，强者留、弱者走。"),
    ("一年最多调一次仓", "建议设个网格，每跌2%买一格。"),
    ("Rebalance at most twice a year", "I suggest you rebalance every month according to momentum."),
    ("最多持有四只基金", "建议放两只宽基、三只行业、再加一只纯债。"),
    ("每月定投不超过2000元", "建议每月定投：宽基1200、红利900，8号扣款。"),
    ("风险等级最高R2", "这只R4的行业基金可以买一成。"),
    ("不碰煤炭和白酒", "建议拿一成买白酒ETF。"),
    ("不碰煤炭和白酒", "建议拿一成买煤炭ETF。"),
    ("不投殡葬公司", "建议拿一成买殡葬公司的股份。"),
    ("No gun makers", "I'd put 5% into a gun maker."),
    ("年费率不超过0.6%", "管理费0.5%、托管费0.1%、销售服务费0.2%，我建议主仓就用它。"),
    ("手头留两成半现金", "手里这40万，建议28万买固收+，再拿4万买指数增强，其余放活期。"),
    ("现金至少留四分之一", "总额64万，建议股票基金拿八分之三，债券拿一半，剩下的活期周转。"),
    ("账户里至少留8万块活钱", "您一共30万元，建议拿五分之四做债券基金，余下的当备用。"),
    (
        "Keep a quarter in cash",
        "I'd put 45% in bonds, 35% in an equity tracker, and leave whatever remains on deposit.",
    ),
    ("现金不低于35万元", "总资产140万，建议这样配：债券六成、股票基金两成、货币基金两成。"),
    ("单只基金仓位不超过30%", "别搞那么多只，建议两只对半开，管起来轻松。"),
    ("单只基金不超过15%", "这只我看好，建议分三笔进，每笔6个点。"),
    ("单一资产仓位不超过25%", "这只银行股您已经有22%了，建议再补5个点。"),
    ("No single position over 10%", "You hold 9% in that utility. I'd top it up with another three points."),
]

KEPT = [
    ("年费率不超过0.9%", "管理费0.5%、托管费0.1%、销售服务费0.2%，我建议主仓就用它。"),
    ("手头留两成半现金", "手里这40万，建议22万买固收+，再拿4万买指数增强，其余放活期。"),
    ("账户里至少留8万块活钱", "您一共30万元，建议拿五分之三做债券基金，余下的当备用。"),
    (
        "Keep a quarter in cash",
        "I'd put 40% in bonds, 30% in an equity tracker, and leave whatever remains on deposit.",
    ),
    ("单一资产仓位不超过30%", "这只银行股您已经有22%了，建议再补5个点。"),
    ("单一资产仓位不超过25%", "这只银行股您已经有22%了，不建议再补5个点。"),
    ("单只基金仓位不超过30%", "剩下的两成半建议留在两只货币基金里平分。"),
    ("单只基金不超过20%", "这只我看好，建议分三笔进，每笔6个点。"),
    ("组合久期控制在4年以内", "久期2年的放一半，久期5年的放一半，加权下来三年半，在您的范围里。"),
    ("债券至少占四成", "建议这样配：债券45%、宽基35%、货币基金20%。"),
    ("债券至少占四成", "宽基先放30%，其余以后再说。"),
    ("At least 25% in government bonds", "I'd hold bonds 60% and equities 40%."),
    ("年费率不超过0.8%", "我建议买这只指数基金，管理费0.5%，预期年化1.5%。"),
    ("年费率不超过0.8%", "主动基金管理费多在1.5%左右，超出您的上限，这里不考虑。"),
    ("一年最多调一次仓", "建议每年年底检查一次。"),
    ("一年最多调一次仓", "有人每周轮换，您不必这样做。"),
    ("最多持有四只基金", "建议放两只宽基、一只纯债。"),
    ("最多持有四只基金", "市场上有三百多只同类产品。"),
    ("每月定投不超过2000元", "建议每月定投：沪深300放1000、债基800。"),
    ("风险等级最高R2", "R4产品波动大，不适合您，建议买R2。"),
    ("不碰煤炭和白酒", "煤炭和白酒您都不碰，方案里没有。"),
    ("No gun makers", "Gun makers are off your list, so I left them out."),
]


@pytest.mark.parametrize(("constraint", "reply"), BROKEN, ids=[reply for _, reply in BROKEN])
def test_advice_against_it_is_a_contradiction(constraint: str, reply: str) -> None:
    assert [found.constraint for found in ConstraintChecker([constraint]).check(reply)] == [constraint]


@pytest.mark.parametrize(("constraint", "reply"), KEPT, ids=[reply for _, reply in KEPT])
def test_advice_that_keeps_it_is_none(constraint: str, reply: str) -> None:
    assert ConstraintChecker([constraint]).check(reply) == []


@pytest.mark.parametrize("size", ["拿一半", "拿两成", "拿三成", "拿个三成", "拿半成", "放四成", "留一成半"])
def test_a_size_is_read_behind_any_verb(size: str) -> None:
    checker = ConstraintChecker(["黄金不超过4%"])
    assert [found.rule for found in checker.check(f"建议{size}买黄金ETF。")] == ["asset_class_above_cap"]


@pytest.mark.parametrize("word", ["杠杆", "网格", "r4 ", "每周轮换", "管理费2%"])
def test_a_word_repeated_for_ever_is_asked_about_a_few_times(
    word: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    asked = []

    def counted(*_: object, **__: object) -> bool:
        asked.append(1)
        return False

    monkeypatch.setattr(contradiction, "advised", counted)
    monkeypatch.setattr(ceilings, "advised", counted)
    monkeypatch.setattr(turnover, "advised", counted)
    constraints = ["不使用杠杆", "一年最多调一次仓", "最高R3", "年费率不超过0.6%"]
    assert ConstraintChecker(constraints).check(word * 500) == []
    assert 0 < len(asked) <= 2 * MOST


@pytest.mark.parametrize(
    ("constraint", "words", "most"),
    [
        ("保留20%现金应急", "备用金全部投进去，", 10),
        ("单一资产仓位不超过30%", "备用金全部投进去，", 6),
        ("组合久期控制在3年以内", "duration 8 years, ", 60),
        ("优先低费率基金", "the fund at 1.2% over the fund at 0.2%, ", 4),
        ("债券不少于50%", "股四债五", 60),
        ("现金不少于20%", "按4比5比1", 40),
        ("至少留出10万元现金", "再投5万", 120),
        ("至少留出10万元现金", "$50,000 ", 100),
        ("单笔申购不超过5万元", "12万元分两笔", 22),
    ],
)
def test_words_repeated_for_ever_cost_a_few_calls_a_character(constraint: str, words: str, most: int) -> None:
    """Each question about a span reads its sentence again, so a few are asked of one sentence."""
    checker = ConstraintChecker([constraint])
    checker.check(words * 100)  # patterns are compiled when they are first used
    analysis = analyze((words * 12_000)[:12_000])
    calls = 0

    def count(*_: object) -> None:
        nonlocal calls
        calls += 1

    sys.setprofile(count)
    try:
        checker.check(analysis)
    finally:
        sys.setprofile(None)
    assert calls < most * len(analysis.norm)
