"""An invented record of four pages and questions about it, for tests of scoring."""

from typing import Any

import msgspec

from memfin.contracts.rag import RagAnswer, RagQuestion
from memfin.rag.document import Document, Page
from memfin.rag.scoring import DocumentIndex, QuestionScore, score_question

PAGES = (
    "谈话笔录\n时间：2021年3月5日14时30分\n地点：某调解室\n被询问人：程飞，电话13900001234\n问：你是谁？\n答：程飞。\n",
    (
        "问：你一共给了方明42000元吗？\n答：是的。先后给了20000元和22000元，一共42000元，用来办学位。\n"
        "问：什么时候给的？\n答：2020年7月1日给了第一笔，7月15日给了第二笔，在场的有三个人。\n"
    ),
    (
        "问：方明怎么说的？\n答：方明说如果办不成，42000元全部退给我。\n"
        "问：后来呢？\n答：8月30日左右他说办不了，答应退款。他写过一张12000元的借条。\n"
    ),
    (
        "问：这42000元具体用到哪里了？\n答：具体请了谁吃饭，给谁送过东西，我都忘记了。\n"
        "问：退款了吗？\n答：没有退，利息约定是5%。\n"
    ),
)
DOCUMENT = Document("record.md", tuple(Page(number, text) for number, text in enumerate(PAGES, 1)))
INDEX = DocumentIndex(DOCUMENT)

FACT: dict[str, Any] = {
    "id": "fact",
    "type": "fact_exact",
    "question": "程飞总共给了方明多少钱？",
    "expected": {"amount_total": 42000},
    "required_evidence": [{"page": 2, "must_include": "42000元", "section": "qa_pair", "speaker": "answer"}],
}
EVIDENCE: dict[str, Any] = {
    "id": "evidence",
    "type": "evidence_set",
    "question": "有哪些证据表明方明答应退款？",
    "expected": {"evidence_count_min": 2, "key_points": ["办不成42000元全部退"]},
    "required_evidence": [
        {"page": 3, "must_include": "42000元全部退给我", "speaker": "answer"},
        {"page": 3, "must_include": "答应退款", "speaker": "answer"},
    ],
}
GAP: dict[str, Any] = {
    "id": "gap",
    "type": "conflict_gap",
    "question": "42000元具体用到哪里了？",
    "should_abstain": True,
    "required_quote": "具体请了谁吃饭...都忘记了",
    "evidence_location": {"page": 4, "lines": "1-2"},
}

PROMISE = {"page": 3, "text": "方明说如果办不成，42000元全部退给我"}
REFUND = {"page": 3, "text": "8月30日左右他说办不了，答应退款"}
TOTAL = {"page": 2, "quote": "先后给了20000元和22000元，一共42000元"}
GAP_QUOTE = "具体请了谁吃饭，给谁送过东西，我都忘记了"


def question(base: dict[str, Any], **changes: Any) -> RagQuestion:
    return msgspec.convert({**base, **changes}, RagQuestion)


def answered(said: str = "", /, **fields: Any) -> RagAnswer:
    return msgspec.convert({"answer": said, **fields}, RagAnswer)


def scored(
    base: dict[str, Any], answer: RagAnswer, index: DocumentIndex | None = INDEX, **changes: Any
) -> QuestionScore:
    return score_question(question(base, **changes), answer, index)
