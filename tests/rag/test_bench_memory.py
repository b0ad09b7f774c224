"""Memory does not grow with the questions: not in the run, the printing, the report or the gate."""

import json
import subprocess
import sys
from pathlib import Path

from tests.support import length, unmeasured

ROOT = Path(__file__).resolve().parents[2]
QUESTIONS = length(2500, 4000)
MAX_GROWTH_MIB = 8
"""What nine tenths of the questions may take. Kept in memory, the results alone of 2,250 would take 10 MiB,
and the questions and the summary's text some 2.5 each."""


def test_ten_times_the_questions_take_the_same_memory() -> None:
    done = subprocess.run(
        [sys.executable, "benchmarks/rag.py", "--one", "command", str(QUESTIONS)],
        cwd=ROOT,
        env=unmeasured(),
        capture_output=True,
        text=True,
        timeout=300,
        check=False,
    )
    assert done.returncode == 0, done.stderr
    found = json.loads(done.stdout)
    assert found["tenth"] > 20
    assert found["peak"] < found["tenth"] + MAX_GROWTH_MIB
