"""The page about agents over the wire: its programs run and its messages are those of the protocol."""

import asyncio
import os
import re
import socket
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import jsonschema
import pytest
from aiohttp.test_utils import TestClient, TestServer

from memfin.agents.http.protocol import API_KEY, CODES, openapi_document
from memfin.contracts import RunStats
from memfin.contracts.reading import decode
from tests.client.faulty_server import FaultyServer
from tests.commands import run_beside_us, run_command
from tests.docs.pages import ROOT, blocks
from tests.support import read_jsonl

PAGE = ROOT / "docs" / "agents-over-the-wire.md"
TEN_LINES = 12


def program(name: str) -> str:
    programs = (block.text for block in blocks(PAGE) if block.language == "python")
    return next(text for text in programs if text.startswith(f"# {name}\n"))


def environment(**more: str) -> dict[str, str]:
    kept = {name: value for name, value in os.environ.items() if not name.startswith(("MEMFIN_", "OPENAI_"))}
    return {**kept, "PYTHONPATH": str(ROOT), **more}


@pytest.fixture
def port() -> int:
    with socket.create_server(("127.0.0.1", 0)) as free:
        number: int = free.getsockname()[1]
        return number


@pytest.fixture
def service(tmp_path: Path, port: int) -> Iterator[str]:
    """Run the page's service on a free port."""
    text = program("my_service.py")
    assert len([line for line in text.splitlines() if line.strip()]) <= TEN_LINES
    (tmp_path / "my_service.py").write_text(text.replace("8765", str(port)), "utf-8")
    process = subprocess.Popen(
        [sys.executable, "my_service.py"], cwd=tmp_path, env=environment(), stdout=subprocess.PIPE, text=True
    )
    try:
        assert process.stdout is not None
        assert process.stdout.readline() == f"memfin agent server: http://127.0.0.1:{port}\n"
        yield f"http://127.0.0.1:{port}"
    finally:
        process.terminate()
        process.communicate(timeout=60)


def test_the_service_of_the_page_is_evaluated_from_the_command_line(service: str, tmp_path: Path) -> None:
    words = ["run", "--agent", service, "--limit", "4", "--run-id", "r", "--quiet", "--fail-on-error", "0"]
    done = run_command(*words, cwd=tmp_path, env=environment())
    assert done.returncode == 0, done.stderr
    traces = read_jsonl(tmp_path / "runs" / "r" / "dialog_trace.jsonl")
    replies = {turn["pred_assistant_text"] for trace in traces for turn in trace["turns"]}
    assert replies == {"市场存在不确定性，本金可能亏损。"}
    assert run_command("validate", "runs/r", cwd=tmp_path, env=environment()).returncode == 0


async def test_the_tools_of_the_page_are_called(tmp_path: Path) -> None:
    (tmp_path / "evaluate_with_tools.py").write_text(program("evaluate_with_tools.py"), "utf-8")

    def respond(body: dict[str, Any]) -> Any:
        if body["messages"][-1]["role"] == "tool":
            return body["messages"][-1]["content"]
        arguments = '{"fund": "A", "years": 2}'
        return {
            "role": "assistant",
            "content": None,
            "tool_calls": [
                {"id": "c", "type": "function", "function": {"name": "fund_fee", "arguments": arguments}}
            ],
        }

    async with FaultyServer(responder=respond) as server:
        process = await asyncio.create_subprocess_exec(
            sys.executable,
            "evaluate_with_tools.py",
            cwd=tmp_path,
            env=environment(OPENAI_BASE_URL=server.base_url),
            stdout=asyncio.subprocess.PIPE,
        )
        printed, _ = await process.communicate()
    assert (process.returncode, printed) == (0, b"0\n")
    (trace,) = read_jsonl(tmp_path / "runs" / "tools" / "dialog_trace.jsonl")
    assert {turn["pred_assistant_text"] for turn in trace["turns"]} == {'{"fee":99.75}'}


async def test_a_model_with_the_memory_of_the_page_from_the_command_line(tmp_path: Path) -> None:
    (tmp_path / "my_memory.py").write_text(program("my_memory.py"), "utf-8")
    (tmp_path / "prompt.md").write_text("简短回答。", "utf-8")
    async with FaultyServer(usage=(10, 2)) as server:
        words = ["run", "--agent", "openai:qwen3", "--agent-memory", "my_memory:LastWords", "--run-id", "r"]
        words += [
            "--agent-system",
            "prompt.md",
            "--limit",
            "2",
            "--fail-on-error",
            "0",
            "--trace-version=v1.1",
        ]
        env = environment(MEMFIN_AGENT_BASE_URL=server.base_url, MEMFIN_AGENT_API_KEY="canary-9")
        done = await run_beside_us(*words, cwd=tmp_path, env=env)
        assert done.returncode == 0, done.stderr
        assert server.arrivals[0].headers["Authorization"] == "Bearer canary-9"
        systems = {arrival.body["messages"][0]["content"].split("\n")[0] for arrival in server.arrivals}
        assert systems == {"简短回答。"}
    stats = decode((tmp_path / "runs" / "r" / "run_stats.json").read_bytes(), RunStats)
    assert stats.usage is not None
    assert stats.usage.prompt_tokens == 10 * stats.usage.calls == 10 * sum(stats.turns_by_status.values())
    traces = read_jsonl(tmp_path / "runs" / "r" / "dialog_trace.jsonl")
    assert len(traces[0]["turns"][2]["recall"]["items"]) == 2
    written = b"".join(path.read_bytes() for path in (tmp_path / "runs").glob("**/*.*") if path.is_file())
    assert b"canary" not in written
    assert traces[0]["turns"][0]["usage"]["calls"] == 1
    checked = await run_beside_us("validate", "runs/r", cwd=tmp_path, env=environment())
    assert checked.returncode == 0


@pytest.mark.parametrize("agent", ["openai:m", "http://user:pw@127.0.0.1:1"])
def test_what_cannot_be_reached_by_its_settings_is_one_line_and_exit_code_2(
    agent: str, tmp_path: Path
) -> None:
    done = run_command("run", "--agent", agent, cwd=tmp_path, env=environment())
    assert (done.returncode, done.stdout, len(done.stderr.splitlines())) == (2, "", 1)
    assert not (tmp_path / "runs").exists()


async def test_the_embedded_application_of_the_page_serves() -> None:
    namespace: dict[str, Any] = {"__name__": "embedded"}
    exec(program("embedded.py"), namespace)  # noqa: S102 - our own page
    async with TestClient(TestServer(namespace["host"])) as client:
        assert (await client.get("/advice/healthz")).status == 200
        assert (await client.post("/advice/sessions", json={})).status == 401


def test_the_messages_of_the_page_are_those_of_the_document() -> None:
    document = openapi_document()
    shown = [block.text for block in blocks(PAGE) if block.language == "json"]
    names = ["OpenSession", "SessionOpened", "TurnRequest", "TurnAnswer", "CommitRequest", "ErrorAnswer"]
    assert len(shown) == len(names)
    for name, text in zip(names, shown, strict=True):
        schema = {"$ref": f"#/components/schemas/{name}", "components": document["components"]}
        message = decode(text.encode(), dict[str, Any])
        jsonschema.Draft202012Validator(schema).validate(message)
        known = document["components"]["schemas"][name]["properties"]
        assert set(message) <= set(known), name


def test_what_the_page_names_is_there() -> None:
    text = PAGE.read_text("utf-8")
    assert API_KEY in text
    for code in re.findall(r"`((?:agent|unknown)_\w+)`", text):
        assert code in CODES or code == "agent_factory"
