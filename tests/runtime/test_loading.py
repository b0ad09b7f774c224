"""What a command does not need it does not load: memory and the time until it starts are the user's."""

import subprocess
import sys
from pathlib import Path

RUN = """
import functools, sys, anyio, memfin
anyio.run(functools.partial(memfin.evaluate, agent="echo", runs_dir=sys.argv[1], limit=1))
"""
COMMANDS = """
import sys
from memfin.cli.main import memfin

for name in sys.argv[1:]:
    memfin.get_command(None, name)
"""
HEAVY = "import sys; print(*(name for name in ('aiohttp', 'pypdf') if name in sys.modules))\n"


def loaded(program: str, *arguments: str) -> list[str]:
    """Return the heavy packages that a program of its own has loaded at its end."""
    command = [sys.executable, "-c", program + HEAVY, *arguments]
    return subprocess.run(command, check=True, capture_output=True, text=True).stdout.split()


def test_a_run_without_endpoints_does_not_load_the_http_client(tmp_path: Path) -> None:
    assert loaded(RUN, str(tmp_path)) == []


def test_commands_load_the_http_client_only_for_an_endpoint() -> None:
    assert loaded(COMMANDS, "run", "soak", "bench", "validity", "report") == []
