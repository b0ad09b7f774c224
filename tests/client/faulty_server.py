"""An OpenAI-compatible server on loopback that fails on demand; every test of the wire uses it.

Faults come by script, one entry a request, or by a seeded share of all requests. What a request is
answered with when nothing is wrong comes from ``responder``.

    async with FaultyServer(script=["503", None]) as server:
        endpoint = Endpoint(server.base_url)
"""

import asyncio
import functools
import gzip
import inspect
import json
import random
import socket
import struct
from collections.abc import Awaitable, Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import suppress
from datetime import UTC, datetime, timedelta
from email.utils import format_datetime
from types import TracebackType
from typing import Any, Final, NamedTuple, Self

from aiohttp import web
from aiohttp.test_utils import TestServer

Responder = Callable[[dict[str, Any]], str | dict[str, Any] | Awaitable[str | dict[str, Any]]]

RETRY_AFTER: Final[Mapping[str, Callable[[], str]]] = {
    "seconds": lambda: "1",
    "fraction": lambda: "0.2",
    "date": lambda: format_datetime(datetime.now(UTC) + timedelta(seconds=1), usegmt=True),
    "past_date": lambda: "Sun, 06 Nov 1994 08:49:37 GMT",
    "zero": lambda: "0",
    "negative": lambda: "-5",
    "absurd": lambda: "99999999999",
    "nan": lambda: "NaN",
    "garbage": lambda: "soon, \u0131 promise",
}

STATUSES: Final = ("500", "502", "503", "504", "408")

TRANSIENT: Final = (
    "429",
    *(f"429_{form}" for form in RETRY_AFTER),
    *STATUSES,
    "503_seconds",
    "reset",
    "reset_in_body",
    "closed",
    "truncated_length",
    "truncated_chunked",
    "truncated_no_length",
    "truncated_gzip",
    "invalid_json",
    "html",
    "wrong_schema",
    "no_object",
    "refusal",
    "empty_choices",
    "empty_text",
    "too_large",
    "too_large_chunked",
    "gzip_bomb",
    "bad_charset",
    "unknown_encoding",
    "error_in_body",
)
"""Faults that end on their own and that another attempt may get over."""

SLOW: Final = ("hang", "hang_in_body", "slow_drip")
"""Faults that only the client's patience ends."""

LASTING: Final = ("redirect", "redirect_elsewhere", "401", "400", "quota", "echo_key")
"""Faults that another attempt would meet again."""

BOMB: Final = 10 * 1024 * 1024


class Arrival(NamedTuple):
    """One request as the server saw it; ``at`` is the loop's time."""

    at: float
    path: str
    body: dict[str, Any]
    headers: dict[str, str]
    query: dict[str, str]
    fault: str | None


class FaultyServer:
    """See the module.

    ``script`` is used up first, one entry a request (None: no fault), then a ``share`` of requests
    meets one of ``faults``, by ``seed``. ``latency`` seconds pass before every answer. ``usage`` is what
    the answers say they cost. ``elsewhere`` is where ``redirect_elsewhere`` points. Attributes
    ``arrivals``, ``max_in_flight`` and ``open_connections`` say what happened; ``arrived`` is set at every
    arrival.
    """

    def __init__(  # noqa: PLR0913 - each setting stands alone and has a default
        self,
        *,
        script: Iterable[str | None] = (),
        share: float = 0.0,
        faults: Sequence[str] = TRANSIENT,
        seed: int = 0,
        latency: float = 0.0,
        responder: Responder | None = None,
        usage: tuple[int, int] | None = (10, 5),
        streams: bool = True,
        elsewhere: str = "http://127.0.0.1:9/v1/chat/completions",
    ) -> None:
        self._script: Iterator[str | None] = iter(script)
        self._share = share
        self._faults = faults
        self._random = random.Random(seed)
        self.latency = latency
        self._responder: Responder = responder or (lambda body: f"echo: {body['messages'][-1]['content']}")
        self.usage = usage
        self._streams = streams
        self._elsewhere = elsewhere
        self._stopping = asyncio.Event()
        self.arrivals: list[Arrival] = []
        self.arrived = asyncio.Event()
        self.in_flight = 0
        self.max_in_flight = 0
        app = web.Application(client_max_size=64 * 1024 * 1024)
        app.router.add_post("/v1/chat/completions", self._serve)
        self._server = TestServer(app)

    async def __aenter__(self) -> Self:
        await self._server.start_server(access_log=None)
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._stopping.set()
        await self._server.close()

    @property
    def base_url(self) -> str:
        """The base URL that a client is given."""
        return str(self._server.make_url("/v1"))

    @property
    def open_connections(self) -> int:
        """How many connections of clients are open."""
        assert self._server.runner is not None
        server = self._server.runner.server
        assert isinstance(server, web.Server)
        return len(server.connections)

    def fault_counts(self) -> dict[str, int]:
        """Return how often each fault was met."""
        met = [arrival.fault for arrival in self.arrivals if arrival.fault is not None]
        return {fault: met.count(fault) for fault in sorted(set(met))}

    def _next_fault(self) -> str | None:
        missing = object()
        scripted = next(self._script, missing)
        if scripted is not missing:
            assert scripted is None or isinstance(scripted, str)
            return scripted
        if self._random.random() < self._share:
            return self._random.choice(self._faults)
        return None

    async def _serve(self, request: web.Request) -> web.StreamResponse:
        at = asyncio.get_running_loop().time()
        self.in_flight += 1
        self.max_in_flight = max(self.max_in_flight, self.in_flight)
        try:
            fault = self._next_fault()
            body = await request.json()
            headers, query = dict(request.headers), dict(request.query)
            self.arrivals.append(Arrival(at, request.path, body, headers, query, fault))
            self.arrived.set()
            if self.latency:
                await asyncio.sleep(self.latency)
            return await self._answer(request, body, fault)
        finally:
            self.in_flight -= 1

    async def _answer(
        self, request: web.Request, body: dict[str, Any], fault: str | None
    ) -> web.StreamResponse:
        if fault is not None:
            faulty = await self._faulty(request, body, fault)
            if faulty is not None:
                return faulty
        reply = await self._reply(body)
        if fault == "error_in_body":
            error = {"error": {"message": "the model fell over", "code": 500}}
            return (
                await self._stream_raw(request, [error]) if self._streamed(body) else web.json_response(error)
            )
        if fault in {"refusal", "empty_text"}:
            reply = {
                "role": "assistant",
                "content": None if fault == "refusal" else "",
                "refusal": "I cannot help with that." if fault == "refusal" else None,
            }
        if self._streamed(body):
            cut = fault in {"truncated_chunked", "truncated_no_length"}
            return await self._stream(request, body, reply, cut=cut)
        return web.json_response(self.completion(body, reply, choices=fault != "empty_choices"))

    def _streamed(self, body: dict[str, Any]) -> bool:
        return bool(body.get("stream")) and self._streams

    async def _reply(self, body: dict[str, Any]) -> dict[str, Any]:
        reply = self._responder(body)
        if inspect.isawaitable(reply):
            reply = await reply
        return {"role": "assistant", "content": reply} if isinstance(reply, str) else reply

    def completion(
        self, body: dict[str, Any], message: dict[str, Any], *, choices: bool = True
    ) -> dict[str, Any]:
        """Return a whole answer in the protocol's form."""
        finish = "tool_calls" if message.get("tool_calls") else "stop"
        answer: dict[str, Any] = {
            "id": "chatcmpl-1",
            "object": "chat.completion",
            "created": 1,
            "model": body["model"],
            "choices": [{"index": 0, "message": message, "finish_reason": finish}] if choices else [],
        }
        if self.usage is not None:
            answer["usage"] = self._usage()
        return answer

    def _usage(self) -> dict[str, int]:
        assert self.usage is not None
        prompt, completion = self.usage
        return {"prompt_tokens": prompt, "completion_tokens": completion, "total_tokens": prompt + completion}

    async def _stream(
        self, request: web.Request, body: dict[str, Any], message: dict[str, Any], *, cut: bool
    ) -> web.StreamResponse:
        text = message.get("content") or ""
        deltas: list[dict[str, Any]] = [{"role": "assistant", "content": ""}]
        deltas += [{"content": text[start : start + 3]} for start in range(0, len(text), 3)]
        if message.get("refusal"):
            deltas.append({"refusal": message["refusal"]})
        for index, call in enumerate(message.get("tool_calls") or ()):
            function = call["function"]
            middle = len(function["arguments"]) // 2
            deltas.append(
                {
                    "tool_calls": [
                        {
                            "index": index,
                            "id": call["id"],
                            "type": "function",
                            "function": {**function, "arguments": function["arguments"][:middle]},
                        }
                    ]
                }
            )
            deltas.append(
                {"tool_calls": [{"index": index, "function": {"arguments": function["arguments"][middle:]}}]}
            )
        base = {"id": "chatcmpl-1", "object": "chat.completion.chunk", "created": 1, "model": body["model"]}
        chunks: list[dict[str, Any]] = [
            {**base, "choices": [{"index": 0, "delta": delta, "finish_reason": None}]} for delta in deltas
        ]
        finish = "tool_calls" if message.get("tool_calls") else "stop"
        chunks.append({**base, "choices": [{"index": 0, "delta": {}, "finish_reason": finish}]})
        if self.usage is not None and (body.get("stream_options") or {}).get("include_usage"):
            chunks.append({**base, "choices": [], "usage": self._usage()})
        return await self._stream_raw(request, chunks[: len(chunks) // 2] if cut else chunks, done=not cut)

    async def _stream_raw(
        self, request: web.Request, chunks: Sequence[dict[str, Any]], *, done: bool = True
    ) -> web.StreamResponse:
        response = web.StreamResponse(headers={"Content-Type": "text/event-stream; charset=utf-8"})
        await response.prepare(request)
        for chunk in chunks:
            await response.write(f"data: {json.dumps(chunk, ensure_ascii=False)}\n\n".encode())
        if done:
            await response.write(b"data: [DONE]\n\n")
        await response.write_eof()
        return response

    async def _faulty(  # noqa: C901, PLR0911, PLR0912 - one branch a fault
        self, request: web.Request, body: dict[str, Any], fault: str
    ) -> web.StreamResponse | None:
        """Return or send a faulty answer; None for the faults that spoil a good one."""
        status, _, form = fault.partition("_")
        if status.isdecimal():
            headers = {"Retry-After": RETRY_AFTER[form]()} if form else {}
            error = {"error": {"message": self.complaint(body, fault), "type": "fault", "code": fault}}
            return web.json_response(error, status=int(status), headers=headers)
        if fault == "quota":
            error = {"error": {"message": "You exceeded your quota", "code": "insufficient_quota"}}
            return web.json_response(error, status=429)
        if fault == "echo_key":
            asked = body["messages"][-1]["content"]
            text = f"{asked} {request.headers.get('Authorization', 'none')}, {request.url}"
            return web.json_response({"error": {"message": text}}, status=401)
        if fault in {"redirect", "redirect_elsewhere"}:
            place = str(request.url.with_path("/v1/moved")) if fault == "redirect" else self._elsewhere
            return web.Response(status=307, headers={"Location": place})
        whole = json.dumps(self.completion(body, await self._reply(body))).encode()
        if fault == "reset":
            return _reset(request)
        if fault == "closed":
            return _raw(request, b"")
        if fault == "reset_in_body":
            await self._begin(request, len(whole), whole[: len(whole) // 2])
            return _reset(request)
        if fault == "hang":
            await self._stopping.wait()
            return _raw(request, b"")
        if fault == "hang_in_body":
            await self._begin(request, len(whole), whole[: len(whole) // 2])
            await self._stopping.wait()
            return _raw(request, b"")
        if fault == "slow_drip":
            return await self._drip(request, whole)
        if fault == "truncated_length":
            return _raw(request, _head(f"Content-Length: {len(whole)}") + whole[: len(whole) // 2])
        if fault in {"truncated_chunked", "truncated_no_length"} and not self._streamed(body):
            half = whole[: len(whole) // 2]
            if fault == "truncated_no_length":
                return _raw(request, _head("Connection: close") + half)
            return _raw(request, _head("Transfer-Encoding: chunked") + f"{len(half):x}\r\n".encode() + half)
        if fault == "truncated_gzip":
            packed = gzip.compress(whole)[:-20]
            return web.Response(
                body=packed, content_type="application/json", headers={"Content-Encoding": "gzip"}
            )
        if fault == "invalid_json":
            return web.Response(body=whole.replace(b":", b";", 3), content_type="application/json")
        if fault == "html":
            return web.Response(text="<html><body>It works!</body></html>", content_type="text/html")
        if fault == "wrong_schema":
            return web.json_response({"choices": [{"message": {"content": 7}}], "model": body["model"]})
        if fault == "no_object":
            return web.json_response(["not", "an", "object"])
        if fault == "empty_choices":
            return web.json_response(self.completion(body, {}, choices=False))
        if fault == "too_large":
            return web.json_response(self.completion(body, {"role": "assistant", "content": "x" * BOMB}))
        if fault == "too_large_chunked":
            return await self._flood(request)
        if fault == "gzip_bomb":
            return web.Response(
                body=await asyncio.to_thread(_bomb),
                content_type="application/json",
                headers={"Content-Encoding": "gzip"},
            )
        if fault == "bad_charset":
            return web.Response(
                body=whole.replace(b'"role"', b'"\xb9\xfa"'),
                headers={"Content-Type": "application/json; charset=gb2312"},
            )
        if fault == "unknown_encoding":
            return web.Response(
                body=whole, content_type="application/json", headers={"Content-Encoding": "middle-out"}
            )
        assert fault in TRANSIENT, f"no such fault: {fault}"
        return None

    def complaint(self, body: dict[str, Any], fault: str) -> str:
        """Return what the body of an HTTP error says."""
        del body
        return f"this is fault {fault}"

    async def _begin(self, request: web.Request, length: int, part: bytes) -> None:
        assert request.transport is not None
        _write(request, _head(f"Content-Length: {length}") + part)
        await asyncio.sleep(0.01)  # the part is to arrive before what follows it

    async def _drip(self, request: web.Request, whole: bytes) -> web.StreamResponse:
        _write(request, _head(f"Content-Length: {len(whole)}"))
        for byte in whole:
            if request.transport is None or request.transport.is_closing() or self._stopping.is_set():
                break
            _write(request, bytes([byte]))
            await asyncio.sleep(0.02)
        return _raw(request, b"")

    async def _flood(self, request: web.Request) -> web.StreamResponse:
        response = web.StreamResponse(headers={"Content-Type": "application/json"})
        await response.prepare(request)
        with suppress(ConnectionError):  # the client has had enough
            await response.write(b'{"model": "')
            for _ in range(BOMB // 65536):
                await response.write(b"x" * 65536)
            await response.write_eof()
        return response


def _head(*headers: str) -> bytes:
    lines = ["HTTP/1.1 200 OK", "Content-Type: application/json", *headers, "", ""]
    return "\r\n".join(lines).encode()


def _write(request: web.Request, data: bytes) -> None:
    assert isinstance(request.transport, asyncio.Transport)
    request.transport.write(data)


def _raw(request: web.Request, data: bytes) -> web.StreamResponse:
    """Send bytes past aiohttp, as a broken server would, and close."""
    if request.transport is not None and not request.transport.is_closing():
        if data:
            _write(request, data)
        request.transport.close()
    return web.Response()  # goes nowhere: the connection is closed


def _reset(request: web.Request) -> web.StreamResponse:
    """Close the connection with a reset instead of an end."""
    transport = request.transport
    if transport is not None:
        found = transport.get_extra_info("socket")
        found.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
        assert isinstance(transport, asyncio.Transport)
        transport.abort()
    return web.Response()  # goes nowhere, as above


@functools.cache
def _bomb() -> bytes:
    return gzip.compress(b'{"model": "' + b"x" * 4 * BOMB, compresslevel=1)
