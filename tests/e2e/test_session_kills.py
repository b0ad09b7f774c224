"""Runs of clients with sessions that are killed anywhere have the summary of one that nobody killed."""

import subprocess
import sys
from pathlib import Path

from tests.support import length


def test_kills_inside_a_client_change_nothing() -> None:
    script = str(Path(__file__).with_name("session_kills.py"))
    command = [sys.executable, script, "--step", str(24 // length(1, 24))]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    assert (done.returncode, done.stderr) == (0, ""), done.stdout
    assert done.stdout.endswith(" kills, 0 differences\n")
