"""``memfin validate`` on damaged runs: what it says, and the copy that goes on."""

import subprocess
from pathlib import Path

import pytest

from memfin.journal import COMMITS, DIALOG_TRACE
from memfin.runtime.api import evaluate
from memfin.validation import validate_run
from tests.commands import run_command
from tests.support import dataset


def memfin(*arguments: str | Path) -> subprocess.CompletedProcess[str]:
    return run_command(*arguments)


@pytest.fixture
async def damaged(tmp_path: Path) -> Path:
    """Return a complete run in whose trace a letter was changed."""
    await evaluate(dataset(tmp_path / "data.jsonl", 5), agent="echo", runs_dir=tmp_path / "runs", run_id="r")
    run = tmp_path / "runs" / "r"
    assert list(validate_run(run)) == []
    path = run / DIALOG_TRACE
    lines = path.read_bytes().splitlines(keepends=True)
    lines[2] = lines[2].replace("稳健".encode(), "进取".encode(), 1)
    path.write_bytes(b"".join(lines))
    return run


async def test_a_changed_letter_is_found_repaired_and_replayed(damaged: Path, tmp_path: Path) -> None:
    summary = (damaged / "metrics_summary.json").read_bytes()
    path = damaged / DIALOG_TRACE
    offset = sum(map(len, path.read_bytes().splitlines(keepends=True)[:2]))
    checked = memfin("validate", damaged)
    assert checked.returncode == 1
    assert checked.stdout.startswith(f"{path}:3: $: offset {offset}: replay of dialogue 'd000")
    assert "--repair RUN_DIR --out NEW_DIR" in checked.stdout
    refused = memfin("resume", damaged, "--quiet")
    assert refused.returncode == 2
    assert refused.stderr.startswith(f"memfin: {path}: offset {offset}: ")
    new = tmp_path / "runs" / "new"
    repaired = memfin("validate", "--repair", damaged, "--out", new)
    assert repaired.returncode == 0
    first, second = repaired.stdout.splitlines()
    assert first.startswith(f"{path}: offset {offset}: replay of dialogue 'd000")
    assert second.startswith(f"{damaged / COMMITS}: offset ")
    assert repaired.stderr == (
        f"memfin: {new} holds 4 replays and 4 judgements; 2 things dropped; "
        f"memfin resume {new} does again what is missing\n"
    )
    assert memfin("validate", new).stderr == "memfin: no findings\n"
    resumed = memfin("resume", new)
    assert resumed.returncode == 0, resumed.stderr
    assert "4 dialogues done" in resumed.stderr
    assert (new / "metrics_summary.json").read_bytes() == summary
    assert memfin("validate", new).returncode == 0


async def test_rows_after_the_end_of_a_complete_run_are_findings(tmp_path: Path) -> None:
    await evaluate(dataset(tmp_path / "data.jsonl", 2), agent="echo", runs_dir=tmp_path, run_id="r")
    path = tmp_path / "r" / COMMITS
    size = path.stat().st_size
    with path.open("ab") as file:
        file.write(b"more")
    (found,) = validate_run(tmp_path / "r")
    assert str(found) == f"{path}:6: $: offset {size}: 4 bytes that were never committed"


async def test_a_sound_run_needs_no_repair(tmp_path: Path) -> None:
    await evaluate(dataset(tmp_path / "data.jsonl", 2), agent="echo", runs_dir=tmp_path, run_id="r")
    done = memfin("validate", "--repair", tmp_path / "r", "--out", tmp_path / "copy")
    assert (done.returncode, done.stdout) == (0, "")
    assert done.stderr == f"memfin: {tmp_path / 'r'} needs no repair; {tmp_path / 'copy'} is a copy\n"
    assert list(validate_run(tmp_path / "copy")) == []


@pytest.mark.parametrize(
    "words", [("--repair", "x"), ("x", "--out", "y"), ("--repair", "x", "y", "--out", "z")]
)
def test_a_repair_names_one_run_and_one_new_directory(words: tuple[str, ...]) -> None:
    refused = memfin("validate", *words)
    assert refused.returncode == 2
    assert refused.stderr == "memfin: a repair is: memfin validate --repair RUN_DIR --out NEW_DIR\n"
