import subprocess
from pathlib import Path

import msgspec
import pytest

from memfin.contracts import Counters, EvalSummary, RunManifest
from tests.commands import run_command


def memfin(*arguments: str) -> subprocess.CompletedProcess[str]:
    return run_command("report", *arguments)


@pytest.fixture
def run_dir(tmp_path: Path) -> Path:
    counters = Counters()
    manifest = RunManifest(
        trace_version="v1",
        run_id="r1",
        dataset_path="d.jsonl",
        started_at="2026-01-01T00:00:00Z",
        model_name="m",
        workers_dialog=1,
        workers_judge=1,
        counters=counters,
    )
    result = EvalSummary(
        run_id="r1", trace_version="v1", dataset_path="d.jsonl", metrics={}, counters=counters
    )
    (tmp_path / "run_manifest.json").write_bytes(msgspec.json.encode(manifest))
    (tmp_path / "metrics_summary.json").write_bytes(msgspec.json.encode(result))
    (tmp_path / "turn_eval.jsonl").touch()
    (tmp_path / "dialog_trace.jsonl").touch()
    return tmp_path


def test_the_paths_written_are_the_output(run_dir: Path) -> None:
    done = memfin(str(run_dir))
    assert done.returncode == 0, done.stderr
    assert done.stdout.splitlines() == [str(run_dir / "report.md"), str(run_dir / "report.html")]
    assert done.stderr == ""
    assert (run_dir / "report.html").stat().st_size > 1000


def test_a_directory_that_is_no_run_is_bad_usage_in_one_line(tmp_path: Path) -> None:
    for path, words in ((tmp_path, "not a run directory"), (tmp_path / "absent", "no such directory")):
        done = memfin(str(path))
        assert done.returncode == 2
        assert done.stdout == ""
        assert done.stderr.count("\n") == 1
        assert words in done.stderr


def test_a_missing_argument_is_bad_usage() -> None:
    assert memfin().returncode == 2


def test_help_begins_with_a_runnable_example() -> None:
    done = memfin("--help")
    assert done.returncode == 0
    assert "memfin report runs/" in done.stdout
