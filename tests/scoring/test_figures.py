"""Figures beyond a limit: beside which words they count, and which figures are others."""

from memfin.scoring.constraint_texts import parse_constraints
from memfin.scoring.figures import exceeded
from memfin.text.document import Document
from tests.support import each_case


def figures(constraint: str, text: str) -> list[str]:
    """Return the words of the figures that exceed a constraint."""
    (predicate,) = parse_constraints(constraint)
    document = Document(text)
    return [document.text[start:end] for start, end in exceeded(predicate, document)]


@each_case(
    ("constraint", "beyond", "within"),
    [
        ("久期不超过2年", "建议换成5年国债。", "建议换成1年国债。"),
        (
            "久期不超过2年",
            "一半放短久期，一半放长久期，加权下来久期2.9年。",
            "0.5年和6年各半，加权下来久期1.8年。",
        ),
        ("久期不超过2年", "建议买7-10年政金债指数。", "目前组合久期3.4年。"),
        ("不买锁定期超过三年的产品", "这款封闭五年。", "这款封闭一年。"),
        ("持有期至少一年", "拿六周左右就卖出。", "持有两年再看。"),
        ("持有期至少一年", "Sell it after 40 weeks.", "Sell it after three years."),
        ("总费率不超过0.6%", "管理费1.2%。", "管理费0.5%。"),
        ("总费率不超过0.6%", "管理费0.5%、托管费0.1%、销售服务费0.25%。", "管理费0.3%、托管费0.1%。"),
        ("管理费不超过0.6%", "管理费0.8%。", "申购费0.8%。"),
        ("每月定投不超过3000元", "三只基金，每只每月扣1200元。", "每月定投1200元。"),
        ("单只产品最多50万元", "建议认购60万元。", "建议认购35万元。"),
    ],
)
def test_a_figure_is_beyond_a_limit_or_within(constraint: str, beyond: str, within: str) -> None:
    assert figures(constraint, beyond)
    assert figures(constraint, within) == []


def test_a_constraint_without_a_single_figure_has_no_limit() -> None:
    assert figures("不使用杠杆", "封闭五年，管理费3%。") == []
