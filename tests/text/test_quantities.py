"""Quantities in prose: notations, ranges, bounds, what is none, and the cost of reading them."""

import re
import time

import pytest
from hypothesis import given
from hypothesis import strategies as st

from memfin.text import quantities as module
from memfin.text.quantities import Quantity, bound, find, quantities
from tests.support import each_case

FULL_WIDTH = str.maketrans("0123456789%.-", "０１２３４５６７８９％．－")


def only(text: str) -> Quantity:
    (found,) = quantities(text)
    return found


def chinese(number: int) -> str:
    digits = "零一二三四五六七八九"
    tens, ones = divmod(number, 10)
    if tens == 0:
        return digits[ones]
    head = "十" if tens == 1 else digits[tens] + "十"
    return head + (digits[ones] if ones else "")


@each_case(
    ("text", "low", "high"),
    [
        ("10%", 0.10, 0.10),
        ("10-20%", 0.10, 0.20),
        ("10%~20%", 0.10, 0.20),
        ("20％到30％", 0.20, 0.30),
        ("20 or 30%", 0.20, 0.30),
        ("两成", 0.20, 0.20),
        ("三成半", 0.35, 0.35),
        ("六成五", 0.65, 0.65),
        ("两三成", 0.20, 0.30),
        ("一两成", 0.10, 0.20),
        ("一到两成", 0.10, 0.20),
        ("百分之二十", 0.20, 0.20),
        ("百分之二点五", 0.025, 0.025),
        ("百分之十到二十", 0.10, 0.20),
        ("百分之十到百分之二十", 0.10, 0.20),
        ("万分之五", 0.0005, 0.0005),
        ("三分之二", 2 / 3, 2 / 3),
        ("1/3", 1 / 3, 1 / 3),
        ("一半", 0.5, 0.5),
        ("半仓", 0.5, 0.5),
        ("20个百分点", 0.20, 0.20),
        ("20百分点", 0.20, 0.20),
        ("20 percent", 0.20, 0.20),
        ("two thirds of it", 2 / 3, 2 / 3),
        ("a quarter of it", 0.25, 0.25),
        ("half in cash", 0.5, 0.5),
        ("fifteen percent", 0.15, 0.15),
        ("Twenty-five percent", 0.25, 0.25),
        ("thirty five per cent", 0.35, 0.35),
        ("ten to twenty-five percent", 0.10, 0.25),
        ("half a percent", 0.005, 0.005),
        ("one hundred percent", 1.0, 1.0),
        ("a percent", 0.01, 0.01),
        ("zero percent", 0.0, 0.0),
    ],
)
def test_shares(text: str, low: float, high: float) -> None:
    found = only(text)
    assert found.kind == "share"
    assert found.low == pytest.approx(low)
    assert found.high == pytest.approx(high)


@each_case(
    ("text", "low", "high"),
    [
        ("4.2万元", 42_000, 42_000),
        ("5 万元", 50_000, 50_000),
        ("５０００元", 5_000, 5_000),
        ("1.2亿元", 120_000_000, 120_000_000),
        ("3千", 3_000, 3_000),
        ("3百万", 3_000_000, 3_000_000),
        ("四万二千元", 42_000, 42_000),
        ("四万二", 42_000, 42_000),
        ("12万3456元", 123_456, 123_456),
        ("1亿2000万", 120_000_000, 120_000_000),
        ("壹万贰仟元", 12_000, 12_000),
        ("两千多元", 2_000, 2_000),
        ("10w", 100_000, 100_000),
        ("¥10,000", 10_000, 10_000),
        ("¥ 5", 5, 5),
        ("$1.2 million", 1_200_000, 1_200_000),
        ("$200k", 200_000, 200_000),
        ("50,000 dollars", 50_000, 50_000),
        ("two thousand and fifty dollars", 2_050, 2_050),
        ("30,000", 30_000, 30_000),
        ("5-10万", 50_000, 100_000),
        ("三五万", 30_000, 50_000),
        ("5000到1万元", 5_000, 10_000),
        ("1-2 million", 1_000_000, 2_000_000),
    ],
)
def test_money(text: str, low: float, high: float) -> None:
    assert only(text)[:3] == ("money", low, high)


@each_case(
    ("text", "kind", "low", "high"),
    [
        ("3年", "duration", 3.0, 3.0),
        ("两年半", "duration", 2.5, 2.5),
        ("一个半月", "duration", 0.125, 0.125),
        ("半年到一年", "duration", 0.5, 1.0),
        ("6-24个月", "duration", 0.5, 2.0),
        ("两三年", "duration", 2.0, 3.0),
        ("两个季度", "duration", 0.5, 0.5),
        ("18 months", "duration", 1.5, 1.5),
        ("3-year", "duration", 3.0, 3.0),
        ("one year", "duration", 1.0, 1.0),
        ("half a year", "duration", 0.5, 0.5),
        ("two and a half years", "duration", 2.5, 2.5),
        ("a year and a half", "duration", 1.5, 1.5),
        ("two or three years", "duration", 2.0, 3.0),
        ("1.3倍", "multiple", 1.3, 1.3),
        ("八折", "discount", 0.8, 0.8),
        ("八五折", "discount", 0.85, 0.85),
    ],
)
def test_other_units(text: str, kind: str, low: float, high: float) -> None:
    found = only(text)
    assert found.kind == kind
    assert (found.low, found.high) == pytest.approx((low, high))


@each_case(
    "text",
    [
        *("2024年的年报", "2024年-2026年", "前十大成分股", "公司成立", "3000股", "3万股", "代码600519"),
        *(
            "第三方",
            "第三年",
            "2023/10",
            "3月10日",
            "成本",
            "一成不变",
            "千万别买",
            "万一",
            "九八年",
            "上半年",
        ),
        *("Third, keep calm", "every quarter of the year", "10-K", "3,500 people and 4,000 shares"),
    ],
)
def test_what_is_no_quantity(text: str) -> None:
    assert quantities(text) == []


@each_case(
    ("text", "parts"),
    [
        ("沪深300三成", ["三成"]),
        ("一半五年国债", ["一半", "五年"]),
        ("存5万一年", ["5万", "一年"]),
        ("5万/10万", ["5万", "10万"]),
        ("10万-20%", ["10万", "20%"]),
        ("两成为好", ["两成"]),
        ("从20%提高 到30%", ["20%", "30%"]),
        ("把仓位提高，从20%到30%", ["30%"]),
        ("cut it from 30% to 20%", ["20%"]),
        ("5% a year for 10 years", ["5%", "10 years"]),
        ("28,571 of 50,000", ["28,571", "50,000"]),
        ("the index at 3,012", []),
    ],
)
def test_several_quantities(text: str, parts: list[str]) -> None:
    assert [text[found.start : found.end] for found in quantities(text)] == parts


def test_units_are_those_of_the_text() -> None:
    texts = ("20%", "三成半", "三分之二", "4.2万元", "5万", "四万二", "¥30", "两年半", "3 Years", "30,000")
    units = ["%", "成半", "分之", "万元", "万", "万", "¥", "年半", "Years", ""]
    assert [only(text).unit for text in texts] == units


def test_the_first_quantity_of_a_kind_is_found() -> None:
    found = find("3年里投入5万元，其中30%买债券", "money")
    assert found is not None
    assert (found.low, found.start) == (50_000, 5)
    assert find("3年", "money") is None


@each_case(
    ("text", "expected"),
    [
        ("不超过30%", "at_most"),
        ("30%以内", "at_most"),
        ("at most 30%", "at_most"),
        ("no more than 30%", "at_most"),
        ("回撤<10%", "at_most"),
        ("不少于15%", "at_least"),
        ("不低于20%", "at_least"),
        ("20%以上", "at_least"),
        ("at least 20%", "at_least"),
        ("配20%", "exact"),
    ],
)
def test_bounds(text: str, expected: str) -> None:
    assert bound(text, only(text)) == expected


@given(st.integers(1, 99))
def test_notations_of_one_share_agree(number: int) -> None:
    texts = (f"{number}%", f"{number} %", f"百分之{chinese(number)}", f"{number} percent", f"{number}.0%")
    assert {only(text).low for text in texts} == {number / 100}


@given(st.integers(1, 99), st.integers(1, 99))
def test_ranges_are_ordered_and_width_changes_nothing(first: int, second: int) -> None:
    text = f"配{first}%-{second}%"
    found = only(text)
    assert found.low == pytest.approx(min(first, second) / 100)
    assert found.high == pytest.approx(max(first, second) / 100)
    assert only(text.translate(FULL_WIDTH)) == found._replace(unit="％")


NOTATION = (
    "0 1 20 3,000 2.5 零 一 三 十 百 千 半 点 . , - ~ 至 到 分之 百分之 % ％ 个百分点 个点 percent pct / $ ¥ "
    "第 成 成半 成立 折 倍 x 万 亿 百万 元 块 块钱 美元 港元 yuan dollars k m million thousand from or to "
    "and 年 年半 年初 个月 个交易日 years months week day 周 星期 天 日 日均 a half one twenty third quarter "
    "of 的 仓"
)
notations = st.lists(st.sampled_from([*NOTATION.split(), " "]), max_size=12).map("".join)


@given(st.one_of(notations, st.text(max_size=80)))
def test_any_text_is_read_without_errors(text: str) -> None:
    for found in quantities(text):
        assert 0 <= found.start < found.end <= len(text)
        assert found.low <= found.high


@given(notations)
def test_a_look_at_the_next_characters_hides_no_quantity(text: str) -> None:
    figure, english = module._figure(), module._ENGLISH
    for fast, looks in (
        (figure, ("(?=[分/半仓])", r"(?=[ \-–—~～－至到t])")),
        (english, (f"(?={module._HEAD})", "[aefhnoqrstzAEFHNOQRSTZ]")),
    ):
        slow = fast.pattern
        for look in looks:
            assert look in slow
            slow = slow.replace(look, "." if look[0] == "[" else "")
        matches = [(match.span(), match.groups()) for match in re.finditer(slow, text, fast.flags)]
        assert [(match.span(), match.groups()) for match in fast.finditer(text)] == matches


def test_offsets_count_from_the_beginning_of_the_text() -> None:
    text = "年化5%，另配20%"
    assert [text[found.start : found.end] for found in quantities(text, 5)] == ["20%"]


@each_case(
    "piece",
    [
        *(
            "期限3年",
            "一半",
            "剩5万",
            " I'd buy 20%",
            "1,000,",
            ",000",
            "三四五六",
            "7",
            "1-",
            "3 ",
            "百分之",
        ),
        *("1 or ", "2024年-", "from 20% to 30% ", "one and ", "a hundred ", "half ", "$ ", "万", "1.", "12:"),
    ],
)
def test_the_time_is_proportional_to_the_length(piece: str) -> None:
    def seconds(length: int) -> float:
        text = (piece * length)[:length]
        times = []
        for _ in range(3):
            began = time.perf_counter()
            quantities(text)
            times.append(time.perf_counter() - began)
        return min(times)

    seconds(100)
    assert seconds(16_000) < max(0.5, 8 * seconds(4_000))
