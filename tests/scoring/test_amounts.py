"""Divided sums of money as shares."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from memfin.scoring.contradiction import ConstraintChecker
from memfin.scoring.weights.amounts import bare_shares, divided, remainder, spent, tabled


def shares(text: str) -> list[float]:
    return [round(part.low, 4) for part in divided(text)]


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("二十万这样分:基金八万,短债七万,活期五万", [0.4, 0.35, 0.25]),
        ("50万元里,20万元买国债,15万元买红利,15万元留活期", [0.4, 0.3, 0.3]),
        ("put $40,000 of the $100,000", []),
        ("of your $100,000, $60,000 goes to bonds and $40,000 to cash", [0.6, 0.4]),
        ("二十万:宽基四万,债a和债b各三万,货币基金十万", [0.2, 0.15, 0.5]),
        ("二十万里,基金八万,短债七万,活期六万", []),
        ("起投100万元,管理费1万元,托管费1万元", []),
        ("每月收入2万元,房贷1万元", []),
    ],
)
def test_parts_count_only_when_they_add_up(text: str, expected: list[float]) -> None:
    assert shares(text) == expected


def test_offsets_are_those_of_the_amounts() -> None:
    text = "三十万里拿二十五万买国债,剩的五万放活期"
    assert [text[part.start : part.end] for part in divided(text)] == ["二十五万", "五万"]


@given(st.integers(1, 98), st.integers(1, 98))
def test_any_division_in_three_is_read(first: int, second: int) -> None:
    third = 200 - first - second
    text = f"200万元:基金{first}万元,国债{second}万元,活期{third}万元"
    assert shares(text) == [round(part / 200, 4) for part in (first, second, third)]


@given(st.text(alphabet="一二十万元$0123456789,、各 和", max_size=60))
def test_shares_of_a_sum_never_exceed_it(text: str) -> None:
    assert all(0 <= part.low < 1 for part in divided(text))


def test_shares_without_a_sign_count_when_they_add_up() -> None:
    found = bare_shares("变成宽基占35、红利占25、债基占20、货基占20。")
    assert [round(share.low, 2) for share in found] == [0.35, 0.25, 0.2, 0.2]
    assert bare_shares("男性占55,女性占30。") == []


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("总盘子80万:20万中短债、40万宽基,剩下的放货币", [0.25, 0.5]),
        ("you have 90,000: 45,000 into bonds, 18,000 into a tracker, the rest in the bank", [0.5, 0.2]),
        ("总盘子80万:20万中短债、60万宽基", []),
        ("起投10万,封顶5万,其余看公告", []),
    ],
)
def test_a_sum_that_is_spent_up_to_a_rest(text: str, expected: list[float]) -> None:
    assert [round(part.low, 4) for part in spent(text)] == expected
    assert (remainder(text) is None) == (expected == [])


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("|品种|金额(万)|\n|---|---|\n|宽基|10|\n|短债|20|\n|活期|10|\n|合计|40|\n", [0.25, 0.5, 0.25]),
        ("|品种|七日年化|\n|---|---|\n|甲|1.4|\n|乙|1.6|\n|丙|2.0|\n", []),
    ],
)
def test_a_column_of_money(text: str, expected: list[float]) -> None:
    assert [round(part.low, 4) for part in tabled(text)] == expected


@pytest.mark.parametrize(
    ("reply", "broken"),
    [
        ("您总共100万，股票已经持有25万，我建议再加10万。", True),
        ("您总共100万，股票已经持有25万，我建议再加3万。", False),
        ("您现有100万，其中股票20万。建议再买入股票15万。", True),
        ("您总资产100万，其中股票25万。建议再买入债券20万。", False),
        ("您总资产100万，其中股票25万。不建议再买入股票10万。", False),
        ("您总资产100万，其中股票25万，今年亏了3万。建议再观察。", False),
        (
            "You have $100,000 in total, of which $20,000 is in equities. Add another $15,000 of equities.",
            True,
        ),
        (
            "You have $100,000 in all and hold $25,000 in stocks; I suggest adding another $3,000 of stocks.",
            False,
        ),
    ],
)
def test_money_to_be_added_counts_on_top_of_what_is_held(reply: str, broken: bool) -> None:
    cap = "Equities at most 30%" if reply.isascii() else "股票仓位不超过30%"
    assert bool(ConstraintChecker([cap]).check(reply)) is broken
