import io
import json
import math
import os
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from memfin.contracts import DialogTrace, EvalSummary, RunManifest, TurnEvalRow, TurnTrace, reading
from memfin.contracts.reading import (
    InvalidRecord,
    UnsupportedTraceVersion,
    check_trace_version,
    convert,
    decode,
    iter_jsonl,
    open_input,
    read_json,
    shown,
)
from memfin.errors import UsageError
from tests.support import each_case

RECORDED = Path(__file__).resolve().parents[2] / ".." / "shared" / "data" / "recorded" / "20260219_101855"

ROW: dict[str, Any] = {
    "trace_version": "v1",
    "run_id": "r",
    "dialog_id": "d",
    "turn_pair_id": 1,
    "eligible_m1": False,
    "eligible_m2": False,
    "eligible_m3": False,
    "eligible_m4": True,
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
}
TRACE: dict[str, Any] = {
    "trace_version": "v1",
    "run_id": "r",
    "dialog_id": "d",
    "dataset_index": 1,
    "dialog_status": "ok",
    "valid_dialog": True,
}


def text(value: object) -> bytes:
    return json.dumps(value).encode()


@pytest.mark.parametrize("version", ["v1", "v1.0", "v1.1", "v1.99"])
def test_every_minor_version_of_v1_is_read(version: str) -> None:
    assert decode(text({**ROW, "trace_version": version}), TurnEvalRow).trace_version == version


@each_case("version", ["v2", "v2.1", "1", "", "v1.", "v1.x", "v11", "V1", "v1.1.1", "v1\n", "v1.１"])
def test_other_major_versions_are_refused_by_name(version: str) -> None:
    with pytest.raises(UnsupportedTraceVersion) as caught:
        decode(text({**ROW, "trace_version": version}), TurnEvalRow)
    assert repr(version) in str(caught.value)
    assert "v1 and v1.x" in str(caught.value)


def test_the_version_is_judged_before_the_fields() -> None:
    with pytest.raises(UnsupportedTraceVersion):
        decode(text({"trace_version": "v2", "everything": "else is new"}), DialogTrace)


def test_a_supported_version_passes_the_check() -> None:
    check_trace_version("v1.2")


@each_case(
    ("fields", "status"),
    [
        ({"turns": [TURN]}, "ok"),
        ({"turns": [TURN, TURN | {"turn_status": "error"}]}, "partial"),
        ({"turns": [TURN | {"turn_status": "error"}]}, "failed"),
        ({"turns": [TURN], "dialog_error": "x"}, "failed"),
        ({"turns": []}, "failed"),
        ({"turns": [], "valid_dialog": False, "skip_reason": "invalid_json"}, "skipped"),
    ],
)
def test_traces_of_the_older_draft_have_the_status_of_their_turns(
    fields: dict[str, Any], status: str
) -> None:
    draft = {name: value for name, value in TRACE.items() if name not in ("trace_version", "dialog_status")}
    read = decode(text(draft | fields), DialogTrace)
    assert (read.trace_version, read.dialog_status) == ("v1", status)


def test_rows_of_the_older_draft_are_of_v1() -> None:
    draft = {name: value for name, value in ROW.items() if name != "trace_version"}
    assert decode(text(draft), TurnEvalRow) == decode(text(ROW), TurnEvalRow)


@pytest.mark.parametrize(("old", "new"), [("minor", "minor_violation"), ("severe", "severe_violation")])
def test_labels_of_the_older_draft_are_read(old: str, new: str) -> None:
    row = decode(text({**ROW, "pred_compliance_label": old, "gt_compliance_label": old}), TurnEvalRow)
    assert (row.pred_compliance_label, row.gt_compliance_label) == (new, new)
    turn = {**TURN, "gt_turn_tags": {"compliance_label_gt": old}}
    (traced,) = decode(text({**TRACE, "turns": [turn]}), DialogTrace).turns
    assert traced.gt_turn_tags.compliance_label_gt == new


def test_status_of_the_older_draft_is_read() -> None:
    turn = {**TURN, "status": "timeout"}
    del turn["turn_status"]
    (traced,) = decode(text({**TRACE, "turns": [turn]}), DialogTrace).turns
    assert traced.turn_status == "timeout"
    assert decode(text(turn), TurnTrace).turn_status == "timeout"


def test_the_name_of_v1_wins_over_the_older_one() -> None:
    turn = {**TURN, "status": "timeout", "gt_turn_tags": {"compliance_label_gt": "minor"}}
    (traced,) = decode(text({**TRACE, "turns": [turn]}), DialogTrace).turns
    assert traced.turn_status == "ok"


@each_case("turns", [None, 1, {"a": 1}, [None], [1, []], [{"gt_turn_tags": 3}]])
def test_older_names_are_looked_for_in_data_of_any_shape(turns: object) -> None:
    with pytest.raises(InvalidRecord, match=r"^\$\.turns"):
        decode(text({**TRACE, "turns": turns}), DialogTrace)


@each_case(
    ("data", "reason"),
    [
        (b"", "truncated"),
        (b"{", "truncated"),
        (b"{} {}", "trailing"),
        (b"nul", "JSON"),
        (b'{"run_id": NaN}', "JSON"),
        (b'{"run_id": "\xff"}', "UTF-8"),
        (b'{"run_id": "\\ud800"}', "JSON"),
        (b'{"run_id": "\x00"}', "JSON"),
        (b"\x80\x81binary\x00", "JSON"),
        (b"[" * 100_000, "too deeply"),
        (b'{"turns":' * 100_000, "too deeply"),
        (b"[]", r"^\$: Expected `object`, got `array`"),
        (text({**ROW, "turn_pair_id": "1"}), r"^\$\.turn_pair_id: Expected `int`, got `str`"),
        (text({**ROW, "pred_compliance_label": "bad"}), r"^\$\.pred_compliance_label: "),
        (text({**ROW, "trace_version": 1}), r"^\$\.trace_version: Expected `str`"),
    ],
)
def test_unusable_text_is_one_clear_error(data: bytes, reason: str) -> None:
    with pytest.raises(InvalidRecord, match=reason) as caught:
        decode(data, TurnEvalRow)
    assert "\n" not in str(caught.value)


def test_lines_come_with_their_numbers() -> None:
    file = io.BytesIO(b"\xef\xbb\xbf" + text(ROW) + b"\r\n\n" + text({**ROW, "turn_pair_id": 2}))
    assert [(n, row.turn_pair_id) for n, row in iter_jsonl(file, TurnEvalRow)] == [(1, 1), (3, 2)]
    assert not file.closed


def test_a_bad_line_is_named_with_its_file(tmp_path: Path) -> None:
    path = tmp_path / "turn_eval.jsonl"
    path.write_bytes(text(ROW) + b"\n{\n")
    lines = iter_jsonl(path, TurnEvalRow)
    assert next(lines)[0] == 1
    with pytest.raises(InvalidRecord, match=r"turn_eval\.jsonl:2: \$: invalid JSON"):
        next(lines)


def test_reading_goes_on_when_somebody_takes_the_errors() -> None:
    errors: list[tuple[int, str]] = []
    file = io.BytesIO(
        b"{\n" + text({"x": "x" * 400}) + b"\n" + text({**ROW, "trace_version": "v3"}) + b"\n" + text(ROW)
    )
    rows = iter_jsonl(file, TurnEvalRow, on_error=lambda n, e: errors.append((n, str(e))), limit=300)
    assert [number for number, _ in rows] == [4]
    assert [number for number, _ in errors] == [1, 2, 3]
    assert "longer than 300 bytes" in errors[1][1]
    assert "'v3'" in errors[2][1]


def test_a_version_error_keeps_its_class(tmp_path: Path) -> None:
    path = tmp_path / "turn_eval.jsonl"
    path.write_bytes(text({**ROW, "trace_version": "v3"}))
    with pytest.raises(UnsupportedTraceVersion, match=r"turn_eval\.jsonl:1: \$\.trace_version"):
        list(iter_jsonl(path, TurnEvalRow))
    with pytest.raises(UnsupportedTraceVersion, match=r"turn_eval\.jsonl: \$\.trace_version"):
        read_json(path, TurnEvalRow)


def test_documents_may_begin_with_a_byte_order_mark(tmp_path: Path) -> None:
    path = tmp_path / "row.json"
    path.write_bytes(b"\xef\xbb\xbf" + text(ROW))
    assert read_json(path, TurnEvalRow).dialog_id == "d"


def test_unreadable_files_are_refused(tmp_path: Path) -> None:
    os.mkfifo(tmp_path / "pipe")
    (tmp_path / "packed.jsonl").write_bytes(b"\x1f\x8b\x08rest")
    for name, reason in {
        "absent": "No such file",
        ".": "is a directory",
        "pipe": "not a regular file",
        "packed.jsonl": "gzip",
        "nul\0name": "null byte",
    }.items():
        with pytest.raises(UsageError, match=reason):
            open_input(tmp_path / name)
    with pytest.raises(UsageError, match="not a regular file"):
        open_input("/dev/zero")


@pytest.mark.skipif(os.geteuid() == 0, reason="root may read every file")
def test_a_file_without_permission_is_refused(tmp_path: Path) -> None:
    path = tmp_path / "secret.jsonl"
    path.touch(mode=0)
    with pytest.raises(UsageError, match="Permission denied"):
        open_input(path)


@pytest.mark.skipif(sys.platform != "linux", reason="only Linux bounds a process's memory this way")
def test_a_small_document_needs_little_memory(tmp_path: Path) -> None:
    path = tmp_path / "run_manifest.json"
    path.write_bytes(b"[" + b" " * 5_000_000 + b"1]")
    code = (
        "import resource, sys\n"
        "from memfin.contracts.reading import read_json\n"
        "used = int(open('/proc/self/statm').read().split()[0]) * resource.getpagesize()\n"
        "resource.setrlimit(resource.RLIMIT_AS, (used + 64 * 1024 * 1024,) * 2)\n"
        "print(read_json(sys.argv[1], list))\n"
    )
    done = subprocess.run(
        [sys.executable, "-c", code, str(path)], capture_output=True, check=False, text=True
    )
    assert (done.returncode, done.stdout) == (0, "[1]\n"), done.stderr


def test_a_document_beyond_the_bound_is_refused(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(reading, "MAX_DOCUMENT_BYTES", 10)
    path = tmp_path / "x.json"
    for content, size in ((b"[12345678]", 10), (b"[123456789]", 11), (b"[" + b"1" * 100 + b"]", 11)):
        path.write_bytes(content)
        with open_input(path) as file:
            assert len(reading.read_document(file)) == size
    with pytest.raises(InvalidRecord, match="larger than 10 bytes"):
        read_json(path, list)
    path.write_bytes(b"[12345678]")
    assert read_json(path, list) == [12345678]


@pytest.mark.parametrize("score", [math.nan, math.inf, -math.inf])
def test_a_number_that_is_not_finite_is_told_in_plain_words(score: float) -> None:
    with pytest.raises(InvalidRecord, match=r"^\$\.judge_score_1_5: Expected a finite number$"):
        convert({**ROW, "judge_score_1_5": score}, TurnEvalRow)


def test_values_are_shown_on_one_printable_line() -> None:
    assert shown("a\n\u202e\ud800") == r"'a\n\u202e\ud800'"
    assert len(shown("x" * 1_000_000)) <= 60
    assert shown([1] * 100).endswith("...")


@pytest.mark.skipif(not RECORDED.exists(), reason="the recorded run is not beside the repository")
def test_the_recorded_run_is_read() -> None:
    traces = [trace for _, trace in iter_jsonl(RECORDED / "dialog_trace.jsonl", DialogTrace)]
    rows = [row for _, row in iter_jsonl(RECORDED / "turn_eval.jsonl", TurnEvalRow)]
    assert [len(trace.turns) for trace in traces] == [19, 18]
    assert len(rows) == 37
    assert read_json(RECORDED / "run_manifest.json", RunManifest).counters.total_turn_pairs == 37
    assert len(read_json(RECORDED / "metrics_summary.json", EvalSummary).metrics) == 5
