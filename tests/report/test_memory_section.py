"""The section on memory, and the shares of M1 and M2 that only runs with probes have."""

from pathlib import Path
from typing import Any

import pytest

from memfin.contracts import FactReading, ProbeReading
from memfin.metrics.aggregate import MetricsState
from memfin.report import load_report
from tests.report.report_run_factory import row, summary, table_rows, trace, turn, write_run


def probe(name: str, *, correct: bool, **more: Any) -> ProbeReading:
    return ProbeReading(probe=name, outcome="right" if correct else "wrong", correct=correct, **more)


@pytest.fixture(name="state")
def counted() -> MetricsState:
    held = FactReading(fact="f", state="active", needed=True, used=True, sessions=0, days=0)
    lost = held.replace(used=False, stored=False, stage="not_stored", sessions=4, days=10)
    state = MetricsState()
    state.add_row(row("a", facts=[held], probes=[], session_index=2))
    state.add_row(
        row(
            "b",
            facts=[lost],
            probes=[
                probe("p", correct=True, field="horizon"),
                probe("q", correct=False),
                probe("r", correct=True, known=False),
            ],
            session_index=10,
        )
    )
    failed = [probe("s", correct=False, field="horizon")]
    state.add_row(row("b", 2, turn_status="timeout", probes=failed, session_index=10))
    return state


def test_section_has_shares_stages_and_groups(state: MetricsState, tmp_path: Path) -> None:
    found = summary(metrics=summary().metrics | {"memory": state.memory.result()})
    report = load_report(write_run(tmp_path, [trace("a", [turn(1)])], [row("a")], found))
    shares = {cells[0]: (cells[1], cells[-1]) for cells in table_rows(report, "Facts and probes")}
    assert shares["Facts used"] == ("50.0 %", "2")
    assert shares["Needed facts in the recall"] == ("-", "0")
    assert shares["Probes right"] == ("50.0 %", "4")
    failed = table_rows(report, "Where memory failed")[1:]
    assert failed == [["never stored", "not_stored", "1", "100.0 %", ""]]
    sessions = table_rows(report, "By session")
    assert [cells[:2] for cells in sessions] == [["Session", "Facts used"], ["2", "100.0 %"], ["10", "0.0 %"]]
    distances = table_rows(report, "By sessions since the fact was told")
    assert [cells[0] for cells in distances[1:]] == ["0", "3+"]
    days = table_rows(report, "By days since the fact was told")
    assert [cells[:2] for cells in days[1:]] == [["0-7", "100.0 %"], ["8-30", "0.0 %"]]


def test_m1_and_m2_count_probes_of_failed_turns_too(state: MetricsState) -> None:
    m1, m2 = state.m1.result(), state.m2.result()
    assert m1.micro["probed"] == pytest.approx(1 / 3)
    assert m1.counts["probed_total"] == 3
    assert (m2.micro["probed"], m2.counts["probed_total"]) == (0.5, 2)
    assert m2.by_dialog == {"b": {"probed": 0.5}}
    assert "probed" not in m1.not_measured


def test_runs_without_probes_have_no_probed_share() -> None:
    state = MetricsState()
    state.add_row(row("a"))
    for result in (state.m1.result(), state.m2.result()):
        values = (result.micro, result.macro, result.ci95, result.not_measured)
        assert not any("probed" in each for each in values)
        assert "probed_total" not in result.counts
