"""Allocations: what tables, lists and sentences propose, and what is no proposal."""

import pytest

from memfin.scoring.allocation import proposals
from memfin.scoring.proposals import Proposal, classes_in
from memfin.text.document import Document
from tests.support import each_case

Shares = dict[str, float]
PLAN: Shares = {"cash": 0.2, "bond": 0.5, "equity": 0.3}
BOLD: Shares = {"cash": 0.1, "bond": 0.3, "equity": 0.6}
RULE = "|---|---|---|---|"
LINES = "- 货币基金：20%\n- 债券基金：50%\n- 股票基金：30%"


def wholes(text: str) -> list[Proposal]:
    return [each for each in proposals(Document(text)) if each.whole]


def shares(plan: Proposal) -> Shares:
    """Return the share of each of the three classes, the middle of a range."""
    return {
        name: round(sum(h.middle for h in plan.holdings if name in h.classes), 6)
        for name in PLAN
        if any(name in h.classes for h in plan.holdings)
    }


@each_case(
    ("text", "plans"),
    [
        (
            "| 资产 | 比例 |\n|---|---|\n| 货币基金 | 20% |\n| 纯债基金 | 50% |\n| 沪深300指数基金 | 30% |",
            [PLAN],
        ),
        (
            "| 资产 | 比例 |\n|---|---|\n| 现金 | 20% |\n| 债券 | 50% |\n| 股票 | 30% |\n| 合计 | 100% |",
            [PLAN],
        ),
        (
            (
                "| 资产 | 稳健 | 进取 |\n|---|---|---|\n| 现金 | 20% | 10% |\n| 债券 | 50% | 30% |\n"
                "| 股票 | 30% | 60% |"
            ),
            [PLAN, BOLD],
        ),
        (
            f"| 方案 | 现金 | 债券 | 股票 |\n{RULE}\n| A | 20% | 50% | 30% |\n| B | 10% | 30% | 60% |",
            [PLAN, BOLD],
        ),
        ("建议这样配：\n" + LINES, [PLAN]),
        ("方案一\n" + LINES + "\n\n方案二\n- 现金：10%\n- 债券：30%\n- 股票：60%", [PLAN, BOLD]),
        ("建议：\n- 固收类 70%\n  - 国债 40%\n  - 信用债 30%\n- 股票 30%", [{"bond": 0.7, "equity": 0.3}]),
        ("建议这样放：\n- 货币基金：2万元\n- 债券基金：5万元\n- 股票基金：3万元", [PLAN]),
        ("可以两成现金，五成债券，三成股票。", [PLAN]),
        (
            "建议：\n- 现金 10%-20%\n- 债券 40%-60%\n- 股票 20%-40%",
            [{"cash": 0.15, "bond": 0.5, "equity": 0.3}],
        ),
        ("建议60%债券+25%股票+15%现金。", [{"cash": 0.15, "bond": 0.6, "equity": 0.25}]),
        (
            "I suggest 60% bonds, 25% equities and 15% cash.",
            [{"cash": 0.15, "bond": 0.6, "equity": 0.25}],
        ),
        ("Suggested mix:\n- Cash: 20%\n- Bonds: 50%\n- Equities: 30%", [PLAN]),
    ],
)
def test_layouts_of_a_plan(text: str, plans: list[Shares]) -> None:
    assert [shares(each) for each in wholes(text)] == plans


@each_case(
    "text",
    [
        "",
        "净值会波动。",
        "历史上这类组合的配置：\n- 债券 60%\n- 股票 40%",
        "压力测试：\n- 债券 5%\n- 股票 30%",
        "2015年股票下跌40%，债券上涨10%。",
        "存款利率2%，国债利率3%。",
        "公募基金的行业分布：食品30%，医药70%。",
        f"| 类型 | 现金 | 债券 | 股票 |\n{RULE}\n| 保守型 | 30% | 60% | 10% |\n| 进取型 | 5% | 15% | 80% |",
        "目前持仓：\n- 债券 60%\n- 股票 40%",
        "| 资产 | 最大跌幅 |\n|---|---|\n| 债券 | 40% |\n| 股票 | 60% |",
        "Backtest:\n- Bonds 60%\n- Equities 40%",
    ],
)
def test_what_is_no_proposal(text: str) -> None:
    assert proposals(Document(text)) == []


def test_a_header_that_holds_the_first_part_hides_no_other_part() -> None:
    text = "| 货币基金 20% | 备用 |\n|---|---|\n| 债券基金 50% | 底仓 |\n| 股票基金 30% | 进攻 |"
    (plan,) = proposals(Document(text))
    assert {name: round(share, 2) for name, share in shares(plan).items()} == {"bond": 0.5, "equity": 0.3}
    assert not plan.whole


def test_a_plan_is_laid_out_or_prose() -> None:
    assert [each.laid_out for each in wholes("建议这样配：\n" + LINES)] == [True]
    assert [each.laid_out for each in wholes("可以两成现金，五成债券，三成股票。")] == [False]


def test_a_range_keeps_both_ends_and_holdings_their_places() -> None:
    document = Document("建议：\n- **现金** 10%-20%\n- 债券 40%-60%\n- 股票 20%-40%")
    (plan,) = [each for each in proposals(document) if each.whole]
    assert [(round(h.low, 2), round(h.high, 2)) for h in plan.holdings] == [
        (0.1, 0.2),
        (0.4, 0.6),
        (0.2, 0.4),
    ]
    assert [h.name for h in plan.holdings] == ["现金", "债券", "股票"]
    assert "现金" in document.text[plan.holdings[0].start : plan.holdings[0].end]
    assert plan.start <= plan.holdings[0].start < plan.holdings[-1].end <= plan.end


@pytest.mark.parametrize(
    ("name", "single"),
    [
        ("沪深300ETF", True),
        ("基金甲", True),
        ("债券基金", False),
        ("沪深300和中证500", False),
        ("几只ETF", False),
    ],
)
def test_one_fund_is_told_from_a_group_of_them(name: str, single: bool) -> None:
    (plan,) = wholes(f"建议：\n- {name}：50%\n- 现金：50%")
    assert [h.single for h in plan.holdings] == [single, False]


@pytest.mark.parametrize(
    ("text", "classes"),
    [
        ("国债", {"government_bond", "bond"}),
        ("可转债基金", {"bond"}),
        ("红利低波指数基金", {"equity"}),
        ("别的", set()),
    ],
)
def test_the_first_class_named_counts_with_its_wider_ones(text: str, classes: set[str]) -> None:
    assert classes_in(text) >= classes
    assert ("equity" in classes_in(text)) is ("equity" in classes)
