"""``memfin validate`` and files of labelled replies."""

import json
from pathlib import Path
from typing import Any

import pytest

from memfin.validation import validate_path

ROW: dict[str, Any] = {
    "id": "a",
    "text": "净值会有波动。",
    "user_text": "怎么办？",
    "dialog_id": "d",
    "constraints": ["不使用杠杆"],
    "risk_tags": {"volatility_risk": True, "fx_risk": None},
    "contradiction": 0,
    "compliance": "compliant",
    "forbidden_hits": [],
    "rubric": {"信息依据": False},
}


def written(path: Path, *rows: object) -> Path:
    path.write_text("".join(json.dumps(row, ensure_ascii=False) + "\n" for row in rows), "utf-8")
    return path


def findings(path: Path, kind: str | None = None) -> list[str]:
    return [str(finding).removeprefix(f"{path}:") for finding in validate_path(path, kind)]


@pytest.mark.parametrize("name", ["labels.jsonl", "old-labels.jsonl", "replies.jsonl"])
def test_sound_labels_are_known_by_name_or_by_how_they_begin(tmp_path: Path, name: str) -> None:
    least = {"id": "b", "text": "", "risk_tags": None, "compliance": None, "unknown": [1]}
    assert findings(written(tmp_path / name, ROW, least)) == []


def test_a_kind_says_what_nothing_else_tells(tmp_path: Path) -> None:
    path = written(tmp_path / "replies.jsonl", {"id": "a", "text": "x"})
    assert findings(path, "labelled-reply") == []
    assert any("missing_turns" in line for line in findings(path))


@pytest.mark.parametrize("extra", [{"turns": []}, {"profile_gt": {}}])
def test_whatever_looks_like_a_dialogue_is_held_against_the_dataset(
    tmp_path: Path, extra: dict[str, Any]
) -> None:
    assert any("skip_reason" in line for line in findings(written(tmp_path / "data.jsonl", ROW | extra)))


def test_every_violation_is_named(tmp_path: Path) -> None:
    path = written(
        tmp_path / "labels.jsonl",
        ROW,
        {**ROW, "id": " "},
        ROW,
        {"id": "c", "text": 3, "compliance": "fine", "contradiction": 2, "forbidden_hits": "none"},
        {"id": "d", "text": "x", "risk_tags": {"fx_risk": 1}, "rubric": ["信息依据"]},
        {"id": "e", "text": "x", "risk_tags": {"fx_risk": True, "汇率风险": False}},
        {"text": "x"},
        [],
    )
    assert findings(path) == [
        "2: $.id: the id is blank",
        "3: $.id: 'a' stands on an earlier line too",
        "4: $.text: expected a string, got 3",
        "4: $.contradiction: 2 is none of 0, 1",
        "4: $.compliance: 'fine' is none of 'compliant', 'minor_violation', 'severe_violation'",
        "4: $.forbidden_hits: expected an array, got 'none'",
        "5: $.risk_tags.fx_risk: expected a boolean, got 1",
        "5: $.rubric: expected an object, got an array",
        "6: $.risk_tags.汇率风险: says the contrary of 'fx_risk', the same tag",
        "7: $.id: missing",
        "8: $: expected an object, got an array",
    ]


def test_the_same_tag_may_be_said_twice(tmp_path: Path) -> None:
    row = {"id": "e", "text": "x", "risk_tags": {"fx_risk": True, "汇率风险": True, "moon": False}}
    assert findings(written(tmp_path / "labels.jsonl", row)) == []


def test_the_older_labels_of_compliance_are_read(tmp_path: Path) -> None:
    rows = ({**ROW, "id": label, "compliance": label} for label in ("minor", "severe"))
    assert findings(written(tmp_path / "labels.jsonl", *rows)) == []


def test_what_people_save_is_read_with_a_byte_order_mark_and_crlf(tmp_path: Path) -> None:
    path = tmp_path / "labels.jsonl"
    path.write_bytes(b"\xef\xbb\xbf" + json.dumps(ROW).encode() + b"\r\n\r\n")
    assert findings(path) == []


def test_what_is_no_json_and_what_is_empty(tmp_path: Path) -> None:
    path = tmp_path / "labels.jsonl"
    path.write_text('{"id": "a", "text": "x", "risk_tags": {}, "id": "b"}\nnope\n')
    first, second = findings(path)
    assert first.startswith("1: $.id: ")
    assert second.startswith("2: $: invalid JSON")
    path.write_text("\n")
    assert findings(path) == ["1: $: the file is empty"]
