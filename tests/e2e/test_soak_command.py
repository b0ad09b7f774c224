"""``memfin soak`` as a user meets it: real processes, signals, files that others read meanwhile."""

import json
import os
import re
import resource
import signal
import subprocess
import sys
import time
import urllib.request
from collections.abc import Callable
from pathlib import Path

import pytest

from tests.commands import Command, run_command
from tests.support import dataset, read_jsonl, unmeasured

AGENTS = """
import asyncio

class Quick:
    def __init__(self, session, observer):
        self.session = session
    async def reply(self, user_text):
        return "市场存在不确定性，仅供参考。"

class Slow(Quick):
    async def reply(self, user_text):
        await asyncio.sleep(0.02)
        return await super().reply(user_text)

class Hangs(Quick):
    async def reply(self, user_text):
        if self.session.run_id.endswith("2"):
            await asyncio.sleep(3600)
        return await super().reply(user_text)

class Fails(Quick):
    async def reply(self, user_text):
        if self.session.dialog_id == "d0001":
            raise ValueError("fails")
        return await super().reply(user_text)
"""

Memfin = Callable[..., "subprocess.CompletedProcess[str]"]


@pytest.fixture
def memfin(tmp_path: Path) -> Memfin:
    """Return a function that runs ``python -m memfin`` in a directory with a dataset and agents."""
    (tmp_path / "soaked.py").write_text(AGENTS)
    dataset(tmp_path / "data.jsonl", 6)

    def run(*words: object, env: dict[str, str] | None = None) -> "subprocess.CompletedProcess[str]":
        done = run_command(*words, cwd=tmp_path, timeout=120, env={**os.environ, **(env or {})})
        assert "Traceback" not in done.stderr, done.stderr
        return done

    return run


def started(tmp_path: Path, *words: object) -> Command:
    return Command(*words, cwd=tmp_path)


def until(condition: Callable[[], bool]) -> None:
    deadline = time.monotonic() + 60
    while not condition():
        assert time.monotonic() < deadline
        time.sleep(0.01)


def lines(tmp_path: Path, run_id: str) -> int:
    file = tmp_path / "runs" / run_id / "soak.jsonl"
    return len(file.read_bytes().splitlines()) if file.exists() else 0


def summary(tmp_path: Path, run_id: str) -> dict[str, object]:
    found: dict[str, object] = json.loads((tmp_path / "runs" / run_id / "soak_summary.json").read_bytes())
    return found


def refused(done: "subprocess.CompletedProcess[str]", *words: str) -> None:
    assert done.returncode == 2, done.stderr
    assert done.stdout == ""
    assert len(done.stderr.strip().splitlines()) == 1, done.stderr
    for word in words:
        assert word in done.stderr


def test_a_soak_of_the_sample_tells_every_epoch_and_what_drifts(memfin: Memfin, tmp_path: Path) -> None:
    done = memfin("soak", "--limit", 4, "--epochs", 3, "--run-id", "first", "--keep-epochs", 1)
    assert done.returncode == 0, done.stderr
    told = [line for line in done.stderr.splitlines() if line.startswith("memfin: epoch ")]
    assert [line.split(":")[1] for line in told] == [" epoch 1/3", " epoch 2/3", " epoch 3/3"]
    assert "4 dialogues, 33 turns" in told[0]
    assert "latency p50" in told[0]
    assert "loop lag p99" in told[0]
    for name in ("Key coverage", "Risk coverage", "Judge score", "Resident memory"):
        assert name in done.stdout
    (coverage,) = (line for line in done.stdout.splitlines() if "Risk coverage  " in line)
    assert re.search(r"\d\d\.\d % ", coverage)
    assert "3 epochs, 12 dialogues, 99 turns" in done.stdout
    assert done.stdout.endswith("soak: runs/first/soak_summary.json\nreport: runs/first/report.html\n")
    assert "Over the epochs" in (tmp_path / "runs" / "first" / "report.html").read_text("utf-8")
    assert memfin("validate", "runs/first").returncode == 0
    assert memfin("validate", "runs/first/epochs/000003").returncode == 0
    artifacts = [tmp_path / "runs" / "first" / name for name in ("soak.jsonl", "soak_summary.json")]
    assert memfin("validate", *artifacts).returncode == 0
    assert memfin("report", "runs/first/epochs/000003").returncode == 0
    assert not (tmp_path / "runs" / "first" / "epochs" / "000002" / "dialog_trace.jsonl").exists()


def test_json_is_the_summary_file_alone(memfin: Memfin, tmp_path: Path) -> None:
    done = memfin(
        "soak", "data.jsonl", "--agent", "soaked:Quick", "--duration", "1s", "--run-id", "j", "--json"
    )
    assert done.returncode == 0, done.stderr
    assert done.stdout.encode() == (tmp_path / "runs" / "j" / "soak_summary.json").read_bytes()
    assert json.loads(done.stdout)["epochs"] >= 1


def test_a_reader_sees_the_lines_come_and_a_signal_ends_the_soak_in_order(
    memfin: Memfin, tmp_path: Path
) -> None:
    process = started(
        tmp_path, "soak", "data.jsonl", "--agent", "soaked:Slow", "--duration", "1d", "--run-id", "s"
    )
    for number in (1, 2, 3):
        until(lambda number=number: lines(tmp_path, "s") >= number)  # type: ignore[misc]
        assert process.poll() is None
        assert summary(tmp_path, "s")["state"] == "running"
    assert [line["epoch"] for line in read_jsonl(tmp_path / "runs" / "s" / "soak.jsonl")][:3] == [1, 2, 3]
    process.send_signal(signal.SIGTERM)
    _, told = process.communicate(timeout=60)
    assert process.returncode == 143, told
    assert told.splitlines()[-1] == "memfin: stopped by SIGTERM; memfin resume runs/s goes on"
    found = summary(tmp_path, "s")
    assert (found["state"], found["reason"]) == ("interrupted", "SIGTERM")
    assert memfin("validate", "runs/s").returncode == 0


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGKILL])
def test_a_soak_that_was_ended_goes_on_and_asks_for_nothing_twice(
    memfin: Memfin, tmp_path: Path, number: signal.Signals
) -> None:
    words = (
        "soak",
        "data.jsonl",
        "--agent",
        "soaked:Slow",
        "--epochs",
        3,
        "--run-id",
        "s",
        "--workers-dialog",
        1,
    )
    process = started(tmp_path, *words, "--fsync-turns", 1)
    second = tmp_path / "runs" / "s" / "epochs" / "000002"
    until(lambda: (second / "turn_eval.jsonl").is_file() and (second / "turn_eval.jsonl").stat().st_size > 0)
    process.send_signal(number)
    process.communicate(timeout=60)
    assert process.returncode == (130 if number == signal.SIGINT else -9)
    assert lines(tmp_path, "s") == 1
    done = memfin("resume", "runs/s")
    assert done.returncode == 0, done.stderr
    assert "resuming epoch s.000002" in done.stderr
    found = read_jsonl(tmp_path / "runs" / "s" / "soak.jsonl")
    assert [(line["epoch"], line["turns"], line.get("resumed", False)) for line in found] == [
        (1, 18, False),
        (2, 18, True),
        (3, 18, False),
    ]
    assert found[0]["metrics"] == found[1]["metrics"] == found[2]["metrics"]
    progress = tmp_path / "runs" / "s" / "epochs" / "logs" / "progress_s.000002.jsonl"
    asked = [
        (event["dialog_id"], event["turn_pair_id"])
        for event in read_jsonl(progress)
        if event["event"] == "turn_done"
    ]
    # What a killed process had not yet written to its log of events, of two dialogues at most, is not there.
    assert len(set(asked)) == 18 if number == signal.SIGINT else 18 - len(set(asked)) <= 6
    assert memfin("validate", "runs/s").returncode == 0
    again = memfin("resume", "runs/s", "--json")
    assert json.loads(again.stdout)["epochs"] == 3


def test_a_second_signal_ends_a_soak_whose_agent_hangs_at_once(memfin: Memfin, tmp_path: Path) -> None:
    process = started(
        tmp_path, "soak", "data.jsonl", "--agent", "soaked:Hangs", "--epochs", 3, "--run-id", "h"
    )
    progress = tmp_path / "runs" / "h" / "epochs" / "logs" / "progress_h.000002.jsonl"
    until(lambda: progress.is_file() and b"dialog_started" in progress.read_bytes())
    process.send_signal(signal.SIGTERM)
    process.send_signal(signal.SIGTERM)
    _, told = process.communicate(timeout=60)
    assert process.returncode == 143, told
    assert told.splitlines()[-1] == "memfin: stopped by SIGTERM; memfin resume runs/h goes on"
    (tmp_path / "soaked.py").write_text(AGENTS.replace("asyncio.sleep(3600)", "asyncio.sleep(0)"))
    assert memfin("resume", "runs/h").returncode == 0
    assert lines(tmp_path, "h") == 3
    assert memfin("validate", "runs/h").returncode == 0


def test_a_fault_of_the_disk_is_exit_3_and_the_soak_goes_on_afterwards(
    memfin: Memfin, tmp_path: Path
) -> None:
    """No file may grow beyond 12 KiB: the second epoch's journal, or the soak's own lines, hit that."""

    def small_files() -> None:
        resource.setrlimit(resource.RLIMIT_FSIZE, (12 << 10, 12 << 10))

    words = ("soak", "data.jsonl", "--agent", "soaked:Quick", "--epochs", "2", "--run-id", "s", "--quiet")
    done = subprocess.run(
        [sys.executable, "-m", "memfin", *words],
        cwd=tmp_path,
        env=unmeasured(),
        capture_output=True,
        text=True,
        timeout=120,
        preexec_fn=small_files,
        check=False,
    )
    assert done.returncode == 3, done.stderr
    assert len(done.stderr.strip().splitlines()) == 1
    assert "File too large" in done.stderr
    assert "memfin resume runs/s goes on" in done.stderr
    assert summary(tmp_path, "s")["state"] == "failed"
    finished = memfin("resume", "runs/s", "--quiet")
    assert finished.returncode == 0, finished.stderr
    assert lines(tmp_path, "s") == 2
    assert memfin("validate", "runs/s").returncode == 0


def test_gates_fail_the_soak_as_a_whole(memfin: Memfin, tmp_path: Path) -> None:
    words = ("soak", "data.jsonl", "--agent", "soaked:Fails", "--epochs", 2, "--quiet")
    done = memfin(*words, "--fail-on-error", 6, "--run-id", "a")
    assert done.returncode == 1
    assert done.stderr.splitlines() == [
        "memfin: warning: 6 of 36 turns failed, more than 5%",
        "memfin: --fail-on-error 6: 6 of 36 turns failed (16.7%)",
    ]
    assert memfin(*words, "--fail-on-error", 7, "--run-id", "b").returncode == 0
    done = memfin(*words, "--fail-under", "m5_explainability.rubric_hit_rate=1", "--run-id", "c")
    assert done.returncode == 1
    assert "m5_explainability.rubric_hit_rate=1: the value is" in done.stderr
    assert summary(tmp_path, "c")["gates"]


def test_prometheus_metrics_are_served_while_the_soak_goes_on(memfin: Memfin, tmp_path: Path) -> None:
    process = started(
        tmp_path, "soak", "data.jsonl", "--agent", "soaked:Slow", "--duration", "1d", "--run-id", "p",
        "--metrics-port", 0, "--quiet",
    )  # fmt: skip
    until(lambda: "\n" in process.errors_so_far())
    address = re.fullmatch(
        r"memfin: metrics at (http://127\.0\.0\.1:(\d+)/metrics)\n", process.errors_so_far()
    )
    assert address is not None
    try:
        until(lambda: lines(tmp_path, "p") >= 2)
        with urllib.request.urlopen(address[1], timeout=30) as answer:  # noqa: S310 - http, see above
            text = answer.read().decode()
        assert re.search(r"^memfin_soak_epochs_total [1-9]", text, re.MULTILINE)
        assert re.search(r'^memfin_soak_turns_total\{status="ok"\} [1-9]', text, re.MULTILINE)
        done = memfin("soak", "data.jsonl", "--epochs", 1, "--run-id", "q", "--metrics-port", address[2])
        refused(done, f"127.0.0.1:{address[2]}: Address already in use")
        assert not (tmp_path / "runs" / "q").exists()
    finally:
        process.send_signal(signal.SIGINT)
        process.communicate(timeout=60)
    assert process.returncode == 130
    again = started(tmp_path, "resume", "runs/p", "--quiet")
    until(lambda: again.errors_so_far().startswith("memfin: metrics at http://127.0.0.1:"))
    until(lambda: summary(tmp_path, "p")["processes"] == 2)
    again.send_signal(signal.SIGTERM)
    again.communicate(timeout=60)
    assert again.returncode == 143


def test_what_cannot_be_is_refused_in_one_line(memfin: Memfin, tmp_path: Path) -> None:
    refused(memfin("soak", "data.jsonl"), "--duration", "--epochs")
    refused(memfin("soak", "data.jsonl", "--duration", "soon"), "--duration 'soon'", "8h")
    refused(memfin("soak", "missing.jsonl", "--epochs", 1), "missing.jsonl: no such file")
    refused(memfin("soak", "data.jsonl", "--epochs", 1, "--keep-epochs", -1), "keep_epochs")
    assert not (tmp_path / "runs").exists()
    assert memfin("soak", "data.jsonl", "--epochs", 1, "--run-id", "a", "--quiet").returncode == 0
    refused(memfin("resume", "runs/a", "--retry-failed"), "--retry-failed")
    assert memfin("run", "data.jsonl", "--run-id", "b", "--quiet").returncode == 0
    refused(memfin("resume", "runs/b", "--metrics-port", 0), "--metrics-port", "only for soaks")


def test_settings_come_from_the_file_and_the_environment_too(memfin: Memfin, tmp_path: Path) -> None:
    (tmp_path / "memfin.toml").write_text('dataset = "data.jsonl"\nagent = "soaked:Quick"\nquiet = true\n')
    done = memfin("soak", env={"MEMFIN_EPOCHS": "2", "MEMFIN_RUN_ID": "e"})
    assert done.returncode == 0, done.stderr
    assert lines(tmp_path, "e") == 2
    config = json.loads((tmp_path / "runs" / "e" / "config.json").read_bytes())
    assert config["settings"]["agent"] == "soaked:Quick"
