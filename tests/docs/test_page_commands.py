"""The commands of every page work as written, one after another in a folder of the reader's.

A block of the language ``sh`` is run, unless the line above it is ``<!-- not run: REASON -->``. The files
that the page takes for granted exist (`page_props`), its servers listen on other ports, and soaks
are short. Chinese pages have the same blocks, by `test_chinese_pages`.
"""

import json
import re
import shutil
from importlib.util import find_spec
from pathlib import Path
from typing import Any, Final

import msgspec
import pytest
from aiohttp.test_utils import TestServer

from memfin.contracts import RagAnswer
from memfin.contracts.rag import RagCitation
from memfin.rag.http import application
from tests.agents.loopback_model import Answer
from tests.docs.page_props import Props
from tests.docs.page_session import adviser_and_judge, assert_all_succeeded, page_session
from tests.docs.pages import ROOT, blocks, pages
from tests.support import each_case

COMMAND: Final = re.compile(
    r"^(?:\$ +)?(?:[A-Z_]+=\S+ +)*(?:\.venv/bin/)?(?:memfin|pip|python|make|curl|git|docker|export) \S",
    re.MULTILINE,
)
SHORTER: Final = {
    "--duration 8h": "--epochs 1",
    "--epochs 100": "--epochs 2",
    "--epochs 3": "--epochs 2",
    "--repeats 5": "--repeats 2",
    "await my_client.ask(": "'净值会波动。'.format(",
}
NO_ANSWER: Final = RagAnswer(answer="原文没有说明。", abstained=True)
RIGHT_ANSWER: Final = RagAnswer(
    answer="42000", amount=42000, citation=[RagCitation(page=1, quote="42000 yuan")]
)


def worked_through_elsewhere() -> set[str]:
    """Return the names of the pages whose own tests work through them."""
    tests = [path.read_text("utf-8") for path in Path(__file__).parent.glob("test_*.py")]
    return {
        page
        for text in tests
        if "work_through(PAGE)" in text
        for page in re.findall(r'^PAGE = ROOT / "docs" / (?:"zh" / )?"([\w-]+\.md)"$', text, re.MULTILINE)
    }


def pages_of_commands() -> list[Path]:
    """Return the English pages with commands that no other test runs."""
    found = [*sorted((ROOT / "docs").glob("*.md")), ROOT / "README.md", ROOT / "CONTRIBUTING.md"]
    elsewhere = worked_through_elsewhere()
    return [
        page
        for page in found
        if page.name not in elsewhere
        and any(block.language == "sh" and block.unrun is None for block in blocks(page))
    ]


def any_model(request: dict[str, Any]) -> Answer:
    """Answer as an adviser, as a judge of replies or answers, or as a system that answers from a document."""
    schema = (request.get("response_format") or {}).get("json_schema", {}).get("schema", {})
    asked = schema.get("properties", {})
    if "faithfulness" in asked:
        return json.dumps({name: "r" if name.endswith("reason") else 5 for name in asked})
    if "abstained" in asked:
        return json.dumps(
            {name: value for name, value in msgspec.to_builtins(NO_ANSWER).items() if name in asked}
        )
    return adviser_and_judge(request)


class RightAboutAmounts:
    """A RAG system that a page has at an address of its own."""

    def query(self, question: str) -> RagAnswer:
        del question
        return RIGHT_ANSWER


@pytest.fixture(scope="module")
def props(tmp_path_factory: pytest.TempPathFactory) -> Props:
    return Props(tmp_path_factory.mktemp("props"))


def missing(page: Path) -> list[str]:
    """Return the programs and packages that a page needs and that are not installed."""
    written = "".join(block.text for block in blocks(page) if block.unrun is None)
    needed = {
        "curl": ("curl ", shutil.which("curl")),
        "mcp": ("memfin mcp ", find_spec("mcp")),
        "fsspec": ("memfin upload ", find_spec("fsspec")),
        "pyarrow": ("--to parquet", find_spec("pyarrow")),
    }
    return [name for name, (words, found) in needed.items() if words in written and found is None]


@pytest.mark.parametrize("page", pages_of_commands(), ids=lambda page: page.stem)
async def test_the_commands_of_a_page_work(page: Path, props: Props, tmp_path: Path) -> None:
    if names := missing(page):
        pytest.skip(f"not installed: {', '.join(names)}")
    props.prepare(page, tmp_path)
    async with (
        TestServer(application(RightAboutAmounts())) as rag_service,
        page_session(tmp_path, any_model) as (session, model),
    ):
        session.replaced |= SHORTER | {"https://rag.example": str(rag_service.make_url(""))}
        session.set("OPENAI_BASE_URL", model.base_url)
        session.set("OPENAI_API_KEY", "k")
        session.set("MEMFIN_WORKERS_SCORE", "0")
        session.set("MEMFIN_LIMIT", "3")
        await session.work_through(page)
    assert session.done
    assert_all_succeeded(session.done)
    printed = "".join(process.stdout for _, process in session.done)
    for block in blocks(page):
        if block.language == "text" and block.follows is not None and block.follows.language == "sh":
            assert block.text in printed


@each_case("page", [*pages(), *ROOT.glob("examples/**/*.md")])
def test_commands_stand_in_blocks_that_are_run_or_say_why_not(page: Path) -> None:
    for block in blocks(page):
        if block.language in ("", "text", "console", "bash", "shell") and block.unrun is None:
            found = COMMAND.search(block.text)
            assert found is None, f"line {block.line}: {found and found[0]}"
