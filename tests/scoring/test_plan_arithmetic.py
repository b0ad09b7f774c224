"""Plans made up by numbers, in every layout replies use: what they break follows from arithmetic alone."""

import random
from collections.abc import Callable
from functools import cache

import pytest

from memfin.scoring.contradiction import ConstraintChecker

Plan = list[tuple[str, str, int]]
"""Name, class (equity, bond, cash, gold) and percentage of each holding; the percentages make a hundred."""

CHINESE = {
    "equity": [
        "沪深300指数基金",
        "中证500ETF",
        "红利低波基金",
        "医药主题基金",
        "恒生科技ETF",
        "纳指ETF",
        "主动偏股基金",
        "消费行业基金",
        "宽基指数",
        "权益类",
        "偏股混合基金",
        "港股通基金",
        "高股息股票",
        "股票型基金",
        "量化指增",
        "银行ETF",
        "全球股票基金",
        "医药",
    ],
    "bond": [
        "国债",
        "短债基金",
        "政金债指数基金",
        "高等级信用债",
        "纯债基金",
        "同业存单指数基金",
        "利率债",
        "固收类",
        "国债ETF",
        "30年国债ETF",
        "储蓄国债",
        "固定收益类",
    ],
    "cash": [
        "货币基金",
        "活期存款",
        "现金",
        "余额宝",
        "现金管理类产品",
        "货币市场基金",
        "零钱通",
        "现金储备",
    ],
    "gold": ["黄金ETF", "积存金", "黄金联接基金"],
}
ENGLISH = {
    "equity": [
        "US total stock market index fund",
        "S&P 500 index fund",
        "dividend ETF",
        "UK equity index",
        "emerging-market fund",
        "tech ETF",
        "stocks",
        "growth fund",
        "European shares",
    ],
    "bond": [
        "Treasuries",
        "gilt index fund",
        "corporate bond ETF",
        "bonds",
        "Treasury ETF",
        "aggregate bond index",
    ],
    "cash": [
        "cash",
        "money market fund",
        "savings account",
        "bank deposits",
    ],
    "gold": ["gold ETF", "physical gold ETC"],
}
NOTES = [
    "近三年年化约3.4%，管理费0.15%",
    "估值处于近十年18%分位",
    "历史最大回撤约8%",
    "股息率约4.1%",
    "作用是分散",
]
TENTHS = "零一两三四五六七八九十"


def drawn(generator: random.Random, names: dict[str, list[str]]) -> Plan:
    while True:
        sizes = [generator.choice(range(5, 55, 5)) for _ in range(generator.choice([3, 4, 5]))]
        if sum(sizes) == 100:
            break
    plan: Plan = []
    for size in sizes:
        taken = {name for name, _, _ in plan}
        kind, name = generator.choice(
            [(kind, name) for kind, own in names.items() for name in own if name not in taken]
        )
        plan.append((name, kind, size))
    return plan


def note(index: int) -> str:
    return NOTES[index % len(NOTES)]


def tenths(size: int) -> str:
    whole, half = divmod(size, 10)
    return (f"{TENTHS[whole]}成" + ("半" if half else "")) if whole else "半成"


def lines(plan: Plan, line: Callable[[int, str, int], str]) -> str:
    return "建议配置如下：\n" + "\n".join(
        line(index, name, size) for index, (name, _, size) in enumerate(plan, 1)
    )


def rows(plan: Plan, head: str, row: Callable[[int, str, int], str]) -> str:
    rule = "|" + "---|" * (head.count("|") - 1)
    body = "\n".join(row(index, name, size) for index, (name, _, size) in enumerate(plan, 1))
    return f"建议这样配：\n\n{head}\n{rule}\n{body}"


IN_CHINESE: dict[str, Callable[[Plan], str]] = {
    "running text": lambda plan: "我建议" + "，".join(f"{name}占{size}%" for name, _, size in plan) + "。",
    "tenths": lambda plan: "可以" + "，".join(f"{name}放{tenths(size)}" for name, _, size in plan) + "。",
    "shares first": lambda plan: (
        "建议将" + "、".join(f"{size}%的资金配置于{name}" for name, _, size in plan) + "。"
    ),
    "the rest": lambda plan: (
        "建议" + "，".join(f"{name}配{size}%" for name, _, size in plan[:-1]) + f"，其余放{plan[-1][0]}。"
    ),
    "of which": lambda plan: (
        "总仓位如下，其中" + "，".join(f"{name}占比{size}%" for name, _, size in plan) + "。"
    ),
    "a sentence each": lambda plan: (
        "建议" + "。".join(f"{name}的比例为{size}%" for name, _, size in plan) + "。"
    ),
    "items": lambda plan: lines(plan, lambda _, name, size: f"- {name}：{size}%左右"),
    "items with figures behind": lambda plan: lines(
        plan, lambda i, name, size: f"{i}. {name} {size}%（{note(i)}）"
    ),
    "items with figures before": lambda plan: lines(
        plan, lambda i, name, size: f"- {name}（{note(i)}）：{size}%"
    ),
    "items of items": lambda plan: lines(
        plan, lambda i, name, size: f"- {name}\n  - 比例：{size}%\n  - 说明：{note(i)}"
    ),
    "ranges": lambda plan: lines(plan, lambda _, name, size: f"- {name}：{size - 2}%~{size + 2}%"),
    "sums": lambda plan: (
        "50万这样分：\n" + "\n".join(f"- {name}：{size / 2:g}万元" for name, _, size in plan)
    ),
    "sections": lambda plan: (
        "我的方案：\n\n"
        + "\n\n".join(
            f"### {index}. {name}（{size}%）\n这一部分用来分散，平时少动。"
            for index, (name, _, size) in enumerate(plan, 1)
        )
    ),
    "a table": lambda plan: rows(plan, "| 资产 | 比例 |", lambda _, name, size: f"| {name} | {size}% |"),
    "a table with sums": lambda plan: (
        rows(plan, "| 资产 | 占比 | 金额 |", lambda _, name, size: f"| {name} | {size}% | {size / 2:g}万 |")
        + "\n| 合计 | 100% | 50万 |"
    ),
    "a table with figures": lambda plan: rows(
        plan,
        "| 序号 | 品种 | 建议仓位 | 近一年收益 | 说明 |",
        lambda i, name, size: f"| {i} | {name} | **{size}%** | {i}.8% | {note(i)} |",
    ),
}
IN_ENGLISH: dict[str, Callable[[Plan], str]] = {
    "running text": lambda plan: (
        "I'd put "
        + ", ".join(f"{size}% in {name}" for name, _, size in plan[:-1])
        + f" and {plan[-1][2]}% in {plan[-1][0]}."
    ),
    "items": lambda plan: (
        "My mix:\n\n" + "\n".join(f"- {name.capitalize()}: {size}%" for name, _, size in plan)
    ),
    "shares first": lambda plan: "My mix:\n\n" + "\n".join(f"- {size}% {name}" for name, _, size in plan),
    "a sentence each": lambda plan: " ".join(
        f"{name.capitalize()} would make up {size}% of the portfolio." for name, _, size in plan
    ),
    "a table with figures": lambda plan: (
        "My mix:\n\n| Fund | Allocation | Fee | 5-yr return |\n|---|---|---|---|\n"
        + "\n".join(f"| {name} | {size}% | 0.{i}5% | {i}.3% |" for i, (name, _, size) in enumerate(plan, 1))
    ),
}
BEFORE = ("", "您好，感谢信任。过去一年沪深300上涨了12%。\n\n")
PLANS = 40


@cache
def checker(constraint: str) -> ConstraintChecker:
    return ConstraintChecker([constraint])


def total(plan: Plan, kind: str) -> int:
    return sum(size for _, own, size in plan if own == kind)


def misread(
    write: Callable[[Plan], str], names: dict[str, list[str]], cap: str, floor: str, slack: int
) -> list[str]:
    """Return constraint and reply wherever the reading is not what the arithmetic says."""
    generator = random.Random(7)
    wrong = []
    for number in range(PLANS):
        plan = drawn(generator, names)
        text = (BEFORE[number % 2] if names is CHINESE else "") + write(plan)
        equity, cash = total(plan, "equity"), total(plan, "cash")
        expected = {floor.format(cash + 10 + slack): True}
        if equity:
            expected[cap.format(min(equity + slack, 100))] = False
        if equity > 5 + slack:
            expected[cap.format(equity - 5 - slack)] = True
        if cash > slack:
            expected[floor.format(cash - slack)] = False
        wrong += [
            f"{constraint}: {text}"
            for constraint, breaks in expected.items()
            if bool(checker(constraint).check(text)) != breaks
        ]
    return wrong


@pytest.mark.parametrize("layout", IN_CHINESE)
def test_plans_in_chinese_break_what_their_numbers_break(layout: str) -> None:
    slack = 12 if layout == "ranges" else 0
    assert misread(IN_CHINESE[layout], CHINESE, "权益类总仓位不超过{}%", "保留{}%现金", slack) == []


@pytest.mark.parametrize("layout", IN_ENGLISH)
def test_plans_in_english_break_what_their_numbers_break(layout: str) -> None:
    assert (
        misread(IN_ENGLISH[layout], ENGLISH, "Equity no more than {}%", "Keep at least {}% in cash", 0) == []
    )
