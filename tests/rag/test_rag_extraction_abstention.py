"""Which answers decline to answer, in Chinese and English, and which only look so."""

from pathlib import Path

import msgspec
import pytest

from memfin.rag.extraction.answers import recognize_abstention
from tests.support import each_case

ASKED = "42000元具体用到哪里了？请详细说明。"


@each_case(
    "text",
    [
        "无法确定。",
        "文件没有说明42000元的具体用途。",
        "根据笔录，无法得知具体花费明细",
        "笔录中未提及具体用途。",
        "未记载",
        "没有相关信息",
        "没有关于这笔钱用途的记载",
        "信息不足，无法作答",
        "陈明飞称都忘记了",
        "他说记不清了。",
        "具体请了谁吃饭，忘记了。",
        "我不知道",
        "不详",
        "N/A",
        "无从查证",
        "42000元的具体用途，文件并未交代。",
        "陈明飞一共收了42000元。具体用到哪里，他说都忘记了。",
        "文档中没有说明具体用途。不过，文档提到他收了42000元。",
        "抱歉，材料里查不到这笔钱的去向",
        "The document does not say how it was spent.",
        "I don't know.",
        "The use of the money is not mentioned.",
        "It cannot be determined from the record.",
        "There is no information about that.",
        "Unknown",
        "The witness forgot.",
        "不清楚是否有人知道",
        "笔录里没有柯映雪的身份证号码。",
        "The record does not name anybody.",
        "抱歉，我无法根据材料回答这个问题。",
        "依据材料无从得知",
        "无法通过材料得知",
        "我不掌握这方面的信息",
        "不方便透露",
        "需要进一步核实",
        "该问题超出材料范围",
        "该文档并不包含此信息。",
        "文中不涉及相关内容",
    ],
)
def test_answers_that_decline(text: str) -> None:
    found = recognize_abstention(text, ASKED)
    assert found.abstains
    assert found.sign


@each_case(
    "text",
    [
        "他没有忘记，钱都用来请客了。",
        "对方不知道这件事，但他本人承认收了钱",
        "不方便透露姓名的证人付了42000元",
        "他说需要进一步核实账目后退了20000元",
        "费用超出预算范围，一共42000元",
        "他不掌握账户密码，钱是对方转的",
        "没有忘记",
        "他没有说谎。",
        "他没有说过假话。",
        "材料不包含发票的原件",
        "并未忘记这件事",
        "从未忘记过",
        "没忘，都花在请客上",
        "谁也没有忘记钱的去向",
        "他没有说忘记了",
        "他并不是不知道",
        "不能说不知道",
        "他不会不清楚钱的去向",
        "不是没有说明，而是写明了用途",
        "并非无法确定：钱用于请客",
        "怎么会忘记了呢？",
        "他忘记带身份证，钱用来请客",
        "有没有提到用途？有的，请客",
        "如果不清楚可以查看第4页，钱用于请客",
        "是否不清楚用途？钱用于请客",
        "用途未提及，但可能是请客吃饭",
        "请客、送礼",
        "是的，他都用来请客了。具体日期未提及。",
        "He did not forget where the money went: dinners.",
        "It is not unknown: he bought gifts.",
        "The witness has not forgotten anything; it went to dinners",
        "It is unclear to some, but probably it went to dinners.",
        "Whether it is unknown is the question; dinners.",
        "前后不一致：先说请客，后来说“具体用到哪里忘记了”。",
        "",
        "   ",
        "。",
    ],
)
def test_answers_that_only_look_as_if_they_declined(text: str) -> None:
    assert not recognize_abstention(text, ASKED).abstains


def test_a_gap_beside_the_point_is_no_abstention() -> None:
    asked = "成龙飞总共给了多少钱？"
    told = "成龙飞总共给了42000元。交钱的具体日期没有提及。"
    assert recognize_abstention(told, asked).reason == "beside_the_point"
    assert recognize_abstention(told, "交钱的具体日期是哪一天？").abstains


def test_a_long_text_with_one_gap_in_it_is_no_abstention() -> None:
    told = "请客花了钱。送礼花了钱。打车花了钱。吃饭花了钱。住店花了钱。42000元具体用到哪里忘记了。"
    assert not recognize_abstention(told, ASKED).abstains


@pytest.mark.parametrize("part", [1, 2, 3, 4, 5])
def test_refusals_are_told_from_answers_with_their_words(part: int) -> None:
    """Part 1 was there before the patterns.

    Parts 2 to 5 were written after them and read at first with a precision of 0.74, 0.67, 0.71 and 0.81 and a
    recall of 0.91, 0.73, 0.57 and 0.65; each time their misses improved the patterns.
    """
    rows = map(msgspec.json.decode, (Path(__file__).parent / "rag_refusals.jsonl").read_bytes().splitlines())
    cases = [case for case in rows if case["part"] == part]
    refuses = [case["refuses"] for case in cases]
    read = [recognize_abstention(case["say"], case["q"]).abstains for case in cases]
    hits = sum(map(all, zip(refuses, read, strict=True)))
    assert len(cases) >= 40
    assert hits / sum(read) >= 0.84
    assert hits / sum(refuses) >= 0.95


@each_case(
    ("asked", "text", "abstains"),
    [
        ("检测报告写的是什么？", "写的是零部件老化，落款没有写日期。", False),
        ("房东为什么扣押金？", "房东说是提前退租，没有说别的理由。", False),
        ("师傅叫什么名字？", "未能在笔录中查到此项。", True),
        ("师傅的电话是多少？", "暂无此项信息。", True),
        ("师傅的电话是多少？", "只知道姓孟，电话没有留下。", True),
        ("小票上的店员叫什么？", "只有编号0036，姓名没有写。", True),
        ("发票号码是多少？", "材料中不存在发票号码的信息。", True),
        ("儿子在哪个网站买的？", "具体哪个网站，当事人没有说。", True),
        ("Who is the administrator?", "The report does not name the administrator.", True),
        ("Who is the administrator?", "The name has yet to be settled.", True),
    ],
)
def test_other_things_that_are_not_said_beside_an_answer_are_no_abstention(
    asked: str, text: str, abstains: bool
) -> None:
    assert recognize_abstention(text, asked).abstains is abstains
