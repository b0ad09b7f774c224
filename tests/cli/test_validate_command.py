import json
import os
import subprocess
from collections.abc import Mapping
from pathlib import Path

from tests.commands import run_command

ROW = {"trace_version": "v1", "run_id": "r", "dialog_id": "d", "turn_pair_id": 1} | {
    f"eligible_m{number}": False for number in range(1, 6)
}


def validate(*arguments: str | Path) -> subprocess.CompletedProcess[str]:
    return run_command("validate", *arguments)


def rows(path: Path, *changes: Mapping[str, object]) -> Path:
    path.write_text("".join(json.dumps({**ROW, **change}) + "\n" for change in changes))
    return path


def test_a_sound_file_exits_0_with_nothing_on_stdout(tmp_path: Path) -> None:
    result = validate(rows(tmp_path / "turn_eval.jsonl", {}))
    assert (result.returncode, result.stdout, result.stderr) == (0, "", "memfin: no findings\n")


def test_findings_go_to_stdout_and_exit_1(tmp_path: Path) -> None:
    one = rows(tmp_path / "turn_eval.jsonl", {"turn_pair_id": "x"}, {"eligible_m1": 1, "run_id": None})
    two = rows(tmp_path / "2-turn_eval.jsonl", {"turn_pair_id": 0})
    result = validate(one, two)
    assert result.returncode == 1
    assert result.stdout.splitlines() == [
        f"{one}:1: $.turn_pair_id: expected an integer, got 'x'",
        f"{one}:2: $.run_id: expected a string, got null",
        f"{one}:2: $.eligible_m1: expected a boolean, got 1",
        f"{two}:1: $.turn_pair_id: 0 is less than 1",
    ]
    assert result.stderr == "memfin: 4 findings in 2 files\n"


def test_findings_as_json_lines(tmp_path: Path) -> None:
    path = rows(tmp_path / "turn_eval.jsonl", {"turn_pair_id": "x"})
    result = validate("--json", path)
    assert result.returncode == 1
    assert [json.loads(line) for line in result.stdout.splitlines()] == [
        {"file": str(path), "line": 1, "path": "$.turn_pair_id", "message": "expected an integer, got 'x'"}
    ]


def test_a_bound_on_findings_is_told(tmp_path: Path) -> None:
    path = rows(tmp_path / "turn_eval.jsonl", *[{"turn_pair_id": "x"}] * 5)
    result = validate("--max", "2", path)
    assert result.returncode == 1
    assert len(result.stdout.splitlines()) == 2
    assert result.stderr.splitlines() == [
        f"memfin: {path}: stopped after 2 findings; there may be more",
        "memfin: 2 findings in 1 file",
    ]


def test_what_cannot_be_read_exits_2_with_one_line(tmp_path: Path) -> None:
    os.mkfifo(tmp_path / "pipe")
    for arguments in (
        [tmp_path / "absent"],
        [tmp_path],
        [tmp_path / "pipe"],
        ["--kind", "nonsense", tmp_path],
    ):
        result = validate(*arguments)
        assert (result.returncode, result.stdout) == (2, "")
        (line,) = result.stderr.splitlines()
        assert line.startswith("memfin: ")


def test_one_unreadable_file_does_not_hide_the_others(tmp_path: Path) -> None:
    path = rows(tmp_path / "turn_eval.jsonl", {"turn_pair_id": 0})
    result = validate(tmp_path / "absent", path)
    assert result.returncode == 2
    assert result.stdout == f"{path}:1: $.turn_pair_id: 0 is less than 1\n"
    assert result.stderr.splitlines()[-1] == (
        "memfin: 1 of 2 arguments cannot be checked; 1 finding in 1 file among the others"
    )


def test_a_file_name_that_is_no_utf_8_is_printed(tmp_path: Path) -> None:
    path = os.fsencode(tmp_path) + b"/turn_eval.\xff.jsonl"
    rows(Path(os.fsdecode(path)), {"turn_pair_id": 0})
    for options in ([], ["--json"]):
        result = validate(*options, os.fsdecode(path))
        assert result.returncode == 1
        assert "udcff" in result.stdout


def test_a_part_of_records_is_no_kind_of_file(tmp_path: Path) -> None:
    result = validate("--kind", "recall", rows(tmp_path / "x", {}))
    assert result.returncode == 2
    assert "turn-eval" in result.stderr
