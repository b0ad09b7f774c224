"""The built-in RAG system and the oracle: what they answer, quote and leave open."""

import asyncio
import random
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from memfin.contracts.rag import RagAnswer, RagAnswerRange
from memfin.rag.benchmark import load_benchmark
from memfin.rag.document import Document, Page, load_document
from memfin.rag.extraction.normalize import fold
from memfin.rag.passages import passages_of
from memfin.rag.scoring import DocumentIndex, score_question
from memfin.rag.systems import SystemUnderTest, load_system
from memfin.rag.systems.builtin import BuiltinRag, read_question
from tests.rag.rag_documents import ENGLISH, PROSE, RECORD
from tests.support import each_case

SAMPLE = Path(__file__).resolve().parents[2] / "memfin" / "data" / "rag"


def answer(document: Document, question: str) -> RagAnswer:
    return asyncio.run(BuiltinRag(document).query(question))


def quotes(given: RagAnswer) -> list[tuple[int | None, str]]:
    return [(each.page, each.quote) for each in given.citation]


# --- values


@each_case(
    ("document", "question", "field", "value", "page"),
    [
        (RECORD, "唐以宁一共投入了多少钱？", "amount", 45000, 1),
        (RECORD, "唐以宁每笔分别投了多少钱？", "amount_breakdown", [30000, 15000], 1),
        (RECORD, "第一笔钱是什么时候转的？", "date", "2019-04-02", 1),
        (RECORD, "罗知远什么时候退的钱？", "date", "2020-06-15", 2),
        (RECORD, "罗知远退款多少元？", "amount", 5000, 2),
        (RECORD, "罗知远退过几次钱？", "count", 1, 2),
        (RECORD, "唐以宁先后转了几笔钱？", "count", 2, 1),
        (RECORD, "唐以宁多大年龄？", "count", 38, 1),
        (RECORD, "双方是否签订了合同？", "boolean", False, 1),
        (RECORD, "店铺开在什么地方？", "entity", "江枫市柳堤路18号", 2),
        (RECORD, "房东是谁？", "entity", "霍青山", 2),
        (RECORD, "笔录是什么时候做的？", "date", "2022-04-11", 1),
        (ENGLISH, "When was the contract signed?", "date", "2020-02-12", 1),
        (ENGLISH, "How much did Dana Whitlow pay in total?", "amount", 12500, 1),
        (ENGLISH, "How many transfers were made?", "count", 2, 1),
        (ENGLISH, "Was any money returned?", "boolean", False, 1),
        (ENGLISH, "Who was the adviser?", "entity", "Mr. Orlin Pratt", 2),
        (PROSE, "How much was the entry fee?", "amount", 300, 1),
        (PROSE, "When was the fund opened?", "date", "2018-06-04", 1),
        (PROSE, "How many accounts did the fund have at the end of 2020?", "count", 412, 2),
        (PROSE, "What period was the fund closed for audit?", "date_range",
         RagAnswerRange(start="2021-03-01", end="2021-06-30"), 3),
    ],
)  # fmt: skip
def test_values_of_the_asked_kind_are_found_and_quoted(
    document: Document, question: str, field: str, value: Any, page: int
) -> None:
    found = answer(document, question)
    assert getattr(found, field) == value
    assert found.abstained is False
    assert page in {place for place, _ in quotes(found)}


def test_a_reason_is_quoted() -> None:
    found = answer(RECORD, "店为什么关门？")
    assert found.text == "因为2020年1月以后没有客人，房租又涨了，五月就关了。"
    assert quotes(found) == [(2, found.text)]


def test_a_list_brings_the_passages_that_bear_on_it() -> None:
    found = answer(RECORD, "有哪些证据表明罗知远承诺还钱？")
    assert any("年底前还清" in each.text and each.page == 2 for each in found.evidence)
    assert len(found.evidence) < 4


@each_case(
    ("document", "question", "quote"),
    [
        (RECORD, "购买设备具体花了多少钱？请详细说明。", "都忘记了"),
        (ENGLISH, "What exactly was the money used for?", "I do not remember"),
        (RECORD, "罗知远的身份证号是多少？", ""),
        (RECORD, "罗知远的车是什么品牌？", ""),
        (RECORD, "唐以宁有没有报警？", ""),
        (ENGLISH, "What is Orlin Pratt's phone number?", ""),
        (ENGLISH, "Where does Orlin Pratt live?", ""),
        (RECORD, "", ""),
        (RECORD, "？！…", ""),
    ],
)
def test_what_nothing_supports_is_left_open(document: Document, question: str, quote: str) -> None:
    found = answer(document, question)
    assert found.abstained is True
    assert (found.amount, found.date, found.count, found.boolean, found.entity) == (None,) * 5
    assert quote in "".join(text for _, text in quotes(found))


def test_a_question_about_contradictions_is_answered_with_the_statements() -> None:
    text = ("定金是多少？", "定金3000元。"), ("再确认一下，定金是多少？", "定金5000元。")
    found = answer(record(*text), "关于定金，前后说法是否一致？")
    assert found.abstained is False
    assert [quote for _, quote in quotes(found)] == ["定金3000元。", "定金5000元。"]


def test_a_clause_that_leaves_the_very_thing_open_is_heeded_beside_a_value() -> None:
    text = "问：公司搬到哪里了？\n答：原来在青川路8号，去年六月搬走了，搬到哪里我不知道。\n"
    found = answer(Document("d", (Page(1, text),)), "公司搬走以后的新地址在哪里？")
    assert found.abstained is True
    assert "搬到哪里我不知道" in quotes(found)[0][1]


def record(*turns: tuple[str, str]) -> Document:
    return Document("d", (Page(1, "\n".join(f"问：{asked}\n答：{said}" for asked, said in turns)),))


def test_a_value_in_the_question_that_is_affirmed_is_quoted_with_the_affirmation() -> None:
    found = answer(record(("定金是不是3000元？", "是的，没有错。")), "定金是多少钱？")
    assert found.amount == 3000
    assert [text for _, text in quotes(found)] == ["定金是不是3000元？", "是的，没有错。"]


@each_case(
    ("turns", "expected"),
    [
        ([("哪年签的？", "2021年签的。"), ("哪天搬走的？", "8月30日搬走的。")], "2021-08-30"),
        ([("哪年签的？", "2021年，补签在2022年。"), ("哪天搬走的？", "8月30日搬走的。")], "2022-08-30"),
        ([("哪天搬走的？", "8月30日搬走的。")], "--08-30"),
    ],
)
def test_a_date_takes_its_year_from_what_was_said_before(turns: list[tuple[str, str]], expected: str) -> None:
    assert answer(record(*turns), "哪天搬走的？").date == expected


def test_a_share_is_no_count() -> None:
    found = answer(record(("提成的比例是多少？", "提成按30%算。")), "提成是多少比例？")
    assert (found.count, found.text) == (None, "提成按30%算。")


def test_a_time_of_day_is_told_in_the_words_of_the_document() -> None:
    assert answer(record(("几点到的公司？", "上午九点半到的。")), "几点到公司？").text == "上午九点半到的。"


def test_what_stays_between_yes_and_no_is_left_open() -> None:
    found = answer(record(("他同意退货吗？", "可能吧，也许同意。")), "他是否同意退货？")
    assert (found.abstained, found.boolean) == (True, None)


def test_a_clause_with_the_value_answers_although_another_is_left_open() -> None:
    text = "四月我去了公司五次，电话打了多少次就数不清了。"
    turns = ("催过他们吗？", text)
    assert answer(record(turns), "四月去了公司几次？").count == 5
    assert answer(record(turns), "电话打了多少次？").abstained is True


@each_case(
    ("turns", "question", "field", "value"),
    [
        ([("经过？", "他拖欠24000元。"), ("现在呢？", "还差15000元。")], "还欠多少钱？", "amount", 15000),
        ([("然后？", "他到我家位于临川市松石路9号902室。")], "家在哪里？", "entity", "临川市松石路9号902室"),
        ([("身份？", "证件330000198607020000，电话135-0000-8842。")], "手机号？", "text", "135-0000-8842"),
        ([("房子是谁的？", "房主是他姐姐欧阳丽华，陈龙飞只是租客。")], "房主是谁？", "entity", "欧阳丽华"),
        ([("分别是多少？", "先付了3万元，又付了2万元。")], "前后付了多少钱？", "amount", 50000),
        ([("付过几次？", "5月1日付了一次，7月9日付了一次。")], "最后一次付是哪天？", "date", "--07-09"),
        ([("费用呢？", "管理费3000元。费率是1.2%。")], "管理费率是多少？", "text", "费率是1.2%。"),
        ([("他拒绝调解吗？", "他没有拒绝。")], "他是否拒绝调解？", "boolean", False),
    ],
)  # fmt: skip
def test_a_value_is_that_of_the_clause_nearest_to_the_question(
    turns: list[tuple[str, str]], question: str, field: str, value: Any
) -> None:
    assert getattr(answer(record(*turns), question), field) == value


@each_case(
    ("turns", "question"),
    [
        ([("材料收到了吗？", "我已经收阅。")], "他是否认罪认罚？"),
        ([("现送达《认罪认罚从宽告知书》，你看了吗？", "我已经收阅。")], "他是否认罪认罚？"),
        ([("车是谁的？", "车主没有记录，不予披露。")], "车主是谁？"),
        ([("三笔款呢？", "三笔，合计156000元。")], "三笔各是多少钱？"),
    ],
)
def test_words_without_the_predicate_or_the_value_give_no_answer(
    turns: list[tuple[str, str]], question: str
) -> None:
    found = answer(record(*turns), question)
    assert found.abstained is True
    assert (found.boolean, found.entity, found.amount_breakdown) == (None, None, None)


def test_passages_are_ranked_by_rare_words_and_not_by_the_name_of_the_person_asked_about() -> None:
    turns = (
        ("罗知远是谁？", "罗知远是我的同事。"),
        ("他住哪里？", "罗知远住在江边。"),
        ("退钱了吗？", "他退了5000元。"),
    )
    hits = BuiltinRag(record(*turns)).search("罗知远退还了多少钱？")
    assert hits[0].passage.answer == "他退了5000元。"


@each_case("document", [RECORD, ENGLISH, PROSE])
def test_every_quote_stands_on_its_page(document: Document) -> None:
    for question in ("一共投了多少钱？", "店在哪里？", "Who was paid?", "When did it end?", "有哪些证据？"):
        for page, quote in quotes(answer(document, question)):
            assert page is not None
            place = document.page(page)
            assert place is not None
            assert fold(quote) in fold(place.text)


def test_the_same_question_has_the_same_answer_from_any_instance() -> None:
    one, other = BuiltinRag(RECORD), BuiltinRag(RECORD)
    questions = ["房东是谁？", "一共投了多少钱？", "他退过钱吗？"]
    first = [asyncio.run(one.query(question)) for question in questions]
    random.Random(7).shuffle(questions)
    again = {question: asyncio.run(other.query(question)) for question in questions}
    assert first == [again[question] for question in ("房东是谁？", "一共投了多少钱？", "他退过钱吗？")]


@settings(max_examples=60, deadline=None)
@given(st.text(max_size=60), st.lists(st.text(max_size=80), min_size=1, max_size=3))
def test_no_question_and_no_document_is_too_odd(question: str, texts: list[str]) -> None:
    document = Document("d", tuple(Page(number, text) for number, text in enumerate(texts, 1)))
    found = answer(document, question)
    assert isinstance(found, RagAnswer)
    assert found.abstained is not None


# --- its parts


def test_passages_of_a_record_are_its_pairs() -> None:
    pairs = [passage for passage in passages_of(RECORD) if passage.is_pair]
    assert len(pairs) == 9
    assert (pairs[0].question, pairs[0].answer) == (
        "你和罗知远是什么关系？",
        "他是我以前的同事，2019年3月开始我们合伙开店。",
    )
    assert not any("第1页" in passage.answer for passage in passages_of(RECORD))


def test_passages_of_prose_are_its_paragraphs_under_their_headings() -> None:
    found = [(passage.question, passage.answer) for passage in passages_of(PROSE)]
    assert (
        "Fees",
        "The management fee is 1.2 percent a year. The entry fee was $300 for every account.",
    ) in found
    assert ("Size", "At the end of 2020 the fund had 412 accounts.") in found
    assert not any("Page" in text for _, text in found)


def test_long_paragraphs_are_cut_between_sentences() -> None:
    text = "".join(f"第{number}句话讲的是一件不太要紧的小事。" for number in range(200))
    passages = passages_of(Document("d", (Page(1, text),)))
    assert len(passages) > 3
    assert "".join(passage.answer for passage in passages) == text


@each_case(
    ("question", "kind"),
    [
        ("一共给了多少钱？", "amount"),
        ("每笔分别是多少？", "breakdown"),
        ("几点到的？", "clock"),
        ("去了几次？", "count"),
        ("持续了多久？", "count"),
        ("哪一天签的？", "date"),
        ("从什么时候到什么时候？", "range"),
        ("是否签过合同？", "boolean"),
        ("他同意吗？", "boolean"),
        ("收款人是谁？", "person"),
        ("在哪里见的面？", "place"),
        ("是哪家公司？", "organization"),
        ("卡号是什么？", "id"),
        ("有哪些证据？", "list"),
        ("前后是否一致？", "conflict"),
        ("为什么关门？", "text"),
        ("Did he pay?", "boolean"),
        ("What evidence is there?", "list"),
    ],
)
def test_the_kind_of_a_question_is_read_from_its_words(question: str, kind: str) -> None:
    assert read_question(question).kind == kind


# --- on the sample


def scored(reference: str) -> dict[str, float]:
    """Return the score of a system on each question of the sample."""
    benchmark = load_benchmark(SAMPLE)
    document = load_document(SAMPLE / "interview.md")
    index = DocumentIndex(document)

    async def ask() -> dict[str, float]:
        loaded: SystemUnderTest = load_system(reference, document=document)
        try:
            found = {}
            for question in benchmark.questions:
                asked = await loaded.ask(question)
                assert asked.answer is not None, asked.error
                score = score_question(question, asked.answer, index)
                found[question.id] = score.score / score.max_score
            return found
        finally:
            await loaded.close()

    return asyncio.run(ask())


def test_the_oracle_scores_everything() -> None:
    scores = scored("oracle")
    assert len(scores) >= 36
    assert set(scores.values()) == {1.0}


def test_the_built_in_system_is_a_baseline_and_no_more() -> None:
    """It reads no ground truth: what it gains comes from the document, and much is beyond it."""
    scores = scored("builtin")
    share = sum(scores.values()) / len(scores)
    assert 0.5 < share < 0.95


def test_the_built_in_system_gets_the_words_of_a_question_and_nothing_else(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    heard: list[Any] = []
    original = BuiltinRag.query

    async def query(self: BuiltinRag, question: str) -> RagAnswer:
        heard.append(question)
        return await original(self, question)

    monkeypatch.setattr(BuiltinRag, "query", query)
    scored("builtin")
    assert {type(each) for each in heard} == {str}
