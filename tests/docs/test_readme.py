"""The READMEs show the output of a run, each in its language, and the agent of the ten-minutes page."""

import os
import re
from pathlib import Path

import pytest

from tests.commands import run_beside_us
from tests.docs.pages import ROOT, blocks

NUMBER = re.compile(r"[\d.]+ ?%?|-")
RUN_ID = re.compile(r"\b\d{8}_\d{6}_[0-9a-f]{6}\b")


def shape(output: str) -> list[str]:
    """Return an output's lines without figures, run ids and their padding."""
    lines = [" ".join(NUMBER.sub("", RUN_ID.sub("", line)).split()) for line in output.splitlines()]
    return [re.sub("─+", "─", line) for line in lines if line and not line.startswith("memfin:")]


@pytest.mark.parametrize(("name", "language"), [("README.md", "en"), ("README.zh-CN.md", "zh")])
async def test_a_readme_shows_the_output_of_a_run_in_its_language(
    tmp_path: Path, name: str, language: str
) -> None:
    environment = {**os.environ, "COLUMNS": "80", "PYTHONPATH": str(ROOT)}
    done = await run_beside_us("run", "--lang", language, cwd=tmp_path, env=environment)
    shown = next(block.text for block in blocks(ROOT / name) if block.language == "text")
    assert shape(done.stdout) == shape(shown)


def test_the_agent_of_the_readme_is_that_of_the_ten_minutes_page() -> None:
    agents = []
    for name in ("README.md", "docs/ten-minutes.md"):
        code = next(block.text for block in blocks(ROOT / name) if block.language == "python")
        agents.append([line.split("  #")[0] for line in code.splitlines() if not line.startswith("#")])
    assert agents[0] == agents[1]
    assert len(agents[0]) <= 10
