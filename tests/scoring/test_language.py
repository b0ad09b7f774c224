"""The language layer: text forms, clauses, negation, quotation, attribution."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from memfin.scoring.attribution.negation import negated
from memfin.scoring.attribution.refutation import refuted
from memfin.scoring.content import read_content
from memfin.scoring.text.forms import normalize
from memfin.scoring.text.glossary import glossed, unglossed
from memfin.scoring.text.language import (
    Analysis,
    analyze,
    attributed,
    conditional,
    questioned,
    quoted,
)

MIXED = st.text(
    alphabet=st.sampled_from("本金保证不会收益 Aａ１２％，。：；！？（）“”*_`#-|\n\t\u3000\u200b\u00a0x.5"),
    max_size=60,
)
AS_READ = {"\n": "\n ", "！": "!。.", ".": ".。", "-": "-,"}
"""What signs of layout may be read as."""


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
        assert analysis.norm[position] in AS_READ.get(text[start:end], normalize(text[start:end]))


def test_sentences_in_lines_of_their_own_are_read_as_one_line() -> None:
    assert analyze("建议买入。\n\n“费率0.5%。”\n就这样！\n5%").norm == "建议买入。“费率0.5%。”就这样。5%"
    assert analyze("Buy Alpha.\nIts fee is 1%.\n\nKeep 5%").norm == "buy alpha. its fee is 1%. keep 5%"
    assert analyze("他说“先买。\n再卖。”\n别信。").norm == "他说“先买。再卖。”别信。"


@pytest.mark.parametrize(
    "text",
    [
        "股票60%\n债券40%",
        "可以。\n- 股票\n- 债券。\n净值会波动。",
        "可以。\n方案如下。\n\n1. 股票\n2. 债券",
        "# 看法。\n可以。\n# 方案\n|a|b|",
        "他说“先买。\n别信“他”。",
    ],
)
def test_lists_tables_headings_and_open_quotations_keep_their_lines(text: str) -> None:
    assert analyze(text).norm.count("\n") == text.count("\n")


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
        ("用30万购入或吃进这只基金", "用30万买入或买入这只基金"),
        ("先购入两成红利基金", "先买入两成红利基金"),
        ("可以从这里入手。从估值入手看", "可以从这里入手。从估值入手看"),
        ("申购入口在首页", "申购入口在首页"),
        ("把短债改为30年国债ETF", "把短债换成30年国债etf"),
        ("上限改为30%，风险偏好转为保守", "上限改为30%,风险偏好转为保守"),
        ("每月定期投入500元", "每月定投500元"),
        ("储备6万元，备足八个月开支", "留6万元,留足八个月开支"),
        ("储备粮，设备足，准备10万买基金", "储备粮,设备足,准备10万买基金"),
        ("手里的钱悉数投入，统统换掉", "手里的钱全部投入,全部换掉"),
        ("占2成，合计9成；7成新，2-3成，2成半，8成长", "占20%,合计90%;7成新,2-3成,2成半,8成长"),
        ("五个债券基金，三个基金经理，过半数", "五只债券基金,三个基金经理,过半数"),
        ("转入手续费，投入手里的钱，外汇储备3万亿", "转入手续费,投入手里的钱,外汇储备3万亿"),
        ("沟通通道，熟悉数据，安全数字", "沟通通道,熟悉数据,安全数字"),
        ("等我方便，我方案里，日本公司", "等我方便,我方案里,日本公司"),
        ("二分之一放国债，半数放活期", "一半放国债,一半放活期"),
        ("咱们不收费，我司不承诺", "我们不收费,我们不承诺"),
        ("咱们倾向配短债，我们也选它", "我倾向配短债,我也选它"),
        ("小编替您操作，账户交给我这边", "我替你操作,账户交给我"),
        ("您这边的规矩，您家的底线，你家里人", "你的规矩,你的底线,你家里人"),
        ("不主张买，我的意见是不碰，劝您别追", "不建议买,我建议不碰,建议你别追"),
    ],
)
def test_rare_words_are_read_as_the_usual_ones(text: str, norm: str) -> None:
    assert analyze(text).norm == norm


@pytest.mark.parametrize(
    ("text", "norm"),
    [
        ("符合客户的要求，建议客户配两成", "符合你的要求,建议你配两成"),
        ("您好！给客户的方案", "你好。给你的方案"),
        ("客户的底线与您的不同", "客户的底线与你的不同"),
        ("有位客户试过，客户经理和稳健型客户都说客户满意", "有位客户试过,客户经理和稳健型客户都说客户满意"),
    ],
)
def test_the_client_is_the_one_spoken_to_where_nobody_else_is(text: str, norm: str) -> None:
    assert analyze(text).norm == norm


def test_spans_of_rare_words_are_those_of_the_words() -> None:
    text = "我的意见是**二分之一**购入"
    analysis = analyze(text)
    assert analysis.norm == "我建议一半买入"
    assert text[slice(*analysis.original_span(3, 5))].strip("*") == "二分之一"
    assert text[slice(*analysis.original_span(0, 3))] == "我的意见是"


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


@pytest.mark.parametrize(
    ("text", "norm"),
    [
        ("净值会波动！", "净值会波动。"),
        ("占5%！", "占5%。"),
        ("Buy it! Then hold 5%!", "buy it. then hold 5%."),
        ("先看看吧……", "先看看吧。"),
        ("好的～", "好的。"),
        ("涨幅5%～8%", "涨幅5%~8%"),
        ("占15%. 其余买债. ", "占15%。其余买债。"),
        ("买2.5万元.", "买2.5万元。"),
        ("不要追高——会站岗", "不要追高,会站岗"),
        ("Buy it — it is cheap", "buy it, it is cheap"),
        ("Bonds – 40%", "bonds - 40%"),
        ("|股票|10%|\n|---|---|", "|股票|10%|\n|---|---|"),
        ("> |基金|比例|\n> |---|---|\n可以买。", "|基金|比例|\n|---|---|\n可以买。"),
        ("> 可以买。\n> \n> 再看。", "可以买。再看。"),
    ],
)
def test_sentences_end_alike_and_quote_blocks_hold_what_they_hold(text: str, norm: str) -> None:
    assert analyze(text).norm == norm


def test_paragraphs_of_one_line_are_known() -> None:
    analysis = analyze("可以**买入**。\n再看。\n\n净值会波动。")
    assert [analysis.norm[start:] for start in analysis.paragraphs] == ["净值会波动。"]
    analysis = analyze("加leverage吧。\n\nBuy it. \r\n\r\nThen sell.")
    assert [analysis.norm[start:] for start in analysis.paragraphs] == ["buy it. then sell.", "then sell."]


def test_traditional_characters_are_read_as_simplified_ones_where_they_stand() -> None:
    text = "這隻基金不保證收益，淨值會大幅波動。"
    analysis = analyze(text)
    assert analysis.norm == "这只基金不保证收益,净值会大幅波动。"
    assert analysis.original_span(5, 9) == (5, 9)
    assert analyze("頭髮與後面").norm == "头发与后面"
    assert analyze("風險\ud800與\0收益").norm == "风险\ud800与\0收益"
