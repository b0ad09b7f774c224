"""Bare names of people, places and firms in answers, against ten invented documents.

A line of ``rag_invented_names.jsonl`` is a document, or an answer with the names that it invents. The lines
of part 1 were there before the patterns. Those of 2, 3 and 4 were written after them and read at first with a
precision of 0.81, 0.93 and 0.88 and a recall of 0.94, 0.90 and 0.93; then their misses improved the patterns.
"""

from functools import partial
from pathlib import Path
from typing import Any

import msgspec
import pytest

from memfin.contracts.rag import RagAnswer, RagQuestion
from memfin.rag.document import Document, Page
from memfin.rag.extraction.names import KnownWords, unknown_names
from memfin.rag.scoring import DocumentIndex
from memfin.rag.scoring.question import check_answer
from tests.support import calls, each_case

ROWS = (Path(__file__).parent / "rag_invented_names.jsonl").read_bytes().splitlines()
CASES: list[dict[str, Any]] = [msgspec.json.decode(row) for row in ROWS]
INDEXES = {
    case["domain"]: DocumentIndex(Document("d.md", (Page(1, case["document"]),)))
    for case in CASES
    if "document" in case
}


def found(say: str, *, domain: str, q: str) -> list[str]:
    question = msgspec.convert({"id": "q", "type": "conflict_gap", "question": q}, RagQuestion)
    invented = check_answer(question, RagAnswer(answer=say), INDEXES[domain])["invented"]
    return [one["text"] for one in invented if one["kind"] == "name"]


@pytest.mark.parametrize("part", [1, 2, 3, 4])
def test_invented_names_are_found_and_ordinary_words_are_none(part: int) -> None:
    answers = [case for case in CASES if case.get("part") == part]
    wrong = [bool(case.get("names")) for case in answers]
    blamed = [bool(found(case["say"], domain=case["domain"], q=case["q"])) for case in answers]
    hits = sum(is_wrong and is_blamed for is_wrong, is_blamed in zip(wrong, blamed, strict=True))
    assert len(answers) > 40
    assert hits / sum(blamed) >= 0.93
    assert hits / sum(wrong) >= 0.93


@each_case(
    ("domain", "q", "say", "names"),
    [
        ("police", "许勇租的房子的房主是谁？", "房主是他的姐姐陈丽。", ["陈丽"]),
        ("police", "在哪里吃的饭？", "在老王烧烤店吃的饭。", ["老王烧烤店"]),
        ("police", "许勇住在哪里？", "许勇住在县城人民路的幸福小区。", ["县城人民路", "幸福小区"]),
        ("annual", "Who owns it?", "The owner is his sister Mary Chen.", ["Mary Chen"]),
        ("police", "陈小川在场吗？", "笔录没有出现陈小川这个名字。", []),
        ("police", "怎么做的？", "他高兴地张开手，白天用王牌方法，马上卖了黄金。", []),
        ("annual", "Who is it?", "No Fund Keeper is named, nor is a Town or Country.", []),
        ("police", "谁修的？", "是阿强和门卫老葛在聚贤饭店修的。", ["阿强", "老葛", "聚贤饭店"]),
        ("police", "在哪里？", "没有写明，任何路名都没有。", []),
        ("police", "在哪家店？", "金鼎轩饭庄", ["金鼎轩饭庄"]),
        ("police", "谁签的字？", "签字的人是司马亮工程师。", ["司马亮"]),
        ("annual", "Who is it?", "Martin Ellwood's name is given; see Note 5.", []),
    ],
)
def test_names_are_shown_as_they_stand(domain: str, q: str, say: str, names: list[str]) -> None:
    assert found(say, domain=domain, q=q) == names


@each_case("piece", ["聚福店", "王", "一", "Mary Chen paid ", "人民路"])
def test_four_times_the_text_is_about_four_times_the_work(piece: str) -> None:
    def names(count: int) -> None:
        list(unknown_names(piece * count, KnownWords("笔录")))

    short, long = (calls(partial(names, count)) for count in (100, 400))
    assert long < 6 * short


def test_a_surname_of_the_document_may_have_a_title() -> None:
    index = DocumentIndex(Document("d.md", (Page(1, "请了一个姓孟的师傅。"),)))
    question = msgspec.convert({"id": "q", "type": "conflict_gap", "question": "谁修的？"}, RagQuestion)
    invented = check_answer(question, RagAnswer(answer="孟师傅没有留名字，孟祥也没有。"), index)["invented"]
    assert [each["text"] for each in invented] == ["孟祥"]
