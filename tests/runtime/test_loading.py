"""What a command does not need it does not load: memory and the time until it starts are the user's."""

import re
import resource
import subprocess
import sys
from pathlib import Path

import pytest

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


EXTRAS = (
    r"(pandas|polars|pyarrow|langchain\w*|langgraph|mem0|openai|datasets|inspect_ai|opentelemetry\.proto|mcp)"
    r"(\..*)?"
)
LIMIT = 0.06


@pytest.mark.parametrize(
    "words", [["-c", "import memfin"], ["-m", "memfin", "--version"], ["-m", "memfin", "--help"]]
)
def test_starting_imports_nothing_that_is_optional(words: list[str]) -> None:
    command = [sys.executable, "-X", "importtime", *words]
    done = subprocess.run(command, check=True, capture_output=True, text=True)
    names = {line.rpartition("|")[2].strip() for line in done.stderr.splitlines()}
    assert "memfin.version" in names
    assert not {name for name in names if re.fullmatch(EXTRAS, name)}


def seconds(program: str) -> float:
    """Return the processor time of a program of its own."""
    before = resource.getrusage(resource.RUSAGE_CHILDREN)
    subprocess.run([sys.executable, "-c", program], check=True)
    after = resource.getrusage(resource.RUSAGE_CHILDREN)
    return after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime


def test_the_import_takes_little_more_than_python_itself() -> None:
    """By the fastest of several, in processor time: other work on the machine only adds to it."""
    pairs = [(seconds("pass"), seconds("import memfin")) for _ in range(7)]
    assert min(both[1] for both in pairs) - min(both[0] for both in pairs) < LIMIT
