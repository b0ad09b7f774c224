"""The example plugin, installed as a package and used by name."""

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest

from tests.commands import Command
from tests.support import read_jsonl

ROOT = Path(__file__).resolve().parents[2]
PLUGIN = ROOT / "examples" / "memfin-example-plugin"


@pytest.fixture(scope="module")
def environment(tmp_path_factory: pytest.TempPathFactory) -> dict[str, str]:
    """Return the environment of commands that find the installed plugin."""
    site = tmp_path_factory.mktemp("site")
    # The build backend looks for its own program on the PATH.
    path = os.pathsep.join([str(Path(sys.executable).parent), os.environ["PATH"]])
    flags = ["--quiet", "--no-index", "--no-deps", "--no-build-isolation", "--disable-pip-version-check"]
    words = [sys.executable, "-m", "pip", "install", *flags, "--target", str(site), str(PLUGIN)]
    subprocess.run(words, check=True, env={**os.environ, "PATH": path, "PYTHONPATH": ""})
    return {**os.environ, "PYTHONPATH": os.pathsep.join([str(site), str(ROOT)])}


def test_what_is_installed_is_used_by_name(environment: dict[str, str], tmp_path: Path) -> None:
    (tmp_path / "memfin.toml").write_text('dataset = "example"\n')
    words = ["run", "--agent", "example", "--judge", "example", "--run-id", "r"]
    run = Command(*words, cwd=tmp_path, env=environment)
    _, errors = run.communicate()
    assert run.returncode == 0, errors
    config = json.loads((tmp_path / "runs" / "r" / "config.json").read_text("utf-8"))["settings"]
    assert (config["agent"], config["judge"]) == ("memfin_example:ExampleAgent", "memfin_example:judge")
    rows = read_jsonl(tmp_path / "runs" / "r" / "turn_eval.jsonl")
    assert all(row["judge_score_1_5"] >= 1 for row in rows)
    traces = read_jsonl(tmp_path / "runs" / "r" / "dialog_trace.jsonl")
    assert [(trace["dialog_id"], trace["dialog_status"]) for trace in traces] == [
        ("股票基金", "ok"),
        ("黄金", "ok"),
    ]


def test_the_command_lists_what_is_installed(environment: dict[str, str], tmp_path: Path) -> None:
    run = Command("plugins", "--json", cwd=tmp_path, env=environment)
    output, errors = run.communicate()
    assert run.returncode == 0, errors
    common = {"name": "example", "package": "memfin-example-plugin", "version": "0.1.0"}
    assert json.loads(output) == [
        {"group": "memfin.agents", **common, "reference": "memfin_example:ExampleAgent"},
        {"group": "memfin.datasets", **common, "reference": "memfin_example:dialogues"},
        {"group": "memfin.judges", **common, "reference": "memfin_example:judge"},
    ]
    table = Command("plugins", cwd=tmp_path, env=environment)
    assert [line.split() for line in table.communicate()[0].splitlines()] == [
        ["GROUP", "NAME", "PACKAGE", "VERSION", "REFERENCE"],
        ["memfin.agents", "example", "memfin-example-plugin", "0.1.0", "memfin_example:ExampleAgent"],
        ["memfin.datasets", "example", "memfin-example-plugin", "0.1.0", "memfin_example:dialogues"],
        ["memfin.judges", "example", "memfin-example-plugin", "0.1.0", "memfin_example:judge"],
    ]


def test_the_example_stays_short() -> None:
    assert (PLUGIN / "memfin_example" / "__init__.py").read_bytes().count(b"\n") < 60
