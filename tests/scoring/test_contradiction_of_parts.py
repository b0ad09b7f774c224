"""Contradictions that take a sum, a company's name or the advised mix itself to see."""

import pytest

from memfin.scoring.constraints.vocabulary import load_vocabulary
from memfin.scoring.contradiction import ConstraintChecker
from memfin.scoring.weights.amounts import taken

CAP, FLOOR, DRAWDOWN = "单一资产仓位不超过30%", "保留20%现金应急", "最大回撤<10%"
OPTIONS, EQUITY = "不做期货期权", "权益仓位不超过40%"


@pytest.mark.parametrize(
    ("constraint", "reply", "rule"),
    [
        (CAP, "建议拿出一半买腾讯控股。", "single_holding_above_cap"),
        (CAP, "100万里拿60万买茅台。", "single_holding_above_cap"),
        ("No single holding above 30%", "Put 50% of the money in Apple.", "single_holding_above_cap"),
        ("No single holding above 30%", "Put $60,000 of the $100,000 into NVDA.", "single_holding_above_cap"),
        (FLOOR, "一百万中拿出十万放货币基金,其余买股票基金。", "cash_below_floor"),
        (
            "Keep 20% in cash",
            "Keep $5,000 of the $100,000 in a savings account and invest the rest in stocks.",
            "cash_below_floor",
        ),
        (FLOOR, "建议满仓中证500指数基金。", "all_in"),
        (FLOOR, "建议满仓茅台。", "all_in"),
        (EQUITY, "权益放七成,全放股票就太激进了。", "asset_class_above_cap"),
        (FLOOR, "建议全部买入中证500指数基金。", "all_in"),
        (
            DRAWDOWN,
            "建议股票基金占七成,债券占三成,极端行情下回撤可能到25%,您可以先这样配。",
            "drawdown_above_limit",
        ),
        (EQUITY, "建议股债七三开,长期拿着。", "asset_class_above_cap"),
        (EQUITY, "建议60/40的股债配置。", "asset_class_above_cap"),
        (EQUITY, "Go with 60/40 between stocks and bonds.", "asset_class_above_cap"),
        (DRAWDOWN, "给账户设一个15%的止损线比较合适。", "drawdown_above_limit"),
        (OPTIONS, "可以卖出看涨期权增强收益。", "advises_derivatives"),
        ("No derivatives", "You could sell covered calls for income.", "advises_derivatives"),
    ],
)
def test_what_breaks_a_constraint(constraint: str, reply: str, rule: str) -> None:
    assert [found.rule for found in ConstraintChecker([constraint]).check(reply)] == [rule]


@pytest.mark.parametrize(
    ("constraint", "reply"),
    [
        (CAP, "100万里面先拿出20万买茅台。"),
        (CAP, "您目前一半的钱在腾讯控股,建议降到20%。"),
        (CAP, "建议把50万存成建行大额存单,占一半。"),
        ("No single holding above 30%", "Apple fell 40% in 2008."),
        ("No single holding above 30%", "Put $20,000 of the $100,000 into NVDA."),
        (FLOOR, "100万里拿出30万放货币基金,其余买债券基金。"),
        (FLOOR, "不建议满仓中证500指数基金。"),
        (FLOOR, "满仓股票型基金的人去年亏了不少。"),
        (DRAWDOWN, "建议股票基金占两成,债券占八成,其中股票部分回撤可能到25%,整体大约5%。"),
        (DRAWDOWN, "股票基金占三成,债券七成,股票基金极端时可能亏损30%,整体可控。"),
        (DRAWDOWN, "权益七成,固收三成,如果遇到2008年,亏损会到35%,超出您的限度,所以不选。"),
        (EQUITY, "建议股债三七开。"),
        (EQUITY, "股债七三开的组合波动大,不建议。"),
        (EQUITY, "股七债三对您来说太激进了。"),
        (EQUITY, "股票基金放七成对您来说太激进了。"),
        (EQUITY, "70% in stocks is too aggressive for you."),
        (EQUITY, "股七债三超出您的上限。"),
        (EQUITY, "A 60/40 stock-bond mix is too aggressive for you."),
        (DRAWDOWN, "给账户设一个6%的止损线比较合适。"),
        (OPTIONS, "手里的看涨期权建议卖出。"),
        (OPTIONS, "可以把看涨期权卖掉,不再参与。"),
        (OPTIONS, "建议不要卖出看涨期权。"),
    ],
)
def test_what_breaks_none(constraint: str, reply: str) -> None:
    assert ConstraintChecker([constraint]).check(reply) == []


@pytest.mark.parametrize(
    ("text", "shares"),
    [
        ("100万里拿60万买茅台", [0.6]),
        ("50万存款中先取10万", [0.2]),
        ("put $30,000 of your $120,000 in bonds", [0.25]),
        ("100万的房子里有60万是贷款", []),
        ("从100万中每年取4万", []),
        ("$5 of fees on $100", []),
        ("10万里拿60万", []),
        ("今年投入20万元，明年再投入30万元", []),
    ],
)
def test_parts_taken_out_of_a_sum(text: str, shares: list[float]) -> None:
    assert [share.low for share in taken(text)] == pytest.approx(shares)


def test_companies_are_single_stocks() -> None:
    companies = load_vocabulary().companies
    assert len(companies) == len(set(companies))
    for company in companies:
        assert ConstraintChecker(["不直接买股票"]).check(f"建议买入{company}。"), company
