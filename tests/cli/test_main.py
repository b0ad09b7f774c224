"""The command group: help without imports, suggestions, options by group."""

import subprocess
import sys

import click
import pytest
from click.testing import CliRunner

from memfin.cli.main import COMMANDS, memfin, report_problem


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


def test_a_misspelt_option_is_not_answered_by_one_that_shares_only_its_dashes(
    capsys: pytest.CaptureFixture[str],
) -> None:
    for word, suggestion in (("--model", ""), ("--sed", " Did you mean '--seed'?")):
        with pytest.raises(click.NoSuchOption) as refused:
            memfin(["run", word, "x"], standalone_mode=False)
        report_problem(refused.value)
        assert capsys.readouterr().err == f"memfin: No such option '{word}'.{suggestion}\n"


@pytest.mark.parametrize(("words", "same"), [(["help"], ["--help"]), (["help", "run"], ["run", "--help"])])
def test_help_is_a_command_too(words: list[str], same: list[str]) -> None:
    shown = CliRunner().invoke(memfin, words, catch_exceptions=False)
    assert (shown.exit_code, shown.output) == (0, CliRunner().invoke(memfin, same).output)


def test_no_summary_of_a_command_is_cut() -> None:
    for words in ([], ["memory"], ["memory", "token"]):
        shown = CliRunner().invoke(memfin, [*words, "--help"], catch_exceptions=False).output
        assert "..." not in shown.partition("Commands:\n")[2]


@pytest.mark.parametrize("name", ["run", "soak", "bench", "score", "validity"])
def test_help_groups_the_options(name: str) -> None:
    shown = CliRunner().invoke(memfin, [name, "--help"], catch_exceptions=False).output
    headings = [line for line in shown.splitlines() if line.endswith(":") and not line.startswith(" ")]
    assert "Judge:" in headings
    assert headings[-1] == "Other options:"
    assert len(headings) == len(set(headings))


def test_a_call_that_cannot_be_stopped_does_not_hinder_the_end_of_the_process() -> None:
    """The interpreter would end its thread inside compiled code; exit handlers do not run then."""
    program = """
import asyncio, atexit, time
from memfin.cli.main import end_with_threads
from memfin.sandbox.thread import CallThread

async def main():
    try:
        await asyncio.wait_for(CallThread("memfin-scorer").call(time.sleep, 60), 0.01)
    except TimeoutError:
        pass

atexit.register(print, "exit handlers")
asyncio.run(main())
end_with_threads(3)
"""
    command = [sys.executable, "-c", program]
    done = subprocess.run(command, capture_output=True, text=True, timeout=30, check=False)
    assert (done.returncode, done.stdout) == (3, "")
