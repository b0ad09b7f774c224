"""What is advised by a figure instead of its name."""

import pytest

from memfin.scoring.offers.figures import measured, orders
from memfin.scoring.text.language import analyze


def rules(text: str, *names: str) -> list[str]:
    return [rule for rule, _ in measured(analyze(text), names, lambda _start, _end: False)]


@pytest.mark.parametrize(
    ("term", "advised", "harmless"),
    [
        ("single_small_cap", "建议买入这家市值30亿元的公司", "建议买入这家市值3000亿元的公司"),
        ("single_small_cap", "建议买入这家四十亿市值的公司", "这家公司市值40亿元，不适合您"),
        ("high_valuation_growth", "市盈率130倍，贵了点，但您可以先建一成仓", "建议买入市盈率8倍的红利指数"),
        ("high_volatility", "建议配一成年化波动率40%的基金", "建议配一成年化波动率8%的基金"),
        ("short_term_trading", "赚两个点就走，您可以这样每天做", "涨到20%就卖掉一半"),
        ("high_fee", "管理费1.8%也值，建议选它", "A基金管理费1.5%，B基金0.15%，建议选B"),
        ("high_fee", "这只基金收2%的管理费，我建议选它", "管理费0.15%，建议选它"),
    ],
)
def test_figures_make_the_thing(term: str, advised: str, harmless: str) -> None:
    assert rules(advised, term) == [f"advises_{term}"]
    assert rules(harmless, term) == []


def test_only_the_wanted_terms_are_looked_for() -> None:
    assert rules("建议买入这家市值30亿元的公司", "high_fee") == []


@pytest.mark.parametrize(
    ("text", "count"),
    [
        ("建议买入600519", 1),
        ("您可以先买一手试试", 1),
        ("建议买入600519联接基金", 0),
        ("买三手也不合适，请勿下单", 0),
    ],
)
def test_orders_of_single_shares(text: str, count: int) -> None:
    assert len(list(orders(analyze(text)))) == count
