"""Weights read off lists, tables, ranges, sums and prose."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from memfin.scoring.constraints.vocabulary import Entry, load_vocabulary
from memfin.scoring.constraints.words import role_table
from memfin.scoring.text.language import analyze
from memfin.scoring.weights.reading import Reading
from memfin.scoring.weights.weight import Weight

TABLE = role_table(frozenset(), frozenset({"share", "all_in", "hold"}), classes=True)


def read(text: str) -> list[Weight]:
    return Reading(analyze(text), TABLE).weights


def pairs(text: str) -> list[tuple[str | None, float]]:
    return [(weight.asset_class, round(weight.low, 4)) for weight in read(text) if weight.role == "target"]


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("股票50%、债券40%、现金10%", [("equity", 0.5), ("bond", 0.4), ("cash", 0.1)]),
        ("七成股票、两成债券、一成现金", [("equity", 0.7), ("bond", 0.2), ("cash", 0.1)]),
        ("搭配15%红利低波和15%现金", [("equity", 0.15), ("cash", 0.15)]),
        ("把三分之二的资金放到权益类，剩下三分之一买债", [("equity", 0.6667), ("bond", 0.3333)]),
        ("- 沪深300ETF：35%\n- 国债：45%\n- 活期：20%", [("equity", 0.35), ("bond", 0.45), ("cash", 0.2)]),
        ("| 资产 | 比例 |\n|---|---|\n| 宽基指数 | 60% |\n| 纯债 | 40% |", [("equity", 0.6), ("bond", 0.4)]),
        (
            "40% in one dividend ETF, 30% in Treasuries and 30% in cash",
            [("equity", 0.4), ("bond", 0.3), ("cash", 0.3)],
        ),
        ("按股六债四来配", [("equity", 0.6), ("bond", 0.4)]),
        (
            "总资产里投资部分占75%，按股四债六分；剩余25%放活期",
            [(None, 0.75), ("equity", 0.3), ("bond", 0.45), ("cash", 0.25)],
        ),
        ("债券45%、宽基30%，剩下的全放现金", [("bond", 0.45), ("equity", 0.3), ("cash", 0.25)]),
        ("黄金ETF联接基金可以配8%左右", [("gold", 0.08)]),
    ],
)
def test_weights(text: str, expected: list[tuple[str | None, float]]) -> None:
    assert pairs(text) == expected


@pytest.mark.parametrize(
    "text",
    [
        "过去一年股票基金收益18%，费率1.2%，最大回撤6.5%",
        "国债收益率2.5%，处于30%分位",
        "股息率约5%的红利指数",
        "您60%的权益上限没有被突破",
        "不建议把股票配到80%",
        "假设股票占50%、债券占50%",
        "您问“股票配80%行不行”",
        "这只偏股混合基金的股票仓位在85%以上",
        "债券概率60%会涨",
        "股票占比从50%升至70%",
    ],
)
def test_what_is_no_weight(text: str) -> None:
    assert pairs(text) == []


@pytest.mark.parametrize(
    ("text", "role"),
    [
        ("您目前股票占45%", "held"),
        ("建议再加20个百分点的偏股基金", "added"),
        ("单只基金先降到35%", "reduced"),
        ("权益合计55%", "total"),
        ("权益40%：其中宽基25%", "part"),
        ("股票占45%", "target"),
    ],
)
def test_roles(text: str, role: str) -> None:
    assert read(text)[-1].role == role


@pytest.mark.parametrize("entry", load_vocabulary().classes, ids=lambda entry: entry.id)
def test_examples_of_classes(entry: Entry) -> None:
    for text in entry.examples:
        assert entry.id in [weight.asset_class for weight in read(text)], text
    for text in entry.counter_examples:
        assert entry.id not in [weight.asset_class for weight in read(text)], text


@given(st.integers(1, 99))
def test_width_and_space_change_nothing(percent: int) -> None:
    plain = pairs(f"股票{percent}%、债券{100 - percent}%")
    wide = f"股票 {percent}％、债券 {100 - percent} %".translate(
        str.maketrans("0123456789", "０１２３４５６７８９")
    )
    assert pairs(wide) == plain == [("equity", percent / 100), ("bond", round(1 - percent / 100, 4))]


def test_offsets_are_those_of_the_number() -> None:
    text = "股票50%、债券两成"
    assert [text[weight.start : weight.end] for weight in read(text)] == ["50%", "两成"]
