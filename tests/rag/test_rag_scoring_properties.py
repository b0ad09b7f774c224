"""What holds for every answer: bounds, monotony, and that order, width and blanks do not count.

``TESTS_LONG=1`` tries more than CI does.
"""

from typing import Any

from hypothesis import example, given, settings
from hypothesis import strategies as st

from memfin.rag.document import Document, Page
from memfin.rag.extraction.facts import find_facts
from memfin.rag.extraction.normalize import fold, plain
from memfin.rag.scoring import DocumentIndex
from memfin.text.numbers import number_value
from tests.rag.rag_scoring_cases import (
    EVIDENCE,
    FACT,
    GAP,
    GAP_QUOTE,
    PAGES,
    PROMISE,
    REFUND,
    TOTAL,
    answered,
    scored,
)
from tests.support import length

EXAMPLES = settings(max_examples=length(40, 5000), deadline=None)

REQUIRED = ("42000元全部退给我", "答应退款", "一张12000元的借条")
THREE = [{"page": 3, "must_include": words} for words in REQUIRED]
MATCHING = (PROMISE, REFUND, {"page": 3, "text": "他写过一张12000元的借条"})
JUNK = (
    {"page": 1, "text": "程飞"},
    {"page": 2, "text": "答应退款"},
    {"page": 3, "text": "他答应赔六万元，答应退款"},
    {"page": None, "text": "某调解室"},
    {"page": 3, "text": ""},
)
WIDE = {code: code + 0xFEE0 for code in range(0x21, 0x7F)}

PIECES = (
    *PAGES,
    *("42000元", "四万二千", "八千元", "2020年7月1日", "3次", "一", "万", "%", "第4页", "1.", "9" * 30),
    *("无法确定", "没有忘记", "不是", "是的", "或者", "yes", "not mentioned", GAP_QUOTE),
    *("，", "。", "\n", " ", "...", "「", "」"),
)
pieces = st.lists(st.sampled_from(PIECES), max_size=8).map("".join)
texts = st.one_of(pieces, st.text(max_size=60))
pages = st.one_of(st.none(), st.integers(0, 6))
passages = st.fixed_dictionaries({"page": pages, "text": texts})
quotes = st.fixed_dictionaries({"page": pages, "quote": texts})
evidence = st.lists(st.one_of(st.sampled_from((*MATCHING, *JUNK)), passages), max_size=5)
citations = st.lists(st.one_of(st.just(TOTAL), quotes), max_size=4)
fields = st.fixed_dictionaries(
    {},
    optional={
        "amount": st.sampled_from((42000.0, 8000.0, -1.0)),
        "count": st.integers(-3, 9),
        "date": texts,
        "text": texts,
        "boolean": st.booleans(),
        "entity": texts,
        "abstained": st.one_of(st.none(), st.booleans()),
        "amount_breakdown": st.lists(st.sampled_from((20000.0, 22000.0)), max_size=3),
        "date_range": st.fixed_dictionaries({}, optional={"start": texts, "end": texts}),
    },
)
EVERYTHING = {
    "amount_total": 42000,
    "amount_breakdown": [20000, 22000],
    "date": "2020-07-01",
    "date_range": {"start": "2020-07-01", "end": "2020-07-15"},
    "count": 3,
    "text_answer": "程飞",
    "boolean_answer": True,
    "entity": "方明",
}


@EXAMPLES
@given(said=texts, found=evidence, cited=citations, typed=fields, weight=st.floats(0.001, 1e6))
def test_scores_are_between_nothing_and_the_weight(
    said: str, found: list[Any], cited: list[Any], typed: dict[str, Any], weight: float
) -> None:
    answer = answered(said, evidence=found, citation=cited, **typed)
    for base in (FACT, {**FACT, "expected": EVERYTHING}, EVIDENCE, GAP, {**GAP, "should_abstain": False}):
        result = scored(base, answer, weight=weight)
        assert 0.0 <= result.score <= result.max_score == weight
        assert result.passed == (result.score / weight >= 0.7 - 1e-9)


def evidence_score(found: list[Any], recall: float, precision: float) -> tuple[float, float, float]:
    thresholds = {"evidence_recall_min": recall, "evidence_precision_min": precision}
    result = scored(EVIDENCE, answered("见证据", evidence=found), required_evidence=THREE, scoring=thresholds)
    return result.details["recall"], result.details["precision"], result.score


@EXAMPLES
@given(
    found=st.lists(st.sampled_from((*MATCHING, *JUNK)), max_size=6),
    right=st.sampled_from(MATCHING),
    wrong=st.sampled_from(JUNK),
    recall=st.floats(0, 1),
    precision=st.floats(0, 1),
)
def test_evidence_that_is_required_never_lowers_a_score_and_other_evidence_never_raises_it(
    found: list[Any], right: dict[str, Any], wrong: dict[str, Any], recall: float, precision: float
) -> None:
    before = evidence_score(found, recall, precision)
    more = evidence_score([*found, right], recall, precision)
    worse = evidence_score([*found, wrong], recall, precision)
    assert all(new >= old for new, old in zip(more, before, strict=True))
    assert all(new <= old for new, old in zip(worse, before, strict=True))
    assert worse[0] == before[0]


@EXAMPLES
@given(found=evidence, cited=citations, random=st.randoms(use_true_random=False))
def test_the_order_of_evidence_and_citations_does_not_count(
    found: list[Any], cited: list[Any], random: Any
) -> None:
    turned, other = random.sample(found, len(found)), random.sample(cited, len(cited))
    for base in (FACT, EVIDENCE, {**EVIDENCE, "required_evidence": THREE}, GAP):
        one = scored(base, answered("42000元", evidence=found, citation=cited))
        two = scored(base, answered("42000元", evidence=turned, citation=other))
        assert (one.score, one.passed) == (two.score, two.passed)


@EXAMPLES
@given(found=st.lists(st.sampled_from(MATCHING), min_size=1, max_size=3), times=st.integers(2, 4))
def test_evidence_that_is_repeated_counts_once(found: list[Any], times: int) -> None:
    assert evidence_score(found * times, 0.8, 0.7) == evidence_score(found, 0.8, 0.7)


def blanks_between_chinese(text: str, random: Any) -> str:
    """Put blanks where Chinese text may have them: beside a Chinese character."""
    blanks = ("", " ", "\n", "\u3000")
    return "".join(char + (random.choice(blanks) if "\u4e00" <= char <= "\u9fff" else "") for char in text)


@EXAMPLES
@given(
    said=st.sampled_from(
        ("一共42000元。", "无法确定，文件没有说明。", "四万二千元", "花了8000元", GAP_QUOTE, "2020年7月1日")
    ),
    random=st.randoms(use_true_random=False),
    wide=st.booleans(),
)
def test_width_and_blanks_do_not_count(said: str, random: Any, wide: bool) -> None:
    def changed(text: str) -> str:
        return blanks_between_chinese(text.translate(WIDE) if wide else text, random)

    def answers(change: Any) -> Any:
        return answered(
            change(said),
            evidence=[{**item, "text": change(item["text"])} for item in (PROMISE, REFUND)],
            citation=[{"page": 2, "quote": change(TOTAL["quote"])}, {"page": 4, "quote": change(GAP_QUOTE)}],
        )

    one, other = answers(str), answers(changed)
    for base in (FACT, EVIDENCE, GAP):
        assert scored(base, one).score == scored(base, other).score


@EXAMPLES
@given(random=st.randoms(use_true_random=False))
def test_width_and_blanks_of_the_document_do_not_count(random: Any) -> None:
    document = tuple(Page(n, blanks_between_chinese(text, random)) for n, text in enumerate(PAGES, 1))
    index = DocumentIndex(Document("record.md", document))
    answer = answered("42000元", evidence=[PROMISE, REFUND], citation=[{"page": 2, "quote": TOTAL["quote"]}])
    for base in (EVIDENCE, GAP):
        assert scored(base, answer, index).score == scored(base, answer).score


@EXAMPLES
@given(text=texts)
@example(text="0?_")
def test_folding_is_stable(text: str) -> None:
    if text.isprintable() and text.isascii():
        assert fold(fold(text)) == fold(text)


def chinese(number: int) -> str:
    """Write a number below a hundred million in Chinese numerals."""
    if number >= 10_000:
        rest = number % 10_000
        between = "零" if 0 < rest < 1000 else ""
        return chinese(number // 10_000) + "万" + (between + chinese(rest) if rest else "")
    digits, text, gap = "零一二三四五六七八九", "", False
    for power, name in ((1000, "千"), (100, "百"), (10, "十"), (1, "")):
        digit = number // power % 10
        if digit:
            text += ("零" if gap else "") + digits[digit] + name
            gap = False
        elif text:
            gap = True
    return text


FORMAL = str.maketrans("一二三四五六七八九十百千万", "壹贰叁肆伍陆柒捌玖拾佰仟萬")


@EXAMPLES
@given(number=st.integers(1, 99_999_999))
def test_every_number_is_read_in_chinese_numerals_and_never_missed_as_an_invention(number: int) -> None:
    for written in (chinese(number), chinese(number).translate(FORMAL), f"{number}", f"{number:,}"):
        assert number_value(written) == number
        facts = find_facts(f"请客一共花了{written}元。")
        # 一元 is a word for any yuan; every other amount is a fact.
        assert [(fact.kind, fact.value) for fact in facts] == [("amount", float(number))] or written in "一壹"
        result = scored(GAP, answered(f"文件没有说明，花了{written}元"))
        known = number in (42000, 20000, 22000, 12000)
        assert result.details["no_hallucination"] == float(known or written in "一壹")


@EXAMPLES
@given(text=texts)
def test_plain_text_is_plain(text: str) -> None:
    assert plain(plain(text)) == plain(text)
