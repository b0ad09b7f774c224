"""The command group: help without imports, suggestions, options by group."""

import subprocess
import sys

import click
import pytest
from click.testing import CliRunner

from memfin.cli.main import COMMANDS, memfin


def test_help_lists_the_commands_without_importing_them() -> None:
    program = (
        "import sys\nfrom memfin.cli.main import memfin\n"
        "memfin(['--help'], standalone_mode=False)\n"
        "print([name for name in sys.modules if name.startswith('memfin.cli.')], file=sys.stderr)\n"
    )
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=True)
    assert done.stderr == "['memfin.cli.main']\n"
    listed = done.stdout.partition("Commands:\n")[2].splitlines()
    assert [line.split()[0] for line in listed] == list(COMMANDS)


@pytest.mark.parametrize(
    ("word", "suggestion"), [("rnu", " Did you mean 'run'?"), ("soka", " Did you mean 'soak'?"), ("xyz", "")]
)
def test_a_misspelt_command_is_answered_by_the_nearest_one(word: str, suggestion: str) -> None:
    with pytest.raises(click.UsageError) as refused:
        memfin([word], standalone_mode=False)
    assert refused.value.format_message().rstrip(".") == f"No such command '{word}'.{suggestion}".rstrip(".")


@pytest.mark.parametrize("name", ["run", "soak", "bench", "score", "validity"])
def test_help_groups_the_options(name: str) -> None:
    shown = CliRunner().invoke(memfin, [name, "--help"], catch_exceptions=False).output
    headings = [line for line in shown.splitlines() if line.endswith(":") and not line.startswith(" ")]
    assert "Judge:" in headings
    assert headings[-1] == "Other options:"
    assert len(headings) == len(set(headings))
