"""``memfin score`` with a settings file: what it takes from it, from variables and from flags alone."""

import json
import os
import subprocess
from pathlib import Path

import pytest

from tests.commands import run_command
from tests.support import dataset, read_jsonl

RULES = """
import memfin


class Long(memfin.TurnMetric):
    name = "long"
    version = "1"

    def measure(self, dialog, turn, row):
        return len(turn.pred_assistant_text) > 5


class First:
    name = "first"
    version = "1"

    def detect(self, reply, *, user_text, constraints):
        yield {"value": "begins", "start": 0, "end": 1}


def tag_of(name):
    return None
"""

CONFIG = """
dataset = "nowhere.jsonl"
agent = "nowhere:Agent"
history = "forced"
junit = "run.xml"
quiet = true
metric = ["rules:Long"]
detector = ["rules:First"]
risk_tag_mapper = "rules:tag_of"
gate = ["long.rate<=1"]

[forbidden_patterns]
"任何" = ["[^ ]"]

[fail_under]
"long.rate" = 0.0
"""


@pytest.fixture(name="place")
def recorded(tmp_path: Path) -> Path:
    dataset(tmp_path / "data.jsonl", 2)
    (tmp_path / "rules.py").write_text(RULES, "utf-8")
    done = run_command("run", "data.jsonl", "--agent", "echo", "--run-id", "r", "--quiet", cwd=tmp_path)
    assert done.returncode == 0, done.stderr
    return tmp_path


def score(place: Path, *words: str, **variables: str) -> subprocess.CompletedProcess[str]:
    env = {**os.environ, **variables}
    trace = "runs/r/dialog_trace.jsonl"
    return run_command("score", trace, "--dataset", "data.jsonl", *words, cwd=place, env=env)


def test_settings_come_from_flags_variables_and_the_file_in_this_order(place: Path) -> None:
    (place / "memfin.toml").write_text(CONFIG.replace("long.rate<=1", "long.rate>=0.2"), "utf-8")
    done = score(place, "--out", "a", "--score-chars", "50", MEMFIN_SCORE_CHARS="60", MEMFIN_SEED="7")
    assert done.returncode == 0, done.stderr
    assert done.stdout.splitlines() == ["report: a/report.html"]
    settings = json.loads((place / "a" / "config.json").read_text("utf-8"))["settings"]
    assert (settings["score_chars"], settings["seed"]) == (50, 7)
    assert (settings["risk_tag_mapper"], settings["gate"]) == ("rules:tag_of", ["long.rate>=0.2"])
    assert (settings["dataset"], settings["agent"]) == ("data.jsonl", "recorded")
    assert settings["history"] == "free"  # that of the recorded run
    assert not (place / "run.xml").exists()
    for row in read_jsonl(place / "a" / "turn_eval.jsonl"):
        assert row["forbidden_hits"] == ["任何"]
        assert "x:first" in row["detectors"]
        assert row["custom"]["long"]["of"] == 1


def test_a_gate_of_the_file_makes_the_exit_code(place: Path) -> None:
    (place / "other.toml").write_text('[fail_over]\n"m4_compliance.severe_violation_rate" = 0', "utf-8")
    patterns = '\n[forbidden_patterns]\n"保本保收益" = ["."]\n'
    (place / "memfin.toml").write_text((place / "other.toml").read_text("utf-8") + patterns, "utf-8")
    done = score(place, "--out", "a", "--quiet")
    assert done.returncode == 1
    assert "--fail-over m4_compliance.severe_violation_rate=0: the value is 1" in done.stderr
    assert score(place, "--out", "b", "--quiet", "--config", "other.toml").returncode == 0
    (place / "memfin.toml").write_text("metrics = []", "utf-8")
    refused = score(place, "--out", "c")
    assert refused.returncode == 2
    assert refused.stderr.startswith("memfin: config memfin.toml: unknown setting 'metrics'; known: agent,")
    assert not (place / "c").exists()
