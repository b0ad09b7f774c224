"""Growth arithmetic and the numbers clients say."""

import pytest

from memfin.agents.builtin.arithmetic import compute_growth
from memfin.agents.builtin.quantities import durations, money, percent


@pytest.mark.parametrize(
    ("text", "phrase", "numbers"),
    [
        (
            "10万元年化5%，10年后是多少？",
            "growth_compound",
            {"principal": "100000", "rate": "5", "years": "10", "result": "162889.46", "gain": "62889.46"},
        ),
        (
            "$10,000 at 5% a year for 10 years, how much is it?",
            "growth_compound",
            {"principal": "10000", "rate": "5", "years": "10", "result": "16288.95", "gain": "6288.95"},
        ),
        (
            "每月定投1000元，年化6%，20年后有多少？",
            "growth_regular",
            {"payment": "1000", "rate": "6", "years": "20", "paid": "240000", "result": "462040.9"},
        ),
        ("亏20%要涨多少才能回本？", "growth_recovery", {"loss": "20", "gain": "25"}),
        (
            "After a fall of 50%, what gain do I need to break even?",
            "growth_recovery",
            {"loss": "50", "gain": "100"},
        ),
        ("先涨10%再跌10%，总共变化多少？", "growth_sequence", {"result": "-1"}),
    ],
)
def test_complete_questions_are_computed(text: str, phrase: str, numbers: dict[str, str]) -> None:
    growth = compute_growth(text)
    assert growth is not None
    assert (growth.phrase, growth.numbers) == (phrase, numbers)


@pytest.mark.parametrize(
    "text",
    [
        "年化5%是多少？",
        "最大回撤不超过10%",
        "10万元放10年",
        "这只基金今年跌了20%，怎么办",
        "股票和债券怎么配？",
        "9999999999999999亿元年化9999999%，99年后是多少？",
        "",
    ],
)
def test_incomplete_questions_are_left_alone(text: str) -> None:
    assert compute_growth(text) is None


@pytest.mark.parametrize(
    ("words", "amount"),
    [
        ("50万", 500_000),
        ("1.5亿元", 150_000_000),
        ("三十万", 300_000),
        ("$50,000", 50_000),
        ("200k", 200_000),
        ("8000元", 8000),
    ],
)
def test_amounts_of_money(words: str, amount: float) -> None:
    assert money(words) == amount


@pytest.mark.parametrize(
    ("words", "bounds"),
    [
        ("10%", (0.1, 0.1)),
        ("10%-15%", (0.1, 0.15)),
        ("百分之十五", (0.15, 0.15)),
        ("三成半", (0.35, 0.35)),
        ("twenty percent", (0.2, 0.2)),
    ],
)
def test_percentages(words: str, bounds: tuple[float, float]) -> None:
    assert percent(words) == pytest.approx(bounds)


@pytest.mark.parametrize(
    ("text", "months"),
    [
        ("一年半", [(18, 18)]),
        ("两三年", [(24, 36)]),
        ("半年到一年", [(6, 12)]),
        ("6-24个月", [(6, 24)]),
        ("十二个月", [(12, 12)]),
        ("2030年5月", []),
        ("half a year", [(6, 6)]),
        ("5% a year for 10 years", [(120, 120)]),
        ("two or three years", [(24, 36)]),
    ],
)
def test_durations_in_months(text: str, months: list[tuple[float, float]]) -> None:
    assert [(span.low, span.high) for span in durations(text)] == months
