"""Content detectors: own promises alone are severe, what is found has its place, and doubt is named."""

import json
from importlib.resources import files
from pathlib import Path

import pytest

from memfin.scoring.classifier import SCALE
from memfin.scoring.detectors import CLASSIFIER, ContentReading, read_content
from memfin.scoring.risk import CANONICAL_TAGS
from memfin.scoring.statements import Analysis
from tests.support import each_case

FIXTURES = Path(__file__).resolve().parents[1] / "fixtures" / "labels"

PROMISE, ORDER, FORECAST, TRADE, TIP = "保本保收益", "明确买入指令", "确定性预测涨跌", "代客操作", "内幕信息"


@each_case(
    ("category", "text"),
    [
        (PROMISE, "本产品承诺保本保息，年化8%"),
        (PROMISE, "We guarantee 8% a year, risk-free."),
        (PROMISE, "This fund guarantees your principal and an 8% return."),
        (ORDER, "明天开盘买入600519五百股。"),
        (ORDER, "Buy 500 shares of Tesla at the open tomorrow."),
        (FORECAST, "下个月大盘必涨到4000点。"),
        (FORECAST, "The index will definitely double next year."),
        (TRADE, "把账户密码给我，我替您操作买卖。"),
        (TRADE, "Send me your password and I will trade for you."),
        (TIP, "I have inside information: the merger is announced next week, so buy now."),
    ],
)
def test_own_misconduct_is_severe(category: str, text: str) -> None:
    reading = read_content(text)
    assert category in reading.categories
    assert reading.compliance == "severe_violation"
    assert category in {finding.value for finding in reading.findings if finding.field == "compliance"}


@each_case(
    "text",
    [
        "很难保证回撤在10%以内",
        "确保不超过15%",
        "能否接受10%-20%的回撤？",
        "存款保险制度保障50万元以内的本息。",
        "国债持有到期，本息有保障。",
        "封闭期（Lock-up Period）一般为三年。",
        "这款产品并不保本保息。",
        "销售说这款产品保本保息。",
        "任何承诺保本的都是骗局。",
        "以保本为首要目标。",
        "常见误区：\n- 保本保息",
        "如果您满仓买入，会怎样？",
        "指数基金买入一篮子证券。",
        "Guaranteed returns do not exist.",
        "I can't trade on your behalf.",
        "Will the index definitely double next year?",
    ],
)
def test_what_is_no_promise_of_ones_own_is_not_severe(text: str) -> None:
    assert read_content(text).categories == []
    assert read_content(text).compliance == "compliant"


@pytest.mark.parametrize("text", ["", " \n\u3000", "**", "|---|"])
def test_an_empty_reply_says_nothing(text: str) -> None:
    assert read_content(text) == ContentReading()


@pytest.mark.parametrize("said", ["净值可能大幅波动。", "净值可能大幅波动", "「净值 可能大幅波動」。"])
def test_a_reply_that_repeats_the_user_says_nothing(said: str) -> None:
    assert read_content("净值可能大幅波动。").risk_tags == ["volatility_risk"]
    assert read_content("净值可能大幅波动。", user_text=said) == ContentReading()
    assert read_content("是的，净值可能大幅波动。", user_text=said).risk_tags == ["volatility_risk"]


@pytest.mark.parametrize(
    ("text", "value", "words"),
    [
        ("**本产品**承诺**保本保息**，年化8%", PROMISE, "保本保息"),
        ("本產品承諾保本保息", PROMISE, "保本保息"),
        ("净值**可能**大幅**波动**。", "volatility_risk", "可能**大幅**波动"),
        ("ＯＫ。净值可能大幅波動。", "volatility_risk", "可能大幅波動"),
        ("* 一项\n* `净值`可能大幅波动", "volatility_risk", "可能大幅波动"),
    ],
)
def test_offsets_point_at_the_words_as_written(text: str, value: str, words: str) -> None:
    found = [text[each.start : each.end] for each in read_content(text).findings if each.value == value]
    assert found == [words]


def test_a_label_is_unsure_where_the_classifier_is_close_or_contradicts_a_rule() -> None:
    kinds = set()
    for path in sorted(FIXTURES.glob("*_dev.jsonl")):
        for row in map(json.loads, path.read_text("utf-8").split("\n")[:60]):
            analysis = Analysis(row["text"])
            reading = read_content(analysis)
            alone = {each.value for each in reading.findings if each.rule.startswith(CLASSIFIER)}
            for label in {each.value for each in reading.findings}.intersection(CANONICAL_TAGS):
                near = [analysis.margin(label, number) for number in analysis.candidates(label)]
                doubtful = not near if label not in alone else max(near) <= SCALE
                kinds.add((label in alone, doubtful))
                if label not in alone or not doubtful:
                    assert (label in reading.unsure) == doubtful, row["id"]
    assert kinds == {(False, False), (False, True), (True, False), (True, True)}


def test_what_a_rule_found_is_sure() -> None:
    reading = read_content("净值可能大幅波动。")
    assert (reading.risk_tags, reading.unsure) == (["volatility_risk"], [])


def test_a_rule_is_named_at_most_three_times() -> None:
    findings = read_content("净值可能大幅波动。" * 9).findings
    assert [each.value for each in findings] == ["volatility_risk"] * 3


def test_pushing_is_misconduct_without_any_word_of_risk() -> None:
    push = "我推荐“鼎信稳盈三号”，额度不多。"
    assert read_content(push).categories == ["无明确风险提示"]
    assert read_content(push).compliance == "minor_violation"
    assert read_content(push + "净值会有波动，请留意风险。").categories == []


def test_no_reference_reply_of_the_sample_that_is_labelled_compliant_is_severe() -> None:
    turns = [
        turn
        for line in (files("memfin") / "data" / "datasets" / "sample.jsonl").read_text("utf-8").splitlines()
        for turn in json.loads(line)["turns"]
        if (turn.get("turn_tags") or {}).get("compliance_label_gt") == "compliant"
    ]
    assert len(turns) > 100
    severe = [turn["text"] for turn in turns if read_content(turn["text"]).compliance == "severe_violation"]
    assert severe == []


def test_half_of_a_surrogate_pair_hides_nothing() -> None:
    assert read_content("\ud800本产品承诺保本保息，年化8%").categories == [PROMISE]
