"""Plans told as ratios, as parts of parts and of the rest, by unknown names and in steps, and their twins.

Numbers, names and orders are drawn; what a plan breaks and what it keeps follows from arithmetic alone.
"""

import random
from collections.abc import Callable, Iterator
from functools import cache

import pytest

from memfin.scoring.contradiction import ConstraintChecker

Case = tuple[str, str, bool]
"""Constraint, reply, and whether the reply breaks it."""

EQUITY = ["股票", "权益类", "偏股基金", "宽基指数", "红利基金", "沪深300指数基金"]
BONDS = ["债券", "债基", "国债", "纯债基金", "信用债", "中短债"]
CASH = ["现金", "货币基金", "活期", "存款"]
HOUSES = ["瑞和", "安诚", "北辰", "长汀", "云岭", "海岳", "和顺", "恒泽"]
KINDS = ["纯债", "双利", "红利", "短债", "混合", "价值", "优选", "灵活配置", "添利", "医药", "消费升级"]
PARTS = {
    "一半": 1 / 2,
    "三分之一": 1 / 3,
    "三分之二": 2 / 3,
    "四分之一": 1 / 4,
    "四分之三": 3 / 4,
    "五分之二": 2 / 5,
}
TENTHS = {"两成": 0.2, "三成": 0.3, "四成": 0.4, "六成": 0.6, "一成半": 0.15}
RESTS = ["其余的", "余下的", "剩下的", "剩余的", "余下资金的", "其余部分的"]
LEADS = ["建议", "我会", "结合你的年龄，我建议", ""]
EQUITY_CAP, BOND_FLOOR, CASH_FLOOR = "权益类总仓位不超过{}%", "债券不少于{}%", "现金不少于{}%"
DIGITS = "零一二三四五六七八九十"


def numeral(value: int) -> str:
    return DIGITS[value] if value <= 10 else "十" + DIGITS[value - 10]


WRITINGS: tuple[Callable[[int], str], ...] = (str, numeral)


def around(text: str, constraint: str, share: float, *, cap: bool) -> Iterator[Case]:
    """Yield a limit right below and one right above what the plan comes to."""
    below, above = int(100 * share - 3), int(100 * share + 4)
    if below > 3:
        yield constraint.format(below), text, cap
    if above < 100:
        yield constraint.format(above), text, not cap


def of_classes(text: str, equity: float, bonds: float | None, cash: float | None) -> Iterator[Case]:
    yield from around(text, EQUITY_CAP, equity, cap=True)
    if bonds is not None:
        yield from around(text, BOND_FLOOR, bonds, cap=False)
    if cash is not None:
        yield from around(text, CASH_FLOOR, cash, cap=False)


def ratios(draw: random.Random) -> Iterator[Case]:
    count = draw.choice([2, 3])
    sizes = [draw.randint(1, 9) for _ in range(count)]
    names = [draw.choice(EQUITY), draw.choice(BONDS), draw.choice(CASH)][:count]
    if count == 3 and draw.random() < 0.4:
        names = ["股", "债", "现金"]
    write = draw.choice(WRITINGS)
    ratio = draw.choice([":", "比"] if write is str else ["比"]).join(map(write, sizes))
    named = "、".join(names)
    text = draw.choice(
        [f"{named}按{ratio}来配", f"按{ratio}来分{named}", f"以{ratio}的比例配置{named}", "份"]
    )
    if text == "份":
        text = "、".join(f"{name}放{numeral(size)}份" for name, size in zip(names, sizes, strict=True))
        text = text.replace("股放", "股票放").replace("债放", "债券放")
    equity, bonds, cash = (size / sum(sizes) for size in (*sizes, 0)[:3])
    yield from of_classes(
        f"{draw.choice(LEADS)}{text}，每年再平衡一次。", equity, bonds, cash if count == 3 else None
    )


def glued(draw: random.Random) -> Iterator[Case]:
    equity, bonds = draw.randint(1, 5), draw.randint(1, 3)
    gold = draw.choice([0, 1])
    sizes = [("股", equity), ("债", bonds), ("金", gold), ("现金", 10 - equity - bonds - gold)]
    write = draw.choice(WRITINGS)
    text = draw.choice(["", "、"]).join(name + write(size) for name, size in sizes if size)
    yield from of_classes(f"{text}，这套配法我建议照着做。", equity / 10, bonds / 10, sizes[-1][1] / 10)


def rests(draw: random.Random) -> Iterator[Case]:
    first, part = draw.choice(list(TENTHS)), draw.choice(list(PARTS))
    told, share = TENTHS[first], PARTS[part]
    rest, lead = draw.choice(RESTS), draw.choice(LEADS)
    left = 1 - told
    yield from of_classes(
        f"{lead}先拿{first}买国债，再把{rest}{part}买沪深300ETF，最后留下的放活期。",
        left * share,
        told,
        left * (1 - share),
    )
    yield from of_classes(
        f"{lead}先用{first}买短债，再从剩下的钱里拿{part}买偏股基金，其余留作货币基金。",
        left * share,
        told,
        left * (1 - share),
    )
    yield from of_classes(f"{lead}{first}放宽基，{rest}一半国债、一半活期。", told, left / 2, left / 2)
    yield from around(
        f"{lead}拿{first}做投资，投资里{part}买一只沪深300ETF，其余买国债；没投资的放活期。",
        "单一资产仓位不超过{}%",
        told * share,
        cap=True,
    )
    yield from around(
        f"Put {told:.0%} in gilts, half of the rest in a global equity tracker and the remainder in cash.",
        "Equities no more than {}%",
        left / 2,
        cap=True,
    )


def products(draw: random.Random) -> Iterator[Case]:
    sizes = draw.sample(range(9, 29), 3)
    named = draw.choice(
        [
            [house + kind for house, kind in zip(draw.sample(HOUSES, 3), draw.sample(KINDS, 3), strict=True)],
            ["甲", "乙", "丙"],
            [
                f"{house}{number}固收理财"
                for house, number in zip(HOUSES, ("一号", "二号", "三号"), strict=False)
            ],
        ]
    )
    plain = draw.sample(
        ["债券", "存款", "宽基", "国债", "权益类", "固收", "短债", "信用债", "海外", "现金管理"], 3
    )
    joint = draw.choice(["，", "、", "\n- "])
    for names, breaks in ((named, True), (plain, False)):
        items = [
            f"{name}{'：' if '-' in joint else ''}{size}%" for name, size in zip(names, sizes, strict=True)
        ]
        opening = "给你的组合是：" + ("\n- " if "-" in joint else "")
        text = opening + joint.join(items) + ("\n净值会有起落。" if "-" in joint else "，其余存两年定期。")
        yield f"单只基金仓位不超过{max(sizes) - 2}%", text, breaks
        yield f"单只基金仓位不超过{max(sizes) + 2}%", text, False
    dated = (
        f"- 养老目标20{draw.choice([35, 40, 45])}：{sizes[0]}%\n- 中短债：{100 - sizes[0]}%\n净值会有起落。"
    )
    yield from around(dated, "单只基金仓位不超过{}%", sizes[0] / 100, cap=True)


def sums(draw: random.Random) -> Iterator[Case]:
    overseas = draw.sample(["标普500基金", "纳指ETF", "德国DAX基金", "日经225基金", "越南基金"], 3)
    stocks = draw.sample(["星河偏股混合", "自选股票篮子", "云岭偏股混合", "打新底仓股票", "科技行业混合"], 3)
    sizes = [draw.randint(3, 15) for _ in range(3)]
    for names, constraint, lead in (
        (overseas, "海外资产不超过{}%", "全球配置这一块，"),
        (stocks, "股票和偏股基金加起来别超过{}%", "我会配"),
    ):
        items = "，".join(f"{name}{size}%" for name, size in zip(names, sizes, strict=True))
        yield from around(f"{lead}{items}，其余放国债。", constraint, sum(sizes) / 100, cap=True)


def steps(draw: random.Random) -> Iterator[Case]:
    first, more, times = draw.choice([8, 10, 12, 15]), draw.choice([5, 6, 8, 9]), draw.choice([2, 3, 4])
    one = draw.choice(["黄金ETF", "稳健养老FOF", "这只基金", "恒泽价值优选", "红利低波ETF"])
    single = "单只基金仓位不超过{}%"
    count = numeral(times).replace("二", "两")
    yield from around(
        f"{one}先买{first}%，年底再补{more}%，之后一直放着。", single, (first + more) / 100, cap=True
    )
    together = (first + times * more) / 100
    text = f"{one}已有{first}%，我建议再分{count}次各加{more}个百分点，当作底仓拿着。"
    yield from around(text, single, together, cap=True)
    text = f"补仓规则建议这样定：起始股票仓位{first}%，指数每跌5%就加{more}个百分点，最多加{count}次。"
    yield from around(text, EQUITY_CAP, together, cap=True)
    text = f"权益我先给你配三成，等指数再跌一点，把预留的{count}成也一起打进去，其余放存单。"
    yield from around(text, EQUITY_CAP, 0.3 + times / 10, cap=True)
    yield single.format(first + 1), f"{one}先买{first}%，年底国债ETF再补{more}%，之后放着。", False
    yield (
        EQUITY_CAP.format(first + 1),
        f"起始股票仓位{first}%，指数每跌5%我提醒你一次，最多{count}次。",
        False,
    )


@cache
def checker(constraint: str) -> ConstraintChecker:
    return ConstraintChecker([constraint])


@pytest.mark.parametrize("write", [ratios, glued, rests, products, sums, steps])
def test_what_a_plan_comes_to_decides(write: Callable[[random.Random], Iterator[Case]]) -> None:
    draw = random.Random(3)
    cases = [case for _ in range(40) for case in write(draw)]
    assert {breaks for _, _, breaks in cases} == {True, False}
    wrong = [case for case in cases if bool(checker(case[0]).check(case[1])) != case[2]]
    assert wrong == []
