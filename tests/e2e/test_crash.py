"""Runs that are killed at random moments lose nothing and do nothing twice."""

import re
import subprocess
import sys
from pathlib import Path

CYCLES = 300


def test_kills_at_random_moments_cost_nothing_that_was_committed() -> None:
    words = [sys.executable, str(Path(__file__).with_name("crash_cycles.py")), "--cycles", str(CYCLES)]
    done = subprocess.run(words, capture_output=True, text=True, check=False)
    assert (done.returncode, done.stderr) == (0, ""), done.stdout
    told = re.fullmatch(r"300 kills, (\d+) runs completed, 0 failures\n", done.stdout)
    assert told is not None
    assert int(told[1]) >= 5
