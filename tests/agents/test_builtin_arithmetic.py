"""Growth arithmetic."""

from memfin.agents.builtin.arithmetic import compute_growth
from tests.support import each_case


@each_case(
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


@each_case(
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
