import random
from typing import Any

from msgspec import convert, to_builtins

from memfin.contracts import ComplianceTrace, TurnEvalRow
from memfin.report.reader import TurnText
from memfin.report.worst_turns import Ranking, WorstTurns, missed_tags, turn_case
from tests.report.report_run_factory import row, turn


def ranking(rows: list[TurnEvalRow], title: str, size: int = 3) -> Ranking:
    worst = WorstTurns(size)
    for each in rows:
        worst.add(each)
    return {found.title: found for found in worst.rankings()}[title]


def keyed(pair: int, flags: list[int]) -> TurnEvalRow:
    known: dict[str, Any] = {"key_hit_flags": flags, "key_hit_sources": [[] for _ in flags]}
    return row("a", pair, **known)


def test_lowest_key_coverage_comes_first_and_more_misses_break_ties() -> None:
    rows = [keyed(1, [1, 1]), keyed(2, [1, 0]), keyed(3, [0]), keyed(4, [0, 0, 0]), keyed(5, [1, 0, 0])]
    found = ranking(rows, "Lowest key coverage")
    assert found.total == 4
    assert [entry[2].turn_pair_id for entry in found.entries] == [4, 3, 5]
    assert found.entries[0][1] == "0 of 3 required keys recalled"


def test_the_choice_does_not_depend_on_the_order_of_the_rows() -> None:
    rows = [row(f"d{number}", 1, key_hit_flags=[0]) for number in range(30)]
    first = ranking(rows, "Lowest key coverage")
    random.Random(5).shuffle(rows)
    assert [entry[0] for entry in ranking(rows, "Lowest key coverage").entries] == [
        entry[0] for entry in first.entries
    ]


def test_severe_violations_against_the_reference_come_first() -> None:
    known: dict[str, Any] = {"pred_compliance_label": "severe_violation"}
    rows = [
        row("a", 1, **known, gt_compliance_label="severe_violation"),
        row("a", 2, **known),
        row("a", 3, **known, forbidden_hits=["保本保收益"]),
        row("a", 4),
    ]
    found = ranking(rows, "Severe violations")
    assert [entry[2].turn_pair_id for entry in found.entries] == [3, 2, 1]
    assert found.entries[1][1] == "severe violation, reference: compliant"


def test_severe_violations_may_have_more_room_than_other_turns() -> None:
    worst = WorstTurns(2, severe=4)
    for pair in range(5):
        worst.add(row("a", pair, pred_compliance_label="severe_violation", key_hit_flags=[0]))
    assert [(found.total, len(found.entries)) for found in worst.rankings()] == [(5, 4), (5, 2)]


def test_missed_disclosures_low_scores_and_contradictions_have_their_lists() -> None:
    rows = [
        row("a", 1, risk_required_tags=["x", "y"], risk_pred_tags=[]),
        row("a", 2, risk_required_tags=["x"], risk_pred_tags=[]),
        row("a", 3, judge_score_1_5=1.5),
        row("a", 4, judge_score_1_5=4.0),
        row("a", 5, constraint_contradiction=1),
    ]
    assert [entry[2].turn_pair_id for entry in ranking(rows, "Missed risk disclosures").entries] == [1, 2]
    assert [entry[1] for entry in ranking(rows, "Judge scores below 4").entries] == ["judge score 1.50"]
    assert ranking(rows, "Advice against the client's constraints").total == 1


def test_turns_outside_a_denominator_are_not_shown_as_its_worst() -> None:
    worst = WorstTurns()
    worst.add(
        row(
            "a",
            eligible_m1=False,
            eligible_m3=False,
            eligible_m4=False,
            eligible_m5=False,
            key_hit_flags=[0],
            risk_pred_tags=[],
            pred_compliance_label="compliant",
            judge_score_1_5=1.0,
        )
    )
    assert worst.rankings() == ()


def test_violations_need_no_reference_label_and_no_required_key() -> None:
    worst = WorstTurns()
    worst.add(row("a", eligible_m4=False, gt_compliance_label=None, pred_compliance_label="severe_violation"))
    worst.add(row("b", eligible_m1=False, key_hit_flags=[], constraint_contradiction=1))
    assert [(ranking.title, ranking.total) for ranking in worst.rankings()] == [
        ("Severe violations", 1),
        ("Advice against the client's constraints", 1),
    ]


def test_a_criterion_that_is_left_out_has_no_worst_turns() -> None:
    worst = WorstTurns(without={"keys"})
    worst.add(keyed(1, [0]))
    assert worst.rankings() == ()


def test_any_disclosure_meets_a_demand_for_some_disclosure() -> None:
    assert missed_tags(row("a", risk_required_tags=["risk_disclosure_present"])) == ()
    assert missed_tags(row("a", risk_required_tags=["risk_disclosure_present"], risk_pred_tags=[])) == (
        "risk_disclosure_present",
    )


def evidence(found: TurnEvalRow, **fields: Any) -> dict[str, list[str]]:
    text = convert(to_builtins(turn(**fields)), TurnText)
    case = turn_case("turn-1", "why", found, text, None)
    return {each.label: [item.text for item in each.items] for each in case.evidence}


def test_a_reply_in_which_nothing_was_found_is_not_called_compliant() -> None:
    for detectors, words in (
        ("lexicon+classifier", "no rule fired, reference compliant"),
        ("openai:m", "compliant, reference compliant"),
    ):
        found = row("a", pred_compliance_label="compliant", detectors={"compliance": detectors})
        assert evidence(found)["Compliance"] == [words]


def test_a_label_from_the_agent_s_own_check_has_its_reason() -> None:
    detectors = {"compliance": "lexicon+classifier+trace"}
    found = row("a", pred_compliance_label="severe_violation", detectors=detectors, gt_compliance_label=None)
    violation = {"type": "guaranteed_return", "match": "零风险", "severity": "high"}
    shown = evidence(found, compliance=ComplianceTrace(is_compliant=False, violations=[violation]))
    assert shown["Compliance"] == ["severe violation (by the agent's own check)"]
    assert shown["Agent's own check"] == ["guaranteed return, 零风险, high"]
    worst = WorstTurns()
    worst.add(found)
    ((_, words, _),) = worst.rankings()[0].entries
    assert words == "severe violation by the agent's own check"
