"""Custom metrics and own detectors have the tables, charts and turns that MemFin's metrics have."""

from pathlib import Path
from typing import Any

import pytest

from memfin.contracts import CustomValue, EvalSummary, Finding, TurnEvalRow
from memfin.metrics.aggregate import MetricsState
from memfin.report import load_report
from memfin.report.model import Block, Cases, Report, Table
from memfin.report.worst_turns import WorstTurns
from tests.report.report_run_factory import blocks, row, summary, table_rows, trace, turn, write_run


def with_values(dialog_id: str, pair: int = 1, *, fires: bool = False, **values: CustomValue) -> TurnEvalRow:
    findings = [Finding(field="x:greeting", value="hello", rule="hello", start=0, end=2)] if fires else []
    detectors = {"x:greeting": "1"}
    return row(dialog_id, pair, custom=values, detectors=detectors, findings=findings)


def rate(hits: float, **more: Any) -> CustomValue:
    return CustomValue(value="rate", hits=hits, of=1, **more)


def grade(hits: float) -> CustomValue:
    return CustomValue(value="grade_mean", hits=hits, of=1, low=1.0, high=5.0, lower_is_better=True)


def of_rows(rows: list[TurnEvalRow]) -> EvalSummary:
    state = MetricsState()
    state.add_rows(rows)
    found = {name: result for name, result in state.results().items() if name not in summary().metrics}
    return summary(metrics=summary().metrics | found, detectors=state.detectors.results())


@pytest.fixture(name="report")
def loaded(tmp_path: Path) -> Report:
    rows = [
        with_values("a", 1, fee=rate(1), tone=grade(2)),
        with_values("a", 2, fee=rate(0), tone=grade(4), fires=True),
        with_values("b", 1, fee=rate(1), tone=grade(1), seen=rate(0.5, of_dialog=True)),
        with_values("b", 2, fee=rate(1), tone=CustomValue(value="grade_mean", error="ValueError: no tone")),
        with_values("c", 1, fires=True),
    ]
    traces = [
        trace("a", [turn(1), turn(2)], scenario_type="s1"),
        trace("b", [turn(1), turn(2)], scenario_type="s2"),
        trace("c", [turn(1)], scenario_type="s3"),
    ]
    return load_report(write_run(tmp_path, traces, rows, of_rows(rows)))


def test_groups_have_columns_of_custom_metrics_and_detectors(report: Report) -> None:
    headings, *rows = table_rows(report, "By scenario")
    own = headings.index("fee Rate")
    assert headings[own:] == ["fee Rate", "seen Rate", "tone Grade mean", "x:greeting"]
    assert [each[own:] for each in rows] == [
        ["50.0 %", "-", "3.00", "50.0 %"],
        ["100.0 %", "50.0 %", "1.00", "0.0 %"],
        ["-", "-", "-", "100.0 %"],
    ]


def test_dialogues_and_histograms_show_custom_metrics(report: Report) -> None:
    (section,) = (each for each in report.sections if each.id == "dialogues")
    (table,) = (each for each in section.blocks if isinstance(each, Table))
    own = table.headings.index("fee Rate")
    values = {each[0].text: [cell.text for cell in each[own:]] for each in table.rows}
    assert values["a"] == ["50.0 %", "-", "3.00"]
    assert values["b"] == ["100.0 %", "50.0 %", "1.00"]
    (histograms,) = (each for each in blocks(report) if isinstance(each, Block) and each.kind == "histograms")
    counts = {chart.title: chart.counts for chart in histograms.items}
    assert counts["fee Rate"] == (0, 0, 0, 0, 0, 1, 0, 0, 0, 1)
    assert "tone Grade mean" not in counts  # of shares alone, as for the judge's score


def test_worst_turns_follow_the_direction_of_a_metric(report: Report) -> None:
    shown = {each.title: each for each in blocks(report) if isinstance(each, Cases)}
    assert [(case.id, case.where, case.why) for case in shown["fee Rate, lowest first"].cases] == [
        ("a", ", turn 2", "fee Rate: 0.0 %")
    ]
    tones = shown["tone Grade mean, highest first"].cases
    assert [(case.where, case.why) for case in tones] == [
        (", turn 2", "tone Grade mean: 4.00"),
        (", turn 1", "tone Grade mean: 2.00"),
    ]
    assert "seen Rate, lowest first" not in shown  # a value of the dialogue, not of its last turn
    evidence = {each.label: [item.text for item in each.items] for each in tones[0].evidence}
    assert evidence["Custom metrics"] == ["fee: 0.0 %", "tone: 4.00"]


def test_values_that_could_not_be_measured_are_among_the_failures(report: Report) -> None:
    assert table_rows(report, "Failures")[1:] == [["tone", "ValueError: no tone", "1", "b, turn 2"]]


def test_a_row_that_contradicts_itself_is_no_worst_turn() -> None:
    worst = WorstTurns()
    worst.add(with_values("a", fee=rate(7)))
    assert worst.rankings() == ()
