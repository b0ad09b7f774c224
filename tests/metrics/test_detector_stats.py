"""Counts, rates and intervals of users' detectors."""

import msgspec

from memfin.contracts import Counters, Finding, TurnEvalRow
from memfin.metrics.aggregate import MetricsState
from memfin.metrics.interval import ratio_interval
from tests.report.report_run_factory import row


def read(dialog_id: str, pair: int, findings: int) -> TurnEvalRow:
    """Return a row of a reply in which the detector found this much."""
    finding = Finding(field="x:fees", value="v", rule="r", start=0, end=1)
    other = Finding(field="compliance", value="v", rule="r", start=0, end=1)
    detectors = {"x:fees": "1", "risk": "lexicon"}
    return row(dialog_id, pair, detectors=detectors, findings=[other, *[finding] * findings])


def test_rates_are_of_replies_and_intervals_of_dialogues() -> None:
    state = MetricsState()
    errors = {"x:fees": "ValueError", "risk_tag_mapper": "KeyError"}
    state.add_rows([read("a", 1, 2), read("a", 2, 0), read("b", 1, 1), row("b", 2, detector_errors=errors)])
    results = state.detectors.results()
    assert isinstance(results, dict)
    assert list(results) == ["x:fees"]
    result = results["x:fees"]
    assert (result.replies, result.fired, result.findings, result.failed) == (3, 2, 3, 1)
    assert result.rate == 2 / 3
    assert result.ci95 == ratio_interval([(1, 2), (1, 1)])
    assert state.summary("r", "d", Counters()).detectors == results


def test_one_dialogue_has_no_interval_and_a_run_without_detectors_no_results() -> None:
    state = MetricsState()
    state.add_rows([row("a"), row("b", detectors={"risk": "lexicon"})])
    assert state.detectors.results() is msgspec.UNSET
    state.add_row(row("a", 2, detector_errors={"x:fees": "ValueError"}))
    results = state.detectors.results()
    assert isinstance(results, dict)
    assert (results["x:fees"].rate, results["x:fees"].ci95) == (0.0, msgspec.UNSET)
