"""Comparisons of inspect_ai logs, which the library writes with its mock model where it is installed."""

import json
import math
import subprocess
import sys
import zipfile
from pathlib import Path

import pytest
from click.testing import CliRunner, Result

from memfin.cli.compare import command
from memfin.errors import GateFailed, UsageError
from memfin.report.comparison import compare_runs
from memfin.report.inspect_log import as_number, means, span


def compared(*words: object) -> Result:
    return CliRunner().invoke(command, [str(word) for word in words])


def test_the_range_of_a_value_is_0_to_1_or_what_was_observed() -> None:
    units = {("a", 1, 0): (0.2, 1.0), ("b", 1, 0): (0.9, 1.0)}
    assert span(units) == 1.0
    assert span(units, {("a", 1, 0): (-3.0, 1.0)}) == pytest.approx(3.9)
    assert span({("a", 1, 0): (5.0, 1.0)}) == 5.0


def test_epochs_of_a_sample_are_one_cluster_of_the_interval_of_a_mean() -> None:
    once = {(str(number), 1, 0): (float(number % 2), 1.0) for number in range(20)}
    five = {(name, epoch, 0): value for (name, _, _), value in once.items() for epoch in range(1, 6)}
    (mean, narrow), (same, wide) = means(once), means(five)
    assert mean == same == 0.5
    assert narrow == pytest.approx(wide, abs=0.01)


def test_a_log_without_the_extra_is_one_line(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "inspect_ai.log", None)
    (tmp_path / "a.eval").write_bytes(b"")
    with pytest.raises(UsageError, match=r"pip install 'memfin\[inspect\]'"):
        compare_runs(tmp_path / "a.eval", tmp_path / "a.eval")


def test_a_log_and_a_directory_are_one_line(tmp_path: Path) -> None:
    (tmp_path / "run").mkdir()
    for name in ("metrics_summary.json", "turn_eval.jsonl"):
        (tmp_path / "run" / name).touch()
    for pair in (("run", "a.eval"), ("a.eval", "run")):
        with pytest.raises(UsageError, match=r"a\.eval is a log of inspect_ai, .*run the directory of a run"):
            compare_runs(tmp_path / pair[0], tmp_path / pair[1])


@pytest.fixture(scope="module")
def logs(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Return the directory with the logs of `inspect_log_factory.LOGS`."""
    pytest.importorskip("inspect_ai", reason="the extra memfin[inspect] is not installed")
    directory = tmp_path_factory.mktemp("inspect")
    factory = Path(__file__).with_name("inspect_log_factory.py")
    done = subprocess.run(
        [sys.executable, factory, directory], capture_output=True, text=True, check=False, cwd=directory
    )
    assert done.returncode == 0, done.stderr
    return directory


def test_samples_are_paired_by_id_and_epochs_clustered(logs: Path) -> None:
    found = compare_runs(logs / "right_twice.eval", logs / "worse_twice.eval")
    assert (found.suite, found.pairs, found.only_a, found.only_b) == ("samples", 20, 0, 0)
    assert (found.a, found.b) == ("mockllm/model right_twice", "mockllm/model worse_twice")
    assert found.inputs_changed == []
    assert list(found.values) == ["failed", "match", "graded.length", "graded.first"]
    value = found.values["match"]
    assert (value.p_adjusted or 0.0) > value.p_value
    assert (value.a, value.b, value.pairs, value.units) == (0.95, 0.4, 20, 40)
    assert (value.worsened, value.improved, value.verdict) == (22, 0, "worse")
    assert value.p_value == pytest.approx(2 / 2**11)
    assert found.values["graded.length"].difference == pytest.approx(0.55)
    reasons = {
        "graded.word": "scores are words without a number",
        "listed": "scores are lists; a scorer that returns a dict has a value per key",
        "unscored": "no sample has a score",
    }
    assert found.not_measured == {name: f"a: {each}; b: {each}" for name, each in reasons.items()}


def test_errors_count_as_failures_and_leave_the_other_values(logs: Path) -> None:
    a, b = logs / "right.eval", logs / "broken.eval"
    found = compare_runs(a, b)
    failed = found.values["failed"]
    assert (failed.a, failed.b, failed.worsened, failed.verdict) == (0.0, 0.5, 10, "worse")
    assert (found.values["match"].units, found.values["match"].difference) == (10, 0.0)
    assert "is worse than mockllm/model right: failed" in str(compared(a, b, "--fail-on-worse").exception)


def test_the_command_prints_gates_and_writes_every_format(logs: Path, tmp_path: Path) -> None:
    a, b = logs / "right.eval", logs / "worse.eval"
    page, text, table, latex = (tmp_path / f"out.{kind}" for kind in ("html", "md", "csv", "tex"))
    done = compared(a, b, "--html", page, "--markdown", text, "--csv", table, "--latex", latex)
    assert done.exit_code == 0, done.output
    assert "20 samples in both logs" in done.output
    assert "match  1.000 -> 0.000" in done.output
    assert "mockllm/model worse: London" in text.read_text()
    assert "Capital of land" in page.read_text()
    assert "mockllm/model right,mockllm/model worse,match,1.0,0.4," in table.read_text()
    assert "match & 1.000 & 0.400 & -0.600" in latex.read_text()
    assert json.loads(compared(a, b, "--json").stdout)["suite"] == "samples"
    swapped = compared(a, b, "--baseline", b, "--json")
    assert json.loads(swapped.stdout)["values"]["match"]["verdict"] == "better"
    assert compared(a, b, "--gate", "match>=0.3", "--gate", "failed<=0").exit_code == 0
    unknown = str(compared(a, b, "--gate", "model-graded/qa>=0.5").exception)
    assert "unknown value 'model-graded/qa'; known: failed, match, " in unknown
    assert "m3_risk_coverage" not in unknown
    assert "of failed less is better" in str(compared(a, b, "--gate", "failed>=0").exception)


@pytest.mark.parametrize(
    ("option", "line"),
    [
        ("--fail-on-worse", "is worse than mockllm/model right: match"),
        ("--margin=match=0.1", "--margin match=0.1"),
        ("--gate=match>=0.5", "--gate match>=0.5: the value is 0.4"),
        ("--gate=match>=0.3@95", "the bound of its 95 % interval"),
        ("--gate=listed>=0.3", "not measured: scores are lists"),
    ],
)
def test_gates_hold_the_values_of_a_log(logs: Path, option: str, line: str) -> None:
    failed = compared(logs / "right.eval", logs / "worse.eval", option)
    assert isinstance(failed.exception, GateFailed)
    assert line in str(failed.exception)


def test_differences_of_the_logs_are_named(logs: Path) -> None:
    found = compare_runs(logs / "right.eval", logs / "cities.eval")
    assert (found.pairs, found.only_a, found.only_b) == (10, 10, 10)
    assert found.inputs_changed == [
        "task",
        "generation settings",
        "dataset",
        "limits",
        "input or target of 10 of 10 samples",
    ]
    assert found.warnings == [
        "mockllm/model cities: 20 of 20 samples were stopped at a limit; their scores count"
    ]


def test_json_logs_are_read_as_well(logs: Path, tmp_path: Path) -> None:
    a, b = logs / "right.eval", logs / "worse_json.json"
    assert compare_runs(a, b).values["match"].b == 0.4
    assert compared(a, b, "--markdown", tmp_path / "out.md").exit_code == 0
    assert "json: London" in (tmp_path / "out.md").read_text()


@pytest.mark.parametrize(
    ("other", "line"),
    [
        ("elsewhere", "no sample in common"),
        ("colours", r"\(task geography\) and .* are logs of different datasets"),
        ("stopped", r"its status is error \(.*no answer.*; inspect eval-retry"),
        ("missing", "no such file"),
    ],
)
def test_logs_that_cannot_be_compared_are_one_line(logs: Path, other: str, line: str) -> None:
    with pytest.raises(UsageError, match=line) as problem:
        compare_runs(logs / "right.eval", logs / f"{other}.eval")
    assert "\n" not in str(problem.value)


def test_files_that_are_no_logs_are_one_line(logs: Path, tmp_path: Path) -> None:
    whole = (logs / "right.eval").read_bytes()
    files = {"half.eval": whole[: len(whole) // 2], "empty.eval": b"", "text.json": b"{}", "list.json": b"[]"}
    for name, content in files.items():
        (tmp_path / name).write_bytes(content)
    with zipfile.ZipFile(tmp_path / "other.eval", "w") as archive:
        archive.writestr("a.txt", "a")
    for name in (*files, "other.eval"):
        with pytest.raises(UsageError, match=f"{name}: not a whole inspect_ai log: ") as problem:
            compare_runs(logs / "right.eval", tmp_path / name)
        assert "\n" not in str(problem.value)


def test_scores_are_numbers_as_the_library_reads_them() -> None:
    library = pytest.importorskip("inspect_ai.scorer", reason="the extra memfin[inspect] is not installed")
    values = ["C", "I", "P", "N", "yes", "No", "TRUE", "false", "0.25", "-3", True, False, 7, 0.5]
    assert [as_number(value) for value in values] == [library.value_to_float()(value) for value in values]
    assert as_number(math.nan) is None
    assert as_number(None) is None
    assert isinstance(as_number("blue"), str)
    assert isinstance(as_number([1]), str)
