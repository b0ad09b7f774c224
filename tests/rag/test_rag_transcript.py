"""Whose words the parts of a record are."""

from hypothesis import given
from hypothesis import strategies as st

from memfin.rag.document import Document, Page, Segment, segments, text_pages
from tests.support import each_case


def parts(*texts: str) -> list[tuple[int, str | None, int, str]]:
    document = Document("d", tuple(Page(number, text) for number, text in enumerate(texts, 1)))
    return [
        (part.page, part.speaker, part.pair, text)
        for part in segments(document)
        if (text := texts[part.page - 1][part.start : part.end].strip())
    ]


def test_a_record_is_a_head_and_pairs() -> None:
    assert parts("笔录\n编号：1\n问：多少？\n答：42000元。\n另有2000元。\n问：何时？\n答：去年。") == [
        (1, None, 0, "笔录\n编号：1"),
        (1, "question", 1, "问：多少？"),
        (1, "answer", 1, "答：42000元。\n另有2000元。"),
        (1, "question", 2, "问：何时？"),
        (1, "answer", 2, "答：去年。"),
    ]


def test_a_turn_goes_on_over_the_end_of_a_page() -> None:
    assert parts("问：多少？\n答：先给了一半，", "后来给了另一半。\n问：还有吗？") == [
        (1, "question", 1, "问：多少？"),
        (1, "answer", 1, "答：先给了一半，"),
        (2, "answer", 1, "后来给了另一半。"),
        (2, "question", 2, "问：还有吗？"),
    ]


@each_case(
    "line",
    [
        "问：{}",
        "问:{}",
        "问 ：{}",
        "**问：**{}",
        "> 问：{}",
        "- **问**：{}",
        "问1：{}",
        "Q: {}",
        "q2. : {}",
        "Question: {}",
    ],
)
def test_questions_are_known_in_every_shape(line: str) -> None:
    ((_, speaker, pair, _),) = parts(line.format("x"))
    assert (speaker, pair) == ("question", 1)


@each_case("line", ["答：{}", "**答：** {}", "\u3000\u3000答：{}", "A: {}", "A1: {}", "ANSWER：{}"])
def test_answers_are_known_in_every_shape(line: str) -> None:
    ((_, speaker, pair, _),) = parts(line.format("x"))
    assert (speaker, pair) == ("answer", 1)


def test_both_may_stand_on_one_line() -> None:
    assert parts("问：多少？答：两千。问：还有吗？ 答：没有。") == [
        (1, "question", 1, "问：多少？"),
        (1, "answer", 1, "答：两千。"),
        (1, "question", 2, "问：还有吗？"),
        (1, "answer", 2, "答：没有。"),
    ]


@each_case(
    "text",
    ["他说他回答：没有。", "反问：为什么？", "提问：x", "Area: 5", "Qty: 5", "a; b", "答复：好", "问题：x"],
)
def test_words_that_only_look_like_a_speaker_are_none(text: str) -> None:
    assert parts(text) == []


def test_questions_without_answers_are_pairs_of_their_own() -> None:
    assert [(speaker, pair) for _, speaker, pair, _ in parts("问：a\n问：b\n答：c\n答：d")] == [
        ("question", 1),
        ("question", 2),
        ("answer", 2),
        ("answer", 2),
    ]


@each_case(
    "line",
    [
        "第3页",
        "第 3 页 共 8 页",
        "第三页（共八页）",
        "Page 3 of 8",
        "- 3 -",
        "被谈话人签名：某某　2020年1月1日",
        "谈话人（签名）：",
        "签字",
        "以上笔录我看过，与我说的相符。",
        "**第3页**",
    ],
)
def test_lines_that_nobody_says_are_of_the_head(line: str) -> None:
    assert parts(f"答：a\n{line}\nb") == [
        (1, "answer", 1, "答：a"),
        (1, None, 0, line),
        (1, "answer", 1, "b"),
    ]


@each_case(
    "line",
    [
        "我没有签名，因为忙。",
        "42000",
        "第3页上写着我的名字，那不是我签的，是别人替我写上去的名字。",
        "他签字以后走了",
    ],
)
def test_lines_that_only_look_so_are_said(line: str) -> None:
    ((_, speaker, _, _),) = parts(f"答：a\n{line}\nb")
    assert speaker == "answer"


@each_case("begins", ["问", "签名", "第1页", "-", "- " * 9, "<!-- page", "<!-- page 1", "答1**"])
def test_long_runs_of_blanks_cost_no_more_than_other_text(begins: str) -> None:
    line = begins + " " * 200_000 + "x"  # tried at every blank, this would take hours
    document = Document("d", tuple(text_pages(f"问：a\n{line}")))
    assert "".join(document.text[part.start : part.end] for part in segments(document)) == f"问：a\n{line}"


def test_other_documents_have_no_parts() -> None:
    assert parts("# 公告\n\n第1页\n\n内容。", "第2页") == []
    assert segments(Document("d", ())) == ()


@given(st.lists(st.text("问答：。？a第1页\n 签名", max_size=30), max_size=4))
def test_parts_cover_every_page_from_end_to_end(texts: list[str]) -> None:
    document = Document("d", tuple(Page(number, text) for number, text in enumerate(texts, 1)))
    found = segments(document)
    for page in document.pages:
        own = [part for part in found if part.page == page.number]
        assert all(isinstance(part, Segment) and part.start < part.end for part in own)
        if found:
            assert "".join(page.text[part.start : part.end] for part in own) == page.text
