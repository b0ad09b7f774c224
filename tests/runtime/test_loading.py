"""What a command does not need it does not load: memory and the time until it starts are the user's."""

import subprocess
import sys
from pathlib import Path

import pytest

RUN = """
import functools, sys, anyio, memfin
anyio.run(functools.partial(memfin.evaluate, agent="echo", runs_dir=sys.argv[1], limit=1))
"""
COMMAND = "import sys; from memfin.cli.main import memfin; memfin.get_command(None, sys.argv[1])\n"
HEAVY = "import sys; print(*(name for name in ('aiohttp', 'pypdf') if name in sys.modules))\n"


def loaded(program: str, argument: str) -> list[str]:
    """Return the heavy packages that a program of its own has loaded at its end."""
    command = [sys.executable, "-c", program + HEAVY, argument]
    return subprocess.run(command, check=True, capture_output=True, text=True).stdout.split()


def test_a_run_without_endpoints_does_not_load_the_http_client(tmp_path: Path) -> None:
    assert loaded(RUN, str(tmp_path)) == []


@pytest.mark.parametrize("command", ["run", "soak", "bench", "validity", "report"])
def test_a_command_loads_the_http_client_only_for_an_endpoint(command: str) -> None:
    assert loaded(COMMAND, command) == []
