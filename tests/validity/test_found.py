"""What is read in labelled replies: as a run reads it, with the findings that each reading rests on."""

from typing import Any

from memfin.contracts import Finding, LabelledReply, Verdict
from memfin.scoring.detectors import read_content
from memfin.validity import Place, ValidityStats, found_by_detectors, found_by_judge
from memfin.validity.found import evidence_of, judge_request
from tests.support import each_case

PLACE = Place("f.jsonl", 1)
PROMISE = "这款产品保本保息，年化8%稳拿，绝对不会亏。"
ADVICE = "可以融资加杠杆买入，把仓位放大到150%。"


def reply(text: str, **labels: Any) -> LabelledReply:
    return LabelledReply(id="r", text=text, **labels)


def test_the_detectors_are_those_of_a_run() -> None:
    text = "根据公开数据，净值会有波动，可能出现亏损。仅供参考，不构成投资建议。" + ADVICE
    row = reply(text, constraints=["不使用杠杆", "最大回撤<10%"], rubric={"边界声明": True, "信息依据": True})
    found = found_by_detectors(row)
    content = read_content(text)
    assert found.risk_tags == content.risk_tags
    assert found.compliance == content.compliance
    assert found.categories == content.categories
    assert set(found.rubric) == set(content.rubric_items) & {"边界声明", "信息依据"}
    assert found.contradiction is True
    assert {each.field for each in found.findings} >= {"risk_tag", "constraint_contradiction"}


def test_blank_replies_and_echoes_show_nothing() -> None:
    for row in (reply(" \n", user_text="?"), reply("净值会有波动。", user_text="净值会有波动。")):
        found = found_by_detectors(row)
        assert (found.risk_tags, found.compliance, found.categories) == ([], "compliant", [])
        assert found.contradiction is False


def test_items_of_ones_own_are_met_by_their_words() -> None:
    row = reply("费用：每年1.5%。", rubric={"费用": True, "税务": False})
    assert found_by_detectors(row).rubric == ["费用"]


def test_without_constraints_nothing_contradicts() -> None:
    assert found_by_detectors(reply(ADVICE)).contradiction is False
    assert found_by_detectors(reply(ADVICE, constraints=["不使用杠杆"])).contradiction is True


def fields(found: list[Finding]) -> list[tuple[str, str]]:
    return [(each.field, each.value) for each in found]


def test_a_reading_rests_on_the_findings_that_say_it() -> None:
    found = found_by_detectors(reply(PROMISE))
    assert found.compliance == "severe_violation"
    assert ("compliance", "保本保收益") in fields(evidence_of(found.findings, "compliance", "保本保收益"))
    assert {field for field, _ in fields(evidence_of(found.findings, "compliance", ""))} == {"compliance"}


def test_a_statement_of_limits_rests_on_the_limits_disclosed() -> None:
    row = reply("净值会有波动。以上内容仅供参考，不构成投资建议。", rubric={"边界声明": False})
    found = found_by_detectors(row)
    assert found.rubric == ["边界声明"]
    (met,) = ValidityStats().add(row, found, PLACE)
    assert met.field == "rubric.边界声明"
    assert met.spans
    assert "volatility_risk" not in {span.value for span in met.spans}
    assert all(span.text == row.text[span.start : span.end] for span in met.spans)


def test_a_push_without_a_word_of_risk_rests_on_the_push() -> None:
    push = Finding(field="compliance", value="产品推介", rule="push", start=0, end=2)
    assert evidence_of([push], "compliance", "无明确风险提示") == [push]


FULL: dict[str, Any] = {
    "risk_tags": {"credit_risk": True, "fx_risk": None},
    "contradiction": 0,
    "compliance": "compliant",
    "forbidden_hits": [],
    "rubric": {"信息依据": True, "边界声明": None},
}


def test_a_judge_is_asked_what_is_labelled() -> None:
    row = reply("Prices may fall.", user_text="And now?", constraints=["No leverage"], **FULL)
    asked = judge_request(row, "all")
    assert asked is not None
    assert (asked.reply, asked.user_text, asked.constraints) == (row.text, "And now?", ["No leverage"])
    assert (asked.rubric_required, asked.scope, asked.language) == (["信息依据"], "all", "en")
    other = judge_request(reply("会跌。"), "all")
    assert other is None


@each_case(
    ("labels", "m5", "everything"),
    [
        ({"rubric": {"信息依据": False}}, True, True),
        ({"rubric": {"信息依据": None}}, False, False),
        ({"risk_tags": {"credit_risk": False}}, False, True),
        ({"contradiction": 0}, False, True),
        ({"compliance": "compliant"}, False, True),
        ({"forbidden_hits": ["代客操作"]}, False, False),
        ({}, False, False),
    ],
)
def test_a_judge_is_not_asked_for_nothing(labels: dict[str, object], m5: bool, everything: bool) -> None:
    assert (judge_request(reply("x", **labels), "m5") is not None) is m5
    assert (judge_request(reply("x", **labels), "all") is not None) is everything


def test_a_verdict_gives_what_its_scope_gives() -> None:
    row = reply("x", **FULL)
    verdict = Verdict(
        score=3.0,
        rubric_items=["信息依据", "边界声明"],
        reason="so",
        compliance="minor_violation",
        contradicted_constraints=["a"],
        risk_tags=["fx_risk"],
    )
    found = found_by_judge(row, verdict, "all")
    assert (found.risk_tags, found.contradiction, found.compliance) == (["fx_risk"], True, "minor_violation")
    assert (found.categories, found.rubric, found.reason) == (None, ["信息依据"], "so")
    assert found_by_judge(row, verdict.replace(contradicted_constraints=[]), "all").contradiction is False
    least = found_by_judge(row, verdict, "m5")
    assert (least.risk_tags, least.contradiction, least.compliance, least.rubric) == (
        None,
        None,
        None,
        ["信息依据"],
    )
