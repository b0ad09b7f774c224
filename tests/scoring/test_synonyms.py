"""Words of one meaning are read alike."""

from pathlib import Path

import pytest

import memfin.scoring
from memfin.scoring.content import read_content
from memfin.scoring.contradiction import ConstraintChecker
from memfin.scoring.language import analyze
from memfin.scoring.synonyms import in_common_words

PAIRS = [
    ("波动", "震荡"),
    ("波动", "摆动"),
    ("下跌", "下挫"),
    ("爆雷", "暴雷"),
    ("本金", "本钱"),
    ("承诺", "许诺"),
    ("投资者", "投资人"),
    ("参考", "参照"),
    ("高于", "大于"),
    ("高于", "多于"),
    ("您自己的", "您本人的"),
    ("您自己的", "您个人的"),
]
TEXTS = [
    "净值会随市场波动，本金可能亏损，收益不作承诺，以上仅供参考。",
    "遇到下跌时别慌，投资者要对照您自己的承受能力；发行人也可能爆雷。",
    "回撤高于您自己的上限，不建议。",
]


@pytest.mark.parametrize(("common", "other"), PAIRS)
def test_a_reply_reads_the_same_whichever_word_it_uses(common: str, other: str) -> None:
    for text in TEXTS:
        first, second = read_content(text), read_content(text.replace(common, other))
        assert (first.risk_tags, first.categories, first.rubric_items) == (
            second.risk_tags,
            second.categories,
            second.rubric_items,
        )


@pytest.mark.parametrize("text", ["投资人士普遍乐观", "差不多于三月完成", "利率走低"])
def test_words_of_another_meaning_stay(text: str) -> None:
    assert in_common_words(text) == text


def test_offsets_stay_and_the_reply_is_kept_as_written() -> None:
    text = "本钱随净值震荡，许诺不算数。"
    analysis = analyze(text)
    assert len(analysis.norm) == len(text)
    assert analysis.plain == "本钱随净值震荡,许诺不算数。"
    assert [(each.start, each.end) for each in read_content("净值会震荡").findings] == [(0, 5)]


def test_constraints_are_read_in_common_words_too() -> None:
    for word in ("波动", "震荡"):
        found = ConstraintChecker([f"不接受高{word}策略"]).check("建议买三成高波动策略。")
        assert [each.constraint for each in found] == [f"不接受高{word}策略"]


def test_patterns_of_the_modules_name_the_common_word() -> None:
    replaced = ("震荡", "摆动", "下挫", "暴雷", "本钱", "许诺", "参照", "大于")
    for path in Path(memfin.scoring.__file__).parent.glob("*.py"):
        if path.name != "synonyms.py":
            assert not [word for word in replaced if word in path.read_text("utf-8")], path.name
