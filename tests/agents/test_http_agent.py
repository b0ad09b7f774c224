"""Agents behind the agent protocol: the same rows as in this process, whatever the agent does."""

import asyncio
import os
import random
import re
import signal
import socket
import subprocess
import sys
import time
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager, nullcontext
from pathlib import Path
from typing import Any

import pytest
from aiohttp import web
from aiohttp.test_utils import TestServer

import memfin
from memfin.agents.builtin import BuiltinAgent
from memfin.agents.http import application, serve
from memfin.agents.http.protocol import API_KEY
from memfin.agents.protocol import AgentReply
from memfin.agents.registry import resolve_agent
from memfin.contracts import ConfigFile, RunStats
from memfin.contracts.reading import decode
from memfin.dataset import SAMPLE
from memfin.errors import RunFault, UsageError
from memfin.runtime import run_eval_parallel
from memfin.sandbox.calls import CallFailed
from tests.support import WanderingAgent, dataset, read_jsonl

ROOT = Path(__file__).resolve().parents[2]


@asynccontextmanager
async def served(factory: Callable[..., Any], **options: Any) -> AsyncIterator[str]:
    """Serve an agent on a free port of loopback and yield its URL."""
    server = TestServer(application(factory, **options))
    await server.start_server()
    try:
        yield str(server.make_url("/")).rstrip("/")
    finally:
        await server.close()


async def run(
    runs: Path, run_id: str, agent: Any, data: Path, *, created: bool = True, **config: Any
) -> list[dict[str, Any]]:
    """Evaluate and return the rows, with the traces' turns, but for names and times.

    Without ``created`` no agent can be, which the run has to say.
    """
    settings: dict[str, Any] = {"judge": "none", "trace_version": "v1.1"} | config
    with nullcontext() if created else pytest.raises(UsageError, match="agent could not be created"):
        await memfin.evaluate(data, agent=agent, runs_dir=runs, run_id=run_id, **settings)
    rows = read_jsonl(runs / run_id / "turn_eval.jsonl")
    traces = read_jsonl(runs / run_id / "dialog_trace.jsonl")
    for each in [*rows, *traces]:
        for name in ("run_id", "worker_id", "session_id", "user_id"):
            each.pop(name, None)
        for turn in each.get("turns", []):
            turn.pop("latency_ms")
            for tool in turn["tools"]:
                tool.pop("latency_ms")
            for item in (turn["recall"] or {}).get("items", []):
                item.pop("item_id")
                item.pop("session_id")
    order = lambda each: (each["dialog_id"], each.get("turn_pair_id", 0))  # noqa: E731 - read once
    return [*sorted(rows, key=order), *sorted(traces, key=order)]


class Base:
    def __init__(self, session: Any, observer: Any) -> None:
        self.session = session
        self.observer = observer
        self.turn = 0

    async def reply(self, user_text: str) -> Any:
        self.turn += 1
        return f"{self.turn}: {user_text}"


class PlainAgent(Base):
    """Plain functions, a history of its own, and a reply that carries its observations."""

    history: list[str]

    def reply(self, user_text: str) -> Any:
        self.turn += 1
        self.history = [*getattr(self, "history", []), user_text]
        self.observer.tool(tool_name="look", args=(1, 2), error="none") if self.turn == 3 else None
        self.observer.tool(tool_name="look", args={"n": (self.turn, 2.0)}, latency_ms=1.0)
        return AgentReply(
            text=" ".join(self.history),
            recall={"query": user_text, "short_term_context": "".join(self.history[:-1])},
            compliance={"is_compliant": True, "violations": [{"rule": "无"}]},
            profile_snapshot={"risk_level": "medium", "score": 1.0, "nested": {"a": [None, True]}},
            usage={"model": "m", "calls": 1, "prompt_tokens": 5},
        )

    def commit(self, assistant_text: str) -> None:
        self.history.append(f"<{assistant_text}>")


class BadObservations(Base):
    async def reply(self, user_text: str) -> Any:
        self.turn += 1
        if self.turn == 1:
            self.observer.recall(query="fine", token_count="many")  # noqa: S106 - no password
        elif self.turn == 2:
            self.observer.profile(risk_level=float("nan"))
        else:
            return AgentReply(text="kept", tools=[{"args": {}}], usage={"calls": 1})
        self.observer.tool(tool_name="fine")
        return "kept"


class BadUsage(Base):
    async def reply(self, user_text: str) -> Any:
        return AgentReply(text="kept", usage={"calls": "many"})


class Raising(Base):
    async def reply(self, user_text: str) -> Any:
        self.turn += 1
        self.observer.recall(query=f"asked {self.turn}")
        self.observer.tool(tool_name="first")
        if self.turn == 2:
            raise ValueError("two\nlines of 坏消息")
        return None if self.turn == 3 else "fine"


class FailingCommit(Base):
    async def commit(self, assistant_text: str) -> None:
        if self.turn == 2:
            raise KeyError(assistant_text[:3])


def refusing(session: Any, observer: Any) -> Any:
    raise ImportError("no model here")


@pytest.mark.parametrize("history", ["free", "forced"])
@pytest.mark.parametrize(
    "factory",
    [BuiltinAgent, WanderingAgent, PlainAgent, BadObservations, BadUsage, Raising, FailingCommit, refusing],
)
async def test_the_rows_are_those_of_the_agent_in_this_process(
    factory: Any, history: str, tmp_path: Path
) -> None:
    if history == "forced" and not hasattr(factory, "commit"):
        pytest.skip("history forced needs commit")
    data = dataset(tmp_path / "data.jsonl", 6)
    settings: dict[str, Any] = {"history": history, "created": factory is not refusing}
    here = await run(tmp_path, "here", factory, data, **settings)
    async with served(factory) as url:
        there = await run(tmp_path, "there", url, data, **settings)
    assert there == here
    assert len(here) == 24


async def test_forced_history_needs_commit_on_the_other_side(tmp_path: Path) -> None:
    data = dataset(tmp_path / "data.jsonl", 1)
    async with served(Base) as url:
        with pytest.raises(UsageError, match="needs an agent with a commit method"):
            await run(tmp_path, "r", url, data, history="forced")
    assert not (tmp_path / "r").exists()


async def test_every_session_is_closed_in_the_end(tmp_path: Path) -> None:
    closed: list[str] = []

    class Closing(Base):
        async def close(self) -> None:
            closed.append(self.session.dialog_id)

    async with served(Closing) as url:
        await run(tmp_path, "r", url, dataset(tmp_path / "data.jsonl", 5))
        assert sorted(closed) == [f"d{number:04}" for number in range(5)]


async def test_the_papers_name_the_service_and_sum_its_usage(tmp_path: Path) -> None:
    data = dataset(tmp_path / "data.jsonl", 2)
    async with served(PlainAgent) as url:
        await run(tmp_path, "r", url, data, fail_on_error=None)
    config = decode((tmp_path / "r" / "config.json").read_bytes(), ConfigFile)
    assert (config.settings.agent, config.fingerprint_inputs["agent"]) == (url, url)
    stats = decode((tmp_path / "r" / "run_stats.json").read_bytes(), RunStats)
    assert stats.usage is not None
    assert (stats.usage.calls, stats.usage.prompt_tokens, stats.usage.model) == (6, 30, "m")


async def test_connections_are_shared_and_closed_with_the_run(tmp_path: Path) -> None:
    transports: set[int] = set()
    app = application(Base)

    @web.middleware
    async def remember(request: web.Request, handler: Any) -> Any:
        assert request.transport is not None
        transports.add(id(request.transport.get_extra_info("socket")))
        return await handler(request)

    app.middlewares.append(remember)
    server = TestServer(app)
    await server.start_server()
    source = resolve_agent(str(server.make_url("/")))
    try:
        data = dataset(tmp_path / "data.jsonl", 8)
        await run(tmp_path, "r", str(server.make_url("/")), data, workers_dialog=1)
    finally:
        await server.close()
    assert len(transports) == 1  # 40 requests
    await source.close()


# --- turns that are sent again


def dropping(app: web.Application, drops: Callable[[web.Request, int], bool]) -> web.Application:
    """Break the connection of some requests once their answer is there."""
    seen: dict[str, int] = {}

    @web.middleware
    async def middleware(request: web.Request, handler: Any) -> Any:
        response = await handler(request)
        number = seen[request.path] = seen.get(request.path, 0) + 1
        if drops(request, number):
            assert request.transport is not None
            request.transport.abort()
        return response

    app.middlewares.append(middleware)
    return app


async def test_an_answer_lost_on_its_way_is_given_again_and_the_agent_asked_once(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("memfin.agents.replay.FIRST_BACKOFF", 0.001)
    data = dataset(tmp_path / "data.jsonl", 4)
    here = await run(tmp_path, "here", PlainAgent, data)
    server = TestServer(dropping(application(PlainAgent), lambda request, number: number % 2 == 1))
    await server.start_server()
    try:
        there = await run(tmp_path, "there", str(server.make_url("/")), data, turn_retries=50)
    finally:
        await server.close()
    assert there == here  # PlainAgent's replies tell whatever it was asked or committed twice
    stats = decode((tmp_path / "there" / "run_stats.json").read_bytes(), RunStats)
    assert stats.turn_retries >= 4 * (3 + 3)  # every other answer of each session was dropped


async def test_a_third_of_all_calls_failing_changes_no_row(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("memfin.agents.replay.FIRST_BACKOFF", 0.001)
    chance = random.Random(5)
    met: set[str] = set()

    @web.middleware
    async def failing(request: web.Request, handler: Any) -> Any:
        assert request.transport is not None
        if chance.random() >= 0.3 or request.method == "DELETE":
            return await handler(request)
        fault = chance.choice(["reset", "reset after", "429", "502", "503", "504", "half"])
        met.add(fault)
        if fault.isdecimal():
            return web.Response(status=int(fault), headers={"Retry-After": "0"}, text="<html>")
        response = await handler(request) if fault != "reset" else web.Response()
        if fault == "half":
            request.transport.write(b"HTTP/1.1 200 OK\r\nContent-Length: 500\r\n\r\n{")
            request.transport.close()
        else:
            request.transport.abort()
        return response

    data = dataset(tmp_path / "data.jsonl", 20)
    here = await run(tmp_path, "here", PlainAgent, data)
    app = application(PlainAgent)
    app.middlewares.append(failing)
    server = TestServer(app)
    await server.start_server()
    try:
        there = await run(tmp_path, "there", str(server.make_url("/")), data, turn_retries=30)
    finally:
        await server.close()
    assert there == here
    assert len(met) == 7


async def test_a_transport_error_of_the_agent_itself_is_retried(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("memfin.agents.replay.FIRST_BACKOFF", 0.001)

    class Flaky(Base):
        async def reply(self, user_text: str) -> Any:
            self.turn += 1
            if self.turn % 2:
                raise memfin.TransportError("503 of the model") if self.turn % 4 == 1 else ConnectionError
            return "fine"

    async with served(Flaky) as url:
        rows = await run(tmp_path, "r", url, dataset(tmp_path / "data.jsonl", 1))
    assert [turn["turn_status"] for turn in rows[-1]["turns"]] == ["ok"] * 3


class Odd(memfin.TransportError):
    @property
    def retry_after(self) -> float:
        raise RuntimeError("odd")

    @retry_after.setter
    def retry_after(self, value: float) -> None:
        pass


@pytest.mark.parametrize("asked", ["5", float("nan"), float("inf"), 10**400, -3, [], True, Odd("x")])
async def test_a_retry_after_that_makes_no_sense_is_none(
    asked: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("memfin.agents.replay.FIRST_BACKOFF", 0.001)

    class Busy(Base):
        async def reply(self, user_text: str) -> Any:
            self.turn += 1
            if self.turn == 1:
                raise asked if isinstance(asked, Odd) else memfin.TransportError("busy", retry_after=asked)
            return "fine"

    data = dataset(tmp_path / "data.jsonl", 1)
    rows = await run(tmp_path, "here", Busy, data)
    assert [turn["turn_status"] for turn in rows[-1]["turns"]] == ["ok"] * 3
    async with served(Busy) as url:
        assert await run(tmp_path, "there", url, data) == rows


async def test_an_observation_error_that_is_no_text_is_recorded(tmp_path: Path) -> None:
    class Wrong(Base):
        async def reply(self, user_text: str) -> Any:
            return AgentReply(text="x", observation_error=5)  # type: ignore[arg-type]

    rows = await run(tmp_path, "r", Wrong, dataset(tmp_path / "data.jsonl", 1))
    found = {(turn["error"], turn["observation_error"]) for turn in rows[-1]["turns"]}
    assert found == {(None, "observation_error is an object of type int")}


async def test_retry_after_is_heeded(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    pauses: list[float] = []
    monkeypatch.setattr("memfin.agents.replay.anyio.sleep", lambda pause: _note(pauses, pause))

    class Busy(Base):
        async def reply(self, user_text: str) -> Any:
            self.turn += 1
            if self.turn == 1:
                raise memfin.TransportError("busy", retry_after=17.0)
            return "fine"

    data = dataset(tmp_path / "data.jsonl", 1)
    await run(tmp_path, "here", Busy, data)
    async with served(Busy) as url:
        await run(tmp_path, "there", url, data)
    assert pauses == [17.0, 17.0]
    del pauses[:]
    rows = await run(tmp_path, "short", Busy, data, turn_timeout=10.0)
    assert pauses == []  # it would be over the turn's time
    assert rows[-1]["turns"][0]["error"] == "TransportError: busy"


async def _note(pauses: list[float], pause: float) -> None:
    if pause > 1.0:  # shorter ones are not the replay's
        pauses.append(pause)


# --- the server as a process


PROGRAM = """
import sys
from memfin.agents.builtin import BuiltinAgent
from memfin.agents.http import serve
serve(BuiltinAgent, port=0)
print("stopped")
"""


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGINT])
async def test_a_server_process_gives_the_same_rows_and_stops_on_a_signal(
    number: signal.Signals, tmp_path: Path
) -> None:
    environment = {name: value for name, value in os.environ.items() if name != API_KEY}
    process = subprocess.Popen(  # noqa: ASYNC220 - read in a thread below
        [sys.executable, "-c", PROGRAM], cwd=ROOT, env=environment, stdout=subprocess.PIPE, text=True
    )
    try:
        assert process.stdout is not None
        line = await asyncio.to_thread(process.stdout.readline)
        match = re.fullmatch(r"memfin agent server: (http://127\.0\.0\.1:\d+)\n", line)
        assert match is not None, line
        there = await run(tmp_path, "there", match[1], SAMPLE, limit=3)
        process.send_signal(number)
        rest = await asyncio.to_thread(process.stdout.read)
        assert (rest, await asyncio.to_thread(process.wait, 30)) == ("stopped\n", 0)
    finally:
        process.kill()
        process.wait()
        if process.stdout is not None:
            process.stdout.close()
    assert there == await run(tmp_path, "here", "builtin", SAMPLE, limit=3)


def test_serving_the_network_needs_a_token(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv(API_KEY, raising=False)
    with pytest.raises(UsageError, match=rf"agent server on 0\.0\.0\.0: .*; set {API_KEY} to a token"):
        serve(Base, host="0.0.0.0", port=0)  # noqa: S104 - that is what must not happen


def test_an_address_that_is_taken_is_an_error_of_one_line(monkeypatch: pytest.MonkeyPatch) -> None:
    with socket.create_server(("127.0.0.1", 0)) as taken:
        port = taken.getsockname()[1]
        with pytest.raises(UsageError, match=rf"agent server on 127\.0\.0\.1:{port}: "):
            serve(Base, port=port)
    with pytest.raises(UsageError, match="agent factory: expected a callable, got str"):
        application("builtin")  # type: ignore[arg-type]


# --- tokens


@pytest.mark.parametrize("shown", ["s3cret-t0ken", "other", "s3cret-t0kenx", ""])
async def test_a_server_with_a_token_serves_those_who_show_it(
    shown: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv(API_KEY, shown)
    async with served(Base, token="s3cret-t0ken") as url:  # noqa: S106 - of this test alone
        data = dataset(tmp_path / "data.jsonl", 1)
        if shown == "s3cret-t0ken":
            rows = await run(tmp_path, "r", url, data)
            assert {turn["turn_status"] for turn in rows[-1]["turns"]} == {"ok"}
        else:
            error = f"{url}: HTTP 401 unauthorized the bearer token is missing or wrong; look at {API_KEY}"
            with pytest.raises(RunFault, match=error + ("; " if shown else r" \(not set\); ")):
                await run(tmp_path, "r", url, data)


async def test_a_token_that_comes_back_is_written_nowhere(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv(API_KEY, "canary/key+1")

    async def echo(request: web.Request) -> web.Response:
        shown = request.headers["Authorization"]
        if request.path == "/sessions":
            return web.json_response({"protocol": 1, "id": "x"}, status=201)
        body = await request.json()
        if body["turn"] == 1:
            return web.json_response({"text": shown, "recall": {"query": shown}})
        status = 502 if body["turn"] == 2 else 400
        return web.json_response({"error": {"code": shown, "message": shown}}, status=status)

    app = web.Application()
    app.router.add_post("/{path:.*}", echo)
    server = TestServer(app)
    await server.start_server()
    try:
        await run(
            tmp_path, "r", str(server.make_url("/")), dataset(tmp_path / "data.jsonl", 1), turn_retries=0
        )
    finally:
        await server.close()
    assert b"Bearer ***" in everything_in(tmp_path)
    assert b"canary" not in everything_in(tmp_path)


def everything_in(directory: Path) -> bytes:
    return b"".join(path.read_bytes() for path in directory.rglob("*") if path.is_file())


@pytest.mark.parametrize(
    "url",
    [
        "http://user:geheim@127.0.0.1:1",
        "http://:geheim@127.0.0.1:1/x",
        "https://h/x?key=geheim",
        "http://h#geheim",
        "http://",
        "http://:80",
        "http://h:99999/geheim",
        "http://h:0",
    ],
)
def test_an_unusable_url_is_refused_without_its_secrets(url: str, tmp_path: Path) -> None:
    with pytest.raises(UsageError, match=r"^agent.*: ") as refused:
        run_eval_parallel(dataset(tmp_path / "d.jsonl", 1), agent_factory=url, runs_dir=tmp_path / "r")
    assert "geheim" not in str(refused.value)
    assert not (tmp_path / "r").exists()


def test_a_token_that_no_header_can_carry_is_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv(API_KEY, "schlüssel\n2")
    with pytest.raises(UsageError, match=API_KEY):
        resolve_agent("http://127.0.0.1:1")


async def test_a_protocol_of_another_version_is_told(tmp_path: Path) -> None:
    async def answer(request: web.Request) -> web.Response:
        return web.json_response({"protocol": 2, "id": "x"}, status=201)

    app = web.Application()
    app.router.add_post("/sessions", answer)
    server = TestServer(app)
    await server.start_server()
    source = resolve_agent(str(server.make_url("/")))
    try:
        session = memfin.Session(run_id="r", dialog_id="d", session_id="s", user_id="u")
        with pytest.raises(CallFailed, match="speaks version 2 of the agent protocol, not 1"):
            await source.factory_for(None)(session, None)  # type: ignore[arg-type]
    finally:
        await source.close()
        await server.close()


async def test_a_turn_over_its_time_is_a_timeout_and_the_next_one_is_asked(tmp_path: Path) -> None:
    ended: list[float] = []

    class Slow(Base):
        async def reply(self, user_text: str) -> Any:
            self.turn += 1
            if self.turn == 2:
                try:
                    await asyncio.sleep(3600)
                finally:
                    ended.append(time.monotonic())
            return "fine"

    async with served(Slow) as url:
        rows = await run(tmp_path, "r", url, dataset(tmp_path / "data.jsonl", 1), turn_timeout=4.0)
    assert [turn["turn_status"] for turn in rows[-1]["turns"]] == ["ok", "timeout", "ok"]
    assert len(ended) == 1
