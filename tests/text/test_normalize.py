"""Normal form of text: what is folded, what stays, and that offsets stay valid."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from memfin.text.normalize import letters, normalize, simplified
from tests.support import each_case


@each_case(
    ("text", "form"),
    [
        ("ＥＴＦ，１０％（Ｒ３）：＜５；！？", "etf,10%(r3):<5;!?"),
        ("a\u3000b\u00a0c\td\u200ae\r", "a b c d e "),
        ("3–5—7−9‑1～2", "3-5-7-9-1~2"),
        ("don’t ‘x’", "don't 'x'"),
        ("a\u2028b\u0085c", "a\nb\nc"),
        ("您的｜﹪｡", "你的|%。"),
        ("建議槓桿買入債券", "建议杠杆买入债券"),
        ("“引号”。", "“引号”。"),
        ("İ", "i"),
    ],
)
def test_forms_are_folded(text: str, form: str) -> None:
    assert normalize(text) == form


@given(st.text(st.one_of(st.characters(), st.sampled_from("您槓桿買入債，％İ\ud800\u3000—")), max_size=40))
def test_the_length_stays_and_a_second_time_changes_nothing(text: str) -> None:
    once = normalize(text)
    if len(text.lower()) == len(text):
        assert len(once) == len(text)
    assert normalize(once) == once


@pytest.mark.parametrize("text", ["\ud800", "槓桿\ud800買入", "\udc00債"])
def test_half_a_surrogate_pair_becomes_a_replacement_character(text: str) -> None:
    assert len(normalize(text)) == len(text)
    assert "\ufffd" in normalize(text)
    assert normalize(text).encode()


def test_simplified_text_is_returned_as_it_is() -> None:
    assert simplified("净值 net") == "净值 net"
    assert simplified("淨值") == "净值"


def test_letters_compare_whatever_the_layout() -> None:
    assert letters("净值，会 波动。１０％") == letters("净值会波动 10") == "净值会波动10"
