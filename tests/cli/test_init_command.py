"""``memfin init``: what it writes runs at once, and nothing is overwritten."""

from pathlib import Path

from memfin.validation import validate_path
from tests.commands import run_command
from tests.support import read_jsonl

LABELS = "m4_compliance.compliance_label_acc"


def test_the_starter_runs_in_its_directory(tmp_path: Path) -> None:
    folder = tmp_path / "new" / "folder"
    done = run_command("init", folder)
    assert (done.returncode, done.stdout) == (0, "")
    assert done.stderr == (
        f"memfin: wrote dialogs.jsonl, my_agent.py, memfin.toml; now: cd {folder} && memfin run\n"
    )
    assert list(validate_path(folder / "dialogs.jsonl")) == []
    done = run_command("run", "--run-id", "r", cwd=folder)
    assert done.returncode == 0, done.stderr
    assert "warning" not in done.stderr
    rows = read_jsonl(folder / "runs" / "r" / "turn_eval.jsonl")
    assert len(rows) == 6
    assert all(key["resolvable"] for row in rows for key in row["resolved_keys"])
    assert [row["risk_unmapped_tags"] for row in rows] == [[]] * 6
    assert {row["turn_status"] for row in rows} == {"ok"}
    done = run_command(
        "run", "--run-id", "o", "--agent", "oracle", "--fail-under", f"{LABELS}=1.0", cwd=folder
    )
    assert done.returncode == 0, done.stderr


def test_nothing_is_overwritten(tmp_path: Path) -> None:
    (tmp_path / "memfin.toml").write_text("mine")
    done = run_command("init", cwd=tmp_path)
    assert done.returncode == 2
    assert done.stderr == (
        "memfin: memfin.toml exists already; nothing was written, name another directory\n"
    )
    assert [path.name for path in tmp_path.iterdir()] == ["memfin.toml"]
    assert (tmp_path / "memfin.toml").read_text() == "mine"
    done = run_command("init", tmp_path / "memfin.toml" / "below")
    assert done.returncode == 2
    assert "is no directory" in done.stderr
