"""The order of literals by how often they occur."""

import pytest

from memfin.scoring.frequencies import rate


@pytest.mark.parametrize(
    ("rarer", "commoner"),
    [
        ("血本无归", "风险"),
        ("违约", "违"),
        ("银行", "银"),
        ("颗粒", "基金"),
        ("volatile", "you"),
        ("your money", "you"),
        ("600", "60"),
        ("-先", "-"),
        ("三成", "成"),
        ("risk", " "),
    ],
)
def test_the_rarer_literal_has_the_lower_rate(rarer: str, commoner: str) -> None:
    assert rate(rarer) < rate(commoner)


def test_a_piece_of_a_frequent_word_is_no_rare_literal() -> None:
    assert rate("动性") > rate("颗粒")
    assert rate("yo") >= rate("you")
