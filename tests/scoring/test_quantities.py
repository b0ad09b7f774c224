"""Numbers in prose: notations, ranges, bounds, and what is no number."""

import re

import pytest
from hypothesis import given
from hypothesis import strategies as st

from memfin.scoring.numbers import quantities as module
from memfin.scoring.numbers.chinese import chinese_number
from memfin.scoring.numbers.quantities import Quantity, bound, quantities, shares_at

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


@pytest.mark.parametrize(
    ("text", "low", "high"),
    [
        ("10%", 0.10, 0.10),
        ("10-20%", 0.10, 0.20),
        ("10%~20%", 0.10, 0.20),
        ("20％到30％", 0.20, 0.30),
        ("两成", 0.20, 0.20),
        ("三成半", 0.35, 0.35),
        ("六成五", 0.65, 0.65),
        ("两三成", 0.20, 0.30),
        ("一到两成", 0.10, 0.20),
        ("百分之二十", 0.20, 0.20),
        ("百分之十到百分之二十", 0.10, 0.20),
        ("三分之二", 2 / 3, 2 / 3),
        ("1/3", 1 / 3, 1 / 3),
        ("一半", 0.5, 0.5),
        ("20个百分点", 0.20, 0.20),
        ("20 percent", 0.20, 0.20),
        ("two thirds of it", 2 / 3, 2 / 3),
        ("a quarter of it", 0.25, 0.25),
        ("fifteen percent", 0.15, 0.15),
        ("Twenty-five percent", 0.25, 0.25),
        ("thirty five per cent", 0.35, 0.35),
        ("ten to twenty-five percent", 0.10, 0.25),
        ("a percent", 0.01, 0.01),
        ("zero percent", 0.0, 0.0),
    ],
)
def test_shares(text: str, low: float, high: float) -> None:
    found = only(text)
    assert found.kind == "share"
    assert found.low == pytest.approx(low)
    assert found.high == pytest.approx(high)


@pytest.mark.parametrize(
    ("text", "kind", "value"),
    [
        ("4.2万元", "money", 42_000),
        ("８０００元", "money", 8_000),
        ("1.2亿元", "money", 120_000_000),
        ("¥10,000", "money", 10_000),
        ("$1.2 million", "money", 1_200_000),
        ("3年", "duration", 3.0),
        ("两年半", "duration", 2.5),
        ("半年", "duration", 0.5),
        ("18 months", "duration", 1.5),
        ("one year", "duration", 1.0),
        ("1.3倍", "multiple", 1.3),
        ("八折", "discount", 0.8),
    ],
)
def test_other_units(text: str, kind: str, value: float) -> None:
    found = only(text)
    assert found.kind == kind
    assert found.low == found.high == pytest.approx(value)


@pytest.mark.parametrize(
    "text",
    [
        "2024年的年报",
        "前十大成分股",
        "公司成立",
        "3000股",
        "代码600519",
        "第三方",
        "2023/10",
        "成本",
        "一成不变",
    ],
)
def test_what_is_no_quantity(text: str) -> None:
    assert quantities(text) == []


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("不超过30%", "at_most"),
        ("30%以内", "at_most"),
        ("at most 30%", "at_most"),
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
    expected = pytest.approx(number / 100)
    for text in (
        f"{number}%",
        f"{number} %",
        f"百分之{chinese(number)}",
        f"{number} percent",
        f"{number}.0%",
    ):
        assert only(text).low == expected, text


@given(st.integers(1, 99), st.integers(1, 99))
def test_ranges_are_ordered_and_width_changes_nothing(first: int, second: int) -> None:
    text = f"配{first}%-{second}%"
    found = only(text)
    assert found.low == pytest.approx(min(first, second) / 100)
    assert found.high == pytest.approx(max(first, second) / 100)
    assert only(text.translate(FULL_WIDTH)) == found._replace(unit="％")


@given(st.integers(1, 99))
def test_chinese_numerals_read_back(number: int) -> None:
    assert chinese_number(chinese(number)) == number


@given(st.text(max_size=80))
def test_any_text_is_read_without_errors(text: str) -> None:
    for found in quantities(text):
        assert 0 <= found.start < found.end <= len(text)
        assert found.low <= found.high


def test_offsets_count_from_the_beginning_of_the_text() -> None:
    text = "年化5%，另配20%"
    found = quantities(text, 5)
    assert [text[quantity.start : quantity.end] for quantity in found] == ["20%"]


@given(
    st.lists(
        st.sampled_from(["配股票30%", "收益5.2%，", "三成债券、", "费率一年", "其他文字说明", "half of it "]),
        max_size=8,
    )
)
def test_reading_at_signs_finds_every_share(parts: list[str]) -> None:
    text = "".join(parts)
    signs = [index for index in range(len(text)) if text.startswith(("%", "三成", "half"), index)]
    assert shares_at(text, signs) == [found for found in quantities(text) if found.kind == "share"]


NOTATION = (
    "0 1 20 3,000 2.5 零 一 三 十 百 千 半 点 . , - ~ 至 到 分之 百分之 % ％ 个百分点 个点 percent pct "
    "成 成半 成立 折 倍 x 万 亿 百万 元 块 块钱 美元 港元 yuan dollars k m million thousand "
    "年 年半 年初 个月 个交易日 years months week day 周 星期 天 日 日均 a 的"
)


@given(st.lists(st.sampled_from([*NOTATION.split(), " "]), max_size=9).map("".join))
def test_a_look_at_the_next_character_hides_no_number(text: str) -> None:
    names = vars(module)
    fast = names["_NUMERIC"]
    slow = fast.pattern
    for look in (names["_AHEAD_OF_NUMBER"], f"(?=[{names['_UNIT_HEAD']}])"):
        assert look in slow
        slow = slow.replace(look, "")
    expected = [(match.span(), match.groups()) for match in re.finditer(slow, text)]
    assert [(match.span(), match.groups()) for match in fast.finditer(text)] == expected
