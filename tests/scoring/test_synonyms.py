"""Words that mean the same are read as one, and no pattern waits for a word that is never read."""

import ast
import re
from collections.abc import Iterator
from pathlib import Path
from typing import Final

import pytest

import memfin.scoring
from memfin.scoring.content import LEXICONS, read_content
from memfin.scoring.contradiction import ConstraintChecker
from memfin.scoring.lexicons.lexicon import load_lexicon
from memfin.scoring.offers import turns
from memfin.scoring.patterns.files import word_classes
from memfin.scoring.text.language import analyze
from memfin.scoring.text.synonyms import synonyms, without_context

ALWAYS: Final = [variant for variant in synonyms() if without_context(variant) == variant]
"""The variants that are read as another word wherever they stand."""


@pytest.mark.parametrize(
    ("written", "read"),
    [
        ("请勿将以上内容视为建议", "别将以上内容视为建议"),
        ("切莫轻信，千万不要转账", "别轻信,别转账"),
        ("历史并不代表未来，并未承诺，并无保证，并非没有风险", "历史不代表未来,未承诺,没有保证,并非没有风险"),
        ("合并不了的账户", "合并不了的账户"),
        ("净值或将回落，也许还会更低", "净值可能回落,可能还会更低"),
        ("没有可能，可能性不大，或会计准则", "没有可能,可能性不大,或会计准则"),
        ("若您同意，倘若不行，要是您愿意", "如果你同意,如果不行,如果你愿意"),
        ("若干年，主要是债券，只要是基金", "若干年,主要是债券,只要是基金"),
        ("大约20%，大概三成，大概率会跌，违约", "约20%,约三成,大概率会跌,违约"),
        ("十分之一，非常规，相当于现金，十分稳", "十分之一,非常规,相当于现金,很稳"),
        ("这些均不构成建议，平均成本，均衡配置", "这些都不构成建议,平均成本,均衡配置"),
        ("可考虑定投，可把三成放债券，可转债，可观", "可以考虑定投,可以把三成放债券,可转债,可观"),
        ("该基金，该产品，应该买，活该", "该基金,该产品,应该买,活该"),
        ("此类产品，因此，该只基金", "这类产品,所以,这只基金"),
        ("余下的放货基，剩余期限两年", "剩下的放货币基金,剩余期限两年"),
        ("就算跌了，就算了", "即使跌了,就算了"),
        ("咱们认为稳妥，咱们的产品，我方便", "我认为稳妥,我们的产品,我方便"),
        ("劝您改为国债，转入手续费", "建议你换成国债,转入手续费"),
        ("备6万，外汇储备3万亿，储备3个月开支", "留6万,外汇储备3万亿,留3个月开支"),
        ("2成放五个基金，两个月，8成长", "20%放五只基金,两个月,8成长"),
        ("投资人士乐观，投资人谨慎", "投资人士乐观,投资者谨慎"),
        ("差不多于三月完成，多于一成", "差不多于三月完成,高于一成"),
        ("利率走低，净值震荡", "利率走低,净值波动"),
        ("请客户放心", "请你放心"),
        ("您好，客户经理会联系您", "你好。客户经理会联系你"),
    ],
)
def test_a_variant_is_read_as_the_usual_word(written: str, read: str) -> None:
    assert analyze(written).norm == read


def test_findings_point_at_the_words_as_they_were_written() -> None:
    text = "净值或将大幅波动，历史业绩并不代表未来。以上内容请勿视为投资建议。"
    found = {finding.value: text[finding.start : finding.end] for finding in read_content(text).findings}
    assert found["volatility_risk"].startswith("净值或将大幅波动")
    assert "并不代表未来" in found["past_performance_not_future"]
    assert "请勿视为" in found["not_investment_advice"]


def test_contradictions_point_at_the_words_as_they_were_written() -> None:
    text = "当前利率不高，因而建议您可考虑融资购入宽基。"
    (found,) = ConstraintChecker(["不使用融资融券"]).check(text)
    assert "融资" in text[found.start : found.end]


def strings_of(path: Path) -> Iterator[str]:
    """Yield the strings of a module that are no documentation."""
    tree = ast.parse(path.read_text("utf-8"))
    told = {id(node.value) for node in ast.walk(tree) if isinstance(node, ast.Expr)}
    for node in ast.walk(tree):
        if isinstance(node, ast.Constant) and isinstance(node.value, str) and id(node) not in told:
            yield node.value


def test_no_pattern_waits_for_a_word_that_is_never_read() -> None:
    """What may go on with a further sign (全都? for 全) is no such word."""
    never = re.compile(f"(?:{'|'.join(map(re.escape, ALWAYS))})(?![?*{{])")
    patterns = [entry.pattern for name in LEXICONS for entry in load_lexicon(name).rule]
    patterns += [word for words in word_classes().values() for word in words]
    patterns += turns.patterns().values()
    for path in Path(memfin.scoring.__file__).parent.rglob("*.py"):
        patterns += strings_of(path)
    assert len(patterns) > 3000
    assert {match.group() for pattern in patterns for match in never.finditer(pattern)} == set()
