"""Whatever a metric counts as a bad row, validation reports."""

import ast
import inspect
import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import hypothesis.strategies as st
import pytest
from hypothesis import given, settings

from memfin.contracts import Dialog, DialogTrace, ProfileTruth, TurnEvalRow
from memfin.contracts.reading import InvalidRecord, UnsupportedTraceVersion, check_trace_version, convert
from memfin.metrics import M1State, MetricsState, m1_context, m3_risk, m4_compliance, m5_explainability
from memfin.metrics.state import BadRow
from memfin.validation import Violation, validate_file
from memfin.validation.rules import TurnEvalRules
from tests.support import each_case, length

METRIC_MODULES = (m1_context, m3_risk, m4_compliance, m5_explainability)

SOUND: dict[str, Any] = {
    "trace_version": "v1",
    "run_id": "r",
    "dialog_id": "d",
    "turn_pair_id": 1,
    "eligible_m1": True,
    "eligible_m2": True,
    "eligible_m3": True,
    "eligible_m4": True,
    "eligible_m5": True,
    "required_keys_raw": ["profile_gt.risk_level_gt", "history_turn_index:99", "history_turn_index:1"],
    "resolved_keys": [
        {"key": "profile_gt.risk_level_gt", "resolvable": True, "target_text": "稳健"},
        {"key": "history_turn_index:99", "resolvable": False},
        {"key": "history_turn_index:1", "resolvable": True, "target_text": "我怕亏"},
    ],
    "key_hit_flags": [1, 0],
    "key_hit_sources": [["short_term", "profile"], []],
    "m1_source_hits": {"short_term": 1, "profile": 1},
    "key_hit_guarded": [1, 0],
    "key_recoverability": ["recoverable", "unrevealed"],
    "risk_required_tags": ["market_uncertainty", "credit_risk"],
    "risk_pred_tags": ["market_uncertainty"],
    "risk_tag_hits": 1,
    "pred_compliance_label": "compliant",
    "gt_compliance_label": "compliant",
    "rubric_required": ["信息依据", "边界声明"],
    "rubric_hit_items": ["信息依据"],
    "judge_score_1_5": 4.0,
    "turn_status": "ok",
}

BAD: dict[str, dict[str, Any]] = {
    "too few flags": {"key_hit_flags": [1], "key_hit_sources": []},
    "a source named twice": {"key_hit_sources": [["profile", "profile", "profile"], []]},
    "a sum above the keys": {"key_hit_sources": [], "m1_source_hits": {"long_term": 3}},
    "too few guarded flags": {"key_hit_guarded": [1]},
    "too many recoverabilities": {"key_recoverability": ["recoverable"] * 3},
    "too many risk tags met": {"risk_tag_hits": 3},
    "no predicted label": {"pred_compliance_label": None},
    "no true label": {"gt_compliance_label": None},
    "a score below the scale": {"judge_score_1_5": 0.99},
    "a score above the scale": {"judge_score_1_5": 5.01},
}


def violations(row: TurnEvalRow) -> list[Violation]:
    return list(TurnEvalRules().check(row))


def bad_counts(row: object) -> dict[str, int]:
    state = MetricsState()
    state.add_row(row)  # type: ignore[arg-type] # anything may stand on a line
    return {name: result.counts["bad_rows"] for name, result in state.results().items()}


def raises_in_the_metrics() -> Iterator[tuple[str, int]]:
    for module in METRIC_MODULES:
        for node in ast.walk(ast.parse(inspect.getsource(module))):
            if isinstance(node, ast.Raise):
                yield module.__name__, node.lineno


def test_the_sound_row_is_sound() -> None:
    row = convert(SOUND, TurnEvalRow)
    assert set(bad_counts(row).values()) == {0}
    assert violations(row) == []


@each_case("changes", BAD.values(), ids=BAD)
def test_every_bad_row_has_a_finding(changes: dict[str, Any]) -> None:
    row = convert({**SOUND, **changes}, TurnEvalRow)
    assert sum(bad_counts(row).values()) == 1
    assert violations(row)


def test_the_bad_rows_here_are_of_every_kind_that_the_metrics_know(monkeypatch: pytest.MonkeyPatch) -> None:
    met: set[tuple[str, int]] = set()

    class Recorded(BadRow):
        def __init__(self, field: str, message: str) -> None:
            caller = inspect.stack()[1]
            met.add((caller.frame.f_globals["__name__"], caller.lineno))
            super().__init__(field, message)

    for module in METRIC_MODULES:
        monkeypatch.setattr(module, "BadRow", Recorded)
    for changes in BAD.values():
        bad_counts(convert({**SOUND, **changes}, TurnEvalRow))
    assert met == set(raises_in_the_metrics())
    assert len(met) == 7


def test_what_a_metric_objects_to_is_a_finding_even_where_validation_knows_no_rule(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    def refuse(_: M1State, row: TurnEvalRow) -> None:
        raise BadRow("required_keys_raw", f"{len(row.required_keys_raw)} are too many")

    monkeypatch.setattr(M1State, "_contribution", refuse)
    assert violations(convert(SOUND, TurnEvalRow)) == [(("required_keys_raw",), "3 are too many")]


PARTS: dict[str, st.SearchStrategy[Any]] = {
    **{f"eligible_m{number}": st.booleans() for number in range(1, 6)},
    "resolved_keys": st.lists(
        st.fixed_dictionaries({"key": st.just("k"), "resolvable": st.booleans()}), max_size=3
    ),
    "key_hit_flags": st.lists(st.sampled_from([0, 1]), max_size=3),
    "key_hit_sources": st.lists(
        st.lists(st.sampled_from(["short_term", "long_term", "profile"]), max_size=3), max_size=3
    ),
    "m1_source_hits": st.fixed_dictionaries({"profile": st.integers(0, 3), "long_term": st.integers(0, 3)}),
    "key_hit_guarded": st.none() | st.lists(st.sampled_from([0, 1]), max_size=3),
    "key_recoverability": st.none() | st.lists(st.just("recoverable"), max_size=3),
    "risk_required_tags": st.lists(st.sampled_from(["a", "b", "risk_disclosure_present"]), max_size=3),
    "risk_pred_tags": st.lists(st.sampled_from(["a", "b"]), max_size=2),
    "risk_tag_hits": st.integers(0, 4),
    "pred_compliance_label": st.sampled_from([None, "compliant"]),
    "gt_compliance_label": st.sampled_from([None, "compliant"]),
    "rubric_required": st.lists(st.sampled_from(["x", "y"]), max_size=2),
    "judge_score_1_5": st.none() | st.floats(-1, 7),
    "judge_error": st.sampled_from([None, "timeout"]),
    "detectors": st.sampled_from([{}, {"judge": "none"}]),
    "turn_status": st.sampled_from([None, "ok", "error"]),
    "scoring_error": st.sampled_from([None, None, "boom"]),
    "trace_version": st.sampled_from(["v1", "v1.1", "v1.7", "v2", "1"]),
    "dialog_id": st.sampled_from(["d", "", None, 3]),
}


@settings(max_examples=length(40, 400), deadline=None)
@given(st.fixed_dictionaries({}, optional=PARTS))
def test_no_row_is_bad_for_the_metrics_and_sound_for_validation(changes: dict[str, Any]) -> None:
    plain = json.loads(json.dumps({**SOUND, **changes}))
    try:
        row = convert(plain, TurnEvalRow)
        check_trace_version(row.trace_version)
    except (InvalidRecord, UnsupportedTraceVersion):
        return  # its structure or its version is a finding already
    if any(bad_counts(plain).values()):
        assert violations(row)


def test_a_number_that_no_double_can_hold_is_a_finding_although_m2_can_do_with_it(tmp_path: Path) -> None:
    turn: dict[str, Any] = {
        "turn_pair_id": 1,
        "user_turn_abs_idx": 0,
        "gt_assistant_abs_idx": 1,
        "user_text": "u",
        "gt_assistant_text": "a",
        "gt_turn_tags": {},
        "turn_status": "ok",
        "profile_snapshot": {"max_drawdown": 10**400},
    }
    trace = {
        "trace_version": "v1",
        "run_id": "r",
        "dialog_id": "d",
        "dataset_index": 1,
        "dialog_status": "ok",
        "valid_dialog": True,
        "turns": [turn],
    }
    truth = ProfileTruth(risk_level_gt="稳健", horizon_gt="2年以上", liquidity_need_gt="中")
    state = MetricsState()
    state.add_dialog(convert(trace, DialogTrace), Dialog(dialog_id="d", profile_gt=truth, turns=[]))
    assert state.m2.result().counts["bad_rows"] == 0
    path = tmp_path / "dialog_trace.jsonl"
    path.write_text(json.dumps(trace))
    assert [finding.path for finding in validate_file(path)] == ["$.turns[0].profile_snapshot.max_drawdown"]
