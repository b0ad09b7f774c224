"""The quickstart works as written: its agent is saved, its commands run one after another."""

import os
import re
import subprocess
import sys
from pathlib import Path

import pytest

from memfin.dataset import SAMPLE
from tests.docs.pages import ROOT, blocks

PAGE = ROOT / "docs" / "quickstart.md"
NUMBER = re.compile(r"[\d.]+ ?%?|-")
RUN_ID = re.compile(r"\b\d{8}_\d{6}_[0-9a-f]{6}\b")


def shell(line: str, folder: Path) -> subprocess.CompletedProcess[str]:
    """Run a line of the page with the environment's programs, as after activating it."""
    programs = os.pathsep.join([str(Path(sys.executable).parent), os.environ["PATH"]])
    environment = {**os.environ, "PATH": programs, "COLUMNS": "80"}
    words = ["/bin/sh", "-c", line]
    return subprocess.run(words, cwd=folder, env=environment, capture_output=True, text=True, check=False)


def shape(output: str) -> list[str]:
    """Return an output's lines without figures, run ids and the room that these take."""
    lines = [" ".join(NUMBER.sub("", RUN_ID.sub("", line)).split()) for line in output.splitlines()]
    return [re.sub("─+", "─", line) for line in lines if line and not line.startswith("memfin:")]


@pytest.fixture(scope="module")
def transcript(
    tmp_path_factory: pytest.TempPathFactory,
) -> list[tuple[str, subprocess.CompletedProcess[str]]]:
    """Work through the page: save every Python block as the agent, run every command."""
    folder = tmp_path_factory.mktemp("quickstart")
    (folder / "my_dialogs.jsonl").write_bytes(SAMPLE.read_bytes())
    done: list[tuple[str, subprocess.CompletedProcess[str]]] = []
    for block in blocks(PAGE):
        if block.language == "python":
            (folder / "my_agent.py").write_text(block.text, "utf-8")
        elif block.language == "sh":
            lines = [line for line in block.text.splitlines() if not line.startswith(". ")]
            done += [(line, shell(line, folder)) for line in lines]
    return done


def test_every_command_of_the_quickstart_succeeds(
    transcript: list[tuple[str, subprocess.CompletedProcess[str]]],
) -> None:
    assert len(transcript) > 8
    for line, done in transcript:
        assert done.returncode == 0, f"{line}\n{done.stderr}"
        assert "Traceback" not in done.stderr, line


def test_the_quickstart_shows_what_its_first_run_prints(
    transcript: list[tuple[str, subprocess.CompletedProcess[str]]],
) -> None:
    shown = next(block.text for block in blocks(PAGE) if block.language == "text")
    assert shape(transcript[0][1].stdout) == shape(shown)


def test_the_readmes_show_what_a_run_prints(tmp_path: Path) -> None:
    printed = shell("memfin run", tmp_path).stdout
    for name in ("README.md", "README.zh-CN.md"):
        shown = next(block.text for block in blocks(ROOT / name) if block.language == "text")
        assert shape(printed) == shape(shown), name


def test_the_agent_of_the_readme_is_that_of_the_quickstart() -> None:
    agents = []
    for name in ("README.md", "docs/quickstart.md"):
        code = next(block.text for block in blocks(ROOT / name) if block.language == "python")
        agents.append([line.split("  #")[0] for line in code.splitlines()])
    assert agents[0] == agents[1]
    assert len(agents[0]) <= 10
