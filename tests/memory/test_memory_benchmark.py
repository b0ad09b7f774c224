"""The benchmark of the memory layer measures what the layer writes, and leaves nothing behind."""

import json
import os
import signal
import subprocess
import sys
import time
from pathlib import Path

ROOT = Path(__file__).parents[2]


def benchmark(room: Path, *arguments: str) -> "subprocess.Popen[str]":
    command = [sys.executable, "benchmarks/memory.py", "--root", str(room), *arguments]
    environment = {**os.environ, "PYTHONPATH": str(ROOT)}
    pipe = subprocess.PIPE
    return subprocess.Popen(command, cwd=ROOT, env=environment, stdout=pipe, stderr=pipe, text=True)


def test_a_small_run_has_figures_of_both_storages_and_leaves_nothing(tmp_path: Path) -> None:
    run = benchmark(tmp_path, "--users", "3", "--threads", "2", "--tasks", "7", "--reads", "8")
    output, errors = run.communicate()
    assert (run.returncode, errors) == (0, "")
    figures = json.loads(output)
    assert figures["assembly"].keys() == {"files", "sqlite"}
    assert figures["sweep"]["task_contexts"] == 7
    assert list(tmp_path.iterdir()) == []


def test_a_run_that_is_ended_leaves_nothing_either(tmp_path: Path) -> None:
    run = benchmark(tmp_path, "--users", "10000")
    while not list(tmp_path.glob("*/lived/consents")):
        time.sleep(0.01)
        assert run.poll() is None
    run.send_signal(signal.SIGTERM)
    run.communicate()
    assert run.returncode == 128 + signal.SIGTERM
    assert list(tmp_path.iterdir()) == []
