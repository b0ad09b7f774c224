"""Runs that are killed at random moments lose nothing and do nothing twice."""

import json
import os
import re
import subprocess
import sys
from pathlib import Path

import pytest

from tests.commands import run_command
from tests.support import length

CYCLES = length(6, 200)
SLOW_CYCLES = length(2, 40)
ROOT = Path(__file__).resolve().parents[2]

SLOW_AGENT = """
import asyncio, os, pathlib, signal

class Stopping:
    \"\"\"Ends its own process once, in its thirtieth turn.\"\"\"

    turns = 0

    def __init__(self, session, observer):
        self._session = session

    async def reply(self, user_text):
        Stopping.turns += 1
        if Stopping.turns == 30 and not pathlib.Path("stopped").exists():
            pathlib.Path("stopped").touch()
            os.kill(os.getpid(), signal.SIGTERM)
            await asyncio.sleep(60)
        return "市场存在不确定性，仅供参考。"
"""


@pytest.mark.parametrize(("cycles", "words"), [(CYCLES, []), (SLOW_CYCLES, ["--slow-judge"])])
def test_kills_at_random_moments_cost_nothing_that_was_answered(cycles: int, words: list[str]) -> None:
    script = str(Path(__file__).with_name("crash_cycles.py"))
    command = [sys.executable, script, "--cycles", str(cycles), *words]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    assert (done.returncode, done.stderr) == (0, ""), done.stdout
    told = re.fullmatch(rf"{cycles} kills, [1-9]\d* runs completed, 0 failures\n", done.stdout)
    assert told is not None


def test_a_run_that_a_signal_ended_says_how_it_goes_on_and_does(tmp_path: Path) -> None:
    (tmp_path / "slow_agent.py").write_text(SLOW_AGENT, "utf-8")

    def memfin(*words: str) -> subprocess.CompletedProcess[str]:
        environment = {**os.environ, "PYTHONPATH": os.pathsep.join([str(ROOT), str(tmp_path)])}
        return run_command(*words, cwd=tmp_path, env=environment)

    stopped = memfin("run", "--agent", "slow_agent:Stopping", "--run-id", "r", "--quiet")
    assert stopped.returncode == 143
    assert stopped.stderr == "memfin: stopped by SIGTERM; memfin resume runs/r goes on\n"
    resumed = memfin("resume", "runs/r")
    assert resumed.returncode == 0, resumed.stderr
    assert "memfin: resuming run r: " in resumed.stderr
    assert resumed.stdout.endswith("report: runs/r/report.html\n")
    again = memfin("resume", "runs/r", "--json")
    assert json.loads(again.stdout) == json.loads((tmp_path / "runs/r/metrics_summary.json").read_bytes())
    refused = memfin("resume", "runs/none", "--quiet")
    assert (refused.returncode, refused.stderr) == (2, "memfin: run runs/none: no such directory\n")
    assert memfin("validate", "runs/r").returncode == 0
