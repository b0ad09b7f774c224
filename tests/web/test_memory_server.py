"""The MCP server of a user's memory, by the SDK's client."""

import os
import sys
from collections.abc import AsyncIterator, Iterator
from contextlib import asynccontextmanager
from importlib.util import find_spec
from pathlib import Path
from typing import Any

import anyio
import pytest

from memfin.memory import MemoryStore
from memfin.memory.tools import MemoryTools
from tests.commands import run_command
from tests.memory.memory_world import EVERYTHING
from tests.support import on_use

pytestmark = pytest.mark.skipif(find_spec("mcp") is None, reason="mcp is not installed")
mcp = on_use("mcp")
memory_server = on_use("memfin.web.memory_server")
ROOT = Path(__file__).resolve().parents[2]


@pytest.fixture
def store(tmp_path: Path) -> Iterator[MemoryStore]:
    with MemoryStore(tmp_path / "data") as opened:
        opened.grant_consent("ada", EVERYTHING)
        yield opened


@asynccontextmanager
async def client(server: Any) -> AsyncIterator[Any]:
    with anyio.fail_after(60):
        async with mcp.Client(server) as connected:
            yield connected


async def test_an_assistant_remembers_searches_and_forgets(store: MemoryStore) -> None:
    async with client(memory_server.MemoryServer(MemoryTools(store, "ada")).protocol()) as connected:
        tools = {each.name: each for each in (await connected.list_tools()).tools}
        assert [*tools] == ["remember", "search_memory", "list_memory", "update_memory", "forget_memory"]
        assert tools["search_memory"].annotations.read_only_hint
        assert tools["forget_memory"].annotations.destructive_hint
        made = await connected.call_tool("remember", {"text": "no leverage", "kind": "constraint"})
        found = await connected.call_tool("search_memory", {"query": "leverage"})
        assert found.structured_content["items"] == [made.structured_content]
        await connected.call_tool("forget_memory", {"item_id": made.structured_content["item_id"]})
        assert (await connected.call_tool("list_memory", {})).structured_content == {"items": []}


async def test_a_refusal_is_an_error_in_one_line(store: MemoryStore) -> None:
    async with client(memory_server.MemoryServer(MemoryTools(store, "ada")).protocol()) as connected:
        store.revoke_consent("ada")
        for name, arguments, words in (
            ("remember", {"text": "no leverage"}, "consent"),
            ("forget_memory", {"item_id": "item_1"}, "none with that id"),
            ("search_memory", {"query": "a", "limit": 0}, "limit: "),
            ("recall", {}, "known tools: remember"),
        ):
            result = await connected.call_tool(name, arguments)
            assert result.is_error
            assert words in result.content[0].text
            assert "\n" not in result.content[0].text


async def test_the_command_serves_the_memory_of_one_user(store: MemoryStore, tmp_path: Path) -> None:
    store.items.add("ada", "no leverage", kind="constraint")
    server = mcp.StdioServerParameters(
        command=sys.executable,
        args=["-m", "memfin", "memory", "mcp", "--user", "ada", "--route", "pre_execution"],
        env={"PYTHONPATH": os.pathsep.join((str(ROOT), *sys.path)), "PYTHONDONTWRITEBYTECODE": ""},
        cwd=tmp_path,
    )
    async with client(server) as connected:
        listed = await connected.call_tool("list_memory", {})
        assert [each["text"] for each in listed.structured_content["items"]] == ["no leverage"]


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        (("--user", "ada", "--data", "absent"), "absent: no such directory"),
        (("--user", "a/b"), "user id: must be"),
        (("--user", "ada", "--thread", "../b"), "thread id: must be"),
        (("--user", "ada", "--route", "none"), "'none' is not one of"),
        ((), "Missing option '--user'"),
    ],
)
def test_bad_usage_is_one_line(
    store: MemoryStore, tmp_path: Path, arguments: tuple[str, ...], words: str
) -> None:
    done = run_command("memory", "mcp", *arguments, cwd=tmp_path)
    assert (done.returncode, done.stdout) == (2, "")
    (line,) = done.stderr.splitlines()
    assert words in line
    assert store.list_threads("ada") == []


async def test_a_damaged_thread_is_an_error_without_its_path(store: MemoryStore) -> None:
    thread_id = store.save_thread("ada", "snap_1", "Gold", {"type": "asset"}).thread_id
    store.workspace.paths.thread("ada", thread_id).write_bytes(b"{")
    server = memory_server.MemoryServer(MemoryTools(store, "ada", thread_id=thread_id))
    async with client(server.protocol()) as connected:
        answer = await connected.call_tool("remember", {"text": "no leverage"})
        assert answer.is_error
        assert [each.text for each in answer.content] == ["the memory cannot be read"]
