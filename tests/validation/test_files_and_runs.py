import gzip
import json
import os
import tracemalloc
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from memfin.errors import UsageError
from memfin.validation import validate_file, validate_path, validate_run

RECORDED = Path(__file__).resolve().parents[2] / ".." / "shared" / "data" / "recorded" / "20260219_101855"

COUNTERS: dict[str, int] = {
    "total_dialogs": 2,
    "valid_dialogs": 1,
    "skipped_dialogs": 1,
    "failed_dialogs": 0,
    "total_turn_pairs": 1,
}
HEAD: dict[str, Any] = {"trace_version": "v1", "run_id": "r1"}
MANIFEST: dict[str, Any] = HEAD | {
    "dataset_path": "d.jsonl",
    "started_at": "2026-02-17T13:05:00Z",
    "ended_at": "2026-02-17T13:06:00Z",
    "model_name": "m",
    "workers_dialog": 1,
    "workers_judge": 1,
    "counters": COUNTERS,
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
TRACE: dict[str, Any] = HEAD | {
    "dialog_id": "d",
    "dataset_index": 1,
    "dialog_status": "ok",
    "valid_dialog": True,
    "turns": [TURN],
}
SKIPPED: dict[str, Any] = HEAD | {
    "dialog_id": "line_2",
    "dataset_index": 2,
    "dialog_status": "skipped",
    "valid_dialog": False,
    "skip_reason": "invalid_json",
}
ROW: dict[str, Any] = (
    HEAD | {"dialog_id": "d", "turn_pair_id": 1} | {f"eligible_m{n}": False for n in range(1, 6)}
)
SUMMARY: dict[str, Any] = HEAD | {"dataset_path": "d.jsonl", "metrics": {}, "counters": COUNTERS}
CONFIG: dict[str, Any] = {
    "run_id": "r1",
    "config_fingerprint": "aa",
    "settings": {},
    "fingerprint_inputs": {},
    "memfin_version": "0",
}
EVENT: dict[str, Any] = {
    "ts": "2026-02-17T13:05:00Z",
    "event": "metrics_done",
    "run_id": "r1",
    "turn_rows": 1,
}

Run = Callable[..., list[str]]


@pytest.fixture
def run(tmp_path: Path) -> Run:
    """Write a sound run, change files of it (None removes one), and tell the findings."""

    def write_and_validate(**changes: list[dict[str, Any]] | None) -> list[str]:
        files: dict[str, list[dict[str, Any]] | None] = {
            "run_manifest.json": [MANIFEST],
            "dialog_trace.jsonl": [TRACE, SKIPPED],
            "turn_eval.jsonl": [ROW],
            "metrics_summary.json": [SUMMARY],
            "config.json": [CONFIG],
            "../logs/progress_r1.jsonl": [EVENT],
        }
        by_stem = {Path(name).stem: name for name in files}
        files |= {by_stem[stem]: records for stem, records in changes.items()}
        directory = tmp_path / "runs" / "r1"
        directory.mkdir(parents=True)
        (tmp_path / "runs" / "logs").mkdir()
        (directory / "report.md").write_text("no artefact that is checked")
        for name, records in files.items():
            if records is not None:
                (directory / name).write_text("\n".join(map(json.dumps, records)))
        return [f"{Path(f.file).name}:{f.line}: {f.path}: {f.message}" for f in validate_path(directory)]

    return write_and_validate


def test_a_sound_run_has_no_findings(run: Run) -> None:
    assert run() == []


def test_artefacts_of_another_run_are_found(run: Run) -> None:
    other = {"run_id": "r2"}
    assert run(config=[CONFIG | other], progress_r1=[EVENT | other]) == [
        "progress_r1.jsonl:1: $.run_id: 'r2' differs from 'r1', the run of run_manifest.json",
        "config.json:1: $.run_id: 'r2' differs from 'r1', the run of run_manifest.json",
    ]


def test_counters_are_compared_with_the_trace(run: Run) -> None:
    wrong = {**COUNTERS, "skipped_dialogs": 0, "total_dialogs": 1, "total_turn_pairs": 2}
    assert run(
        run_manifest=[MANIFEST | {"counters": wrong}], metrics_summary=[SUMMARY | {"counters": wrong}]
    ) == [
        f"{name}:1: $.counters.{field}: {stated}, but dialog_trace.jsonl amounts to {counted}"
        for name in ("run_manifest.json", "metrics_summary.json")
        for field, stated, counted in (
            ("total_dialogs", 1, 2),
            ("skipped_dialogs", 0, 1),
            ("total_turn_pairs", 2, 1),
        )
    ]


def test_turn_pairs_that_a_failed_dialogue_never_reached_may_count(run: Run) -> None:
    counters = {**COUNTERS, "failed_dialogs": 1, "total_turn_pairs": 5}
    failed = TRACE | {"dialog_status": "failed", "dialog_error": "boom"}
    changes: dict[str, Any] = {
        "run_manifest": [MANIFEST | {"counters": counters}],
        "metrics_summary": [SUMMARY | {"counters": counters}],
        "dialog_trace": [failed, SKIPPED],
    }
    assert run(**changes) == []


def test_rows_belong_to_valid_dialogues_of_the_trace(run: Run) -> None:
    rows = [ROW, ROW | {"dialog_id": "line_2"}, ROW | {"dialog_id": "x"}]
    assert run(turn_eval=rows) == [
        "turn_eval.jsonl:2: $.dialog_id: 'line_2' is no valid dialogue of dialog_trace.jsonl",
        "turn_eval.jsonl:3: $.dialog_id: 'x' is no valid dialogue of dialog_trace.jsonl",
    ]


def test_a_run_that_ended_has_all_artefacts(run: Run) -> None:
    assert run(metrics_summary=None, turn_eval=None) == [
        "run_manifest.json:1: $.ended_at: the run has ended, but turn_eval.jsonl is missing",
        "run_manifest.json:1: $.ended_at: the run has ended, but metrics_summary.json is missing",
    ]


def test_a_run_that_goes_on_may_lack_artefacts_and_final_counters(run: Run) -> None:
    manifest = MANIFEST | {"ended_at": None, "counters": {}}
    assert run(run_manifest=[manifest], metrics_summary=None) == []


def test_a_run_that_was_interrupted_at_once_has_empty_files(run: Run) -> None:
    manifest = MANIFEST | {"ended_at": None, "counters": {}}
    empty: dict[str, Any] = {"dialog_trace": [], "turn_eval": [], "progress_r1": []}
    assert run(run_manifest=[manifest], metrics_summary=None, **empty) == []


def test_empty_files_are_findings_once_the_run_has_ended(run: Run) -> None:
    assert run(dialog_trace=[], turn_eval=[], metrics_summary=None)[:2] == [
        "dialog_trace.jsonl:1: $: the file is empty",
        "run_manifest.json:1: $.ended_at: the run has ended, but metrics_summary.json is missing",
    ]


def test_fingerprints_agree(run: Run) -> None:
    assert run(metrics_summary=[SUMMARY | {"config_fingerprint": "bb"}]) == [
        "metrics_summary.json:1: $.config_fingerprint: differs from that of config.json"
    ]


def test_rows_may_be_absent_when_no_turn_was_replayed(run: Run) -> None:
    counters = {**COUNTERS, "total_turn_pairs": 0}
    changes: dict[str, Any] = {
        "run_manifest": [MANIFEST | {"counters": counters}],
        "metrics_summary": [SUMMARY | {"counters": counters}],
        "dialog_trace": [TRACE | {"turns": []}, SKIPPED],
        "turn_eval": [],
    }
    assert run(**changes) == []


def test_an_empty_file_of_rows_is_a_finding_where_turns_were_replayed(run: Run) -> None:
    assert run(turn_eval=[]) == ["turn_eval.jsonl:1: $: the file is empty"]


def findings(path: Path, kind: str | None = None) -> list[str]:
    return [f"{finding.line}: {finding.path}: {finding.message}" for finding in validate_file(path, kind)]


@pytest.mark.parametrize("content", [b"", b"\n \r\n\t\n"])
@pytest.mark.parametrize(
    "name", ["data.jsonl", "turn_eval.jsonl", "metrics_summary.json", "progress_r.jsonl"]
)
def test_an_empty_file_is_a_finding(tmp_path: Path, name: str, content: bytes) -> None:
    (tmp_path / name).write_bytes(content)
    assert findings(tmp_path / name) == ["1: $: the file is empty"]


def test_no_judgement_at_all_is_sound(tmp_path: Path) -> None:
    (tmp_path / "judgements.jsonl").touch()
    assert findings(tmp_path / "judgements.jsonl") == []


@pytest.mark.parametrize("name", ["turn_eval.jsonl", "run_manifest.json"])
def test_artefacts_have_no_byte_order_mark_but_may_end_lines_in_crlf(tmp_path: Path, name: str) -> None:
    record = ROW if name == "turn_eval.jsonl" else MANIFEST
    (tmp_path / name).write_bytes(b"\xef\xbb\xbf" + json.dumps(record).encode() + b"\r\n")
    assert findings(tmp_path / name) == [
        "1: $: the file begins with a byte order mark, which JSON does not allow"
    ]


def test_checking_goes_on_after_a_line_that_cannot_be_read(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("memfin.contracts.reading.MAX_RECORD_BYTES", 1_000_000)
    path = tmp_path / "turn_eval.jsonl"
    nan = json.dumps(ROW | {"judge_score_1_5": 0}).replace(": 0}", ': NaN, "findings": 1}')
    lines = [
        "{",
        json.dumps(ROW),
        "[" * 100_000,
        '"' + "x" * 1_000_001 + '"',
        nan,
        json.dumps(ROW | {"dialog_id": 1}),
    ]
    path.write_text("\n".join(lines))
    assert findings(path) == [
        "1: $: invalid JSON: Expecting property name enclosed in double quotes (column 2)",
        "3: $: the value is nested too deeply",
        "4: $: the line is longer than 1000000 bytes",
        "5: $.judge_score_1_5: nan is no finite number",
        "5: $.findings: expected an array, got 1",
        "6: $.dialog_id: expected a string, got 1",
    ]


def test_binary_garbage_is_only_findings(tmp_path: Path) -> None:
    for name in ("data.jsonl", "turn_eval.jsonl", "config.json"):
        (tmp_path / name).write_bytes(bytes(range(255, -1, -1)) * 50)
        assert findings(tmp_path / name)


def test_documents_tell_the_line_of_each_finding(tmp_path: Path) -> None:
    path = tmp_path / "run_manifest.json"
    manifest = {**MANIFEST, "workers_judge": "x", "counters": {**COUNTERS, "total_dialogs": -1}}
    path.write_text(json.dumps(manifest, indent=1))
    lines = [line.strip().rstrip(",") for line in path.read_text().splitlines()]
    judge, total = lines.index('"workers_judge": "x"') + 1, lines.index('"total_dialogs": -1') + 1
    assert findings(path) == [
        f"{judge}: $.workers_judge: expected an integer, got 'x'",
        f"{total}: $.counters.total_dialogs: -1 is less than 0",
    ]
    path.write_text('{\n"run_id": \n}')
    assert findings(path) == ["3: $: invalid JSON: Expecting value (column 1)"]


def test_names_of_the_older_draft_are_no_findings(tmp_path: Path) -> None:
    (tmp_path / "turn_eval.jsonl").write_text(json.dumps(ROW | {"pred_compliance_label": "minor"}))
    turn = {name: value for name, value in TURN.items() if name != "turn_status"} | {"status": "ok"}
    (tmp_path / "dialog_trace.jsonl").write_text(json.dumps(TRACE | {"turns": [turn]}))
    assert findings(tmp_path / "turn_eval.jsonl") == []
    assert findings(tmp_path / "dialog_trace.jsonl") == []
    later = {"trace_version", "dialog_status"}
    for name in ("turn_eval.jsonl", "dialog_trace.jsonl"):
        record = json.loads((tmp_path / name).read_text())
        draft = {field: value for field, value in record.items() if field not in later}
        (tmp_path / name).write_text(json.dumps(draft))
        assert findings(tmp_path / name) == []


def test_another_major_version_is_the_only_finding_of_its_record(tmp_path: Path) -> None:
    path = tmp_path / "turn_eval.jsonl"
    path.write_text('{"trace_version": "v2"}\n' + json.dumps(ROW | {"trace_version": "v1.99"}))
    assert findings(path) == ["1: $.trace_version: 'v2' is not supported; this release reads v1 and v1.x"]


def test_the_kind_can_be_said(tmp_path: Path) -> None:
    path = tmp_path / "x.txt"
    path.write_text(json.dumps(ROW))
    assert findings(path, "turn_eval") == []
    assert findings(path, "progress") == ["1: $.event: missing"]
    with pytest.raises(UsageError, match="part of others"):
        findings(path, "recall")
    with pytest.raises(UsageError, match="no contract is named 'x'"):
        findings(path, "x")


def test_what_cannot_be_read_is_an_error(tmp_path: Path) -> None:
    os.mkfifo(tmp_path / "turn_eval.jsonl")
    (tmp_path / "packed.jsonl").write_bytes(gzip.compress(b"{}"))
    for name, reason in {
        "absent.jsonl": "No such file",
        "turn_eval.jsonl": "not a regular file",
        "packed.jsonl": "compressed with gzip",
    }.items():
        with pytest.raises(UsageError, match=reason):
            list(validate_path(tmp_path / name))
    with pytest.raises(UsageError, match="holds no artifact of a run"):
        list(validate_path(tmp_path))
    with pytest.raises(UsageError, match="leave the kind out"):
        list(validate_path(tmp_path, "config"))


def test_memory_does_not_grow_with_the_file(tmp_path: Path) -> None:
    def peak(rows: int) -> int:
        path = tmp_path / "turn_eval.jsonl"
        with path.open("w") as file:
            file.writelines(
                json.dumps(ROW | {"turn_pair_id": n, "rubric_required": ["x" * 500]}) + "\n"
                for n in range(1, rows)
            )
        tracemalloc.start()
        try:
            assert findings(path) == []
            return tracemalloc.get_traced_memory()[1]
        finally:
            tracemalloc.stop()

    peak(10)
    assert peak(1500) < peak(300) + 100_000


@pytest.mark.skipif(not RECORDED.exists(), reason="the recorded run is not beside the repository")
def test_the_recorded_run_has_events_without_run_and_nothing_else() -> None:
    found = {(Path(f.file).name, f.path, f.message) for f in validate_run(RECORDED)}
    assert found == {("progress_20260219_101855.jsonl", "$.run_id", "missing")}


def test_a_trace_under_another_name_is_known_by_its_first_line(tmp_path: Path) -> None:
    path = tmp_path / "recorded.jsonl"
    path.write_text(json.dumps(SKIPPED | {"turns": []}) + "\n", "utf-8")
    finding = f"{path}:1: $: no valid dialogue (invalid_json: 1); nothing can be scored"
    assert [str(each) for each in validate_file(path)] == [finding]
