"""The page for compliance officers works as written, and shows what its commands and reports say."""

import html
import re
from collections.abc import AsyncIterator
from pathlib import Path

import pytest

from tests.docs.page_session import PageSession, page_session
from tests.docs.pages import ROOT, blocks, prose
from tests.support import read_jsonl

PAGE = ROOT / "docs" / "zh" / "compliance-officer.md"
FAILED = {
    "memfin run --agent adviser:before": 1,
    "memfin check reply.txt": 1,
    "memfin score runs/after/dialog_trace.jsonl": 1,
}
"""Commands by their first words with the exit code that the page expects, where it is not 0."""


@pytest.fixture(scope="module")
async def session(tmp_path_factory: pytest.TempPathFactory) -> AsyncIterator[PageSession]:
    async with page_session(tmp_path_factory.mktemp("compliance")) as (session, _):
        session.set("MEMFIN_WORKERS_SCORE", "0")
        await session.work_through(PAGE)
        yield session


def report(session: PageSession, run: str) -> str:
    """Return the text of a run's report without the marks of Markdown."""
    text = (session.folder / "runs" / run / "report.md").read_text("utf-8")
    return html.unescape(re.sub(r"\*\*|\\(?=_)", "", text))


def lines(text: str) -> list[str]:
    return [line for line in text.splitlines() if line.strip()]


async def test_every_command_ends_with_the_exit_code_of_the_page(session: PageSession) -> None:
    assert len(session.done) >= 12
    for line, process in session.done:
        expected = next((code for words, code in FAILED.items() if line.startswith(words)), 0)
        assert process.returncode == expected, f"{line}\n{process.stderr}"
        assert "Traceback" not in process.stderr, line


async def test_the_outputs_are_those_of_the_commands_above_them(session: PageSession) -> None:
    done, shown = dict(session.done), 0
    for block in blocks(PAGE):
        if block.follows is None or block.follows.language != "sh" or block.file is not None:
            continue
        processes = [done[line] for line in block.follows.text.splitlines()]
        output = "".join(process.stdout + process.stderr for process in processes)
        for line in lines(block.text):
            assert line in output, f"{PAGE.name}:{block.line}: {line}"
            shown += 1
    assert shown >= 12


async def test_the_excerpts_are_those_of_the_files_of_the_first_run(session: PageSession) -> None:
    config = (session.folder / "runs" / "before" / "config.json").read_text("utf-8")
    excerpts = [
        line
        for block in blocks(PAGE)
        if block.language == "text" and block.file is None
        if block.follows is None or block.follows.language != "sh"
        for line in lines(block.text)
    ]
    assert len(excerpts) >= 5
    for line in excerpts:
        assert line in report(session, "before") + config


async def test_the_figures_of_the_text_are_those_of_the_runs(session: PageSession) -> None:
    text = prose(PAGE)
    assert "0/125 条回复严重违规，占 0.0%，95% 区间 0.0–26.5%" in report(session, "after")
    assert "0.0–26.5%" in text
    assert "53.6% 风险提示覆盖率" in report(session, "after")
    assert "53.6%" in text
    assert "8/125 条回复严重违规，占 6.4%，95% 区间 1.7–21.7%" in report(session, "after-rule")
    assert "6.4%（1.7–21.7%）" in text
    assert "严重违规 (8 轮)" in report(session, "after-rule")


async def test_no_rule_sees_the_hint_that_the_reader_finds(session: PageSession) -> None:
    (hint,) = re.findall(r"^> (您放心.*)$", prose(PAGE), re.MULTILINE)
    folder: Path = session.folder / "runs" / "before"
    found = [
        trace["dialog_id"]
        for trace in read_jsonl(folder / "dialog_trace.jsonl")
        for turn in trace["turns"]
        if hint in turn["pred_assistant_text"]
    ]
    assert (len(found), len(set(found))) == (8, 7)
    assert "在 7 段对话里出现了 8 次" in prose(PAGE)
    assert hint not in (session.folder / "tables" / "findings.csv").read_text("utf-8")
