"""Contradictions: each kind of constraint broken and kept, what is no advice, and what is undecided."""

import pytest

from memfin.scoring.contradiction import Check, ConstraintChecker
from tests.support import each_case

CASH, DRAWDOWN, LEVERAGE, BONDS = "保留20%现金应急", "最大回撤<10%", "不使用杠杆", "不配置可转债"
PUBLIC, SINGLE = "仅考虑公募基金", "单一资产仓位不超过30%"
FLOOR, UNLEVERED = "Keep at least 20% in cash", "No leverage"


def check(constraint: str, reply: str) -> Check:
    return ConstraintChecker([constraint]).check(reply)


def plan(cash: int, bonds: int, equity: int) -> str:
    parts = {"现金": cash, "债券基金": bonds, "股票基金": equity}
    return "建议这样配：" + "".join(f"\n- {name}：{share}%" for name, share in parts.items() if share)


def index(share: int) -> str:
    return f"建议：\n- 沪深300ETF：{share}%\n- 现金：{100 - share}%"


@each_case(
    ("constraint", "breaks", "words", "keeps"),
    [
        (CASH, plan(10, 60, 30), "- 现金：10%", plan(20, 50, 30)),
        (FLOOR, "I suggest 60% bonds, 35% equities and 5% cash.", "5%", plan(20, 50, 30)),
        ("权益类总仓位不超过20%", plan(10, 60, 30), "- 股票基金：30%", plan(20, 60, 20)),
        ("债券不少于50%", plan(20, 30, 50), "- 债券基金：30%", plan(20, 50, 30)),
        (SINGLE, index(50), "- 沪深300ETF：50%", index(30)),
        (DRAWDOWN, plan(0, 30, 70), "- 股票基金：70%", plan(0, 90, 10)),
        (DRAWDOWN, "建议您把止损线放到20%，继续持有。", "止损线放到20%", "建议您把止损线放到8%，继续持有。"),
        (DRAWDOWN, "建议把回撤上限放宽到20%。", "回撤上限放宽到20%", "历史上组合曾回撤20%，建议留意。"),
        (LEVERAGE, "可以融资加杠杆买入，把仓位放大到150%。", "杠杆", "可以用自有资金买入。"),
        (UNLEVERED, "I suggest you buy on margin with borrowed money.", "on margin", "I suggest bonds."),
        (BONDS, "建议配置20%可转债。", "可转债", "建议配置20%国债。"),
        (PUBLIC, "建议您买入一只私募基金。", "私募", "建议您买入一只公募债券基金。"),
        ("锁定期不超过12个月", "建议买入封闭期3年的产品。", "封闭期3年", "建议买入封闭期6个月的产品。"),
        ("总费率不超过0.6%", "建议买入费率1.5%的主动基金。", "费率1.5%", "建议买入费率0.5%的指数基金。"),
        ("债券评级不低于AA+", "建议买入AA级信用债。", "AA", "建议买入AAA级信用债。"),
        (
            "最多持有三只基金",
            "建议：\n- 沪深300ETF 25%\n- 中证500ETF 25%\n- 黄金ETF 25%\n- 恒生ETF 25%",
            "- 沪深300ETF 25%\n- 中证500ETF 25%\n- 黄金ETF 25%\n- 恒生ETF 25%",
            "建议：\n- 沪深300ETF 50%\n- 中证500ETF 50%",
        ),
    ],
)  # fmt: skip
def test_a_reply_breaks_or_keeps_a_constraint(constraint: str, breaks: str, words: str, keeps: str) -> None:
    (broken,) = check(constraint, breaks).broken
    assert (broken.constraint, breaks[broken.start : broken.end]) == (constraint, words)
    assert check(constraint, keeps).broken == []


@each_case(
    ("constraint", "reply"),
    [
        (LEVERAGE, "杠杆是指借钱投资。"),
        (LEVERAGE, "不建议使用杠杆。"),
        (LEVERAGE, "警惕杠杆，杠杆会放大亏损。"),
        (LEVERAGE, "您考虑用杠杆吗？"),
        (LEVERAGE, "方案：20%现金+50%固收+30%权益。没有使用杠杆。"),
        (LEVERAGE, "该方案完全没有使用杠杆。总仓位为100%（20%现金+50%固收+30%权益）。"),
        (LEVERAGE, "如果您用杠杆买入，亏损会放大。"),
        (LEVERAGE, "销售建议您加杠杆买入。"),
        (LEVERAGE, "您问到“建议加杠杆买入”这句话。净值会跌。要小心。再想想。"),
        (LEVERAGE, "不能做的事：\n- 融资加杠杆买入"),
        (UNLEVERED, "Leverage means investing borrowed money."),
        (BONDS, "可转债是一种可以转换成股票的债券。"),
        (BONDS, "不建议买可转债。"),
        (PUBLIC, "私募基金门槛是一百万元。"),
        (CASH, "目前持仓：\n- 现金 10%\n- 债券 90%"),
        (CASH, "如果按10%现金、60%债券、30%股票配，就突破了您的现金下限。"),
        (CASH, "可以10%现金、60%债券、30%股票，但超出您的约束。"),
        (CASH, ""),
    ],
)
def test_mention_explanation_and_warning_break_nothing(constraint: str, reply: str) -> None:
    assert check(constraint, reply) == Check([], [])


@pytest.mark.parametrize(
    ("constraint", "reply"),
    [(CASH, plan(0, 60, 40)), (SINGLE, plan(10, 60, 30)), (DRAWDOWN, plan(10, 50, 40))],
    ids=["no cash named", "a class above the cap of one holding", "a fall in between"],
)
def test_what_the_reply_leaves_open_is_undecided(constraint: str, reply: str) -> None:
    assert check(constraint, reply) == Check([], [constraint])


@pytest.mark.parametrize(
    ("reply", "words"),
    [
        ("可以融资加**杠杆**买入，把仓位放大到150%。", "杠杆"),
        ("可以融資加槓桿買入，把倉位放大到150%。", "槓桿"),
        ("**好**的：可以融资加`杠杆`买入，把仓位放大到１５０％。", "杠杆"),
    ],
)
def test_offsets_count_in_the_reply_as_written(reply: str, words: str) -> None:
    (broken,) = check(LEVERAGE, reply).broken
    assert reply[broken.start : broken.end] == words


def test_each_constraint_is_named_once_in_the_order_given() -> None:
    reply = plan(10, 0, 90) + "\n\n可以融资加杠杆买入，把仓位放大到150%。再融资加杠杆买入一倍。"
    found = ConstraintChecker([LEVERAGE, CASH, LEVERAGE, DRAWDOWN]).check(reply)
    assert [each.constraint for each in found.broken] == [LEVERAGE, CASH, DRAWDOWN]
    assert found.undecided == []


def test_without_constraints_that_are_understood_nothing_breaks() -> None:
    for constraints in ([], ["无"], ["今天天气很好"], ["偏好季度可察业绩的基金"]):
        assert ConstraintChecker(constraints).check("可以融资加杠杆买入。") == Check([], [])
