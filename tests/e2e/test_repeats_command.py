"""``--repeats`` as a user meets it: real processes, a signal in the middle, a comparison, bad values."""

import json
import signal
import subprocess
import time
from collections.abc import Callable
from pathlib import Path

import pytest

from tests.commands import Command, run_command
from tests.support import dataset, read_jsonl

AGENTS = """
import asyncio
import random

class Flaky:
    share = 0.1
    def __init__(self, session, observer):
        self.random = random.Random(f"{session.seed} {session.dialog_id}")
    async def reply(self, user_text):
        if self.random.random() < self.share:
            raise ValueError("flaky")
        return "市场存在不确定性，仅供参考。"

class Bad(Flaky):
    share = 0.9

class Slow(Flaky):
    async def reply(self, user_text):
        await asyncio.sleep(0.02)
        return await super().reply(user_text)
"""

Memfin = Callable[..., "subprocess.CompletedProcess[str]"]


@pytest.fixture
def memfin(tmp_path: Path) -> Memfin:
    """Return a function that runs ``python -m memfin`` in a directory with a dataset and agents."""
    (tmp_path / "repeated.py").write_text(AGENTS)
    dataset(tmp_path / "data.jsonl", 12, 2)

    def run(*words: object) -> "subprocess.CompletedProcess[str]":
        done = run_command(*words, cwd=tmp_path, timeout=120)
        assert "Traceback" not in done.stderr, done.stderr
        return done

    return run


def passes(tmp_path: Path, run_id: str) -> dict[str, int]:
    """Return the repeats that each dialogue passes, counted from the traces."""
    found: dict[str, int] = {}
    for path in sorted((tmp_path / "runs" / run_id / "epochs").glob("0*/dialog_trace.jsonl")):
        for dialog in read_jsonl(path):
            answered = all(turn["turn_status"] == "ok" for turn in dialog["turns"])
            found[dialog["dialog_id"]] = found.get(dialog["dialog_id"], 0) + answered
    return found


def reliability(tmp_path: Path, run_id: str) -> dict[str, object]:
    text = (tmp_path / "runs" / run_id / "soak_summary.json").read_bytes()
    found: dict[str, object] = json.loads(text)["reliability"]
    return found


def test_repeats_of_a_flaky_agent_are_counted_reported_and_compared(memfin: Memfin, tmp_path: Path) -> None:
    done = memfin("run", "data.jsonl", "--agent", "repeated:Flaky", "--repeats", 5, "--run-id", "a")
    assert done.returncode == 0, done.stderr
    counted = passes(tmp_path, "a")
    assert len(set(counted.values())) > 1
    assert reliability(tmp_path, "a")["passes"] == counted
    share = 100 * sum(counted.values()) / 60
    line = next(line for line in done.stdout.splitlines() if line.startswith("pass^1"))
    assert line.startswith(f"pass^1 {share:.1f} %, pass^3 ")
    assert line.endswith("; 12 dialogues in 5 repeats")
    assert done.stdout.endswith("soak: runs/a/soak_summary.json\nreport: runs/a/report.html\n")
    assert memfin("validate", "runs/a").returncode == 0
    assert "Reliability over 5 repeats" in (tmp_path / "runs" / "a" / "report.html").read_text("utf-8")
    words = ("--agent", "repeated:Bad", "--repeats", 3, "--run-id", "b", "--fail-on-error", 1)
    failed = memfin("run", "data.jsonl", *words)
    assert failed.returncode == 1
    assert "--fail-on-error 1: " in failed.stderr
    compared = memfin("compare", "runs/a", "runs/b", "--json", "--fail-on-worse")
    assert compared.returncode == 1
    assert "pass_k" in compared.stderr
    assert "differ in more" not in compared.stderr
    found = json.loads(compared.stdout)
    value = found["values"]["pass_k"]
    assert (found["repeats"], value["units"], value["pairs"], value["verdict"]) == (3, 12, 12, "worse")
    table = memfin("compare", "runs/a", "runs/b").stdout
    assert "pass^k" in table
    assert "12 dialogues in both runs, k = 3 repeats" in table


def test_a_signal_in_the_middle_loses_no_repeat(memfin: Memfin, tmp_path: Path) -> None:
    words = ("run", "data.jsonl", "--agent", "repeated:Slow", "--workers-dialog", 1, "--fsync-turns", 1)
    process = Command(*words, "--repeats", 3, "--run-id", "s", cwd=tmp_path)
    rows = tmp_path / "runs" / "s" / "epochs" / "000002" / "turn_eval.jsonl"
    deadline = time.monotonic() + 60
    while not (rows.is_file() and rows.stat().st_size):
        assert time.monotonic() < deadline
        time.sleep(0.01)
    process.send_signal(signal.SIGINT)
    _, errors = process.communicate(timeout=60)
    assert process.returncode == 130
    assert errors.splitlines()[-1] == "memfin: stopped by SIGINT; memfin resume runs/s goes on"
    shown = memfin("compare", "runs/s", "runs/s")
    assert (shown.returncode, "pass^k" in shown.stdout) == (0, False)
    done = memfin("resume", "runs/s")
    assert done.returncode == 0, done.stderr
    assert "; 12 dialogues in 3 repeats" in done.stdout
    assert reliability(tmp_path, "s")["passes"] == passes(tmp_path, "s")
    configs = [tmp_path / "runs" / "s" / "epochs" / f"{n:06}" / "config.json" for n in (1, 2, 3)]
    assert [json.loads(path.read_bytes())["settings"]["seed"] for path in configs] == [0, 1, 2]


def test_one_repeat_is_a_plain_run_and_bad_numbers_are_refused_in_one_line(
    memfin: Memfin, tmp_path: Path
) -> None:
    assert memfin("run", "data.jsonl", "--repeats", 1, "--run-id", "r", "--quiet").returncode == 0
    assert (tmp_path / "runs" / "r" / "dialog_trace.jsonl").is_file()
    for words, message in (
        (("run", "data.jsonl", "--repeats", 0), "memfin: repeats: must be at least 1"),
        (("run", "data.jsonl", "--repeats", 101), "memfin: repeats: must be at most 100"),
        (
            ("bench", "--repeats", 2, "--duration", "1h"),
            "memfin: --repeats 2: not together with --duration; give one of them",
        ),
    ):
        done = memfin(*words)
        assert (done.returncode, done.stdout, done.stderr) == (2, "", f"{message}\n")
    assert [path.name for path in (tmp_path / "runs").iterdir() if path.name[0] != "."] == ["logs", "r"]


def test_the_command_repeats_a_benchmark(memfin: Memfin, tmp_path: Path) -> None:
    (tmp_path / "memfin.toml").write_text("[bench]\nrepeats = 2\nlimit = 5\n")
    done = memfin("bench", "--run-id", "q")
    assert done.returncode == 0, done.stderr
    assert "; 5 questions in 2 repeats" in done.stdout
    assert "Least reliable questions" in (tmp_path / "runs" / "q" / "report.md").read_text("utf-8")
    assert "pass^k" in memfin("compare", "runs/q", "runs/q").stdout
