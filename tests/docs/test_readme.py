"""The READMEs show the output of a run, and the agent of the ten-minutes page."""

import os
import re
from pathlib import Path

from tests.commands import run_beside_us
from tests.docs.pages import ROOT, blocks

NUMBER = re.compile(r"[\d.]+ ?%?|-")
RUN_ID = re.compile(r"\b\d{8}_\d{6}_[0-9a-f]{6}\b")


def shape(output: str) -> list[str]:
    """Return an output's lines without figures, run ids and their padding."""
    lines = [" ".join(NUMBER.sub("", RUN_ID.sub("", line)).split()) for line in output.splitlines()]
    return [re.sub("─+", "─", line) for line in lines if line and not line.startswith("memfin:")]


async def test_the_readmes_show_the_output_of_a_run(tmp_path: Path) -> None:
    done = await run_beside_us(
        "run", cwd=tmp_path, env={**os.environ, "COLUMNS": "80", "PYTHONPATH": str(ROOT)}
    )
    for name in ("README.md", "README.zh-CN.md"):
        shown = next(block.text for block in blocks(ROOT / name) if block.language == "text")
        assert shape(done.stdout) == shape(shown), name


def test_the_agent_of_the_readme_is_that_of_the_ten_minutes_page() -> None:
    agents = []
    for name in ("README.md", "docs/ten-minutes.md"):
        code = next(block.text for block in blocks(ROOT / name) if block.language == "python")
        agents.append([line.split("  #")[0] for line in code.splitlines() if not line.startswith("#")])
    assert agents[0] == agents[1]
    assert len(agents[0]) <= 10
