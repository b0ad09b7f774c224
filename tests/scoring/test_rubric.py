"""Rubric items: contained elements, required known items, and literal ones."""

import pytest

from memfin.scoring.detectors import read_content
from memfin.scoring.rubric import RUBRIC_ITEMS, rubric_hits
from tests.support import each_case


@each_case(
    ("text", "item"),
    [
        ("历史数据显示，该板块在加息周期里表现偏弱。", "信息依据"),
        ("潜在回报更高，但波动也更大。", "风险收益平衡"),
        ("与主动基金相比，指数基金费率更低。", "方案比较维度"),
        ("第一步先留足应急金，然后分批建仓。", "可执行步骤"),
        ("以上内容不构成投资建议。", "边界声明"),
        ("According to the annual report, sales grew.", "信息依据"),
        ("Higher yield, but more risk.", "风险收益平衡"),
        ("This fits your 20% cap.", "与画像匹配"),
        ("Compared with active funds, index funds are cheaper.", "方案比较维度"),
        ("I cannot predict prices.", "边界声明"),
    ],
)
def test_items_in_both_languages(text: str, item: str) -> None:
    assert item in read_content(text).rubric_items


@pytest.mark.parametrize(
    "text",
    [
        "如果您希望，我可以进一步：\n- 用一个案例演示\n- 列出各类费率",
        "需要的话，我还能为您：\n1. 列出四只产品的持仓\n2. 整理一份月报",
        "If you like, I can also:\n1. Compare the two funds\n2. List their holdings",
    ],
)
def test_what_the_speaker_offers_to_do_is_no_step_of_the_user(text: str) -> None:
    assert "可执行步骤" not in read_content(text).rubric_items


@pytest.mark.parametrize(
    "text",
    [
        "您是稳健型还是进取型？",
        "谢谢您的提问，这是一个很好的问题。",
        "Thanks for asking. What is your limit?",
    ],
)
def test_courtesy_and_questions_explain_nothing(text: str) -> None:
    assert read_content(text).rubric_items == []


def test_a_greeting_contains_nothing() -> None:
    assert read_content("您好，请问有什么可以帮您？").rubric_items == []


def test_required_items_keep_their_order_and_unknown_ones_are_literal() -> None:
    text = "第一步先留足应急金，然后分批建仓。税务影响另说。"
    contained = read_content(text).rubric_items
    assert rubric_hits(["税务影响", "边界声明", "可执行步骤", "传承安排"], contained, text) == [
        "税务影响",
        "可执行步骤",
    ]
    assert rubric_hits([""], contained, text) == []
    assert set(contained) <= set(RUBRIC_ITEMS)
