"""The summary of all metrics, against a recorded run and as bytes."""

import json
from pathlib import Path
from typing import Any

import msgspec
import pytest

from memfin import metrics
from memfin.contracts import Counters, EvalSummary, MetricResult
from memfin.contracts.reading import UnsupportedTraceVersion
from memfin.metrics import (
    aggregate_all_metrics,
    compute_m1_context_continuity,
    compute_m3_risk_coverage,
    compute_m4_compliance,
    compute_m5_explainability,
)
from memfin.metrics.aggregate import PIECE, MetricsState, encode_summary

RUN = Path(__file__).resolve().parents[2] / ".." / "shared" / "data" / "recorded" / "20260219_101855"
NAMES = [
    "m1_context_continuity",
    "m2_profile_accuracy",
    "m3_risk_coverage",
    "m4_compliance",
    "m5_explainability",
]


@pytest.fixture
def recorded_rows() -> list[dict[str, Any]]:
    if not RUN.exists():
        pytest.skip("the recorded run is not here")
    return [json.loads(line) for line in (RUN / "turn_eval.jsonl").read_text("utf-8").split("\n") if line]


def close(found: Any, recorded: Any, path: str) -> None:
    if isinstance(recorded, dict):
        for name, value in recorded.items():
            close(found[name], value, f"{path}.{name}")
    elif isinstance(recorded, float):
        assert found == pytest.approx(recorded, abs=1e-12), path
    else:
        assert found == recorded, path


@pytest.mark.parametrize("name", [name for name in NAMES if name != "m2_profile_accuracy"])
def test_the_recorded_values_are_reproduced(recorded_rows: list[dict[str, Any]], name: str) -> None:
    state = MetricsState()
    state.add_rows(recorded_rows)
    recorded = json.loads((RUN / "metrics_summary.json").read_text("utf-8"))["metrics"][name]
    found = msgspec.to_builtins(state.results()[name])
    close(found, recorded, name)
    assert found["by_dialog"].keys() == recorded["by_dialog"].keys()
    assert found["counts"]["bad_rows"] == 0


def test_the_functions_of_the_contract_agree_with_the_state(recorded_rows: list[dict[str, Any]]) -> None:
    state = MetricsState()
    state.add_rows(recorded_rows)
    functions = [
        compute_m1_context_continuity,
        compute_m3_risk_coverage,
        compute_m4_compliance,
        compute_m5_explainability,
    ]
    results = [function(recorded_rows) for function in functions]
    assert results == [state.m1.result(), state.m3.result(), state.m4.result(), state.m5.result()]


def test_a_summary_holds_all_five_metrics_in_order() -> None:
    summary = MetricsState().summary("r", "data.jsonl", {"total_dialogs": 3}, "fingerprint")
    assert list(summary.metrics) == [result.metric_name for result in summary.metrics.values()] == NAMES
    assert summary.counters == Counters(total_dialogs=3)
    assert (summary.trace_version, summary.config_fingerprint) == ("v1", "fingerprint")
    for result in summary.metrics.values():
        assert {"eligible_count", "skipped_count", "failed_count"} <= result.counts.keys()


def test_a_summary_is_of_the_version_of_its_run() -> None:
    state = MetricsState()
    assert state.summary("r", "d", Counters(), trace_version="v1.1").trace_version == "v1.1"
    extended = aggregate_all_metrics("r", "d", {}, Counters(), trace_version="v1.1")
    assert extended.replace(trace_version="v1") == aggregate_all_metrics("r", "d", {}, Counters())
    with pytest.raises(UnsupportedTraceVersion, match="v2"):
        aggregate_all_metrics("r", "d", {}, Counters(), trace_version="v2")


def test_a_row_that_is_none_is_counted_in_every_row_metric() -> None:
    state = MetricsState()
    state.add_row({})
    assert [state.results()[name].counts["bad_rows"] for name in NAMES] == [1, 0, 1, 1, 1]


def test_the_bytes_are_indented_utf8_with_a_final_line_end() -> None:
    result = MetricResult(
        metric_name="m", micro={"x": 0.5}, macro={}, counts={"n": 1}, by_dialog={"对话": {"x": 0.5}}
    )
    summary = aggregate_all_metrics("r", "数据.jsonl", {"m": result}, Counters())
    encoded = encode_summary(summary)
    assert encoded.decode("utf-8").startswith(
        '{\n  "run_id": "r",\n  "trace_version": "v1",\n  "dataset_path": "数据.jsonl",'
    )
    assert encoded.endswith(b"}\n")
    assert not encoded.endswith(b"\n\n")
    assert msgspec.json.decode(encoded, type=EvalSummary) == summary


@pytest.mark.parametrize(
    "names", [(), ("m",), ("a", 'b": {}', "\n", "by_dialog")], ids=["none", "one", "four"]
)
@pytest.mark.parametrize("dialogs", [0, 1, PIECE, PIECE + 1])
def test_a_summary_in_pieces_has_the_bytes_of_one_written_whole(
    names: tuple[str, ...],
    dialogs: int,
) -> None:
    by_dialog = {f'"metrics": {{}}{number}': {"\n}": 0.5, "b": number / 7} for number in range(dialogs)}
    results = {
        name: MetricResult(
            metric_name=name,
            micro={"x": 0.5},
            macro={},
            counts={"n": 1},
            by_dialog=by_dialog,
            ci95={"x": (0.25, 0.75)},
        )
        for name in names
    }
    summary = aggregate_all_metrics('r\n  "metrics": {}', "d", results, Counters(), "f")
    whole = msgspec.json.format(msgspec.json.encode(summary), indent=2) + b"\n"
    assert encode_summary(summary) == whole


@pytest.mark.parametrize("value", [float("nan"), float("inf"), float("-inf")])
def test_a_number_that_json_cannot_hold_is_refused(value: float) -> None:
    result = MetricResult(metric_name="m", micro={"x": value}, macro={}, counts={}, by_dialog={})
    with pytest.raises(msgspec.ValidationError, match="micro"):
        encode_summary(aggregate_all_metrics("r", "d", {"m": result}, Counters()))


def test_only_the_profile_metric_needs_the_scoring_of_texts() -> None:
    folder = Path(metrics.__file__).parent
    reading = {path.stem for path in folder.glob("*.py") if "memfin.scoring" in path.read_text("utf-8")}
    assert reading == {"m2_profile"}
