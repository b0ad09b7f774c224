"""Clients of the openai package as agents; the model is a server on loopback."""

import functools
from collections.abc import AsyncIterator, Iterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import pytest

import memfin
from memfin.agents.openai.prompts import shipped_prompt
from memfin.agents.registry import resolve_agent
from memfin.contracts import ConfigFile
from memfin.contracts.reading import read_json
from memfin.errors import RunFault, UsageError
from tests.agents.loopback_model import Answer, LoopbackModel, loopback_model
from tests.support import dataset, read_jsonl

openai: Any = pytest.importorskip("openai", reason="needs the openai package")

httpx: Any = pytest.importorskip("httpx", reason="comes with the openai package")

KEY = "sk-of-the-client"


def pair(client: Any) -> Any:
    return client, "m"


def completions(client: Any) -> Any:
    return functools.partial(client.chat.completions.create, model="m", temperature=0.5, top_p=0.9)


async def turns_of(agent: Any, tmp_path: Path, run_id: str = "r") -> list[dict[str, Any]]:
    data = dataset(tmp_path / "data.jsonl", 1, 2)
    await memfin.evaluate(
        data,
        agent=agent,
        runs_dir=tmp_path,
        run_id=run_id,
        judge="none",
        trace_version="v1.1",
        workers_score=0,
    )
    turns: list[dict[str, Any]] = read_jsonl(tmp_path / run_id / "dialog_trace.jsonl")[0]["turns"]
    return turns


@asynccontextmanager
async def client_of(name: str, server: LoopbackModel) -> AsyncIterator[Any]:
    client = getattr(openai, name)(api_key=KEY, base_url=server.base_url, max_retries=0)
    try:
        yield client
    finally:
        closed = client.close()
        if closed is not None:
            await closed


@pytest.mark.parametrize("form", [pair, completions])
@pytest.mark.parametrize("name", ["OpenAI", "AsyncOpenAI"])
async def test_a_client_answers_with_history_and_system_prompt(name: str, form: Any, tmp_path: Path) -> None:
    async with loopback_model(lambda body: f"reply {len(body['messages']) // 2}") as server:
        async with client_of(name, server) as client:
            turns = await turns_of(form(client), tmp_path)
        assert [turn["pred_assistant_text"] for turn in turns] == ["reply 1", "reply 2"]
        assert turns[0]["usage"]["prompt_tokens"] == 11
        assert [message["role"] for message in server.asked[1]] == ["system", "user", "assistant", "user"]
        assert server.asked[1][0]["content"] == shipped_prompt().text("zh")
        assert server.headers[0]["Authorization"] == f"Bearer {KEY}"
        sent = server.requests[0]
        assert (sent["model"], sent["temperature"]) == ("m", 0.5 if form is completions else 0.0)
        assert sent.get("top_p") == (0.9 if form is completions else None)
    config = (tmp_path / "r" / "config.json").read_text()
    assert read_json(tmp_path / "r" / "config.json", ConfigFile).settings.agent == "openai:m"
    assert KEY not in config
    assert server.base_url in config


async def test_tool_calls_are_recorded(tmp_path: Path) -> None:
    def answer(body: dict[str, Any]) -> Any:
        if body["messages"][-1]["role"] == "tool":
            return "done"
        call = {"id": "c1", "type": "function", "function": {"name": "quote", "arguments": '{"code": "1"}'}}
        return {"role": "assistant", "content": None, "tool_calls": [call]}

    async with loopback_model(answer) as server, client_of("AsyncOpenAI", server) as client:
        turns = await turns_of((client, "m"), tmp_path)
    assert [turn["pred_assistant_text"] for turn in turns] == ["done", "done"]
    assert [(tool["tool_name"], tool["args"]) for tool in turns[0]["tools"]] == [("quote", {"code": "1"})]


async def test_errors_of_a_client(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A refused key ends the run, a refused parameter is left out, an unavailable model is asked again."""
    monkeypatch.setattr("memfin.agents.replay.FIRST_BACKOFF", 0.001)
    async with (
        loopback_model(lambda _: 401, error=f"bad key {KEY}") as server,
        client_of("AsyncOpenAI", server) as client,
    ):
        with pytest.raises(RunFault, match=r"401 - bad key \*\*\*; look at the client's api_key"):
            await turns_of((client, "m"), tmp_path, "a")
    answers: Iterator[Answer] = iter([503, "first", "second"])
    async with loopback_model(lambda _: next(answers)) as server, client_of("OpenAI", server) as client:
        turns = await turns_of((client, "m"), tmp_path, "b")
    assert [turn["pred_assistant_text"] for turn in turns] == ["first", "second"]
    without = "Unsupported parameter: 'temperature' is not supported with this model."

    def answer(body: dict[str, Any]) -> Answer:
        return 400 if "temperature" in body else "fine"

    async with (
        loopback_model(answer, error=without) as server,
        client_of("AsyncOpenAI", server) as client,
    ):
        turns = await turns_of((client, "m"), tmp_path, "c")
    assert [turn["pred_assistant_text"] for turn in turns] == ["fine", "fine"]
    assert len(server.requests) == 3


@pytest.mark.parametrize(
    "agent",
    [
        (openai.OpenAI(api_key="k"), ""),
        functools.partial(openai.AsyncOpenAI(api_key="k").chat.completions.create, temperature=0),
    ],
)
def test_a_client_without_a_model_is_refused(agent: Any) -> None:
    with pytest.raises(UsageError, match="a client of openai needs the name of a model"):
        resolve_agent(agent)


async def test_a_page_instead_of_a_completion_is_an_error_of_the_turn(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("memfin.agents.replay.FIRST_BACKOFF", 0.001)
    page = httpx.MockTransport(lambda _: httpx.Response(200, html="<html></html>"))
    async with openai.AsyncOpenAI(api_key=KEY, http_client=httpx.AsyncClient(transport=page)) as client:
        turns = await turns_of((client, "m"), tmp_path, "a")
    assert all("is no chat completion; base_url may lack its /v1" in turn["error"] for turn in turns)
