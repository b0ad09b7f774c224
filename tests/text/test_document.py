"""Documents: kinds of lines, sentences, tables, lead-ins, and offsets in the reply as written."""

import pytest

from memfin.text.document import Document
from tests.support import each_case


def sentences(text: str) -> list[str]:
    document = Document(text)
    return [document.text[start:end].strip(" \n|") for start, end in document.bounds]


@each_case(
    ("line", "kind"),
    [
        ("普通的一句话。", "text"),
        ("## 标题", "heading"),
        ("- 一项", "item"),
        ("* 一项", "item"),
        ("1. 一项", "item"),
        ("（二）一项", "item"),
        ("③ 一项", "item"),
        ("方案A：稳健", "item"),
        ("✅ 一项", "item"),
        ("1.5%的费率", "text"),
        ("| a | b |", "row"),
        ("a | b | c", "row"),
        ("|---|:--:|", "rule"),
        ("---", "rule"),
        ("   ", "blank"),
        ("*ST 股票不要买", "text"),
    ],
)
def test_kinds_of_lines(line: str, kind: str) -> None:
    assert [each.kind for each in Document(line).lines] == [kind]


@each_case(
    ("text", "expected"),
    [
        ("净值会跌。请留意！好吗？", ["净值会跌。", "请留意!", "好吗?"]),
        ("Prices fall. They rise again! OK?", ["prices fall.", "they rise again!", "ok?"]),
        ("The fee is 1.5% a year. Fine.", ["the fee is 1.5% a year.", "fine."]),
        ("步骤\n1. 先留现金\n2. 再买短债", ["步骤", "1. 先留现金", "2. 再买短债"]),
        ("他说：“会涨。”我不信。", ["他说:“会涨。”", "我不信。"]),
        ("先买；再等", ["先买;", "再等"]),
        ("| 现金 | 20% |", ["现金", "20%"]),
        ("等等……再说", ["等等……", "再说"]),
        ("U.S. stocks fell", ["u.s.", "stocks fell"]),
        ("", []),
        (" \n ", []),
    ],
)
def test_sentences(text: str, expected: list[str]) -> None:
    assert [each for each in sentences(text) if each] == expected


def test_a_table_has_a_header_only_above_a_rule() -> None:
    ruled, bare = "| 资产 | 比例 |\n|---|---|\n| 现金 | 20% |", "| 现金 | 20% |\n| 债券 | 80% |"
    (table,) = Document("配置：\n" + ruled).tables()
    assert (table.header, table.line) == (["资产", "比例"], 1)
    assert [[cell.text for cell in row] for row in table.rows] == [["现金", "20%"]]
    (table,) = Document(bare).tables()
    assert table.header == []
    assert len(table.rows) == 2
    assert [len(each.rows) for each in Document(ruled + "\n\n" + bare).tables()] == [1, 2]


def test_cells_stand_where_they_say() -> None:
    document = Document("|  **现金**  |20%|")
    cells = [cell for table in document.tables() for row in table.rows for cell in row]
    assert [document.text[cell.start : cell.end] for cell in cells] == [cell.text for cell in cells]
    assert [cell.text for cell in cells] == ["现金", "20%"]


@each_case(
    ("text", "leads"),
    [
        ("# 误区\n说明一下：\n- 保本", ["说明一下:", "# 误区"]),
        ("- 外层\n  - 保本", ["- 外层"]),
        ("- 别的\n- 保本", []),
        ("| 话术 | 真相 |\n|---|---|\n| 保本 | 假 |", ["| 话术 | 真相 |"]),
        ("# 一\n# 二\n保本", ["# 二"]),
        ("很普通的一句。\n保本", []),
    ],
)
def test_leads_come_nearest_first(text: str, leads: list[str]) -> None:
    document = Document(text)
    assert list(document.leads(document.text.index("保本"))) == leads


def test_block_quotes_are_marked_and_their_marks_left_out() -> None:
    document = Document("> > 引用的话\n自己的话")
    assert [(line.quoted, document.content(line)) for line in document.lines] == [
        (True, "引用的话"),
        (False, "自己的话"),
    ]


def test_the_star_of_a_special_treatment_share_stays() -> None:
    assert Document("**不买** *ST 股").text == "不买 *st 股"


@pytest.mark.parametrize(
    ("source", "word", "written"),
    [
        ("净值**会 跌**。", "会 跌", "会 跌"),
        ("**净值**会**跌**。", "净值会跌", "净值**会**跌"),
        ("* 一项 `ETF`\n* 二项", "etf", "ETF"),
        ("ＥＴＦ，买入", "etf", "ＥＴＦ"),
    ],
)
def test_spans_lead_back_to_the_words_as_written(source: str, word: str, written: str) -> None:
    document = Document(source)
    start = document.text.index(word)
    first, last = document.source_span(start, start + len(word))
    assert source[first:last] == written


def test_lines_of_windows_are_lines() -> None:
    document = Document("# 标题\r\n- 一项\r\n\r\n正文。")
    assert [line.kind for line in document.lines] == ["heading", "item", "blank", "text"]
    assert [document.content(line) for line in document.lines] == ["# 标题", "- 一项", "", "正文。"]


def test_offsets_find_their_sentence_and_line() -> None:
    document = Document("一句。两句。\n三句。")
    for offset in range(len(document.text)):
        start, end = document.sentence_at(offset)
        assert start <= offset < end
    assert [document.line_number(offset) for offset in (0, 6, 7)] == [0, 0, 1]


def test_an_empty_text_is_a_document() -> None:
    document = Document("")
    assert (document.bounds, list(document.tables()), list(document.leads(0))) == ([], [], [])
    assert document.line_at(0).kind == "blank"
    assert document.sentence_number(5) == 0
