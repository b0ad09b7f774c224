"""The agent protocol itself: sessions, turns in order, and a document that says what the handlers do."""

import asyncio
import gzip
import json
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import jsonschema
import pytest
from aiohttp import ClientResponse, web
from aiohttp.test_utils import TestClient, TestServer

import memfin
from memfin.agents.http import application
from memfin.agents.http.protocol import CODES, openapi_document

ROOT = Path(__file__).resolve().parents[2]
SHIPPED = ROOT / "docs" / "agent-protocol.openapi.json"


def opening(dialog: str = "d", **changes: Any) -> dict[str, Any]:
    session = {"run_id": "r", "dialog_id": dialog, "session_id": f"s-{dialog}", "user_id": "u"}
    return {"protocol": 1, "session": session, **changes}


class Agent:
    """Counts what it is asked; ``words`` of a turn decide what happens."""

    def __init__(self, session: Any, observer: Any) -> None:
        if session.dialog_id == "refused":
            raise ImportError("no model")
        self.observer = observer
        self.heard: list[str] = []
        self.closed = False

    async def reply(self, user_text: str) -> Any:
        self.heard.append(user_text)
        self.observer.tool(tool_name="t", args={"n": len(self.heard)})
        if user_text == "hang":
            await asyncio.sleep(3600)
        if user_text == "down" and self.heard.count("down") == 1:
            raise memfin.TransportError("model is busy", retry_after=7.0)
        if user_text == "raise":
            raise ValueError("x")
        return memfin.AgentReply(
            text=f"{len(self.heard)}",
            recall={"query": user_text, "items": [{"content": "c", "rank": 1}]},
            compliance={"is_compliant": True},
            profile_snapshot={"risk_level": "low"},
            memory={"items": [{"content": "m"}]},
            usage={"calls": 1},
        )

    async def commit(self, assistant_text: str) -> None:
        if assistant_text == "raise":
            raise ValueError("x")
        self.heard.append(f"<{assistant_text}>")

    async def close(self) -> None:
        self.closed = True


class Silent:
    """Keeps its history itself."""

    def __init__(self, session: Any, observer: Any) -> None:
        pass

    def reply(self, user_text: str) -> str:
        return user_text


class DocumentedClient:
    """A client that holds every answer against the document."""

    def __init__(self, client: TestClient[web.Request, web.Application]) -> None:
        self.client = client
        self.document = openapi_document()
        self.seen: set[tuple[str, str, int]] = set()
        self.codes: set[str] = set()

    async def __call__(self, method: str, path: str, body: Any = None, **options: Any) -> tuple[int, Any]:
        if body is not None:
            options["json"] = body
        async with self.client.request(method, path, **options) as response:
            content = await response.read()
            return response.status, self._checked(method, path, response, content)

    def _checked(self, method: str, path: str, response: ClientResponse, content: bytes) -> Any:
        parts = path.strip("/").split("/")
        template = "/" + "/".join([*parts[:1], *(["{id}"] if len(parts) > 1 else []), *parts[2:]])
        operation = self.document["paths"].get(template, {}).get(method.lower())
        data = json.loads(content) if content else None
        if isinstance(data, dict) and "error" in data:
            self.codes.add(data["error"]["code"])
        if operation is None:
            assert response.status in (404, 405)
            return data
        documented = operation["responses"][str(response.status)]
        self.seen.add((method, template, response.status))
        if "content" not in documented:
            assert content == b""
            return None
        assert response.content_type == "application/json"
        schema = {
            **documented["content"]["application/json"]["schema"],
            "components": self.document["components"],
        }
        jsonschema.Draft202012Validator(schema).validate(data)
        return data


@asynccontextmanager
async def documented_client(
    factory: Callable[..., Any] = Agent, **options: Any
) -> AsyncIterator[DocumentedClient]:
    async with TestClient(TestServer(application(factory, **options))) as client:
        yield DocumentedClient(client)


FOREIGN = ({"Host": "evil.example"}, {"Origin": "http://evil.example"})


async def endless() -> AsyncIterator[bytes]:
    """A body that stays half-sent."""
    yield b"{"
    await asyncio.sleep(30)


async def opened(call: DocumentedClient, dialog: str = "d") -> str:
    status, data = await call("POST", "/sessions", opening(dialog))
    assert status == 201
    return f"/sessions/{data['id']}"


async def test_the_handlers_answer_as_the_document_says(monkeypatch: pytest.MonkeyPatch) -> None:
    """Every status of every operation but the server's own failure is brought about here."""
    async with documented_client(max_sessions=1, max_body_bytes=2000, token="t") as call:  # noqa: S106 - of this test alone
        for method, path in (
            ("POST", "/sessions"),
            ("DELETE", "/sessions/x"),
            ("POST", "/sessions/x/turns"),
            ("POST", "/sessions/x/commit"),
        ):
            assert (await call(method, path))[0] == 401
            assert [(await call(method, path, headers=each))[0] for each in FOREIGN] == [421, 403]
        assert [(await call("GET", "/healthz", headers=each))[0] for each in FOREIGN] == [421, 403]
        call.client.session.headers["Authorization"] = "Bearer t"
        assert (await call("GET", "/healthz"))[1]["sessions"] == 0
        assert (await call("GET", "/openapi.json"))[1] == openapi_document()
        assert (await call("POST", "/sessions", opening("refused")))[0] == 500
        path = await opened(call)
        assert (await call("GET", "/healthz"))[1]["sessions"] == 1
        assert (await call("POST", "/sessions", opening("other")))[0] == 503
        assert (await call("POST", "/sessions", opening(protocol=2)))[0] == 400
        assert (await call("POST", f"{path}/turns", {"turn": 1, "user_text": "down"}))[0] == 503
        assert (await call("POST", f"{path}/turns", {"turn": 1, "user_text": "down"}))[0] == 200
        assert (await call("POST", f"{path}/turns", {"turn": 1, "user_text": "other"}))[0] == 409
        assert (await call("POST", f"{path}/turns", {"turn": 2, "user_text": "raise"}))[0] == 500
        assert (await call("POST", f"{path}/commit", {"turn": 1, "assistant_text": "late"}))[0] == 409
        assert (await call("POST", f"{path}/commit", {"turn": 2, "assistant_text": "raise"}))[0] == 500
        assert (await call("POST", f"{path}/commit", {"turn": 2, "assistant_text": "fine"}))[0] == 204
        for target in ("/sessions", f"{path}/turns", f"{path}/commit"):
            assert (await call("POST", target, {"turn": "x"}))[0] == 400
            assert (await call("POST", target, data=b"{", headers={"Content-Type": "application/json"}))[
                0
            ] == 400
            assert (await call("POST", target, data=b"{}"))[0] == 415
            assert (await call("POST", target, {"turn": "x" * 2000}))[0] == 413
            gone = target.replace(path, "/sessions/gone")
            if gone != target:
                assert (await call("POST", gone, {"turn": 1}))[0] == 404
            with monkeypatch.context() as patch:
                patch.setattr("memfin.hosting.MAX_WAIT", 0.05)
                assert (
                    await call("POST", target, data=endless(), headers={"Content-Type": "application/json"})
                )[0] == 408
        assert (await call("DELETE", path))[0] == 204
        assert (await call("DELETE", path))[0] == 404
        assert (await call("GET", "/nowhere"))[1]["error"]["code"] == "not_found"
        assert (await call("PUT", "/sessions"))[1]["error"]["code"] == "method_not_allowed"
    async with documented_client(Silent) as other:
        other.seen, other.codes = call.seen, call.codes
        path = await opened(other)
        assert (await other("POST", f"{path}/commit", {"turn": 1, "assistant_text": "x"}))[0] == 409
    async with documented_client(max_sessions=1) as other:
        other.seen, other.codes = call.seen, call.codes
        path = await opened(other)
        monkeypatch.setattr(Agent, "commit", _unreachable)
        assert (await other("POST", f"{path}/commit", {"turn": 1, "assistant_text": "x"}))[0] == 503
        asked = opening("d", turn_timeout=1.0)
        path = f"/sessions/{(await other('POST', '/sessions', asked))[1]['id']}"
        assert (await other("POST", f"{path}/turns", {"turn": 1, "user_text": "hang"}))[0] == 500
    documented = {
        (method.upper(), path, int(status))
        for path, item in openapi_document()["paths"].items()
        for method, operation in item.items()
        if method != "parameters"
        for status in operation["responses"]
    }
    twice = ("POST", "/sessions", 409)  # has a test of its own
    assert call.seen | {twice} == documented
    assert call.codes == set(CODES) - {"internal"}


async def _unreachable(self: Any, assistant_text: str) -> None:
    raise ConnectionResetError("database")


def test_the_document_names_the_routes_of_the_application_and_no_others() -> None:
    routes = {
        (route.method, route.resource.canonical)
        for route in application(Agent).router.routes()
        if route.resource is not None
    }
    documented = {
        (method.upper(), path)
        for path, item in openapi_document()["paths"].items()
        for method in item
        if method != "parameters"
    }
    assert routes == documented


def test_the_shipped_document_is_the_served_one() -> None:
    assert json.loads(SHIPPED.read_bytes()) == openapi_document()


def test_every_reference_in_the_document_leads_somewhere() -> None:
    document = openapi_document()
    names = set(document["components"]["schemas"])
    text = json.dumps(document)
    referred = {part.partition('"')[0] for part in text.split("#/components/schemas/")[1:]}
    assert referred == names
    for schema in document["components"]["schemas"].values():
        jsonschema.Draft202012Validator.check_schema(schema)


async def test_a_failure_of_the_server_itself_is_json(monkeypatch: pytest.MonkeyPatch) -> None:
    async with documented_client() as call:
        path = await opened(call)
        monkeypatch.setattr("memfin.agents.http.server._answer", None)
        status, data = await call("POST", f"{path}/turns", {"turn": 1, "user_text": "x"})
        assert (status, data["error"]["code"]) == (500, "internal")
        monkeypatch.undo()
        assert (await call("POST", f"{path}/turns", {"turn": 2, "user_text": "x"}))[0] == 200


# --- sessions


class Clock:
    def __init__(self) -> None:
        self.now = 0.0

    def __call__(self) -> float:
        return self.now


async def test_the_same_turn_again_gets_the_same_answer_and_asks_once() -> None:
    async with documented_client() as call:
        path = await opened(call)
        turn = {"turn": 1, "user_text": "hello"}
        answers = await asyncio.gather(*(call("POST", f"{path}/turns", turn) for _ in range(5)))
        assert [data["text"] for _, data in answers] == ["1"] * 5
        assert (await call("POST", f"{path}/turns", {"turn": 2, "user_text": "hello"}))[1]["text"] == "2"


async def test_a_commit_that_is_sent_again_counts_once() -> None:
    async with documented_client() as call:
        path = await opened(call)
        for _ in range(3):
            assert (await call("POST", f"{path}/commit", {"turn": 1, "assistant_text": "a"}))[0] == 204
        assert (await call("POST", f"{path}/commit", {"turn": 1, "assistant_text": "b"}))[0] == 409
        assert (await call("POST", f"{path}/turns", {"turn": 1, "user_text": "x"}))[0] == 409
        assert (await call("POST", f"{path}/turns", {"turn": 2, "user_text": "x"}))[1]["text"] == "2"


@pytest.mark.parametrize(
    "later",
    [
        ("POST", "turns", {"turn": 2, "user_text": "x"}),
        ("POST", "commit", {"turn": 1, "assistant_text": "x"}),
    ],
)
async def test_a_later_call_ends_the_turn_that_still_runs(later: tuple[str, str, Any]) -> None:
    agents: list[Agent] = []

    def factory(session: Any, observer: Any) -> Agent:
        agents.append(Agent(session, observer))
        return agents[-1]

    async with documented_client(factory) as call:
        path = await opened(call)
        hanging = asyncio.create_task(call("POST", f"{path}/turns", {"turn": 1, "user_text": "hang"}))
        while not agents[0].heard:  # noqa: ASYNC110 - the agent has no event to wait for
            await asyncio.sleep(0.001)
        method, name, body = later
        assert (await call(method, f"{path}/{name}", body))[0] in (200, 204)
        status, data = await hanging
        assert (status, data["error"]["code"]) == (409, "turn_conflict")
        assert agents[0].heard[0] == "hang"


async def test_a_session_of_the_same_name_is_replaced_and_the_old_one_closed() -> None:
    agents: list[Agent] = []

    def factory(session: Any, observer: Any) -> Agent:
        agents.append(Agent(session, observer))
        return agents[-1]

    async with documented_client(factory) as call:
        first = await opened(call)
        second = await opened(call)
        assert [agent.closed for agent in agents] == [True, False]
        assert (await call("POST", f"{first}/turns", {"turn": 1, "user_text": "x"}))[0] == 404
        assert (await call("POST", f"{second}/turns", {"turn": 1, "user_text": "x"}))[0] == 200
    assert [agent.closed for agent in agents] == [True, True]


async def test_a_session_that_is_answering_does_not_expire() -> None:
    clock = Clock()
    agents: list[Agent] = []

    def factory(session: Any, observer: Any) -> Agent:
        agents.append(Agent(session, observer))
        return agents[-1]

    async with documented_client(factory, idle_limit=100.0, clock=clock) as call:
        path = await opened(call)
        hanging = asyncio.create_task(call("POST", f"{path}/turns", {"turn": 1, "user_text": "hang"}))
        while not agents[0].heard:  # noqa: ASYNC110 - the agent has no event to wait for
            await asyncio.sleep(0.001)
        clock.now = 1000.0
        await opened(call, "other")
        assert not agents[0].closed
        assert (await call("DELETE", path))[0] == 204
        assert (await hanging)[0] == 409
        assert agents[0].closed


async def test_the_time_of_a_turn_is_no_idleness() -> None:
    clock = Clock()

    class Slow(Agent):
        async def reply(self, user_text: str) -> Any:
            clock.now += 1000.0
            return "fine"

    async with documented_client(Slow, idle_limit=100.0, clock=clock) as call:
        path = await opened(call)
        assert (await call("POST", f"{path}/turns", {"turn": 1, "user_text": "x"}))[0] == 200
        await opened(call, "other")
        assert (await call("POST", f"{path}/turns", {"turn": 2, "user_text": "x"}))[0] == 200


async def test_a_server_that_stops_ends_its_turns_and_closes_its_agents() -> None:
    agents: list[Agent] = []

    def factory(session: Any, observer: Any) -> Agent:
        agents.append(Agent(session, observer))
        return agents[-1]

    app = application(factory)
    async with TestClient(TestServer(app)) as client:
        call = DocumentedClient(client)
        path = await opened(call)
        hanging = asyncio.create_task(call("POST", f"{path}/turns", {"turn": 1, "user_text": "hang"}))
        while not agents[0].heard:  # noqa: ASYNC110 - the agent has no event to wait for
            await asyncio.sleep(0.001)
        await app.shutdown()
        assert (await hanging)[0] == 409
        assert (await call("POST", "/sessions", opening("late")))[0] == 503
    assert agents[0].closed


async def test_a_session_opened_twice_at_once_has_one_agent() -> None:
    agents: list[Agent] = []
    go = asyncio.Event()

    async def factory(session: Any, observer: Any) -> Agent:
        agent = Agent(session, observer)
        agents.append(agent)
        if len(agents) == 1:
            await go.wait()
        return agent

    async with documented_client(factory) as call:
        first = asyncio.create_task(call("POST", "/sessions", opening()))
        while not agents:  # noqa: ASYNC110 - the agent has no event to wait for
            await asyncio.sleep(0.001)
        assert (await call("POST", "/sessions", opening()))[0] == 201
        go.set()
        assert (await first)[0] == 409
        assert [agent.closed for agent in agents] == [True, False]
        assert (await call("GET", "/healthz"))[1]["sessions"] == 1


async def test_idle_sessions_expire_and_make_room() -> None:
    clock = Clock()
    async with documented_client(max_sessions=2, idle_limit=100.0, clock=clock) as call:
        first = await opened(call, "a")
        clock.now = 60.0
        second = await opened(call, "b")
        assert (await call("POST", "/sessions", opening("c")))[0] == 503
        clock.now = 101.0
        await opened(call, "c")
        assert (await call("DELETE", first))[0] == 404
        clock.now = 160.0
        assert (await call("POST", f"{second}/turns", {"turn": 1, "user_text": "x"}))[0] == 200
        clock.now = 210.0
        await opened(call, "e")
        assert (await call("POST", f"{second}/turns", {"turn": 2, "user_text": "x"}))[0] == 200


async def test_idle_sessions_are_swept_without_a_call() -> None:
    async with documented_client(idle_limit=0.02) as call:
        await opened(call)
        while (await call("GET", "/healthz"))[1]["sessions"]:  # noqa: ASYNC110 - seen from outside
            await asyncio.sleep(0.01)


async def test_an_application_inside_another_one() -> None:
    host = web.Application()
    host.add_subapp("/advice/", application(Agent, token="t"))  # noqa: S106 - of this test alone
    async with TestClient(TestServer(host)) as client:
        assert (await client.get("/advice/healthz")).status == 200
        assert (await client.get("/advice/openapi.json")).status == 200
        assert (await client.post("/advice/sessions", json=opening())).status == 401
        shown = {"Authorization": "Bearer t"}
        assert (await client.post("/advice/sessions", json=opening(), headers=shown)).status == 201
        assert (await client.get("/healthz")).status == 404


async def test_a_compressed_bomb_is_too_large() -> None:
    async with documented_client(max_body_bytes=100_000) as call:
        bomb = gzip.compress(b'{"protocol": 1, "x": "' + b" " * 50_000_000)
        assert len(bomb) < 100_000
        headers = {"Content-Type": "application/json", "Content-Encoding": "gzip"}
        status, data = await call("POST", "/sessions", data=bomb, headers=headers)
        assert (status, data["error"]["code"]) == (413, "too_large")
