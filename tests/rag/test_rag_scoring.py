"""The three formulas: what a question's score is made of, with hand-computed values."""

import json
from typing import Any

import pytest

from memfin.contracts.rag import RagAnswer
from memfin.rag.document import Document, Page
from memfin.rag.scoring import DocumentIndex, score_failure, score_question
from tests.rag.rag_scoring_cases import (
    DOCUMENT,
    EVIDENCE,
    FACT,
    GAP,
    GAP_QUOTE,
    INDEX,
    PAGES,
    PROMISE,
    REFUND,
    TOTAL,
    answered,
    question,
    scored,
)
from tests.support import each_case

DUMP = [{"page": page, "text": text} for page, text in enumerate(PAGES, 1)]
DUMP_CITED = [{"page": page, "quote": text} for page, text in enumerate(PAGES, 1)]
SYSTEMS: dict[str, RagAnswer] = {
    "always abstains": answered("文件没有说明，无法确定。"),
    "invents numbers": answered(
        "共给了八万八千元，2019年5月6日由五个人经手。",
        citation=[{"page": 2, "quote": "给了八万八千元42000元42000元全部退给我答应退款"}],
        evidence=[{"page": 3, "text": "方明写下42000元全部退给我，答应退款，另赔六万元"}],
    ),
    "cites a wrong page": answered(
        f"42000元。“{GAP_QUOTE}”",
        citation=[{"page": 1, "quote": TOTAL["quote"]}, {"page": 1, "quote": GAP_QUOTE}],
        evidence=[{**PROMISE, "page": 1}, {**REFUND, "page": 4}],
    ),
    "dumps all pages": answered("\n".join(PAGES), evidence=DUMP, citation=DUMP_CITED),
    "right": answered(
        "42000元",
        amount=42000,
        evidence=[PROMISE, REFUND],
        citation=[TOTAL, {"page": 3, "quote": "答应退款"}],
    ),
    "says nothing": answered(),
}


@each_case(
    ("system", "fact", "evidence", "gap"),
    [
        # No value, no citation; nothing returned; abstains without the quote.
        ("always abstains", 0.0, 0.0, 0.8),
        # The quotes contain what is required but stand nowhere; the gap is filled with invented facts.
        ("invents numbers", 0.0, 0.0, 0.0),
        # The value alone; evidence and citations count nowhere; the answer quotes, does not invent and,
        # by the quote's own words, does not know.
        ("cites a wrong page", 0.7, 0.0, 1.0),
        # Many amounts are none, the page with the evidence is cited; recall 1, precision 1 of 4; a text that
        # holds everything neither abstains nor invents, and it holds the quote.
        ("dumps all pages", 0.3, 0.7, 0.6),
        # An amount is an answer, where one should abstain; nothing in it is invented.
        ("right", 1.0, 1.0, 0.4),
        # Who says nothing has invented nothing.
        ("says nothing", 0.0, 0.0, 0.4),
    ],
)
def test_systems_get_what_the_formulas_say(system: str, fact: float, evidence: float, gap: float) -> None:
    answer = SYSTEMS[system]
    scores = [scored(base, answer).score for base in (FACT, EVIDENCE, GAP)]
    assert scores == pytest.approx([fact, evidence, gap], abs=1e-12)


def test_a_question_passes_at_its_threshold_of_its_own_weight() -> None:
    half = scored(FACT, answered("42000元"), weight=3.0)
    assert half.score == pytest.approx(2.1)
    assert (half.max_score, half.passed) == (3.0, True)
    assert not scored(FACT, answered("42000元"), weight=3.0, pass_threshold=0.71).passed
    assert not scored(FACT, answered("41000元", citation=[TOTAL])).passed


def test_a_failed_question_scores_nothing_and_passes_at_no_threshold() -> None:
    failed = score_failure(question(FACT, weight=2.0, pass_threshold=0.0), "timeout")
    assert (failed.score, failed.max_score, failed.passed) == (0.0, 2.0, False)
    assert failed.details["failed"] == "timeout"


def test_details_are_plain_data_and_name_every_part() -> None:
    for base, parts in (
        (FACT, {"exact_match", "citation_correctness", "fields", "citation"}),
        (EVIDENCE, {"recall", "precision", "citation_provided", "evidence", "passages", "citation"}),
        (
            GAP,
            {
                "correct_abstention",
                "no_hallucination",
                "quote_included",
                "abstention",
                "hallucination",
                "quote",
            },
        ),
    ):
        for answer in SYSTEMS.values():
            details = scored(base, answer).details
            assert parts <= set(details)
            assert json.loads(json.dumps(details)) == details


def test_a_document_may_be_given_unprepared() -> None:
    answer = SYSTEMS["right"]
    assert score_question(question(FACT), answer, DOCUMENT) == scored(FACT, answer)


# Typed values of fact_exact


@each_case(
    ("expected", "text", "fields", "exact"),
    [
        ({"amount_total": 42000}, "一共4.2万元", {}, 1),
        ({"amount_total": 42000}, "", {"amount": 42000.0}, 1),
        ({"amount_total": 42000}, "总共给了50000元", {"amount": 42000}, 0),
        ({"amount_total": 42000}, "20000元，22000元", {"amount": 42000}, 1),
        ({"amount_total": 42000}, "20000元、42000元还是50000元", {}, 0),
        ({"amount_total": 42000}, "没有提到42000元", {}, 0),
        ({"amount_total": 42000}, "42000元", {"amount": 41000}, 0),
        ({"amount_total": 42000, "count": 2}, "两次共42000元", {}, 1),
        ({"amount_total": 42000, "count": 2}, "三次共42000元", {}, 0),
        ({"amount_breakdown": [22000, 20000]}, "20000元和22000元，共42000元", {}, 1),
        ({"amount_breakdown": [20000, 20000]}, "20000元", {}, 0),
        (
            {"amount_breakdown": [{"amount": 20000, "item": "a"}, 22000]},
            "",
            {"amount_breakdown": [22000, 20000]},
            1,
        ),
        ({"amount_breakdown": [20000, 20000, 22000]}, "", {"amount_breakdown": [20000, 22000, 22000]}, 0),
        ({"date": "2020-07-01"}, "2020年7月1日", {}, 1),
        ({"date": "2020-07-01"}, "二〇二〇年七月一日", {}, 1),
        ({"date": "2020-07-01"}, "7月1日", {}, 0),
        ({"date": "2020-07-01"}, "", {"date": "2020/7/1"}, 1),
        ({"date": "2020-07-01"}, "是2020年7月2日", {"date": "2020-07-01"}, 0),
        ({"date": "2020-07-01"}, "", {"date": "那天"}, 0),
        ({"date": "2020-07"}, "2020年7月", {}, 1),
        ({"date": "2020-07"}, "2020年7月1日", {}, 0),
        ({"date": "那天"}, "2020年7月1日", {}, 0),
        ({"date_range": {"start": "2020-07-01", "end": "2020-07-15"}}, "2020年7月1日至15日", {}, 1),
        ({"date_range": {"start": "2020-07-01", "end": "2020-07-15"}}, "2020年7月1日至16日", {}, 0),
        ({"date_range": {"start": "2020-07-01", "end": "2020-07-15"}}, "2020年7月1日", {}, 0),
        (
            {"date_range": {"start": "2020-07-01", "end": "2020-07-15"}},
            "",
            {"date_range": {"start": "2020年7月1日", "end": "2020年7月15日"}},
            1,
        ),
        (
            {"date_range": {"start": "2020-07-01", "end": "2020-07-15"}},
            "",
            {"date_range": {"start": "2020-07-01"}},
            0,
        ),
        ({"date_range": {"start": "那天", "end": "2020-07-15"}}, "2020年7月1日至15日", {}, 0),
        ({"count": 3}, "有三个人", {}, 1),
        ({"count": 3}, "", {"count": 3}, 1),
        ({"count": 3}, "有三个人或四个人", {}, 0),
        ({"text_answer": "办学位"}, "用来办学位。", {}, 1),
        ({"text_answer": "办学位"}, "不清楚", {"text": "办 学位"}, 1),
        ({"text_answer": "办学位"}, "不是办学位", {}, 0),
        ({"text_answer": "办学位"}, "没有提到办学位", {}, 0),
        ({"text_answer": "办学位"}, "请客", {}, 0),
        ({"text_answer": "20号"}, "120号", {}, 0),
        ({"text_answer": "不认罪认罚"}, "被告人既不认罪，也不认罚", {}, 1),
        ({"text_answer": "没有抽烟喝酒"}, "没有抽烟，也没有喝酒", {}, 1),
        ({"text_answer": "不认罪认罚"}, "不认罪，但认罚", {}, 0),
        ({"text_answer": "认罪认罚"}, "不认罪，也不认罚", {}, 0),
        ({"text_answer": "认罪认罚"}, "拒不认罪认罚", {}, 0),
        ({"text_answer": "认罪认罚"}, "是否认罪认罚：否", {}, 0),
        ({"text_answer": "认罪认罚"}, "是否认罪认罚：是", {}, 1),
        ({"boolean_answer": False}, "没有退", {}, 1),
        ({"boolean_answer": True}, "不是没有退", {}, 1),
        ({"boolean_answer": True}, "是的", {"boolean": False}, 0),
        ({"boolean_answer": False}, "文件没有说明", {}, 0),
        ({"boolean_answer": True}, "可能退了", {}, 0),
        ({"boolean_answer": False}, "", {"boolean": False}, 1),
        ({"entity": "方明"}, "给了方明", {}, 1),
        ({"entity": "方明"}, "", {"entity": "方明先生"}, 1),
        ({"entity": "方明"}, "", {"entity": "程飞"}, 0),
        ({"entity": "方明"}, "不是方明，是程飞", {}, 0),
        ({"entity": "方明"}, "程飞或者方明", {}, 0),
        ({"entity": "方明"}, "程飞、方明、王刚", {}, 0),
        ({"entity": "Acme Ltd"}, "It was acme ltd.", {}, 1),
        ({}, "42000元", {}, 0),
        ({"amount_total": 42000}, "42000元", {"abstained": True}, 0),
        ({"amount_total": 42000}, "", {"abstained": True, "amount": 42000}, 1),
    ],
)
def test_every_expected_value_must_match(
    expected: dict[str, Any], text: str, fields: dict[str, Any], exact: float
) -> None:
    asked = "分几次给的？" if expected.get("count") == 2 else "在场的有几个人？"
    result = scored(FACT, answered(text, **fields), expected=expected, question=asked)
    assert result.details["exact_match"] == exact, result.details


def test_the_reason_of_a_mismatch_is_recorded() -> None:
    (field,) = scored(FACT, answered("20000元或42000元")).details["fields"]
    assert field == {
        "field": "amount_total",
        "matched": False,
        "expected": 42000.0,
        "got": None,
        "source": "answer",
        "reason": "several_candidates",
        "candidates": [20000.0, 42000.0],
    }
    (field,) = scored(FACT, answered("50000元", amount=42000)).details["fields"]
    assert (field["reason"], field["got"]) == ("contradicts_text", 42000.0)


@each_case(
    ("scoring", "expected", "fields", "exact"),
    [
        ({"numeric_exact": False}, {"amount_total": 42000}, {"amount": 42400}, 1),
        ({"numeric_exact": False}, {"amount_total": 42000}, {"amount": 42900}, 0),
        ({"numeric_exact": False}, {"amount_breakdown": [1000, 2000]}, {"amount_breakdown": [2001, 1001]}, 1),
        ({"date_exact": False}, {"date": "2020-07-01"}, {"date": "7月1日"}, 1),
        ({"date_exact": False}, {"date": "2020-07-01"}, {"date": "2020-07"}, 1),
        ({"date_exact": False}, {"date": "2020-07-01"}, {"date": "2020"}, 0),
        ({"date_exact": False}, {"date": "2020-07"}, {"date": "2020-07-31"}, 1),
    ],
)
def test_values_need_not_be_exact_where_the_file_says_so(
    scoring: dict[str, Any], expected: dict[str, Any], fields: dict[str, Any], exact: float
) -> None:
    result = scored(FACT, answered(**fields), scoring=scoring, expected=expected)
    assert result.details["exact_match"] == exact


# Citations of fact_exact


@each_case(
    ("citations", "value", "reason"),
    [
        ([TOTAL], 1.0, None),
        ([{"quote": TOTAL["quote"]}], 1.0, None),
        ([{"page": 2, "quote": "先后给了20000元和22000元，一共４２，０００元"}], 1.0, None),
        ([{"page": 2, "quote": "先后给了...一共42000元"}], 1.0, None),
        ([{"page": 3, "quote": TOTAL["quote"]}], 0.0, "wrong_page"),
        ([{"page": 3, "quote": "42000元全部退给我"}], 0.0, "wrong_page"),
        ([{"page": 2, "quote": "先后给了20000元和22000元"}], 0.0, "lacks_must_include"),
        ([{"page": 2, "quote": "他承认拿了42000元"}], 0.0, "not_in_document"),
        ([{"page": 2, "quote": "你一共给了方明42000元吗"}], 0.0, "other_place"),
        ([{"page": 2, "quote": ""}], 0.0, "empty"),
        ([{"page": 2, "quote": "..."}], 0.0, "empty"),
        ([{"quote": "\n".join(PAGES)}], 0.0, "too_long"),
        ([{"page": 9, "quote": TOTAL["quote"]}], 0.0, "wrong_page"),
        ([{"page": 1, "quote": "程飞"}, TOTAL], 1.0, "lacks_must_include"),
        ([], 0.0, None),
    ],
)
def test_a_citation_counts_when_it_supports_the_answer(
    citations: list[dict[str, Any]], value: float, reason: str | None
) -> None:
    details = scored(FACT, answered("42000元", citation=citations)).details
    assert details["citation_correctness"] == value
    assert [one["reason"] for one in details["citation"]["citations"] if "reason" in one] == (
        [reason] if reason else []
    )


def test_the_share_of_the_critical_evidence_that_is_cited_counts() -> None:
    required = [
        {"page": 2, "must_include": "20000元"},
        {"page": 2, "must_include": "2020年7月1日"},
        {"page": 4, "must_include": "都忘记了", "is_critical": False},
        {"page": 2, "must_include": "20000元"},
    ]
    half = scored(FACT, answered("42000元", citation=[TOTAL]), required_evidence=required)
    assert half.score == pytest.approx(0.7 + 0.3 * 0.5)
    optional = [{**item, "is_critical": False} for item in required]
    third = scored(FACT, answered("42000元", citation=[TOTAL]), required_evidence=optional)
    assert third.details["citation_correctness"] == pytest.approx(1 / 3)


def test_without_required_evidence_a_quote_of_the_document_does() -> None:
    for quote, value in ((TOTAL["quote"], 1.0), ("他拿了42000元", 0.0)):
        answer = answered("42000元", citation=[{"quote": quote}])
        assert scored(FACT, answer, required_evidence=[]).details["citation_correctness"] == value
        assert scored(EVIDENCE, answer, required_evidence=[]).details["citation_provided"] == value


def test_citations_that_are_not_required_may_be_left_out_but_not_be_wrong() -> None:
    free = {"citation_required": False}
    wrong = {"page": 2, "quote": "他拿了42000元"}
    for citations, value in (([], 1.0), ([wrong], 0.0), ([wrong, TOTAL], 1.0)):
        answer = answered("42000元", citation=citations, evidence=[PROMISE])
        assert scored(FACT, answer, scoring=free).details["citation_correctness"] == value
    assert scored(EVIDENCE, answered(), scoring=free).details["citation_provided"] == 1.0
    assert scored(EVIDENCE, answered(citation=[wrong]), scoring=free).details["citation_provided"] == 0.0


def test_without_a_document_words_and_pages_must_do() -> None:
    for citation, value in (
        ({"page": 2, "quote": "他拿了42000元"}, 1.0),
        ({"page": 2, "quote": "他拿了142000元"}, 0.0),
        ({"page": 3, "quote": "他拿了42000元"}, 0.0),
        ({"quote": "他拿了42000元"}, 1.0),
        ({"page": 2, "quote": "42000元" + "我" * 6000}, 0.0),
    ):
        result = scored(FACT, answered("42000元", citation=[citation]), None)
        assert result.details["citation_correctness"] == value


def test_in_a_document_of_one_page_pages_do_not_count() -> None:
    index = DocumentIndex(Document("record.txt", (Page(1, "".join(PAGES)),)))
    assert scored(FACT, answered("42000元", citation=[{**TOTAL, "page": 1}]), index).score == 1.0
    assert scored(FACT, answered("42000元", citation=[{**TOTAL, "page": 2}]), index).score == 1.0
    assert scored(FACT, answered("42000元", citation=[{"page": 1, "quote": "给42000元"}]), index).score == 0.7


def test_what_the_document_does_not_hold_is_looked_for_in_the_quote_alone() -> None:
    required = [{"page": 2, "must_include": "43000元"}]
    answer = answered("42000元", citation=[{"page": 2, "quote": "一共43000元"}])
    assert scored(FACT, answer, required_evidence=required).details["citation_correctness"] == 1.0


def test_a_quote_may_run_over_the_end_of_a_page() -> None:
    pages = ("问：多少？\n答：我一共给了他", "42000元，分两次。\n问：还有吗？\n答：没有。")
    index = DocumentIndex(Document("record.md", tuple(Page(n, text) for n, text in enumerate(pages, 7))))
    required = [{"page": 8, "must_include": "42000元", "speaker": "answer"}]
    for page, value in ((8, 1.0), (None, 1.0), (7, 0.0)):
        answer = answered("42000元", citation=[{"page": page, "quote": "我一共给了他42000元"}])
        result = scored(FACT, answer, index, required_evidence=required)
        assert result.details["citation_correctness"] == value


# The set of evidence


@each_case(
    ("evidence", "recall", "precision"),
    [
        ([PROMISE, REFUND], 1.0, 1.0),
        ([PROMISE], 0.5, 1.0),
        ([PROMISE, PROMISE, PROMISE], 0.5, 1.0),
        (
            [PROMISE, {**PROMISE, "text": "如果办不成，42000元全部退给我"}, {"page": 1, "text": "程飞"}],
            0.5,
            0.5,
        ),
        ([PROMISE, REFUND, {"page": 1, "text": "程飞"}], 1.0, 2 / 3),
        ([{"page": 3, "text": PAGES[2]}], 1.0, 1.0),
        ([{"page": 3, "text": PAGES[2]}, PROMISE, REFUND, {"page": 1, "text": "程飞"}], 1.0, 2 / 3),
        ([{"text": "\n".join(PAGES)}], 0.0, 0.0),
        ([{"page": 3, "text": "\n".join(PAGES)}], 0.0, 0.0),
        (DUMP, 1.0, 0.25),
        ([{**PROMISE, "page": None}], 0.5, 1.0),
        ([{**PROMISE, "page": 2}], 0.0, 0.0),
        ([{"page": 3, "text": "他答应退款了"}], 0.0, 0.0),
        ([{"page": 3, "text": "…"}], 0.0, 0.0),
        ([], 0.0, 0.0),
    ],
)
def test_recall_and_precision(evidence: list[dict[str, Any]], recall: float, precision: float) -> None:
    details = scored(EVIDENCE, answered("见证据", evidence=evidence)).details
    assert (details["recall"], details["precision"]) == (recall, precision)


def test_thresholds_decide_and_default_to_those_of_the_schema() -> None:
    one = answered("见证据", evidence=[PROMISE], citation=[{"page": 3, "quote": "答应退款"}])
    assert scored(EVIDENCE, one).score == pytest.approx(0.3 + 0.2)
    assert scored(EVIDENCE, one, scoring={"evidence_recall_min": 0.5}).score == pytest.approx(1.0)
    mixed = answered("见证据", evidence=[PROMISE, REFUND, {"page": 1, "text": "程飞"}])
    assert scored(EVIDENCE, mixed).score == pytest.approx(0.5)
    assert scored(EVIDENCE, mixed, scoring={"evidence_precision_min": 0.6}).score == pytest.approx(0.8)


def test_a_citation_that_supports_nothing_is_not_provided() -> None:
    for citation, value in (
        ({"page": 3, "quote": "答应退款"}, 1.0),
        ({"page": 2, "quote": "答应退款"}, 0.0),
        ({"page": 1, "quote": "程飞"}, 0.0),
    ):
        assert scored(EVIDENCE, answered(citation=[citation])).details["citation_provided"] == value


def test_without_a_document_the_text_of_passages_tells_which_are_one() -> None:
    evidence = [PROMISE, {"text": "42000元全部退给我"}, {"page": 1, "text": "42000元全部退给我"}, REFUND]
    details = scored(EVIDENCE, answered(evidence=evidence), None).details
    assert (details["recall"], details["precision"]) == (1.0, 2 / 3)


def test_key_points_and_the_number_of_passages_are_recorded() -> None:
    details = scored(EVIDENCE, answered("办不成，42000元全部退", evidence=[PROMISE])).details
    assert (details["key_points_in_answer"], details["evidence_count_met"]) == ([True], False)


# Conflicts and gaps


@each_case(
    ("answer", "abstention", "clean", "quote"),
    [
        (answered(f"不清楚。笔录：“{GAP_QUOTE}”"), 1, 1, 1),
        (answered("无法确定", citation=[{"page": 4, "quote": GAP_QUOTE}]), 1, 1, 1),
        (answered("无法确定", citation=[{"page": 3, "quote": GAP_QUOTE}]), 1, 1, 0),
        (answered("无法确定", evidence=[{"page": 4, "text": GAP_QUOTE}]), 1, 1, 0),
        (answered("无法确定", text=GAP_QUOTE), 1, 1, 1),
        (answered("无法确定", citation=[{"page": 4, "quote": "都忘记了"}]), 1, 1, 0),
        (answered("", abstained=True), 1, 1, 0),
        (answered("请客", abstained=True), 1, 1, 0),
        (answered("无法确定", abstained=False), 0, 1, 0),
        (answered("无法确定", amount=42000), 0, 1, 0),
        (answered("", text="无法确定"), 1, 1, 0),
        (answered("文件没有说明，不过他请王校长吃饭花了八千元"), 1, 0, 0),
        (answered("他没有忘记，都用来请客了"), 0, 1, 0),
        (answered("文件没有说明这42000元"), 1, 1, 0),
    ],
)
def test_a_gap_is_left_open_with_the_words_that_show_it(
    answer: RagAnswer, abstention: float, clean: float, quote: float
) -> None:
    result = scored(GAP, answer)
    parts = [result.details[name] for name in ("correct_abstention", "no_hallucination", "quote_included")]
    assert parts == [abstention, clean, quote], result.details
    assert result.score == pytest.approx(0.4 * abstention + 0.4 * clean + 0.2 * quote)


def test_who_should_answer_must_not_abstain() -> None:
    asks: dict[str, Any] = {"should_abstain": False, "required_quote": "没有退", "question": "退款了吗？"}
    for answer, abstention in ((answered("没有退。"), 1), (answered("无法确定"), 0), (answered(""), 0)):
        assert scored(GAP, answer, **asks).details["correct_abstention"] == abstention


def test_a_quote_that_is_not_required_is_not_missed() -> None:
    cases: tuple[dict[str, Any], ...] = (
        {"required_quote": None},
        {"scoring": {"quote_required": False}},
        {"required_quote": None, "additional_quotes": ["都忘记了"]},
        {"required_quote": None, "scoring": {"quote_required": True}},
    )
    for changes in cases:
        assert scored(GAP, answered("无法确定"), **changes).details["quote_included"] == 1.0


def test_an_additional_quote_is_enough() -> None:
    answer = answered("无法确定", citation=[{"page": 4, "quote": "我都忘记了"}])
    more: dict[str, Any] = {"additional_quotes": ["我都忘记了"], "scoring": {"quote_required": True}}
    assert scored(GAP, answer, scoring={"quote_required": True}).details["quote_included"] == 0.0
    assert scored(GAP, answer, **more).details["quote_included"] == 1.0
    assert scored(GAP, answer, required_quote=None, **more).details["quote_included"] == 1.0


def test_recall_is_counted_over_critical_evidence() -> None:
    required = [
        {"page": 3, "must_include": str(PROMISE["text"])[:8]},
        {"page": 4, "must_include": "都忘记了", "is_critical": False},
    ]
    found = scored(EVIDENCE, answered(evidence=[PROMISE]), required_evidence=required).details
    assert found["recall"] == 1.0
    assert [each.get("critical", True) for each in found["evidence"]] == [True, False]
    optional = [{**item, "is_critical": False} for item in required]
    assert scored(EVIDENCE, answered(evidence=[PROMISE]), required_evidence=optional).details["recall"] == 0.5


def test_a_quote_counts_on_any_page_that_holds_it() -> None:
    asks: dict[str, Any] = {"required_quote": "42000元", "evidence_location": {"page": 4}}
    for page, value in ((2, 1.0), (3, 1.0), (4, 1.0), (1, 0.0)):
        answer = answered("无法确定", citation=[{"page": page, "quote": "42000元"}])
        assert scored(GAP, answer, **asks).details["quote_included"] == value
        known = scored(GAP, answer, None, **asks).details["quote_included"]
        assert known == float(page == 4)
        assert scored(GAP, answer, None, required_quote="42000元", evidence_location=None).details[
            "quote_included"
        ]


def test_the_penalty_is_recorded_and_changes_nothing() -> None:
    high = scored(GAP, answered("花了九万元"), hallucination_penalty="high")
    low = scored(GAP, answered("花了九万元"), hallucination_penalty="low")
    assert high.score == low.score
    assert high.details["hallucination"]["penalty"] == "high"


def test_an_index_knows_its_pages() -> None:
    assert INDEX.page_span(9) is None
    start, end = INDEX.page_span(2) or (0, 0)
    assert INDEX.pages_of(start, end) == [2]
    assert INDEX.pages_of(start, end + 1) == [2, 3]
