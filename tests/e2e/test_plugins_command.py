"""The example plugin, installed as a package and used by name."""

import json
import os
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest

from tests.commands import Command, run_command
from tests.support import dataset, read_jsonl

ROOT = Path(__file__).resolve().parents[2]
PLUGIN = ROOT / "examples" / "memfin-example-plugin"
METRIC = "memfin_example.metrics:FeeMention"

AGENT = """
import pathlib, time

class Agent:
    def __init__(self, session, observer):
        self.last, self.turn = session.dialog_id == "d0003", 0

    def reply(self, user_text):
        if self.last and not pathlib.Path("patient").exists():
            pathlib.Path("hanging").touch()
            time.sleep(60)
        self.turn += 1
        return "管理费每年百分之一。" if self.turn == 1 else "没有。"
"""


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
    assert [trace["dialog_status"] for trace in traces] == ["ok", "ok"]


def test_the_command_lists_what_is_installed(environment: dict[str, str], tmp_path: Path) -> None:
    run = Command("plugins", "--json", cwd=tmp_path, env=environment)
    output, errors = run.communicate()
    assert run.returncode == 0, errors
    common = {"name": "example", "package": "memfin-example-plugin", "version": "0.1.0"}
    assert json.loads(output) == [
        {"group": "memfin.agents", **common, "reference": "memfin_example:ExampleAgent"},
        {"group": "memfin.datasets", **common, "reference": "memfin_example:dialogues"},
        {"group": "memfin.judges", **common, "reference": "memfin_example:judge"},
        {"group": "memfin.metrics", **common, "name": "fee_mention", "reference": METRIC},
    ]
    table = Command("plugins", cwd=tmp_path, env=environment)
    assert [line.split() for line in table.communicate()[0].splitlines()] == [
        ["GROUP", "NAME", "PACKAGE", "VERSION", "REFERENCE"],
        ["memfin.agents", "example", "memfin-example-plugin", "0.1.0", "memfin_example:ExampleAgent"],
        ["memfin.datasets", "example", "memfin-example-plugin", "0.1.0", "memfin_example:dialogues"],
        ["memfin.judges", "example", "memfin-example-plugin", "0.1.0", "memfin_example:judge"],
        ["memfin.metrics", "fee_mention", "memfin-example-plugin", "0.1.0", METRIC],
    ]


def test_an_installed_metric_has_what_the_five_have_also_after_a_stop(
    environment: dict[str, str], tmp_path: Path
) -> None:
    """Fees are named in the first of three turns; the agent of the last dialogue hangs until it may go on."""
    (tmp_path / "slow.py").write_text(AGENT, "utf-8")
    dataset(tmp_path / "data.jsonl", 4)
    env = {**environment, "PYTHONPATH": f"{environment['PYTHONPATH']}{os.pathsep}{tmp_path}"}
    words = ("run", "data.jsonl", "--agent", "slow:Agent", "--metric", "fee_mention")
    gated = (*words, "--gate", "fee_mention.rate>=0.5")
    stopped = Command(*gated, "--run-id", "stopped", cwd=tmp_path, env=env)
    try:
        while not (tmp_path / "hanging").exists():
            assert stopped.poll() is None
            time.sleep(0.02)
        stopped.send_signal(signal.SIGINT)
        stopped.communicate(30)
        assert stopped.returncode == 130
    finally:
        stopped.kill()
    (tmp_path / "patient").touch()
    resumed = run_command("resume", "runs/stopped", cwd=tmp_path, env=env)
    assert resumed.returncode == 1
    assert "--gate fee_mention.rate>=0.5: the value is 0.333333" in resumed.stderr
    assert "fee_mention Rate" in resumed.stdout
    whole = run_command(*words, "--run-id", "whole", cwd=tmp_path, env=env)
    assert whole.returncode == 0, whole.stderr
    found, wanted = (
        json.loads((tmp_path / "runs" / run / "metrics_summary.json").read_text("utf-8"))["metrics"]
        for run in ("stopped", "whole")
    )
    assert found == wanted
    assert found["fee_mention"]["micro"] == {"rate": pytest.approx(1 / 3)}
    report = (tmp_path / "runs" / "stopped" / "report.html").read_text("utf-8")
    assert "Replies that say something about fees." in report
    assert "fee_mention Rate, lowest first" in report
    other = run_command(
        *("run", "data.jsonl", "--agent", "example", "--metric", "fee_mention", "--run-id", "other"),
        cwd=tmp_path,
        env=env,
    )
    assert other.returncode == 0, other.stderr
    compared = run_command("compare", "runs/whole", "runs/other", "--json", cwd=tmp_path, env=env)
    change = json.loads(compared.stdout)["values"]["fee_mention.rate"]
    assert (change["a"], change["b"]) == (pytest.approx(1 / 3), 0)


def test_the_example_stays_short() -> None:
    lines = {path.name: path.read_bytes().count(b"\n") for path in (PLUGIN / "memfin_example").glob("*.py")}
    assert sum(lines.values()) < 60
    assert lines["metrics.py"] < 20
