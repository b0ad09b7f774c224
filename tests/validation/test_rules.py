import json
from pathlib import Path
from typing import Any

import pytest

from memfin.validation import validate_file
from tests.support import each_case

ROW: dict[str, Any] = {
    "trace_version": "v1",
    "run_id": "r",
    "dialog_id": "d",
    "turn_pair_id": 1,
    "eligible_m1": True,
    "eligible_m2": False,
    "eligible_m3": True,
    "eligible_m4": True,
    "eligible_m5": True,
    "required_keys_raw": ["profile_gt.risk_level_gt", "history_turn_index:99"],
    "resolved_keys": [
        {
            "key": "profile_gt.risk_level_gt",
            "resolvable": True,
            "target_text": "稳健",
            "resolver": "profile_field",
        },
        {"key": "history_turn_index:99", "resolvable": False},
    ],
    "key_hit_flags": [1],
    "key_hit_sources": [["short_term"]],
    "m1_source_hits": {"short_term": 1},
    "key_hit_guarded": [1],
    "key_recoverability": ["recoverable"],
    "risk_required_tags": ["market_uncertainty", "credit_risk"],
    "risk_pred_tags": ["market_uncertainty"],
    "risk_tag_hits": 1,
    "gt_compliance_label": "compliant",
    "pred_compliance_label": "minor_violation",
    "rubric_required": ["信息依据"],
    "rubric_hit_items": ["信息依据"],
    "judge_score_1_5": 4.0,
    "turn_status": "ok",
}
TURN: dict[str, Any] = {
    "turn_pair_id": 1,
    "user_turn_abs_idx": 0,
    "gt_assistant_abs_idx": 1,
    "user_text": "u",
    "gt_assistant_text": "a",
    "gt_turn_tags": {},
    "turn_status": "ok",
}
TRACE: dict[str, Any] = {
    "trace_version": "v1",
    "run_id": "r",
    "dialog_id": "d",
    "dataset_index": 1,
    "dialog_status": "ok",
    "valid_dialog": True,
    "turns": [TURN, {**TURN, "turn_pair_id": 2}],
}
COUNTS = {"eligible_count": 1, "skipped_count": 0, "failed_count": 0}
METRIC: dict[str, Any] = {
    "metric_name": "m5_explainability",
    "micro": {"rubric_hit_rate": 1.0, "judge_score_mean": 4.5},
    "macro": {"rubric_hit_rate": 0.0, "judge_score_mean": 0.0},
    "counts": COUNTS,
    "by_dialog": {"d": {"rubric_hit_rate": 0.5}},
    "ci95": {"rubric_hit_rate": [0.1, 0.9]},
}
COUNTERS = {
    "total_dialogs": 3,
    "valid_dialogs": 2,
    "skipped_dialogs": 1,
    "failed_dialogs": 1,
    "total_turn_pairs": 9,
}
SUMMARY: dict[str, Any] = {
    "run_id": "r",
    "trace_version": "v1",
    "dataset_path": "d.jsonl",
    "metrics": {"m5_explainability": METRIC},
    "counters": COUNTERS,
}
MANIFEST: dict[str, Any] = {
    "trace_version": "v1",
    "run_id": "r",
    "dataset_path": "d.jsonl",
    "started_at": "2026-02-17T13:05:00Z",
    "ended_at": "2026-02-17T13:21:42.123456Z",
    "model_name": "m",
    "workers_dialog": 1,
    "workers_judge": 1,
    "counters": COUNTERS,
}
JUDGEMENT: dict[str, Any] = {
    "run_id": "r",
    "dialog_id": "d",
    "turn_pair_id": 1,
    "judge": "openai:m",
    "prompt_hash": "h",
    "attempts": 1,
    "verdict": {"score": 4.0, "rubric_items": []},
}
EVENT: dict[str, Any] = {"ts": "2026-02-17T13:05:00Z", "event": "metrics_done", "run_id": "r", "turn_rows": 1}
LATENCY = {"count": 1}
STATS: dict[str, Any] = {
    "run_id": "r",
    "wall_seconds": 1.5,
    "turn_latency_ms": LATENCY,
    "turns_by_status": {"ok": 1},
    "dialogs_by_status": {"ok": 1},
    "skips_by_reason": {},
}
NAMES = {
    "dialog-trace": "dialog_trace.jsonl",
    "turn-eval": "turn_eval.jsonl",
    "metrics-summary": "metrics_summary.json",
    "run-manifest": "run_manifest.json",
    "judgement": "judgements.jsonl",
    "progress": "progress_r.jsonl",
    "run-stats": "run_stats.json",
}


@pytest.fixture
def found(tmp_path: Path) -> Any:
    def validate(kind: str, *records: dict[str, Any]) -> list[str]:
        path = tmp_path / NAMES[kind]
        path.write_text("\n".join(json.dumps(record) for record in records))
        return [f"{finding.line}: {finding.path}: {finding.message}" for finding in validate_file(path)]

    return validate


@pytest.mark.parametrize(
    ("kind", "record"),
    [
        ("dialog-trace", TRACE),
        ("turn-eval", ROW),
        ("metrics-summary", SUMMARY),
        ("run-manifest", MANIFEST),
        ("judgement", JUDGEMENT),
        ("progress", EVENT),
        ("run-stats", STATS),
    ],
)
def test_sound_records_have_no_findings(found: Any, kind: str, record: dict[str, Any]) -> None:
    assert found(kind, record) == []


@each_case(
    ("changes", "finding"),
    [
        (
            {"key_hit_flags": [1, 0], "key_hit_sources": []},
            "$.key_hit_flags: 2 flags for 1 resolvable keys of resolved_keys",
        ),
        ({"key_hit_flags": [], "key_hit_sources": []}, "$.key_hit_flags: 0 flags for 1 resolvable keys of"),
        ({"key_hit_sources": [["short_term"], []]}, "$.key_hit_sources: 2 entries for 1 key_hit_flags"),
        (
            {"key_hit_sources": [[]], "m1_source_hits": {}},
            "$.key_hit_flags[0]: 1 contradicts key_hit_sources[0]",
        ),
        (
            {"key_hit_sources": [["short_term", "short_term"]], "m1_source_hits": {"short_term": 2}},
            "$.key_hit_sources[0]: a source stands twice",
        ),
        ({"m1_source_hits": {}}, "$.m1_source_hits.short_term: 0, but key_hit_sources amounts to 1"),
        (
            {"m1_source_hits": {"short_term": 1, "profile": 1}},
            "$.m1_source_hits.profile: 1, but key_hit_sources amounts to 0",
        ),
        (
            {"key_hit_sources": [], "m1_source_hits": {"long_term": 2}},
            "$.m1_source_hits.long_term: 2, but there are 1 resolvable keys",
        ),
        ({"key_hit_guarded": [1, 0]}, "$.key_hit_guarded: 2 flags for 1 resolvable keys of resolved_keys"),
        ({"key_hit_guarded": [], "eligible_m1": False}, "$.key_hit_guarded: 0 flags for 1 resolvable keys"),
        (
            {"key_recoverability": []},
            "$.key_recoverability: 0 entries for 1 resolvable keys of resolved_keys",
        ),
        ({"risk_tag_hits": 3, "eligible_m3": False}, "$.risk_tag_hits: 3, but 2 tags are required"),
        ({"pred_compliance_label": None}, "$.eligible_m4: true, though pred_compliance_label is missing"),
        (
            {"rubric_hit_items": ["信息依据", "边界声明"]},
            "$.rubric_hit_items[1]: '边界声明' is not among rubric_required",
        ),
        ({"judge_score_1_5": 9, "eligible_m5": False}, "$.judge_score_1_5: 9.0 is not between 1 and 5"),
        ({"risk_tag_hits": 2}, "$.risk_tag_hits: 2, but 1 required tags are predicted"),
        ({"required_keys_raw": []}, "$.eligible_m1: true, though required_keys_raw is empty"),
        (
            {"risk_required_tags": [], "risk_tag_hits": 0},
            "$.eligible_m3: true, though risk_required_tags is empty",
        ),
        ({"gt_compliance_label": None}, "$.eligible_m4: true, though gt_compliance_label is missing"),
        (
            {"rubric_required": [], "rubric_hit_items": []},
            "$.eligible_m5: true, though rubric_required is empty",
        ),
        ({"judge_score_1_5": 0.5}, "$.judge_score_1_5: 0.5 is not between 1 and 5"),
        ({"judge_score_1_5": 5.5}, "$.judge_score_1_5: 5.5 is not between 1 and 5"),
        ({"turn_pair_id": 0}, "$.turn_pair_id: 0 is less than 1"),
        ({"trace_version": "v2"}, "$.trace_version: 'v2' is not supported; this release reads v1 and v1.x"),
    ],
)
def test_rules_of_a_row(found: Any, changes: dict[str, Any], finding: str) -> None:
    (only,) = found("turn-eval", {**ROW, **changes})
    assert only.startswith(f"1: {finding}")


def test_a_failed_turn_is_eligible_for_nothing(found: Any) -> None:
    row = {**ROW, "eligible_m2": True, "turn_status": "timeout"}
    assert found("turn-eval", row) == [
        f"1: $.eligible_m{number}: true, though turn_status is 'timeout'" for number in range(1, 6)
    ]


def test_a_turn_that_could_not_be_scored_is_eligible_for_nothing(found: Any) -> None:
    row = {**ROW, "eligible_m2": True, "scoring_error": "boom"}
    assert found("turn-eval", row) == [
        f"1: $.eligible_m{number}: true, though scoring_error is set" for number in range(1, 6)
    ]


def test_any_predicted_tag_meets_the_demand_for_some_disclosure(found: Any) -> None:
    row = {**ROW, "risk_required_tags": ["risk_disclosure_present"], "risk_pred_tags": ["credit_risk"]}
    assert found("turn-eval", {**row, "risk_tag_hits": 1}) == []
    assert found("turn-eval", {**row, "risk_tag_hits": 0}) != []
    assert found("turn-eval", {**row, "risk_pred_tags": [], "risk_tag_hits": 0}) == []


def test_turns_of_a_dialogue_stand_once_and_in_order(found: Any) -> None:
    pairs = [(1, "d"), (2, "d"), (2, "d"), (1, "e"), (3, "d"), (1, "d")]
    assert found("turn-eval", *({**ROW, "turn_pair_id": n, "dialog_id": d} for n, d in pairs)) == [
        "3: $.turn_pair_id: the turn pair 2 stands twice",
        "6: $.turn_pair_id: 1 comes after 3; turn pairs stand in their order",
    ]


@pytest.mark.parametrize(
    ("kind", "record"), [("turn-eval", ROW), ("progress", EVENT), ("judgement", JUDGEMENT)]
)
def test_all_records_of_a_file_are_of_one_run(found: Any, kind: str, record: dict[str, Any]) -> None:
    second = {**record, "dialog_id": "e"} if "dialog_id" in record else record
    assert found(kind, record, {**second, "run_id": "other"}) == [
        "2: $.run_id: 'other' differs from 'r', the run of the file"
    ]


@pytest.mark.parametrize(
    ("changes", "finding"),
    [
        ({"dialog_status": "partial"}, "$.dialog_status: 'partial' contradicts the turns: 2 of 2 are ok"),
        ({"dialog_status": "failed"}, "$.dialog_status: 'failed' contradicts the turns: 2 of 2 are ok"),
        (
            {"turns": [{**TURN, "turn_status": "error"}]},
            "$.dialog_status: 'ok' contradicts the turns: 0 of 1 are ok",
        ),
        ({"valid_dialog": False}, "$.valid_dialog: false contradicts dialog_status 'ok'"),
        ({"skip_reason": "missing_turns"}, "$.skip_reason: set, though dialog_status is 'ok'"),
        (
            {"dialog_status": "skipped", "valid_dialog": False, "turns": []},
            "$.skip_reason: missing, though dialog_status is 'skipped'",
        ),
        (
            {"dialog_status": "skipped", "valid_dialog": False, "skip_reason": "missing_turns"},
            "$.turns: a skipped dialogue has no turns",
        ),
        ({"dataset_index": 0}, "$.dataset_index: 0 is no line number; lines count from 1"),
        (
            {"turns": [{**TURN, "turn_pair_id": 2}]},
            "$.turns[0].turn_pair_id: the first turn pair is number 1, not 2",
        ),
        ({"turns": [TURN, TURN]}, "$.turns[1].turn_pair_id: the turn pair 1 stands twice"),
        ({"turns": [{**TURN, "latency_ms": -1}]}, "$.turns[0].latency_ms: -1.0 is less than 0"),
        ({"trace_version": "v2"}, "$.trace_version: 'v2' is not supported; this release reads v1 and v1.x"),
    ],
)
def test_rules_of_a_dialogue(found: Any, changes: dict[str, Any], finding: str) -> None:
    assert found("dialog-trace", {**TRACE, **changes}, {**TRACE, "dialog_id": "valid"}) == [f"1: {finding}"]


def test_a_dialogue_may_fail_after_turns_that_were_ok(found: Any) -> None:
    assert found("dialog-trace", {**TRACE, "dialog_status": "failed", "dialog_error": "boom"}) == []


def test_a_dialogue_without_turns_has_no_status_to_compare(found: Any) -> None:
    assert found("dialog-trace", {**TRACE, "turns": []}) == []


def test_a_valid_dialogue_stands_once_but_may_have_skipped_namesakes(found: Any) -> None:
    skipped = {
        **TRACE,
        "dialog_status": "skipped",
        "valid_dialog": False,
        "turns": [],
        "skip_reason": "duplicate_dialog_id",
    }
    assert found("dialog-trace", TRACE, skipped, skipped) == []
    assert found("dialog-trace", TRACE, skipped, TRACE) == [
        "3: $.dialog_id: 'd' stands on an earlier line too"
    ]


@pytest.mark.parametrize(
    ("changes", "finding"),
    [
        ({"micro": {"rubric_hit_rate": 1.2}}, ".micro.rubric_hit_rate: 1.2 is not between 0 and 1"),
        ({"macro": {"x": -0.1}}, ".macro.x: -0.1 is not between 0 and 1"),
        ({"by_dialog": {"a b": {"x": 2}}}, ".by_dialog['a b'].x: 2.0 is not between 0 and 1"),
        (
            {"micro": {"judge_score_mean": 0.5}},
            ".micro.judge_score_mean: 0.5 is neither 0 nor between 1 and 5",
        ),
        (
            {"micro": {"judge_score_mean": 5.1}},
            ".micro.judge_score_mean: 5.1 is neither 0 nor between 1 and 5",
        ),
        ({"counts": {**COUNTS, "hits": -1}}, ".counts.hits: -1 is less than 0"),
        ({"counts": {"eligible_count": 0, "skipped_count": 0}}, ".counts.failed_count: missing"),
        ({"ci95": {"x": [0.9, 0.1]}}, ".ci95.x: the lower bound 0.9 is above the upper bound 0.1"),
        ({"metric_name": "m1"}, ".metric_name: 'm1' stands under 'm5_explainability'"),
    ],
)
def test_rules_of_a_metric(found: Any, changes: dict[str, Any], finding: str) -> None:
    summary = {**SUMMARY, "metrics": {"m5_explainability": {**METRIC, **changes}}}
    assert found("metrics-summary", summary) == [f"1: $.metrics.m5_explainability{finding}"]


@pytest.mark.parametrize(
    ("changes", "finding"),
    [
        (
            {"total_dialogs": 4},
            "$.counters.total_dialogs: 4 is not the sum of 2 valid and 1 skipped dialogues",
        ),
        ({"failed_dialogs": 3}, "$.counters.failed_dialogs: more dialogues failed than were valid"),
    ],
)
@pytest.mark.parametrize(("kind", "record"), [("metrics-summary", SUMMARY), ("run-manifest", MANIFEST)])
def test_counters_add_up(
    found: Any, kind: str, record: dict[str, Any], changes: dict[str, int], finding: str
) -> None:
    assert found(kind, {**record, "counters": {**COUNTERS, **changes}}) == [f"1: {finding}"]


@each_case(
    ("changes", "finding"),
    [
        ({"run_id": "../x"}, "$.run_id: '../x' is no run id: 1 to 128 of the characters A-Z a-z 0-9 . _ -"),
        ({"workers_dialog": 0}, "$.workers_dialog: 0 is less than 1"),
        ({"workers_judge": -1}, "$.workers_judge: -1 is less than 1"),
        (
            {"ended_at": "2026-02-17T13:04:59Z"},
            "$.ended_at: 2026-02-17T13:04:59Z is before started_at, 2026-02-17T13:05:00Z",
        ),
        (
            {"counters": {name: COUNTERS[name] for name in COUNTERS if name != "failed_dialogs"}},
            "$.counters.failed_dialogs: missing, though the run has ended",
        ),
    ],
)
def test_rules_of_a_manifest(found: Any, changes: dict[str, Any], finding: str) -> None:
    assert found("run-manifest", MANIFEST | changes) == [f"1: {finding}"]


def test_a_trace_without_a_valid_dialogue_is_a_finding(found: Any) -> None:
    skipped = {**TRACE, "dialog_status": "skipped", "valid_dialog": False, "turns": []}
    traces = [
        skipped | {"skip_reason": reason} for reason in ("invalid_json", "missing_turns", "invalid_json")
    ]
    assert found("dialog-trace", *traces) == [
        "1: $: no valid dialogue (invalid_json: 2, missing_turns: 1); nothing can be scored"
    ]


def test_counters_of_a_run_that_goes_on_need_not_add_up(found: Any) -> None:
    manifest = {**MANIFEST, "counters": {**COUNTERS, "total_dialogs": 9}, "ended_at": None}
    assert found("run-manifest", manifest) == []


@pytest.mark.parametrize(
    "time",
    [
        "2026-02-17T13:05:00",
        "2026-02-17T13:05:00+08:00",
        "2026-02-17",
        "yesterday",
        "Z",
        "2026-13-01T00:00:00Z",
    ],
)
def test_times_are_utc(found: Any, time: str) -> None:
    assert found("run-manifest", {**MANIFEST, "started_at": time}) == [
        f"1: $.started_at: {time!r} is no UTC time in ISO 8601 with Z"
    ]
    assert found("run-manifest", {**MANIFEST, "ended_at": time}) != []
    assert found("progress", {**EVENT, "ts": time}) != []


@pytest.mark.parametrize(
    ("changes", "finding"),
    [
        ({"verdict": None}, "$.verdict: a judgement has a verdict or an error; neither is"),
        ({"error": "x"}, "$.verdict: a judgement has a verdict or an error; both are set"),
        ({"turn_pair_id": 0}, "$.turn_pair_id: 0 is less than 1"),
        ({"verdict": {"score": 6, "rubric_items": []}}, "$.verdict.score: 6 is greater than 5.0"),
    ],
)
def test_rules_of_a_judgement(found: Any, changes: dict[str, Any], finding: str) -> None:
    assert found("judgement", {**JUDGEMENT, **changes}) == [f"1: {finding}"]


def test_a_turn_is_judged_once(found: Any) -> None:
    assert found("judgement", JUDGEMENT, {**JUDGEMENT, "turn_pair_id": 2}, JUDGEMENT) == [
        "3: $.turn_pair_id: this vote on the turn stands on an earlier line too"
    ]


def test_statistics_are_not_negative(found: Any) -> None:
    assert found("run-stats", {**STATS, "wall_seconds": -1, "turns_by_status": {"ok": -2}}) == [
        "1: $.wall_seconds: -1.0 is less than 0",
        "1: $.turns_by_status.ok: -2 is less than 0",
    ]
