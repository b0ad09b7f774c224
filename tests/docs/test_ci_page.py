"""The workflows of docs/ci.md are complete, and their commands parse."""

import shlex
from typing import Any

import click
import pytest
import yaml

from memfin.cli.main import memfin
from tests.docs.pages import ROOT, blocks

WORKFLOW, GITLAB = (
    yaml.safe_load(block.text) for block in blocks(ROOT / "docs" / "ci.md") if block.language == "yaml"
)
STEPS: list[dict[str, Any]] = WORKFLOW["jobs"]["evaluate"]["steps"]


def parsed(line: str) -> tuple[str, dict[str, Any]]:
    program, name, *words = shlex.split(line)
    assert program == "memfin"
    command = memfin.get_command(click.Context(memfin), name)
    assert command is not None
    return name, command.make_context(name, words).params


def test_the_workflow_checks_out_installs_runs_and_uploads() -> None:
    order = [step["uses"].partition("@")[0] if "uses" in step else step["name"] for step in STEPS]
    assert order == [
        "actions/checkout",
        "actions/checkout",
        "actions/setup-python",
        "Install",
        "Check the dataset",
        "Evaluate",
        "actions/upload-artifact",
    ]
    assert WORKFLOW[True] == ["push", "pull_request"]  # YAML 1.1 reads the key "on" as a truth value
    assert (ROOT / STEPS[2]["with"]["cache-dependency-path"].removeprefix("tools/memfin/")).is_file()


def test_the_commands_parse_and_what_they_write_is_uploaded(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(ROOT / "docs")  # where there is no settings file
    lines = [step["run"] for step in STEPS if step.get("run", "").startswith("memfin ")]
    commands = dict(map(parsed, lines))
    assert list(commands) == ["validate", "run"]
    run, upload = commands["run"], STEPS[-1]
    assert run["github"]
    assert all(run[gate] for gate in ("fail_under", "gate", "fail_on_error"))
    assert upload["with"]["path"].split() == [f"{run['runs_dir']}/{run['run_id']}", run["junit"]]
    assert upload["if"] == "always()"

    job = GITLAB["evaluate"]
    _, run = parsed(job["script"][-1])
    assert job["artifacts"]["reports"]["junit"] == run["junit"]
    assert job["artifacts"]["paths"] == [f"{run['runs_dir']}/{run['run_id']}"]
