"""A service that fails: every failure is one turn's error in one line, and what may be mended is retried."""

import asyncio
import gzip
from collections.abc import Awaitable, Callable
from pathlib import Path
from typing import Any

import pytest
from aiohttp import web
from aiohttp.test_utils import TestServer

import memfin
from memfin.agents.http.client import MAX_ANSWER_BYTES
from tests.support import dataset, read_jsonl

Answer = Callable[[web.Request], Awaitable[web.StreamResponse]]
GOOD = {"text": "市场存在不确定性。"}


@pytest.fixture(autouse=True)
def quick(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("memfin.agents.replay.FIRST_BACKOFF", 0.001)


class Service:
    """Opens sessions soundly; the answers to turns come from a script, the last one for ever."""

    def __init__(self, *script: Answer) -> None:
        self.script = list(script)
        self.turns: list[int] = []

    async def open(self, request: web.Request) -> web.Response:
        return web.json_response({"protocol": 1, "id": "x"}, status=201)

    async def turn(self, request: web.Request) -> web.StreamResponse:
        self.turns.append((await request.json())["turn"])
        answer = self.script.pop(0) if len(self.script) > 1 else self.script[0]
        return await answer(request)

    async def close(self, request: web.Request) -> web.Response:
        return web.Response(status=204)


async def replayed(service: Service, tmp_path: Path, **config: Any) -> list[dict[str, Any]]:
    """Run one dialogue of three turns against the service and return the turns of its trace."""
    app = web.Application()
    app.router.add_post("/sessions", service.open)
    app.router.add_post("/sessions/x/turns", service.turn)
    app.router.add_delete("/sessions/x", service.close)
    server = TestServer(app)
    await server.start_server()
    try:
        url = str(server.make_url("/"))
        data = dataset(tmp_path / "data.jsonl", 1)
        await memfin.evaluate(data, agent=url, runs_dir=tmp_path, run_id="r", judge="none", **config)
    finally:
        await server.close()
    (trace,) = read_jsonl(tmp_path / "r" / "dialog_trace.jsonl")
    turns: list[dict[str, Any]] = trace["turns"]
    for turn in turns:
        if turn["error"] is not None:
            turn["error"] = turn["error"].replace(url.rstrip("/") + "/", "URL")
    return turns


def json_answer(content: Any, status: int = 200, headers: dict[str, str] | None = None) -> Answer:
    async def answer(request: web.Request) -> web.Response:
        return web.json_response(content, status=status, headers=headers)

    return answer


def raw(body: bytes, status: int = 200, headers: dict[str, str] | None = None) -> Answer:
    async def answer(request: web.Request) -> web.Response:
        return web.Response(
            body=body, status=status, headers={"Content-Type": "application/json"} | (headers or {})
        )

    return answer


async def reset(request: web.Request) -> web.StreamResponse:
    assert request.transport is not None
    request.transport.abort()
    return web.Response()


async def truncated(request: web.Request) -> web.StreamResponse:
    response = web.StreamResponse(headers={"Content-Length": "1000", "Content-Type": "application/json"})
    await response.prepare(request)
    await response.write(b'{"text": "half of ')
    assert request.transport is not None
    request.transport.close()
    return response


async def hang(request: web.Request) -> web.StreamResponse:
    await asyncio.sleep(3600)
    return web.Response()


async def drip(request: web.Request) -> web.StreamResponse:
    response = web.StreamResponse(headers={"Content-Type": "application/json"})
    await response.prepare(request)
    while True:
        await response.write(b" ")
        await asyncio.sleep(0.02)


good = json_answer(GOOD)


@pytest.mark.parametrize(
    "fault",
    [
        json_answer({"error": {"code": "c", "message": "m"}}, 429),
        json_answer({"error": {"code": "c", "message": "m"}}, 429, {"Retry-After": "0"}),
        json_answer({}, 429, {"Retry-After": "-5"}),
        json_answer({}, 429, {"Retry-After": "soon"}),
        raw(b"<html>Bad Gateway</html>", 502),
        raw(b"", 503),
        raw(b"\xff", 504),
        reset,
        truncated,
    ],
)
async def test_what_fails_on_its_way_is_the_same_turn_again(fault: Answer, tmp_path: Path) -> None:
    service = Service(fault, good, good, fault, fault, good)
    turns = await replayed(service, tmp_path)
    assert [(turn["turn_status"], turn["pred_assistant_text"]) for turn in turns] == [
        ("ok", GOOD["text"])
    ] * 3
    assert service.turns == [1, 1, 2, 3, 3, 3]


@pytest.mark.parametrize(
    ("fault", "error"),
    [
        (json_answer({"error": {"code": "x", "message": "m"}}, 503), "TransportError: m"),
        (raw(b"<html>", 502), "TransportError: URL: HTTP 502"),
        (raw(b"", 504), "TransportError: URL: HTTP 504"),
        (json_answer({}, 429), "TransportError: URL: HTTP 429"),
        (reset, "TransportError: URL: "),
        (truncated, "TransportError: URL: "),
    ],
)
async def test_attempts_are_bounded(fault: Answer, error: str, tmp_path: Path) -> None:
    service = Service(fault, fault, fault, good)
    turns = await replayed(service, tmp_path, turn_retries=2)
    assert [turn["turn_status"] for turn in turns] == ["error", "ok", "ok"]
    assert turns[0]["error"].startswith(error)
    assert service.turns == [1, 1, 1, 2, 3]


@pytest.mark.parametrize(
    ("fault", "error"),
    [
        (raw(b"nonsense"), "URL: the answer is none of the agent protocol: JSON is malformed"),
        (raw(b""), "URL: the answer is none of the agent protocol: Input data was truncated"),
        (raw(b'"\xff\xfe"'), "URL: the answer is none of the agent protocol: "),
        (raw(b"[" * 100_000), "URL: the answer is none of the agent protocol: "),
        (json_answer({"answer": "x"}), "URL: the answer is none of the agent protocol: Object missing"),
        (
            json_answer({"text": 5}),
            "URL: the answer is none of the agent protocol: Expected `str`, got `int`",
        ),
        (json_answer([]), "URL: the answer is none of the agent protocol: Expected `object`, got `array`"),
        (
            json_answer({"text": "x" * MAX_ANSWER_BYTES}),
            "URL: the answer is larger than",
        ),
        (
            raw(gzip.compress(b" " * (MAX_ANSWER_BYTES + 1)), 200, {"Content-Encoding": "gzip"}),
            "URL: the answer is larger than",
        ),
        (json_answer({"error": {"code": "agent_failed", "message": "ValueError: x"}}, 500), "ValueError: x"),
        (
            raw(b"x", 200, {"Content-Encoding": "br"}),
            "URL: the answer has an encoding that was not requested",
        ),
        (
            json_answer({"error": {"code": "internal", "message": "broken"}}, 500),
            "URL: HTTP 500 internal broken",
        ),
        (raw(b"<html>", 500), "URL: HTTP 500"),
        (json_answer({"error": "text"}, 400), "URL: HTTP 400"),
        (
            json_answer({"error": {"code": "unknown_session", "message": "gone"}}, 404),
            "URL: HTTP 404 unknown_s",
        ),
        (
            raw(b"", 307, {"Location": "http://127.0.0.1:1/elsewhere"}),
            "URL: HTTP 307: redirections are not followed; name the service's own URL",
        ),
    ],
)
async def test_what_is_no_answer_is_the_turns_error_at_once(
    fault: Answer, error: str, tmp_path: Path
) -> None:
    service = Service(good, fault, good)
    turns = await replayed(service, tmp_path)
    assert [turn["turn_status"] for turn in turns] == ["ok", "error", "ok"]
    assert turns[1]["error"].startswith(error)
    assert service.turns == [1, 2, 3]


@pytest.mark.parametrize("fault", [hang, drip])
async def test_a_service_that_does_not_come_to_an_end_is_a_timeout(fault: Answer, tmp_path: Path) -> None:
    service = Service(good, fault, good)
    turns = await replayed(service, tmp_path, turn_timeout=3.0)
    assert [turn["turn_status"] for turn in turns] == ["ok", "timeout", "ok"]
    assert turns[1]["error"] == "no answer within 3 s"


@pytest.mark.parametrize(
    ("observations", "error"),
    [
        ({"recall": "x"}, "malformed observation recall: Expected `object`, got `str`"),
        (
            {"recall": {"token_count": "x"}},
            "malformed observation recall: Expected `int`, got `str` - at `$.token_count`",
        ),
        ({"tools": {}}, "malformed observation tools: Expected `array`, got `dict`"),
        (
            {"tools": [{"tool_name": "a"}, {"tool_name": 5}]},
            "malformed observation tools[1]: Expected `str`, got `int`",
        ),
        (
            {"compliance": {"is_compliant": "yes"}},
            "malformed observation compliance: Expected `bool`, got `str`",
        ),
        ({"recall": {"memories": []}}, "unknown field of observation recall: `memories`; known are query, "),
        ({"profile_snapshot": []}, "malformed observation profile: Expected `object`, got `list`"),
        ({"usage": {"calls": -1}}, "malformed observation usage: Expected `int` >= 0 - at `$.calls`"),
        ({"usage": "x"}, "malformed observation usage: Expected `object`, got `str`"),
        ({"observation_error": "bad\nthing"}, "bad thing"),
    ],
)
async def test_bad_observations_are_left_out_and_the_reply_stays(
    observations: dict[str, Any], error: str, tmp_path: Path
) -> None:
    turns = await replayed(Service(json_answer({**GOOD, **observations}), good), tmp_path)
    assert [(turn["turn_status"], turn["error"]) for turn in turns] == [("ok", None)] * 3
    assert turns[0]["observation_error"].startswith(error)
    assert "observation_error" not in turns[1]
    assert turns[0]["pred_assistant_text"] == GOOD["text"]


async def test_what_a_failed_turn_observed_is_recorded(tmp_path: Path) -> None:
    failed = {
        "error": {"code": "agent_failed", "message": "E"},
        "recall": {"query": "q"},
        "tools": [{"tool_name": "t"}],
        "compliance": None,
        "profile_snapshot": [],
    }
    turns = await replayed(Service(json_answer(failed, 500), good), tmp_path)
    assert (turns[0]["recall"]["query"], turns[0]["tools"][0]["tool_name"]) == ("q", "t")
    assert turns[0]["error"] == "E"


async def test_a_server_that_is_down_when_the_run_starts_and_comes_up_is_found(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("memfin.agents.replay.FIRST_BACKOFF", 0.05)
    opened: list[int] = []

    class Late(Service):
        async def open(self, request: web.Request) -> web.Response:
            opened.append(1)
            if len(opened) < 3:
                return web.Response(status=503)
            return await super().open(request)

    turns = await replayed(Late(good), tmp_path)
    assert [turn["turn_status"] for turn in turns] == ["ok"] * 3
    assert len(opened) == 3
