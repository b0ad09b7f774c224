"""Adversarial answers with scores worked out by hand from the formulas, not from the code.

A line of ``rag_red_team.jsonl`` is a question (``on``, and what ``ask`` changes), an answer (``say``, and
the fields of ``with``) and the ``parts`` of its score in the order of the formula.
"""

from pathlib import Path
from typing import Any

import msgspec
import pytest

from memfin.contracts.rag import RagAnswer, RagQuestion
from memfin.rag.document import Document, Page
from memfin.rag.scoring import DocumentIndex, score_question
from tests.support import each_case

RECORD = (
    (
        "询问笔录\n时间：2022年4月12日9时20分\n地点：城东调解中心二楼\n询问人：周敏\n"
        "被询问人：林涛，身份证号码110101199003070031，电话13712345678\n"
    ),
    (
        "问：你一共借给许勇多少钱？\n"
        "答：一共壹拾贰万元。2021年3月2日转账8万元，2021年3月5日给了现金4万元，分两次给的。\n"
        "问：在场的有谁？\n答：我妻子赵倩和许勇的司机，两个人。\n"
    ),
    (
        "问：约定利息了吗？\n答：约定月息1.5%，借期半年，2021年9月底前还清。\n"
        "问：他还过钱没有？\n答：还过一次，2021年10月8日微信转了12000元，别的没有还。\n"
    ),
    (
        "问：现金是从哪家银行取的？\n答：记不清了，好像是路口那家，具体哪个网点我忘了。\n"
        "问：他把钱用在什么地方？\n答：他说开了一家“顺达汽修”，在建设路18号，花在哪里我不知道。\n"
    ),
    (
        "问：你前面说给了现金4万元，他说只收到35000元，怎么解释？\n"
        "答：我给的就是4万元，有收条，收条上写的是四万元整。\n问：还有补充吗？\n答：没有了。\n"
    ),
)
ENGLISH = (
    "Interview record. Date: 12 April 2022. Witness: Alan Reed.",
    (
        "Q: How much did you lend?\nA: I lent him $125,000 in total: $80,000 on March 2, 2021"
        " and $45,000 on March 5, 2021.\nQ: Who was there?\nA: My wife Helen Reed and two drivers."
    ),
    (
        "Q: Did he repay?\nA: He paid back $2,050 once, on 8 October 2021. Nothing else.\n"
        "Q: Which bank?\nA: I do not remember which branch it was."
    ),
)


def _index(pages: tuple[str, ...]) -> DocumentIndex:
    return DocumentIndex(Document("record.md", tuple(Page(n, text) for n, text in enumerate(pages, 1))))


DOCUMENTS = {"record": _index(RECORD), "english": _index(ENGLISH), "none": None}
QUESTIONS: dict[str, dict[str, Any]] = {
    "fact": {
        "type": "fact_exact",
        "question": "林涛一共借给许勇多少钱？",
        "expected": {"amount_total": 120000},
        "required_evidence": [{"page": 2, "must_include": "壹拾贰万元", "speaker": "answer"}],
    },
    "evidence": {
        "type": "evidence_set",
        "question": "哪些陈述说明借过和还过钱？",
        "required_evidence": [
            {"page": 3, "must_include": "还过一次"},
            {"page": 3, "must_include": "12000元"},
            {"page": 2, "must_include": "壹拾贰万元"},
        ],
    },
    "gap": {
        "type": "conflict_gap",
        "question": "现金是从哪家银行的哪个网点取的？",
        "should_abstain": True,
        "required_quote": "记不清了...具体哪个网点我忘了",
        "evidence_location": {"page": 4},
    },
}
FORMULAS = {"fact": (0.7, 0.3), "evidence": (0.5, 0.3, 0.2), "gap": (0.4, 0.4, 0.2)}
ROWS = (Path(__file__).parent / "rag_red_team.jsonl").read_bytes().splitlines()
CASES: list[dict[str, Any]] = [msgspec.json.decode(row) for row in ROWS]


def _parts(details: dict[str, Any]) -> list[float]:
    if "exact_match" in details:
        return [details["exact_match"], details["citation_correctness"]]
    if "recall" in details:
        recall, precision = (float(details[n] >= details[f"{n}_min"]) for n in ("recall", "precision"))
        return [recall, precision, details["citation_provided"]]
    return [details["correct_abstention"], details["no_hallucination"], details["quote_included"]]


@each_case("case", CASES)
def test_an_answer_gets_what_the_formula_says(case: dict[str, Any]) -> None:
    asked = {"id": "case", **QUESTIONS[case["on"]], **case.get("ask", {})}
    question = msgspec.convert(asked, RagQuestion)
    answer = msgspec.convert({"answer": case["say"], **case.get("with", {})}, RagAnswer)
    result = score_question(question, answer, DOCUMENTS[case.get("doc", "record")])
    assert _parts(result.details) == case["parts"], result.details
    share = sum(factor * part for factor, part in zip(FORMULAS[case["on"]], case["parts"], strict=True))
    assert result.score == pytest.approx(share * question.weight)
    assert result.passed is (share >= question.pass_threshold - 1e-9)


def test_a_count_too_large_to_reckon_with_breaks_the_contract() -> None:
    with pytest.raises(msgspec.ValidationError, match="count"):
        msgspec.json.decode(f'{{"answer": "", "count": {"9" * 400}}}', type=RagAnswer)


def test_long_rows_of_figures_are_read_in_one_pass() -> None:
    question = msgspec.convert({"id": "case", **QUESTIONS["fact"]}, RagQuestion)
    for text in ("9" * 100_000, "一" * 100_000, ",000" * 25_000):
        assert score_question(question, RagAnswer(answer=text), DOCUMENTS["record"]).score == 0
