"""Models as deployed: their memory is on the server, which knows client and session by the request."""

import json
from collections import defaultdict
from pathlib import Path
from typing import Any
from urllib.parse import unquote

import pytest
from aiohttp import web
from aiohttp.test_utils import TestServer

import memfin
from memfin.agents.observer import TurnObserver
from memfin.agents.openai import OpenAIAgents
from memfin.agents.openai.identity import Identity
from memfin.agents.protocol import AgentSettings, Session
from memfin.client.endpoint import Endpoint
from memfin.errors import UsageError
from tests.client.faulty_server import FaultyServer
from tests.support import dialog, write_jsonl


def session(user: str, index: int) -> Session:
    return Session(
        run_id="r", session_index=index, dialog_id=f"d{index}", session_id=f"s{index}", user_id=user
    )


async def test_a_server_with_memory_knows_client_and_session() -> None:
    memory: dict[str, list[str]] = defaultdict(list)
    arrivals: list[tuple[dict[str, Any], dict[str, str]]] = []

    async def chat(request: web.Request) -> web.Response:
        body = await request.json()
        arrivals.append((body, dict(request.headers)))
        memory[body["user"]].append(body["messages"][-1]["content"])
        message = {"role": "assistant", "content": " ".join(memory[body["user"]])}
        choice = {"index": 0, "message": message, "finish_reason": "stop"}
        return web.json_response({"model": "m", "choices": [choice]})

    app = web.Application()
    app.router.add_post("/v1/chat/completions", chat)
    settings = AgentSettings(
        system="none",
        history="none",
        user="{user_id}",
        headers=["X-Session-Id: {session_id}", "X-User={user_id}/{session_index}"],
        metadata='{"dialog": "{dialog_id}", "time": "{now}"}',
    )
    async with TestServer(app) as server:
        agents = OpenAIAgents.from_settings("m", settings, Endpoint(str(server.make_url("/v1"))))
        said = []
        wang = "王\r\nX: 1"
        for user, index, words in ((wang, 1, ["one", "two"]), (wang, 2, ["three"]), ("b", 1, ["four"])):
            agent = agents(session(user, index), TurnObserver())
            for text in words:
                said.append((await agent.reply(text)).text)
                await agent.commit(said[-1])
            await agent.close()
        await agents.close()
    assert said == ["one", "one two", "one two three", "four"]
    assert [body["messages"] for body, _ in arrivals] == [
        [{"role": "user", "content": text}] for text in ("one", "two", "three", "four")
    ]
    body, headers = arrivals[2]
    assert (body["user"], body["metadata"]) == ("王\r\nX: 1", {"dialog": "d2", "time": ""})
    assert headers["X-Session-Id"] == "s2"
    assert headers["X-User"] == "%E7%8E%8B%0D%0AX:%201/2"
    assert "X" not in headers
    assert json.dumps(agents.inputs["identity"]).count("{user_id}") == 2


async def test_ids_differ_between_clients_and_last_over_the_sessions_of_each(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    users, sessions = defaultdict(set), set()
    data = [dialog(f"{client}{index}", 2, user_id=client) for index in (1, 2) for client in ("anna", "王")]
    async with FaultyServer() as server:
        monkeypatch.setenv("MEMFIN_AGENT_BASE_URL", server.base_url)
        await memfin.evaluate(
            write_jsonl(tmp_path / "data.jsonl", data),
            agent="openai:m",
            runs_dir=tmp_path,
            agent_user="{user_id}",
            agent_headers=["X-User={user_id}", "X-Session-Id={session_id}#{session_index}"],
        )
        for body, headers in ((each.body, each.headers) for each in server.arrivals):
            client = body["messages"][-1]["content"].partition("：")[0]  # the dialogue's name
            users[client[:-1]].add(body["user"])
            sessions.add((client, session_id := headers["X-Session-Id"]))
            assert unquote(headers["X-User"]) == body["user"]
            assert session_id[-1] == client[-1]
    assert len(server.arrivals) == 8
    assert [len(ids) for ids in users.values()] == [1, 1]
    assert users["anna"] != users["王"]
    assert len(sessions) == len({session_id for _, session_id in sessions}) == len(data)


@pytest.mark.parametrize(
    ("user", "headers", "metadata", "error"),
    [
        ("{client}", [], None, "unknown placeholder {client}; known: {user_id}"),
        ("{user_id", [], None, "agent_user"),
        ("{user_id!r}", [], None, "unknown placeholder"),
        (None, ["authorization: x"], None, "set by the request itself"),
        (None, ["Host=x"], None, "set by the request itself"),
        (None, ["X-A=a\r\nB: c"], None, "line break"),
        (None, ["X-A"], None, "NAME=TEMPLATE"),
        (None, ["X-A=王"], None, "not allowed in an HTTP header"),
        (None, [], '{"a": 1}', "no JSON object of strings"),
        (None, [], "[", "no JSON object of strings"),
    ],
)
def test_unusable_templates_are_refused(
    user: str | None, headers: list[str], metadata: str | None, error: str
) -> None:
    with pytest.raises(UsageError) as caught:
        Identity.of(user, headers, metadata)
    assert error in str(caught.value)
    assert "\n" not in str(caught.value)


@pytest.mark.parametrize("memory", ["none", "builtin"])
async def test_an_agent_goes_on_from_its_snapshot(memory: str) -> None:
    agents = OpenAIAgents("m", memory=memory, endpoint=Endpoint("http://127.0.0.1:9/v1"))
    first: Any = agents(session("u", 1), TurnObserver())
    await first._begin("I have 5000 euros.")
    await first.commit("Noted.")
    second: Any = agents(session("u", 1), TurnObserver())
    await second.restore(await first.snapshot())
    turns = [await each._begin("How much?") for each in (first, second)]
    assert turns[0].messages == turns[1].messages
    assert "5000" in json.dumps(turns[1].messages)
    assert hasattr(first, "carry") is (memory == "builtin")
    for each in (first, second):
        await each.close()
