"""What a run does not need it does not load: memory and the time until it starts are the user's."""

import subprocess
import sys
from pathlib import Path

PROGRAM = """
import functools, sys, anyio, memfin
anyio.run(functools.partial(memfin.evaluate, agent="echo", runs_dir=sys.argv[1], limit=1))
print(*(name for name in ("aiohttp", "pypdf") if name in sys.modules))
"""


def test_a_run_without_endpoints_does_not_load_the_http_client(tmp_path: Path) -> None:
    done = subprocess.run(
        [sys.executable, "-c", PROGRAM, str(tmp_path)], check=True, capture_output=True, text=True
    )
    assert done.stdout.split() == []
