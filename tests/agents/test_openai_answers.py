"""Models as agents: answers that stop short, servers with habits of their own, requests that all fail."""

import asyncio
import functools
import gzip
import json
import zlib
from collections.abc import AsyncIterator, Awaitable, Callable, Iterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import pytest
from aiohttp import web
from aiohttp.test_utils import TestServer

import memfin
from memfin.client.body import STEP, Inflater
from memfin.contracts import ParameterChange, RunStats
from memfin.contracts.reading import decode
from tests.support import dataset, read_jsonl

TEXT = "市场存在不确定性，本金可能亏损。"
Handler = Callable[[web.Request, dict[str, Any]], Awaitable[web.StreamResponse]]


@asynccontextmanager
async def serving(handler: Handler, monkeypatch: pytest.MonkeyPatch) -> AsyncIterator[list[dict[str, Any]]]:
    """Serve a model on loopback; yield the bodies of what it is asked."""
    asked: list[dict[str, Any]] = []

    async def serve(request: web.Request) -> web.StreamResponse:
        body = await request.json()
        asked.append(body)
        return await handler(request, body)

    app = web.Application()
    app.router.add_post("/v1/chat/completions", serve)
    for name in ("MEMFIN_AGENT_API_KEY", "OPENAI_API_KEY", "OPENAI_BASE_URL"):
        monkeypatch.delenv(name, raising=False)
    monkeypatch.setattr("memfin.agents.replay.FIRST_BACKOFF", 0.001)
    async with TestServer(app) as server:
        monkeypatch.setenv("MEMFIN_AGENT_BASE_URL", str(server.make_url("/v1")))
        yield asked


async def run(tmp_path: Path, *, turns: int = 2, **config: Any) -> tuple[list[dict[str, Any]], RunStats]:
    settings: dict[str, Any] = {"agent": "openai:m", "judge": "none"} | config
    data = dataset(tmp_path / "d.jsonl", 1, turns)
    await memfin.evaluate(data, runs_dir=tmp_path, run_id="r", **settings)
    (trace,) = read_jsonl(tmp_path / "r" / "dialog_trace.jsonl")
    stats = decode((tmp_path / "r" / "run_stats.json").read_bytes(), RunStats)
    found: list[dict[str, Any]] = trace["turns"]
    return found, stats


def chunk(delta: dict[str, Any], finish: str | None = None, index: int = 0) -> dict[str, Any]:
    return {"choices": [{"index": index, "delta": delta, "finish_reason": finish}]}


def events(*chunks: dict[str, Any]) -> bytes:
    lines = [f"data: {json.dumps(each)}\n\n" for each in chunks]
    return "".join([*lines, "data: [DONE]\n\n"]).encode()


def answering(text: str, finish: str, *, stream: bool, tokens: int | None = 7) -> Handler:
    usage = {} if tokens is None else {"usage": {"prompt_tokens": 50, "completion_tokens": tokens}}

    async def handle(request: web.Request, body: dict[str, Any]) -> web.StreamResponse:
        if stream:
            data = events(chunk({"content": text}), chunk({}, finish), {"choices": []} | usage)
            return web.Response(body=data, content_type="text/event-stream")
        choice = {"index": 0, "message": {"role": "assistant", "content": text}, "finish_reason": finish}
        return web.json_response({"choices": [choice]} | usage)

    return handle


@pytest.mark.parametrize("stream", [True, False])
@pytest.mark.parametrize(
    ("text", "finish", "tokens", "most", "said"),
    [
        (TEXT, "length", 7, 7, "the answer was cut at 7 tokens; raise --agent-max-tokens"),
        (TEXT, "length", None, 9, "the answer was cut at 9 tokens; raise --agent-max-tokens"),
        (
            TEXT,
            "length",
            None,
            None,
            "the answer was cut; the server has a limit of its own; set --agent-max-tokens",
        ),
        (TEXT, "content_filter", 7, None, "the server's content filter cut the answer off"),
        ("", "content_filter", 7, None, "the server's content filter withheld the answer"),
    ],
)
async def test_an_answer_that_stops_short_is_an_error_and_no_reply(
    text: str,
    finish: str,
    tokens: int | None,
    most: int | None,
    said: str,
    stream: bool,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    async with serving(answering(text, finish, stream=stream, tokens=tokens), monkeypatch) as asked:
        turns, stats = await run(tmp_path, agent_max_tokens=most)
    assert [(turn["turn_status"], turn["pred_assistant_text"], turn["error"]) for turn in turns] == [
        ("error", None, said)
    ] * 2
    assert len(asked) == 2
    assert stats.usage is not None
    assert (stats.usage.calls, stats.usage.completion_tokens) == (2, 2 * (tokens or 0))


async def test_a_server_without_streams_is_asked_for_whole_answers_and_that_is_told_once(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    whole = answering(TEXT, "stop", stream=False)

    async def handle(request: web.Request, body: dict[str, Any]) -> web.StreamResponse:
        refusals = {
            "stream_options": "Unrecognized argument: stream_options",
            "stream": "streaming not supported",
        }
        for name, said in refusals.items():
            if name in body:
                return web.json_response({"error": {"message": said}}, status=400)
        return await whole(request, body)

    told: list[Any] = []
    async with serving(handle, monkeypatch) as asked:
        turns, stats = await run(tmp_path, turns=3, turn_retries=0, on_event=told.append)
    assert [turn["pred_assistant_text"] for turn in turns] == [TEXT] * 3
    assert ["stream" in body for body in asked] == [True, True, False, False, False]
    assert stats.agent_parameters == [
        ParameterChange(parameter="stream", sent_as=None, refusals=1),
        ParameterChange(parameter="stream_options", sent_as=None, refusals=1),
    ]
    warnings = [event.message for event in told if type(event).__name__ == "Warned"]
    assert warnings == [
        f"agent openai:m: the model refuses the parameter {name}; from now on it is left out"
        for name in ("stream_options", "stream")
    ]


@pytest.mark.parametrize("content_type", ["application/octet-stream", "application/json", "text/plain"])
@pytest.mark.parametrize("start", [b"", b"\xef\xbb\xbf", b": waiting\n\n", b"\n\nevent: x\n"])
async def test_a_stream_is_known_by_what_is_in_it(
    content_type: str, start: bytes, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    async def handle(request: web.Request, body: dict[str, Any]) -> web.StreamResponse:
        response = web.StreamResponse(headers={"Content-Type": content_type})
        await response.prepare(request)
        data = start + events(chunk({"content": TEXT}), chunk({}, "stop"))
        for place in range(0, len(data), 3):
            await response.write(data[place : place + 3])
        await response.write_eof()
        return response

    async with serving(handle, monkeypatch):
        turns, _ = await run(tmp_path)
    assert [turn["pred_assistant_text"] for turn in turns] == [TEXT] * 2


async def test_further_answers_of_a_stream_are_passed_over(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    async def handle(request: web.Request, body: dict[str, Any]) -> web.StreamResponse:
        data = events(
            chunk({"content": "A"}),
            chunk({"content": "SECOND"}, index=1),
            chunk({}, "length", index=1),
            chunk({"content": "B"}),
            chunk({}, "stop"),
        )
        return web.Response(body=data, content_type="text/event-stream")

    async with serving(handle, monkeypatch):
        turns, _ = await run(tmp_path)
    assert [turn["pred_assistant_text"] for turn in turns] == ["AB"] * 2


async def test_requests_that_all_fail_are_counted(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    async def handle(request: web.Request, body: dict[str, Any]) -> web.StreamResponse:
        return web.json_response({"error": {"message": "busy"}}, status=503)

    async with serving(handle, monkeypatch) as asked:
        turns, stats = await run(tmp_path, turn_retries=2)
    assert [turn["turn_status"] for turn in turns] == ["error"] * 2
    assert stats.usage is not None
    assert (stats.usage.calls, stats.usage.unmetered_calls, len(asked)) == (6, 6, 6)
    assert stats.usage.latency_ms > 0
    assert stats.usage.model is None


async def test_failed_requests_take_no_name_from_the_model(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    good = answering(TEXT, "stop", stream=True)
    script = iter([503, 200, 400])

    async def handle(request: web.Request, body: dict[str, Any]) -> web.StreamResponse:
        status = next(script)
        return await good(request, body) if status == 200 else web.Response(status=status)

    async with serving(handle, monkeypatch):
        turns, stats = await run(tmp_path)
    assert [turn["turn_status"] for turn in turns] == ["ok", "error"]
    assert stats.usage is not None
    assert (stats.usage.model, stats.usage.calls, stats.usage.unmetered_calls) == ("m", 3, 2)


async def test_a_request_whose_turn_is_over_is_counted(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    done = asyncio.Event()

    async def handle(request: web.Request, body: dict[str, Any]) -> web.StreamResponse:
        await done.wait()
        return web.Response()

    async with serving(handle, monkeypatch):
        turns, stats = await run(tmp_path, turns=1, turn_timeout=0.2)
        done.set()
    assert [turn["turn_status"] for turn in turns] == ["timeout"]
    assert stats.usage is not None
    assert (stats.usage.calls, stats.usage.unmetered_calls) == (1, 1)


@functools.cache
def endless(kind: str) -> bytes:
    """Return a piece of what decompresses into a thousand times as much."""
    packer = zlib.compressobj(9, zlib.DEFLATED, 31)
    unit = {"lines": b"\n", "comments": b":\n\n", "spaces": b" "}
    return packer.compress(unit[kind] * (40_000_000 // len(unit[kind]))) + packer.flush(zlib.Z_SYNC_FLUSH)


@pytest.mark.parametrize(
    ("content_type", "kind"),
    [
        ("text/event-stream", "lines"),
        ("text/event-stream", "comments"),
        ("text/event-stream", "spaces"),
        ("application/json", "spaces"),
    ],
)
async def test_a_body_that_decompresses_without_end_leaves_the_loop_to_others(
    kind: str, content_type: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    bomb = await asyncio.to_thread(endless, kind)
    fed: list[int] = []
    feed = Inflater.steps

    def watched(self: Inflater, data: bytes) -> Iterator[bytes]:
        for piece in feed(self, data):
            # Set off by each step, and run only when the client gives way before the next ones.
            asyncio.get_running_loop().call_soon(fed.append, len(piece))
            waiting.append(len(piece))
            assert sum(waiting[len(fed) :]) <= 3 * STEP
            yield piece

    waiting: list[int] = []
    monkeypatch.setattr(Inflater, "steps", watched)

    async def handle(request: web.Request, body: dict[str, Any]) -> web.StreamResponse:
        return web.Response(body=bomb, content_type=content_type, headers={"Content-Encoding": "gzip"})

    async with serving(handle, monkeypatch):
        turns, _ = await run(tmp_path, turns=1, turn_retries=0, turn_timeout=60)
    assert turns[0]["turn_status"] == "error"
    assert "is larger than" in turns[0]["error"]
    assert max(waiting) <= STEP
    assert len(waiting) >= 16  # steps of 64 KiB make the smallest body that is too large


async def test_a_slow_endless_body_ends_with_its_turn(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    ended = asyncio.Semaphore(0)

    async def handle(request: web.Request, body: dict[str, Any]) -> web.StreamResponse:
        response = web.StreamResponse(
            headers={"Content-Type": "text/event-stream", "Content-Encoding": "gzip"}
        )
        response.enable_chunked_encoding()
        await response.prepare(request)
        packer = zlib.compressobj(9, zlib.DEFLATED, 31)
        try:
            while request.transport is not None and not request.transport.is_closing():
                await response.write(packer.compress(b": \n" * 9) + packer.flush(zlib.Z_SYNC_FLUSH))
                await asyncio.sleep(0.01)
        finally:
            ended.release()
        return response

    async with serving(handle, monkeypatch) as asked:
        turns, _ = await run(tmp_path, turn_timeout=0.5)
        assert len(asked) == 2
        for _ in asked:  # the connections are closed, too
            await ended.acquire()
    assert [turn["turn_status"] for turn in turns] == ["timeout"] * 2


def test_the_bombs_are_some() -> None:
    assert len(endless("lines")) < 100_000
    assert len(zlib.decompressobj(31).decompress(endless("lines"))) == 40_000_000
    assert gzip.compress(b"")[:2] == endless("lines")[:2]
