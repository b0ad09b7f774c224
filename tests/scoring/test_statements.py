"""Statements: the kinds that words, tables, headings and quotation marks give a sentence."""

import gc
import weakref

from memfin.scoring import statements as kinds
from memfin.scoring.statements import Analysis, Statement
from tests.support import each_case


def statement(text: str, words: str = "") -> Statement:
    analysis = Analysis(text)
    return analysis.statement_at(analysis.text.index(words))


@each_case(
    ("kind", "texts"),
    [
        (kinds.QUESTION, ["净值会波动吗？", "需要我说明吗", "Is it safe?", "“会波动吗？”"]),
        (kinds.SUPPOSING, ["如果净值下跌，就等一等。", "If prices fall, wait."]),
        (kinds.OTHERS, ["销售说这款保本。", "The salesman said it never loses."]),
        (kinds.WARNING, ["警惕保本骗局。", "Beware of guaranteed returns."]),
        (kinds.MENTION, ["合同上印着保本两个字。"]),
        (kinds.FACT, ["国债持有到期。", "Deposits are insured."]),
        (kinds.AIMING, ["力争年化5%。", "We aim for 5%."]),
        (kinds.ZERO, ["信用风险为零。"]),
        (0, ["净值会波动。", "Prices move.", "本产品保本保息。"]),
    ],
)
def test_words_and_marks_give_a_sentence_its_kind(kind: int, texts: list[str]) -> None:
    assert [statement(text).kind for text in texts] == [kind] * len(texts)


def test_a_sentence_may_be_of_several_kinds() -> None:
    assert statement("如果销售说保本，可信吗？").kind == kinds.SUPPOSING | kinds.OTHERS | kinds.QUESTION


@each_case(
    ("text", "words", "fact"),
    [
        ("| 产品 | 特点 |\n|---|---|\n| 存款 | 本息固定 |", "本息", True),
        ("| 产品 | 特点 |\n|---|---|\n| 甲基金 | 本息固定 |", "本息", False),
        ("## 国债\n- 收益固定", "收益", True),
        ("## 基金\n- 收益固定", "收益", False),
        ("国债收益固定。", "收益", True),
        ("国债不错。我们的收益固定。", "我们", False),
    ],
)
def test_a_fact_is_told_by_the_sentence_its_row_or_its_heading(text: str, words: str, fact: bool) -> None:
    text = text.replace("您", "你")
    assert statement(text, words).fact is fact


@each_case(
    ("text", "words", "not_offered"),
    [
        ("常见误区：\n- 保本高息", "保本", True),
        ("## 骗局\n保本高息", "保本", True),
        ("| 不能做 | 原因 |\n|---|---|\n| 保本 | 假 |", "保本", True),
        ("我的方案：\n- 保本高息", "保本", False),
        ("| 方案 | 特点 |\n|---|---|\n| 保本 | 真 |", "保本", False),
        ("## 误区\n别的\n## 方案\n保本高息", "保本", False),
    ],
)
def test_headings_and_headers_say_what_is_not_offered(text: str, words: str, not_offered: bool) -> None:
    assert statement(text, words).not_offered is not_offered


def test_words_within_quotation_marks_are_quoted() -> None:
    text = "传单写“保本保息”的话。净值会跌。别信。要看合同。"
    here = statement(text)
    first = text.index("保本")
    assert here.is_quoted(first, first + 4)
    assert not here.is_quoted(0, 2)
    assert not here.is_quoted(first, first + 6)


def test_marks_around_a_whole_short_reply_are_layout() -> None:
    assert not statement("“这款产品保本保息。”").is_quoted(1, 8)
    assert statement("他写“保本保息”的话。").is_quoted(3, 7)


def test_a_statement_is_made_once_and_found_by_offset() -> None:
    analysis = Analysis("净值会跌。会涨吗？")
    assert analysis.statement(1) is analysis.statement_at(7)
    assert analysis.statement_at(0).kind == 0
    assert analysis.statement_at(7).kind == kinds.QUESTION


def test_a_reply_is_freed_at_once_when_it_was_read() -> None:
    gc.disable()
    try:
        analysis = Analysis("若您愿意，建议配置债券 60%、股票 40%。\n\n“高收益”三个字不可信。")
        assert all(analysis.statement(number) for number in range(len(analysis.sentences)))
        gone = weakref.ref(analysis)
        del analysis
        assert gone() is None
    finally:
        gc.enable()
