"""Allocations in sentences: sums with their total, remainders, ratios, additions."""

import pytest

from memfin.scoring.allocation import proposals
from memfin.scoring.proposals import Proposal
from memfin.text.document import Document
from tests.support import each_case

CLASSES = ("cash", "bond", "equity", "gold")


def wholes(text: str) -> list[Proposal]:
    return [each for each in proposals(Document(text)) if each.whole]


def shares(plan: Proposal) -> dict[str, float]:
    """Return the middle share of each class that a plan holds."""
    found = {name: sum(h.middle for h in plan.holdings if name in h.classes) for name in CLASSES}
    return {name: round(share, 3) for name, share in found.items() if share}


@each_case(
    ("text", "plan"),
    [
        ("您一共有50万元，我建议45万元买债基，手边留5万元周转。", {"bond": 0.9, "cash": 0.1}),
        (
            "总资产90万元：45万元进短债，30万元进宽基ETF，其余留作现金。",
            {"bond": 0.5, "equity": 0.333, "cash": 0.167},
        ),
        (
            "存款现在共42万元，先拿9万元买国债，再拿5万元买红利基金，剩下的继续放活期。",
            {"bond": 0.214, "equity": 0.119, "cash": 0.667},
        ),
        ("固收52%、权益36%，剩余部分放在货币基金里。", {"bond": 0.52, "equity": 0.36, "cash": 0.12}),
        ("我建议股、债、现金按4比5比1来摆。", {"equity": 0.4, "bond": 0.5, "cash": 0.1}),
        ("股四、债五、现金一，每年核对一次。", {"equity": 0.4, "bond": 0.5, "cash": 0.1}),
        ("股票和债券按6:4来配。", {"equity": 0.6, "bond": 0.4}),
        (
            "Put 30% in bonds and 50% in equities, the rest stays in cash.",
            {"bond": 0.3, "equity": 0.5, "cash": 0.2},
        ),
        ("Keep stocks and bonds at 60/40.", {"equity": 0.6, "bond": 0.4}),
    ],
)
def test_a_sentence_is_a_plan(text: str, plan: dict[str, float]) -> None:
    assert plan in [shares(each) for each in wholes(text)]


@each_case(
    "text",
    [
        "每月工资1万元，花掉4千元，其余存起来。",
        "公司市值50亿元，其中债券融资5亿元，其余是股本。",
        "历史上股债按6比4配置的组合最大回撤约三成。",
        "会议定在13:30，股票和债券都会讲到。",
        "沪深300与中证500的比分是3:2。",
        "存款利率2%，国债利率3%，其余产品更高。",
    ],
)
def test_a_sentence_is_no_plan(text: str) -> None:
    assert wholes(text) == []


def test_the_total_of_a_sum_is_told() -> None:
    (plan,) = wholes("您手头一共30万元，25万元买债基，5万元放活期。")
    assert plan.total == 300_000
    (listed,) = wholes("建议这样放：\n- 货币基金：2万元\n- 债券基金：5万元\n- 股票基金：3万元")
    assert listed.total == 100_000


@pytest.mark.parametrize(
    ("text", "share"),
    [
        ("黄金ETF已有15%，我建议再加20个百分点。", {"gold": 0.35}),
        ("黄金ETF已有15%，我建议再分两次各加10个百分点。", {"gold": 0.35}),
        ("现有45%股票仓位，再加20个百分点的偏股基金。", {"equity": 0.65}),
        (
            "You hold 42% in shares today. I'd add another 12 percent through an equity fund.",
            {"equity": 0.54},
        ),
    ],
)
def test_what_is_added_to_a_holding_counts_with_it(text: str, share: dict[str, float]) -> None:
    assert share in [shares(each) for each in proposals(Document(text))]
