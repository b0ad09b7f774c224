"""JUnit XML, annotations and step summaries for CI servers; warnings about many failed turns.

`TESTS_JUNIT_SCHEMA` names the schema of Jenkins' xUnit plug-in, which `make test-junit` takes from the
source archive of pytest; every JUnit file of these tests is validated against it.
"""

import json
import os
from pathlib import Path
from typing import Any

import pytest
from junitparser import Error, Failure, JUnitXml, Skipped, TestSuite

from memfin.cli.ci import Outcome, step_summary
from memfin.contracts import BenchConfig, RunConfig
from memfin.runtime.gates import GatedValue
from tests.commands import run_command
from tests.support import dialog, on_use, write_jsonl

xmlschema = on_use("xmlschema")
SCHEMA_FILE = os.environ.get("TESTS_JUNIT_SCHEMA")
SCHEMA = xmlschema.XMLSchema(Path(SCHEMA_FILE)) if SCHEMA_FILE else None
AGENT = '''
class Flaky:
    """Raises in the second turn of the dialogue that a file names."""

    def __init__(self, session, observer):
        self.turns = 0
        self.fails = session.dialog_id == open("failing").read()

    async def reply(self, text):
        self.turns += 1
        if self.turns == 2 and self.fails:
            raise ValueError("50% of \\x00 ]]> <b>\\nleft | `now` \\ud800")
        return "ok"
'''
PASSING = "m4_compliance.severe_violation_rate<=1"
FAILING = "m3_risk_coverage.risk_coverage=0.9"


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    (tmp_path / "flaky.py").write_text(AGENT, "utf-8")
    (tmp_path / "failing").write_text("d2", "utf-8")
    write_jsonl(tmp_path / "data.jsonl", [dialog("d1"), dialog("d2"), {"dialog_id": "broken"}])
    return tmp_path


def suite_of(path: Path) -> TestSuite:
    """Return the one suite of a file that the schema, if it is there, and junitparser accept."""
    if SCHEMA is not None:
        SCHEMA.validate(path)
    (suite,) = JUnitXml.fromfile(str(path))
    assert suite.tests == len(list(suite))
    return suite


def results(suite: TestSuite) -> dict[tuple[str | None, str | None], Any]:
    return {(case.classname, case.name): next(iter(case.result), None) for case in suite}


def memfin(folder: Path, *words: str, **environment: str) -> Any:
    return run_command(*words, cwd=folder, env={**os.environ, **environment})


RUN = ("run", "data.jsonl", "--agent", "flaky:Flaky", "--run-id", "r")


def test_a_run_gives_a_test_case_per_gate_and_dialogue(folder: Path) -> None:
    gates = ("--gate", PASSING, "--fail-under", FAILING, "--fail-on-error", "0.1")
    done = memfin(folder, *RUN, *gates, "--junit", "new/junit.xml")
    assert done.returncode == 1, done.stderr
    suite = suite_of(folder / "new" / "junit.xml")
    found = results(suite)
    assert found["memfin.gate", f"--gate {PASSING}"] is None
    for gate in (f"--fail-under {FAILING}", "--fail-on-error 0.1"):
        failure = found["memfin.gate", gate]
        assert isinstance(failure, Failure)
        assert str(failure.message).startswith(f"{gate}: ")
        assert failure.message in done.stderr
    assert len([kind for kind, _ in found if kind == "memfin.dialogue"]) == 3
    assert found["memfin.dialogue", "d1"] is None
    broken = found["memfin.dialogue", "broken"]
    assert isinstance(broken, Skipped)
    failed = found["memfin.dialogue", "d2"]
    assert isinstance(failed, Failure)
    assert failed.message == "turn 2: ValueError: 50% of ⟨U+0000⟩ ]]> <b> left | `now` ⟨U+D800⟩"
    properties = {each.name: each.value for each in suite.properties()}  # type: ignore[no-untyped-call]
    assert properties["run_id"] == "r"
    assert properties["agent"] == "flaky:Flaky"
    assert properties["dataset"] == "data.jsonl"
    low, high = map(float, properties["m3_risk_coverage.risk_coverage.ci95"].split(" to "))
    assert low <= float(properties["m3_risk_coverage.risk_coverage"]) < min(0.9, high)


@pytest.mark.skipif(SCHEMA is None, reason="no schema of another project is here: run make test-junit")
def test_the_schema_refuses_other_files(folder: Path) -> None:
    assert SCHEMA is not None
    memfin(folder, *RUN, "--junit", "junit.xml")
    suite_of(folder / "junit.xml")
    text = (folder / "junit.xml").read_text("utf-8")
    for before, after in (("<testcase ", '<testcase file="x" '), (' time="', ' time="a'), (' name="r"', "")):
        assert before in text
        with pytest.raises(xmlschema.XMLSchemaException):
            SCHEMA.validate(text.replace(before, after))


def test_github_gets_annotations_and_a_step_summary(folder: Path) -> None:
    (folder / "summary.md").write_text("before\n", "utf-8")
    gates = ("--gate", f"{PASSING}@95", "--fail-under", FAILING)
    done = memfin(folder, *RUN, *gates, "--github", "--json", GITHUB_STEP_SUMMARY="summary.md")
    assert done.returncode == 1
    assert json.loads(done.stdout)["run_id"] == "r"
    errors, warnings = (
        [line for line in done.stderr.splitlines() if line.startswith(f"::{level} ")]
        for level in ("error", "warning")
    )
    assert [line.partition(": the value is ")[0] for line in errors] == [
        f"::error title=Gate failed::--fail-under {FAILING}"
    ]
    (warning,) = warnings
    assert warning.startswith(
        "::warning title=Failed turns::1 of 6 turns failed; the most frequent reason, 1 times: "
    )
    assert "ValueError: 50%25 of ⟨U+0000⟩" in warning
    summary = (folder / "summary.md").read_text("utf-8")
    assert summary.startswith("before\n### MemFin: r: 1 of 2 gates failed\n")
    assert "warning: 1 of 6 turns failed" in summary
    assert "| m3\\_risk\\_coverage.risk\\_coverage | 0" in summary
    assert "| --gate m4\\_compliance.severe\\_violation\\_rate&lt;=1\\@95 | " in summary
    assert f"| --fail-under {FAILING.replace('_', chr(92) + '_')} | failed: the value is " in summary


def test_faults_are_annotated_and_an_error_in_the_junit_file(folder: Path) -> None:
    done = memfin(folder, "run", "absent.jsonl", "--github", "--junit", "junit.xml")
    assert done.returncode == 2
    line, last = done.stderr.splitlines()
    assert line == last.replace("memfin: ", "::error title=memfin stopped::", 1)
    (case,) = suite_of(folder / "junit.xml")
    assert case.classname == "memfin.command"
    assert [type(result) for result in case.result] == [Error]


@pytest.mark.parametrize("name", ["", "data.jsonl/junit.xml"])
def test_a_junit_file_that_cannot_be_is_refused_before_the_run(name: str, folder: Path) -> None:
    done = memfin(folder, *RUN, "--junit", name)
    assert done.returncode == 2
    assert done.stderr == f"memfin: --junit {name}: no file can be created there; name another file\n"
    assert not (folder / "runs").exists()


def test_recorded_resumed_and_repeated_runs_and_benchmarks_have_the_file_too(folder: Path) -> None:
    (folder / "failing").write_text("", "utf-8")
    assert memfin(folder, *RUN).returncode == 0
    commands = {
        "dialogue": ("score", "runs/r/dialog_trace.jsonl", "--dataset", "data.jsonl", "--out", "scored"),
        "question": ("bench", "--limit", "3", "--run-id", "b", "--fail-under", "0"),
        "epoch": ("soak", "data.jsonl", "--agent", "flaky:Flaky", "--run-id", "s", "--epochs", "2"),
    }
    for kind, words in commands.items():
        done = memfin(folder, *words, "--github", "--junit", f"{kind}.xml", GITHUB_STEP_SUMMARY="summary.md")
        assert done.returncode == 0, done.stderr
        classes = [case.classname for case in suite_of(folder / f"{kind}.xml")]
        assert classes.count(f"memfin.{kind}") == (2 if kind == "epoch" else 3)
    assert results(suite_of(folder / "question.xml"))["memfin.gate", "--fail-under 0"] is None
    for run_id in ("r", "b", "s"):
        done = memfin(folder, "resume", f"runs/{run_id}", "--junit", "resumed.xml")
        assert done.returncode == 0, done.stderr
        assert suite_of(folder / "resumed.xml").name == run_id
    assert (folder / "summary.md").read_text("utf-8").count("### MemFin: ") == 3


def test_a_soak_with_many_failed_turns_warns_in_its_lines_at_its_end_and_in_its_report(folder: Path) -> None:
    words = ("soak", "data.jsonl", "--agent", "flaky:Flaky", "--run-id", "s", "--epochs", "1")
    done = memfin(folder, *words, "--junit", "soak.xml")
    assert done.returncode == 0, done.stderr
    assert "; warning: 1 of 6 turns failed, more than 5%" in done.stderr
    assert "memfin: warning: 1 of 6 turns failed, more than 5%" in done.stderr.splitlines()
    assert isinstance(results(suite_of(folder / "soak.xml"))["memfin.epoch", "epoch 1"], Failure)
    for run_dir in ("runs/s", "runs/s/epochs/000001"):
        assert memfin(folder, "report", run_dir).returncode == 0
        assert "1 of 6 (16.7 %) turns have no reply" in (folder / run_dir / "report.md").read_text("utf-8")


def test_both_options_can_stand_in_the_settings_file(folder: Path) -> None:
    settings = 'junit = "junit.xml"\ngithub = true\nagent = "echo"\nlimit = 1\nquiet = true\n'
    (folder / "memfin.toml").write_text(settings, "utf-8")
    done = memfin(folder, "run", GITHUB_STEP_SUMMARY="none/summary.md")
    assert done.returncode == 0
    assert done.stderr.splitlines()[-1] == (
        "memfin: warning: GITHUB_STEP_SUMMARY none/summary.md: No such file or directory"
    )
    assert len(suite_of(folder / "junit.xml")) == 1


def test_values_that_were_not_measured_and_lines_of_no_option() -> None:
    values = {
        "a.b": GatedValue(0.0, None, "nothing was recalled"),
        "a.macro.b": GatedValue(0.5),
        "c.d": GatedValue(1 / 3, (0.25, 0.5)),
    }
    every = "every one of the 4 turns failed"
    config = RunConfig(fail_on_error=0.0)
    outcome = Outcome("r", config, "d", values, [every], None, "dialogue", ())
    assert outcome.gates() == {"--fail-on-error 0": None, every: every}
    assert list(outcome.figures()) == [
        ("a.b", "not measured: nothing was recalled", ""),
        ("c.d", "0.333333", "0.25 to 0.5"),
    ]
    assert step_summary(outcome).startswith("### MemFin: r: 1 of 2 gates failed\n")
    assert step_summary(outcome._replace(failed_gates=[])).startswith("### MemFin: r: 1 of 1 gates passed\n")
    without = step_summary(outcome._replace(failed_gates=[], config=RunConfig()))
    assert without.startswith("### MemFin: r: no gates\n")
    assert "| Gate |" not in without
    bench = BenchConfig(fail_under={"overall_percentage": 70.0}, fail_on_regression="runs/before")
    assert list(outcome._replace(config=bench, failed_gates=[]).gates()) == [
        "--fail-under 70",
        "--fail-on-regression runs/before",
    ]
