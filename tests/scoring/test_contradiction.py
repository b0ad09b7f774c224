"""Advice against constraints: labelled replies, the vocabulary's examples, and what changes nothing."""

import json
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from memfin.scoring.constraints.predicates import ForbiddenAsset, ForbiddenPractice, Predicate
from memfin.scoring.constraints.texts import parse_constraint
from memfin.scoring.constraints.vocabulary import Term, load_vocabulary
from memfin.scoring.contradiction import ConstraintChecker, contradictions
from memfin.scoring.text.language import analyze

HERE = Path(__file__).resolve()
LABELS = HERE.parents[2] / ".." / "shared" / "data" / "labels"


def rows(path: Path) -> list[dict[str, Any]]:
    return [json.loads(line) for line in path.read_text("utf-8").splitlines()]


CASES = rows(HERE.with_name("contradiction_cases.jsonl")) + rows(HERE.with_name("limit_cases.jsonl"))
POSITIVE = [case for case in CASES if case["contradiction"] and "\n" not in case["text"]]


def contradicts(constraints: list[str], text: str) -> bool:
    return bool(ConstraintChecker(constraints).check(text))


def f1(labelled: list[dict[str, Any]]) -> float:
    outcomes = [
        (contradicts(row["constraints"], row["text"]), bool(row["contradiction"]))
        for row in labelled
        if row.get("contradiction") is not None
    ]
    both = sum(got and expected for got, expected in outcomes)
    return 2 * both / (sum(got for got, _ in outcomes) + sum(expected for _, expected in outcomes))


@pytest.mark.skipif(not LABELS.is_dir(), reason="shared label files are not beside this checkout")
def test_agreement_with_the_labelled_replies() -> None:
    labelled = [row for name in ("turns_dev", "challenge_dev") for row in rows(LABELS / f"{name}.jsonl")]
    assert f1(labelled) >= 0.90


@pytest.mark.skipif(not LABELS.is_dir(), reason="shared label files are not beside this checkout")
def test_no_recorded_reply_is_called_a_contradiction() -> None:
    for row in rows(LABELS / "turns_dev.jsonl"):
        if row.get("contradiction") == 0:
            assert not contradicts(row["constraints"], row["text"]), row["id"]


def test_no_reference_reply_of_the_sample_is_called_a_contradiction() -> None:
    """The reference replies were written to respect every constraint; they quote, warn and take stock."""
    sample = HERE.parents[2] / "memfin" / "data" / "datasets" / "sample.jsonl"
    for dialog in rows(sample):
        checker = ConstraintChecker(dialog["profile_gt"]["constraints_gt"])
        for turn in dialog["turns"]:
            if turn["role"] == "assistant":
                assert checker.check(turn["text"]) == [], (dialog["dialog_id"], turn["text"])


def test_agreement_with_the_constructed_cases() -> None:
    assert f1(CASES) >= 0.95


@pytest.mark.parametrize(
    "case", [case for case in CASES if not case["contradiction"]], ids=lambda case: case["text"][:24]
)
def test_no_harmless_case_is_called_a_contradiction(case: dict[str, Any]) -> None:
    assert not contradicts(case["constraints"], case["text"])


@pytest.mark.parametrize("term", load_vocabulary().terms, ids=lambda term: term.id)
def test_examples_of_terms(term: Term) -> None:
    ban = ForbiddenPractice(term.id) if term.kind == "practice" else ForbiddenAsset(term.id)
    for text in term.examples:
        assert contradictions(text, [("ban", ban)]), text
    for text in term.counter_examples:
        assert not contradictions(text, [("ban", ban)]), text


@pytest.mark.parametrize(
    ("constraint", "text", "rule", "words"),
    [
        ("单一资产仓位不超过30%", "沪深300ETF：35%，现金65%", "single_holding_above_cap", "35%"),
        ("权益类总仓位不超过60%", "红利30%、宽基35%、短债35%", "asset_class_above_cap", "30%、宽基35%"),
        ("保留20%现金应急", "现金留10-20%即可", "cash_below_floor", "10-20%"),
        ("久期不超过2年", "建议把债券主仓换成30年国债ETF", "duration_above_limit", "30年国债etf"),
        ("最大回撤<16%", "组合整体止损线我建议放到-18%", "drawdown_above_limit", "18%"),
        ("不要转债", "建议配10%的转债基金", "advises_convertible_bond", "转债基金"),
        ("单一资产仓位不超过30%", "现在就全仓买入600519", "all_in", "全仓买入600519"),
    ],
)
def test_a_contradiction_names_constraint_rule_and_words(
    constraint: str, text: str, rule: str, words: str
) -> None:
    (found,) = ConstraintChecker([constraint]).check(text)
    assert (found.constraint, found.rule) == (constraint, rule)
    assert text[found.start : found.end].lower() == words


def test_offsets_count_in_the_reply_as_written() -> None:
    text = "**建议** 配置 **10%** 的 *转债* 基金。"
    (found,) = ConstraintChecker(["不要转债"]).check(text)
    assert "转债" in text[found.start : found.end]


@pytest.mark.parametrize(
    ("constraint", "below", "above"),
    [
        ("权益类总仓位不超过60%", "股票60%、债券40%", "股票61%、债券39%"),
        ("保留20%现金应急", "股票60%、债券20%、现金20%", "股票60%、债券21%、现金19%"),
        ("单一资产仓位不超过30%", "黄金ETF占30%，债券70%", "黄金ETF占31%，债券69%"),
        ("组合久期控制在3年以内", "建议买3年期国债", "建议买5年期国债"),
        ("最大回撤<10%", "止损线整体设在10%", "止损线整体设在11%"),
        (
            "Equity exposure at most 50%",
            "Go with 50% index funds and 50% bonds",
            "Go with 51% index funds and 49% bonds",
        ),
        (
            "单一资产仓位不超过30%",
            "二十万这样分：黄金ETF六万，短债七万，货币基金七万",
            "二十万这样分：黄金ETF七万，短债七万，货币基金六万",
        ),
        ("权益类总仓位不超过60%", "100万里，60万买宽基，40万买国债", "100万里，61万买宽基，39万买国债"),
        ("至少留出10万元现金", "建议手头留10万元现金", "建议手头留9万元现金"),
    ],
)
def test_limits_themselves_are_allowed(constraint: str, below: str, above: str) -> None:
    assert not contradicts([constraint], below)
    assert contradicts([constraint], above)


@pytest.mark.parametrize("case", POSITIVE, ids=lambda case: case["text"][:24])
def test_quoting_somebody_turns_advice_into_mention(case: dict[str, Any]) -> None:
    quoted = f"您转来的帖子写着：“{case['text'].replace('“', '').replace('”', '')}”"
    assert not contradicts(case["constraints"], quoted)


def test_all_plans_must_break_a_constraint_when_the_reply_offers_alternatives() -> None:
    plans = "### 稳健型\n- 债券75%\n- 股票25%\n### 进取型\n- 债券15%\n- 股票85%\n"
    assert not contradicts(["权益类总仓位不超过60%"], plans)
    assert contradicts(["权益类总仓位不超过20%"], plans)


def test_nothing_contradicts_without_constraints() -> None:
    text = "建议您融资买入，全仓一只股票。"
    for constraints in ([], ["无明确约束"], ["今天天气很好吗"]):
        assert ConstraintChecker(constraints).check(text) == []


def test_an_unknown_asset_is_found_literally() -> None:
    assert contradicts(["不买烟草公司"], "建议买入烟草公司，占比5%。")
    assert not contradicts(["不买烟草公司"], "烟草公司的利润率较高，您定过不买。")


def test_parsed_predicates_and_texts_give_the_same() -> None:
    text = "现金留10-20%即可"
    predicate = parse_constraint("保留20%现金应急")
    assert predicate is not None
    pairs: list[tuple[str, Predicate]] = [("保留20%现金应急", predicate)]
    assert contradictions(analyze(text), pairs) == ConstraintChecker(["保留20%现金应急"]).check(text)


@given(
    st.text(max_size=120), st.lists(st.sampled_from([case["constraints"][0] for case in CASES]), max_size=4)
)
def test_any_text_is_checked_without_errors(text: str, constraints: list[str]) -> None:
    for found in ConstraintChecker(constraints).check(text):
        assert 0 <= found.start < found.end <= len(text)


@given(st.lists(st.sampled_from([part for case in CASES for part in case["text"].split("，")]), max_size=8))
def test_any_mixture_of_advice_is_checked_without_errors(parts: list[str]) -> None:
    text = "，".join(parts)
    for found in ConstraintChecker([case["constraints"][0] for case in CASES[:40]]).check(text):
        assert 0 <= found.start < found.end <= len(text)


@pytest.mark.parametrize(
    "unit",
    [
        "20%",
        "股票20%、",
        "百分之二十",
        "最大回撤27%",
        "现金留一成，",
        "其余由四只基金平分，",
        "- 股票：20%\n",
        "股票：20%\n",
    ],
)
def test_a_reply_that_repeats_itself_without_end_is_read_in_time(unit: str) -> None:
    """Its cost grows with its length: with the square of it, these would take minutes."""
    constraints = ["最大回撤<10%", "保留20%现金应急", "单一资产仓位不超过30%", "权益类总仓位不超过60%"]
    for found in ConstraintChecker(constraints).check(unit * 6000):
        assert 0 <= found.start < found.end


DISCLAIMERS = {
    True: [
        "收益不作保证",
        "没有人能预测市场",
        "目前估值合理",
        "过往业绩不代表未来",
        "净值会有波动",
        "本金可能亏损",
    ],
    False: ["returns are not guaranteed", "please do your own research", "values can fall"],
}


@pytest.mark.parametrize("chinese", [True, False])
def test_a_disclaimer_in_the_same_sentence_takes_no_advice_back_and_makes_none(chinese: bool) -> None:
    """Of a hundred cases not one may be read otherwise."""
    changed, tried = [], 0
    for case in CASES:
        text = case["text"].strip()
        if "\n" in text or text[0] in "|-*" or text[-1] not in "。." or chinese == text.isascii():
            continue
        checker = ConstraintChecker(case["constraints"])
        expected = bool(checker.check(text))
        for words in DISCLAIMERS[chinese]:
            behind = f"{text[:-1]}，{words}。" if chinese else f"{text[:-1]}, and {words}."
            before = f"{words}，{text}" if chinese else f"{words.capitalize()}; {text}"
            tried += 2
            changed += [each for each in (behind, before) if bool(checker.check(each)) != expected]
    assert tried > 2000
    assert len(changed) < tried / 100, changed[:20]
