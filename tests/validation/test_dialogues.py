import copy
import json
from pathlib import Path
from typing import Any

import hypothesis.strategies as st
import jsonschema
import pytest
from hypothesis import given, settings

from memfin.contracts.catalog import DATASET, json_schema
from memfin.dataset import classify_dialog_validity
from memfin.validation import dialogue_violations, path_text, validate_file
from tests.support import each_case, length

RECORDED = Path(__file__).resolve().parents[2] / ".." / "shared" / "data" / "recorded" / "MemFinConv.jsonl"
SCHEMA = jsonschema.Draft202012Validator(json_schema(DATASET))

DIALOG: dict[str, Any] = {
    "dialog_id": "d",
    "scenario_type": "投资教育",
    "difficulty": "med",
    "profile_gt": {
        "risk_level_gt": "稳健",
        "horizon_gt": "long",
        "liquidity_need_gt": "高",
        "constraints_gt": ["不使用杠杆"],
        "preferences_gt": None,
    },
    "turns": [
        {"role": "user", "text": "hello", "turn_tags": None},
        {"role": "assistant", "content": "hi", "turn_tags": {"compliance_label_gt": "minor"}},
        {"role": "user", "content": "and then?"},
        {"role": "assistant", "text": "", "turn_tags": {"explainability_rubric_gt": None}},
    ],
    "events": [{"turn": 1}],
    "blueprint": {"forbidden_list": None, "turn_plan": []},
    "unknown": 1,
}


def changed(path: list[str | int], value: object) -> dict[str, Any]:
    dialog = copy.deepcopy(DIALOG)
    target: Any = dialog
    for step in path[:-1]:
        target = target[step]
    if value is ...:
        target.pop(path[-1], None)
    else:
        target[path[-1]] = value
    return dialog


def reported(value: object) -> list[str]:
    return [f"{path_text(steps)}: {message}" for steps, message in dialogue_violations(value)]


def test_what_the_loader_tolerates_is_no_finding() -> None:
    assert reported(DIALOG) == []
    assert SCHEMA.is_valid(DIALOG)


@each_case(
    ("path", "value", "finding"),
    [
        (["turns"], ..., "$.turns: missing (skip_reason missing_turns)"),
        (["turns"], [], "$.turns: the list is empty (skip_reason missing_turns)"),
        (["turns"], 5, "$.turns: expected a list of turns, got 5 (skip_reason missing_turns)"),
        (["turns", 1], "x", "$.turns[1]: expected an object, got 'x' (skip_reason invalid_turn_sequence)"),
        (
            ["turns"],
            [DIALOG["turns"][0], *DIALOG["turns"]],
            "$.turns[0]: the user turn has no assistant turn (its turn pair is not scored)",
        ),
        (
            ["turns"],
            [DIALOG["turns"][1], *DIALOG["turns"]],
            "$.turns[0]: the assistant turn has no user turn (its turn pair is not scored)",
        ),
        (
            ["turns", 1, "role"],
            "system",
            (
                "$.turns[1].role: expected 'user' or 'assistant', got 'system'"
                " (skip_reason invalid_turn_sequence)"
            ),
        ),
        (["turns", 2, "role"], ..., "$.turns[2].role: missing (skip_reason invalid_turn_sequence)"),
        (
            ["turns", 0, "text"],
            " ",
            "$.turns[0].text: the user turn is blank (skip_reason invalid_turn_sequence)",
        ),
        (["turns", 0, "text"], ..., "$.turns[0].text: missing (skip_reason invalid_turn_sequence)"),
        (
            ["turns", 2, "content"],
            7,
            "$.turns[2].content: expected a string, got 7 (skip_reason invalid_turn_sequence)",
        ),
        (["turns", 3, "turn_tags"], ..., "$.turns[3].turn_tags: missing (its turn pair is not scored)"),
        (["turns", 3, "turn_tags"], None, "$.turns[3].turn_tags: missing (its turn pair is not scored)"),
        (
            ["turns"],
            [
                DIALOG["turns"][0],
                {"role": "assistant", "text": "hi", "turn_tags": {"compliance_label_gt": "x"}},
            ],
            (
                "$.turns[1].turn_tags.compliance_label_gt: 'x' is none of 'compliant', 'minor_violation',"
                " 'severe_violation' (skip_reason invalid_gt_tags)"
            ),
        ),
        (
            ["turns", 3, "turn_tags", "explainability_rubric_gt"],
            ["a", {}],
            (
                "$.turns[3].turn_tags.explainability_rubric_gt[1]: expected a string, got an object"
                " (its turn pair is not scored)"
            ),
        ),
        (["profile_gt"], ..., "$.profile_gt: missing (skip_reason missing_profile_gt)"),
        (
            ["profile_gt"],
            [],
            "$.profile_gt: expected an object, got an array (skip_reason missing_profile_gt)",
        ),
        (
            ["profile_gt", "risk_level_gt"],
            3,
            "$.profile_gt.risk_level_gt: expected a string, got 3 (skip_reason missing_profile_gt)",
        ),
        (
            ["profile_gt", "horizon_gt"],
            None,
            "$.profile_gt.horizon_gt: missing (the dialogue leaves the denominator of M2)",
        ),
        (
            ["profile_gt", "risk_level_gt"],
            "激进",
            "$.profile_gt.risk_level_gt: '激进' is none of '保守', '稳健', '进取', 'low', 'medium', 'high'",
        ),
        (["difficulty"], "extreme", "$.difficulty: 'extreme' is none of 'easy', 'medium', 'med', 'hard'"),
        (["difficulty"], 3, "$.difficulty: 3 is none of 'easy', 'medium', 'med', 'hard'"),
        (["dialog_id"], ..., "$.dialog_id: missing (a run names the dialogue after its line)"),
        (["dialog_id"], " ", "$.dialog_id: ' ' is no id (a run names the dialogue after its line)"),
        (["scenario_type"], 1, "$.scenario_type: expected a string, got 1"),
        (["events"], [1], "$.events[0]: expected an object, got 1"),
        (["blueprint"], {"forbidden_list": [1]}, "$.blueprint.forbidden_list[0]: expected a string, got 1"),
    ],
)
def test_each_defect_of_a_dialogue(path: list[str | int], value: object, finding: str) -> None:
    dialog = changed(path, value)
    assert reported(dialog) == [finding]
    # That roles alternate is beyond JSON Schema; the schema's description says it.
    assert not SCHEMA.is_valid(dialog) or " turn has no " in finding
    valid, reason = classify_dialog_validity(dialog)
    assert valid == ("skip_reason" not in finding)
    assert reason is None or f"(skip_reason {reason})" in finding


def test_a_user_turn_at_the_end_has_no_answer() -> None:
    dialog = {**DIALOG, "turns": DIALOG["turns"][:3]}
    assert reported(dialog) == [
        "$.turns[2]: the user turn has no assistant turn (its turn pair is not scored)"
    ]
    assert reported({**DIALOG, "turns": DIALOG["turns"][:1]})[-1] == (
        "$.turns[0]: no user turn is followed by an assistant turn (skip_reason invalid_turn_sequence)"
    )


@pytest.mark.parametrize("value", [None, 1, "x", [], True])
def test_a_line_that_is_no_object(value: object) -> None:
    (only,) = reported(value)
    assert only.startswith("$: expected an object, got ")
    assert only.endswith("(skip_reason not_an_object)")


def test_all_defects_of_a_dialogue_are_reported() -> None:
    dialog = {"dialog_id": 1, "turns": [{"role": "user"}, {}, 3], "difficulty": [], "seed_data": "x"}
    assert [finding.split(":")[0] for finding in reported(dialog)] == [
        "$.dialog_id",
        "$.turns[0].text",
        "$.turns[1].role",
        "$.turns[1].text",
        "$.turns[2]",
        "$.turns[2]",
        "$.profile_gt",
        "$.difficulty",
        "$.seed_data",
    ]


VALUES = st.sampled_from(
    [
        None,
        ...,
        0,
        "",
        " ",
        "x",
        "user",
        "assistant",
        "稳健",
        "medium",
        [],
        ["x"],
        [1],
        {},
        {"role": "user"},
        True,
    ]
)
PATHS = st.sampled_from(
    [
        *([name] for name in DIALOG),
        *(["profile_gt", name] for name in DIALOG["profile_gt"]),
        *(["turns", n, name] for n in range(4) for name in ("role", "text", "content", "turn_tags")),
        *(["turns", 1, "turn_tags", name] for name in ("compliance_label_gt", "memory_required_keys_gt")),
        ["blueprint", "forbidden_list"],
    ]
)


@settings(max_examples=length(40, 500), deadline=None)
@given(path=PATHS, value=VALUES)
def test_findings_agree_with_the_loader_and_the_schema(path: list[str | int], value: object) -> None:
    dialog = changed(path, value)
    found = reported(dialog)
    valid, reason = classify_dialog_validity(dialog)
    reasons = [finding for finding in found if "skip_reason" in finding]
    assert valid == (not reasons)
    if reason is not None:
        assert any(f"(skip_reason {reason})" in finding for finding in reasons)
    if not found:
        SCHEMA.validate(dialog)


def findings(path: Path) -> list[str]:
    return [f"{finding.line}: {finding.path}: {finding.message}" for finding in validate_file(path)]


def test_a_dataset_is_checked_line_by_line(tmp_path: Path) -> None:
    path = tmp_path / "data.jsonl"
    good = json.dumps(DIALOG).encode()
    lines = [
        b"\xef\xbb\xbf" + good + b"\r",
        b"",
        good,
        b"{,}",
        json.dumps(changed(["dialog_id"], "e")).replace('"unknown": 1', '"unknown": NaN').encode(),
        good.replace(b'"unknown": 1', b'"unknown": 1, "unknown": 2').replace(b'"d"', b'"f"'),
        b"[" * 100_000,
        b'"' + b"x" * 17_000_000 + b'"',
        rb'{"dialog_id": "\ud800"}',
        json.dumps(changed(["dialog_id"], "g")).encode(),
    ]
    path.write_bytes(b"\n".join(lines))
    assert findings(path) == [
        "3: $.dialog_id: 'd' stands on an earlier line too (skip_reason duplicate_dialog_id)",
        (
            "4: $: invalid JSON: Expecting property name enclosed in double quotes (column 2)"
            " (skip_reason invalid_json)"
        ),
        "5: $.unknown: nan is no finite number (skip_reason invalid_json)",
        "6: $.unknown: the name is repeated in its object",
        "7: $: the value is nested too deeply (skip_reason invalid_json)",
        "8: $: the line is longer than 16777216 bytes (skip_reason line_too_long)",
        r"9: $.dialog_id: '\ud800' holds a lone surrogate, which is no character (skip_reason invalid_json)",
    ]


def test_only_valid_dialogues_take_their_id(tmp_path: Path) -> None:
    path = tmp_path / "data.jsonl"
    path.write_text("\n".join(json.dumps(d) for d in (changed(["turns"], []), DIALOG)))
    assert findings(path) == ["1: $.turns: the list is empty (skip_reason missing_turns)"]


@pytest.mark.skipif(not RECORDED.exists(), reason="the recorded dataset is not beside the repository")
def test_the_recorded_dataset_has_no_findings() -> None:
    assert findings(RECORDED) == []
