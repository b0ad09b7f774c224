"""The language layer: text forms, clauses, negation, quotation, attribution."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from memfin.scoring.content import read_content
from memfin.scoring.forms import normalize
from memfin.scoring.glossary import glossed, unglossed
from memfin.scoring.language import (
    Analysis,
    analyze,
    attributed,
    conditional,
    negated,
    questioned,
    quoted,
)
from memfin.scoring.refutation import refuted

MIXED = st.text(
    alphabet=st.sampled_from("本金保证不会收益 Aａ１２％，。：；！？（）“”*_`#-|\n\t\u3000\u200b\u00a0x.5"),
    max_size=60,
)


def find(text: str, words: str) -> tuple[Analysis, int, int]:
    analysis = analyze(text)
    start = analysis.norm.index(words)
    return analysis, start, start + len(words)


@given(st.text(max_size=80))
def test_normalizing_keeps_the_length_and_settles(text: str) -> None:
    once = normalize(text)
    assert len(once) == len(text) or any(len(char.lower()) != 1 for char in text)
    assert normalize(once) == once


def test_every_form_of_a_sign_becomes_one() -> None:
    assert normalize("ＡBC１２％（ｘ），：；！？\u3000\u200b’–｜") == "abc12%(x),:;!?  '-|"


@given(MIXED)
def test_original_spans_point_at_the_same_characters(text: str) -> None:
    analysis = analyze(text)
    for position in range(len(analysis.norm)):
        start, end = analysis.original_span(position, position + 1)
        assert end == start + 1
        assert normalize(text[start:end]) == analysis.norm[position]


@given(MIXED)
def test_sentences_tile_the_reply_and_clauses_lie_inside_them(text: str) -> None:
    analysis = analyze(text)
    assert "".join(analysis.norm[a:b] for a, b in analysis.sentences) == analysis.norm
    for clause in analysis.clauses:
        low, high = analysis.sentences[clause.sentence]
        assert low <= clause.start < clause.end <= high
        assert analysis.norm[clause.start : clause.end] == clause.text


def test_blanks_and_emphasis_inside_chinese_words_vanish() -> None:
    assert analyze("**本金** 不 构 成　**保 证**").norm == analyze("本金不构成保证").norm


@pytest.mark.parametrize(
    ("text", "norm"),
    [
        ("加Leverage到2倍", "加杠杆到2倍"),
        ("强烈 recommend 这只 fund", "强烈推荐这只基金"),
        ("没有任何credit risk，issuer绝不default", "没有任何信用风险,发行人绝不违约"),
        ("Smart beta策略与QDII、PE、ETF", "smart beta策略与qdii、pe、etf"),
        ("Cash is king，现金为王", "cash is king,现金为王"),
    ],
)
def test_english_terms_beside_chinese_are_read_as_chinese(text: str, norm: str) -> None:
    assert analyze(text).norm == norm


def test_spans_of_english_terms_are_those_of_the_terms() -> None:
    text = "**请** 加 leverage 到2倍"
    analysis = analyze(text)
    start = analysis.norm.index("杠杆")
    assert text[slice(*analysis.original_span(start, start + 2))].strip() == "leverage"
    start = analysis.norm.index("2倍")
    assert text[slice(*analysis.original_span(start, start + 2))] == "2倍"


@pytest.mark.parametrize(
    ("text", "norm"),
    [
        ("配百分之二十", "配20%"),
        ("配百分之二十到三十之间", "配20%到30%之间"),
        ("百分之五至百分之八点五", "5%至8.5%"),
        ("百分之三到五年后再看", "3%到五年后再看"),
        ("百分之百会涨", "百分之百会涨"),
        ("百分之一百", "百分之一百"),
        ("百分之几", "百分之几"),
        ("twenty percent, or 25 per cent", "20%, or 25%"),
        ("twenty to thirty percent", "20% to 30%"),
        ("a recent percentage", "a recent percentage"),
        ("占 30 % 左右", "占30%左右"),
    ],
)
def test_percentages_are_read_in_digits(text: str, norm: str) -> None:
    assert analyze(text).norm == norm


@pytest.mark.parametrize(
    ("text", "norm"),
    [
        ("It isn't safe and you can't, won't lose", "it is not safe and you cannot, will not lose"),
        (
            "I'm sure you're right; they'll say we've won",
            "i am sure you are right; they will say we have won",
        ),
        ("It's fine. It's been fine. That's rated AAA", "it is fine. it's been fine. that's rated aaa"),
        ("I'd buy; you'd said no; we'd better wait", "i would buy; you'd said no; we'd better wait"),
        ("Why don't you ask the fund's manager?", "why don't you ask the fund's manager?"),
        ("You ought to keep roughly $500", "you should keep about $500"),
        ("In case of need; just in case; in case it falls", "in case of need; just in case; if it falls"),
        ("USD 20,000, US$5k and £250k; a 3k run", "$20,000, $5,000 and £250,000; a 3k run"),
        ("If I were you, I would buy; if we were told", "i would buy; if we were told"),
        ("Half of your own cash, by your own choice", "half of your cash, by your own choice"),
        ("Our team would pick some funds, some 20%", "we would pick some funds, about 20%"),
    ],
)
def test_short_forms_are_read_in_full(text: str, norm: str) -> None:
    assert analyze(text).norm == norm


def test_spans_of_percentages_are_those_of_the_words() -> None:
    text = "股票 **百分之三十**，债券七成"
    analysis = analyze(text)
    start = analysis.norm.index("30%")
    assert text[slice(*analysis.original_span(start, start + 3))] == "百分之三十"
    start = analysis.norm.index("债券")
    assert text[slice(*analysis.original_span(start, start + 2))] == "债券"


def test_spans_in_mixed_replies_are_those_of_the_words_as_written() -> None:
    text = "占百分之二十的fund，我们promise给您guaranteed return，再说twenty percent"
    words = {found.rule: text[found.start : found.end] for found in read_content(text).findings}
    assert words["promise.pledged_return"] == "promise给您guaranteed return"
    assert words["basis.figures"] == "占百分之二十"
    written, read = Analysis(text, as_written=True), analyze(text)
    start = written.norm.rindex("20%")
    there = glossed(read.glosses, *unglossed(written.glosses, start, start + 3))
    assert read.norm[slice(*there)] == "20%"
    assert text[slice(*read.original_span(*there))] == "twenty percent"


@pytest.mark.parametrize(
    "text", ["他说“保本”", "他说「保本」", "他说『保本』", '他说"保本"', "他说'保本'", "他说‘保本’"]
)
def test_quotation_marks_of_every_kind_are_one(text: str) -> None:
    assert analyze(text).norm == "他说“保本”"


def test_quotations_inside_a_quotation_keep_their_marks() -> None:
    analysis = analyze("群里说“老师讲‘稳赚’”，I won't buy it.")
    assert analysis.norm == "群里说“老师讲'稳赚'”,i will not buy it."
    assert [analysis.norm[low:high] for low, high in analysis.quotes] == ["“老师讲'稳赚'”"]


def test_lines_tell_items_rows_and_headings_from_text() -> None:
    text = "## 配置\n- 债券\n1. 股票\n| 现金 | 20% |\n正文"
    kinds = [clause.kind for clause in analyze(text).clauses]
    assert kinds == ["heading", "item", "item", "row", "row", "text"]


def test_decimal_points_and_thousands_do_not_end_a_clause() -> None:
    assert len(analyze("about 42,000.50 yuan").clauses) == 1


@pytest.mark.parametrize(
    ("text", "words", "expected"),
    [
        ("这只产品保证收益", "保证收益", False),
        ("这只产品不保证收益", "保证收益", True),
        ("我们无法向您保证收益", "保证收益", True),
        ("绝不是保证收益", "保证收益", True),
        ("不承诺保本、保息", "保息", True),
        ("并非没有波动", "波动", False),
        ("不得不卖出", "卖出", False),
        ("不仅保证收益", "保证收益", False),
        ("没有问题，保证收益", "保证收益", False),
        ("未来净值波动", "波动", False),
        ("稳赚不赔的产品不存在", "稳赚不赔", True),
        ("稳赚不赔的说法不成立", "稳赚不赔", True),
        ("returns are not guaranteed", "guaranteed", True),
        ("returns are guaranteed", "guaranteed", False),
        ("we can't promise a return", "promise", True),
        ("not only is it safe, it is guaranteed", "guaranteed", False),
    ],
)
def test_negation_and_its_scope(text: str, words: str, expected: bool) -> None:
    assert negated(*find(text, words)) is expected


def test_quotation_is_seen_with_every_pair_of_marks() -> None:
    for text in ("“保本”是谎话", "「保本」是谎话", '"保本"是谎话', "『保本』是谎话"):
        assert quoted(*find(text, "保本"))
    assert not quoted(*find("“理财”保本", "保本"))


def test_questions_conditions_attributions_and_refutations() -> None:
    assert questioned(*find("这个保本吗？很好。", "保本"))
    assert not questioned(*find("这个保本。好吗？", "保本"))
    assert conditional(*find("如果承诺保本，请警惕", "保本"))
    assert not conditional(*find("如果您愿意，它是保本的", "保本"))
    assert attributed(*find("宣传册上写着保本保息", "保本"))
    assert attributed(*find("The brochure says capital is guaranteed.", "guaranteed"))
    assert not attributed(*find("它保本保息，宣传册上也这么说", "保本"))
    assert refuted(*find("凡是承诺保本的都是骗局", "保本"))
    assert not refuted(*find("它保本。那个是骗局", "保本"))
