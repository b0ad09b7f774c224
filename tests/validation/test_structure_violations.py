from typing import Any

import hypothesis.strategies as st
import msgspec
import pytest
from hypothesis import given, settings

from memfin.contracts import AnyProgressEvent, DialogTrace, MetricResult, RunConfig, TurnEvalRow
from memfin.validation.findings import convert_or_violations, path_text, structure_violations
from tests.support import each_case, length

ROW: dict[str, Any] = {
    "trace_version": "v1",
    "run_id": "r",
    "dialog_id": "d",
    "turn_pair_id": 1,
    "eligible_m1": False,
    "eligible_m2": False,
    "eligible_m3": False,
    "eligible_m4": False,
    "eligible_m5": False,
}
TURN: dict[str, Any] = {
    "turn_pair_id": 1,
    "user_turn_abs_idx": 0,
    "gt_assistant_abs_idx": 1,
    "user_text": "u",
    "gt_assistant_text": "a",
    "gt_turn_tags": {},
    "turn_status": "ok",
    "recall": {"items": [{"content": "c", "score": 0.5}]},
}
TRACE: dict[str, Any] = {
    "trace_version": "v1",
    "run_id": "r",
    "dialog_id": "d",
    "dataset_index": 1,
    "dialog_status": "ok",
    "valid_dialog": True,
    "turns": [TURN],
}


def reported(value: object, kind: object) -> list[str]:
    return [f"{path_text(steps)}: {message}" for steps, message in structure_violations(value, kind)]


def test_a_sound_record_has_no_violations() -> None:
    assert reported(TRACE, DialogTrace) == []
    assert convert_or_violations(TRACE, DialogTrace) == (msgspec.convert(TRACE, DialogTrace), [])


def test_every_violation_is_reported_with_its_path() -> None:
    turn = {
        **TURN,
        "turn_pair_id": "1",
        "turn_status": "fine",
        "latency_ms": True,
        "recall": {"token_count": -1, "items": [{"score": "high"}, 7]},
        "profile_snapshot": [],
    }
    del turn["user_text"]
    trace = {**TRACE, "valid_dialog": 1, "turns": [TURN, turn], "dialog_error": {}, "unknown": None}
    del trace["run_id"]
    assert reported(trace, DialogTrace) == [
        "$.run_id: missing",
        "$.valid_dialog: expected a boolean, got 1",
        "$.turns[1].turn_pair_id: expected an integer, got '1'",
        "$.turns[1].user_text: missing",
        "$.turns[1].turn_status: 'fine' is none of 'error', 'ok', 'timeout'",
        "$.turns[1].latency_ms: expected a number, got true",
        "$.turns[1].recall.token_count: -1 is less than 0",
        "$.turns[1].recall.items[0].score: expected a number, got 'high'",
        "$.turns[1].recall.items[1]: expected an object, got 7",
        "$.turns[1].profile_snapshot: expected an object, got an array",
        "$.dialog_error: expected a string, got an object",
    ]


def test_wrong_types_in_every_field_are_all_reported() -> None:
    wrong: dict[str, object] = {name: {"no": "such"} for name in TurnEvalRow.__struct_fields__}
    wrong |= {"m1_source_hits": 5, "detectors": 5, "detector_errors": 5}
    found = {steps[0] for steps, _ in structure_violations(wrong, TurnEvalRow)}
    assert found == set(TurnEvalRow.__struct_fields__)


@each_case(
    ("field", "value", "message"),
    [
        ("turn_timeout", 0, "$.turn_timeout: 0 is not greater than 0"),
        ("turn_timeout", float("nan"), "$.turn_timeout: nan is not greater than 0"),
        ("turn_timeout", 1e9, "$.turn_timeout: 1000000000.0 is greater than 86400"),
        ("workers_dialog", 0, "$.workers_dialog: 0 is less than 1"),
        ("workers_dialog", 1.0, "$.workers_dialog: expected an integer, got 1.0"),
        ("limit", "x", "$.limit: expected an integer, got 'x'"),
        ("fail_under", {"a b": None}, "$.fail_under['a b']: expected a number, got null"),
        ("fail_under", {"a": float("inf")}, "$.fail_under.a: inf is greater than 1.7976931348623157e+308"),
        ("history", None, "$.history: null is none of 'forced', 'free'"),
    ],
)
def test_bounds_and_kinds_of_settings(field: str, value: object, message: str) -> None:
    assert reported({field: value}, RunConfig) == [message]


def test_bounds_themselves_are_allowed_or_not_as_declared() -> None:
    allowed = {"turn_timeout": 86_400, "workers_dialog": 1, "workers_judge": 10_000, "turn_retries": 0}
    assert reported(allowed, RunConfig) == []


def test_tuples_are_reported_by_length_and_item() -> None:
    metric = {"metric_name": "m", "micro": {}, "macro": {}, "counts": {}, "by_dialog": {}}
    assert reported({**metric, "ci95": {"a": [0, 1], "b": [0], "c": ["x", 1]}}, MetricResult) == [
        "$.ci95.b: expected 2 values, got 1",
        "$.ci95.c[0]: expected a number, got 'x'",
    ]


def test_members_of_a_union_are_chosen_by_their_tag() -> None:
    assert reported({"event": "metrics_done", "ts": 1, "run_id": "r"}, AnyProgressEvent) == [
        "$.ts: expected a string, got 1",
        "$.turn_rows: missing",
    ]
    assert reported({"ts": "t"}, AnyProgressEvent) == ["$.event: missing"]
    (unknown,) = reported({"event": "lunch"}, AnyProgressEvent)
    assert unknown.startswith("$.event: 'lunch' is none of 'run_started', ")
    assert reported([], AnyProgressEvent) == ["$: expected an object, got an array"]


def test_an_alternative_of_kinds_names_all_of_them() -> None:
    turn = {**TURN, "tools": [{"tool_name": "t", "args": 5}, {"tool_name": "t", "args": "{}"}]}
    assert reported({**TRACE, "turns": [turn]}, DialogTrace) == [
        "$.turns[0].tools[0].args: expected an object or a string, got 5"
    ]


PLAIN = st.recursive(
    st.none() | st.booleans() | st.integers(-5, 5) | st.floats() | st.sampled_from(["ok", "v1", "free", "x"]),
    lambda inner: (
        st.lists(inner, max_size=2) | st.dictionaries(st.sampled_from(["content", "role", "key"]), inner)
    ),
    max_leaves=4,
)


@pytest.mark.parametrize(
    ("kind", "base"),
    [(TurnEvalRow, ROW), (DialogTrace, TRACE), (RunConfig, {})],
    ids=["row", "trace", "config"],
)
@settings(max_examples=length(40, 300), deadline=None)
@given(data=st.data())
def test_the_walk_agrees_with_msgspec_on_what_is_sound(
    kind: Any, base: dict[str, Any], data: st.DataObject
) -> None:
    names = st.sampled_from([*kind.__struct_fields__])
    value = {**base, **data.draw(st.dictionaries(names, PLAIN, max_size=3))}
    if data.draw(st.booleans()):
        value = {
            **value,
            "turns": [{**TURN, **data.draw(st.dictionaries(st.sampled_from([*TURN]), PLAIN, max_size=2))}],
        }
    found = list(structure_violations(value, kind))
    try:
        msgspec.convert(value, kind)
    except msgspec.ValidationError:
        assert found
    else:
        assert found == []


def test_values_are_reported_without_control_characters() -> None:
    (message,) = reported({**ROW, "turn_status": "\x1b[31m\u202e" + "x" * 500}, TurnEvalRow)
    assert message.isprintable()
    assert len(message) < 150
