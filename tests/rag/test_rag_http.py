"""RAG systems behind HTTP: both ends, what the document says of them, and services that fail."""

import asyncio
import gzip
import json
import os
import signal
import subprocess
import sys
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import jsonschema
import pytest
from aiohttp import web
from aiohttp.test_utils import TestClient, TestServer

import memfin
from memfin.agents.http.client import MAX_ANSWER_BYTES
from memfin.agents.protocol import AgentSettings
from memfin.client.errors import EndpointDown
from memfin.contracts import ModelUsage
from memfin.contracts.rag import RagAnswer, RagAnswerRange, RagCitation, RagEvidence
from memfin.errors import UsageError
from memfin.rag.http import CODES, application, openapi_document, serve
from memfin.rag.systems import Asked, RagReply, load_system
from memfin.rag.systems.http import MAX_QUESTION_CHARS
from tests.rag.rag_documents import RECORD

ROOT = Path(__file__).resolve().parents[2]
SHIPPED = ROOT / "docs" / "rag-protocol.openapi.json"

Answer = Callable[[web.Request], Awaitable[web.StreamResponse]]

FULL = RagAnswer(
    answer="共42000元。",
    amount=42000,
    amount_breakdown=[40000, 2000],
    date="2020-08-30",
    date_range=RagAnswerRange(start="2020-01-01", end="2020-08-30"),
    count=2,
    text="t",
    boolean=True,
    entity="e",
    evidence=[RagEvidence(text="x", page=1)],
    citation=[RagCitation(quote="y", page=None)],
    abstained=False,
)


@pytest.fixture(autouse=True)
def quick(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("memfin.rag.systems.under_test.FIRST_BACKOFF", 0.001)
    monkeypatch.delenv("MEMFIN_AGENT_API_KEY", raising=False)


class System:
    """The words of a question decide what happens."""

    def __init__(self, document: Any) -> None:
        self.document = document
        self.busy = True

    async def query(self, question: str) -> Any:
        if question == "document":
            return {"answer": self.document.name}
        if question == "busy":
            self.busy = not self.busy
            if not self.busy:
                raise memfin.TransportError("the index is loading", retry_after=0.2)
        if question == "raise":
            raise ValueError("no index")
        if question == "none":
            return None
        if question == "hang":
            await asyncio.sleep(30)
        return RagReply(answer=FULL, usage=ModelUsage(calls=1, prompt_tokens=7))


@asynccontextmanager
async def serving(app: web.Application) -> AsyncIterator[str]:
    server = TestServer(app)
    await server.start_server()
    try:
        yield str(server.make_url("/"))
    finally:
        await server.close()


async def asked(url: str, question: str = "q", limit: float = 30.0, **options: Any) -> Asked:
    loaded = load_system(url, settings=AgentSettings(turn_timeout=limit), **options)
    try:
        return await loaded.ask(question)
    finally:
        await loaded.close()


# --- both ends together


@pytest.mark.parametrize("path", ["", "query"])
async def test_a_system_behind_http_answers_as_it_does_in_the_process(path: str) -> None:
    async with serving(application(System, document=RECORD)) as url:
        outcome = await asked(url + path)
        assert (outcome.status, outcome.answer) == ("ok", FULL)
        assert outcome.usage == ModelUsage(calls=1, prompt_tokens=7)
        assert (await asked(url + path, "document")).answer == RagAnswer(answer="record.md")


async def test_failures_of_the_system_are_told_as_if_it_were_in_the_process() -> None:
    async with serving(application(System, timeout=0.05)) as url:
        assert (await asked(url, "raise")).error == "ValueError: no index"
        assert (await asked(url, "none")).error == (
            "the system returned None; expected RagAnswer, a mapping of its fields, or str"
        )
        hanging = await asked(url, "hang")
        assert (hanging.status, hanging.error) == ("timeout", "no answer within 0.05 s")
        busy = await asked(url, "busy")
        assert (busy.status, busy.retries) == ("ok", 1)


async def test_an_application_may_be_part_of_another_and_serve_the_built_in_system() -> None:
    host = web.Application()
    host.add_subapp("/rag/", application("builtin", document=RECORD))
    async with serving(host) as url:
        answer = (await asked(f"{url}rag/query", "房东是谁？")).answer
    assert answer is not None
    assert answer.entity == "霍青山"


async def test_a_document_may_be_named_by_its_path(tmp_path: Path) -> None:
    (tmp_path / "d.txt").write_text("one page", "utf-8")
    async with serving(application(System, document=tmp_path / "d.txt")) as url:
        assert (await asked(url, "document")).answer == RagAnswer(answer="d.txt")
    with pytest.raises(UsageError):
        application(System, document=tmp_path / "missing.txt")


async def test_a_token_is_asked_for_and_sent(monkeypatch: pytest.MonkeyPatch) -> None:
    async with serving(application(System, token="canary-1")) as url:  # noqa: S106 - of this test alone
        with pytest.raises(EndpointDown, match="HTTP 401 unauthorized"):
            await asked(url)
        monkeypatch.setenv("MEMFIN_AGENT_API_KEY", "canary-1")
        assert (await asked(url)).status == "ok"


async def test_a_token_that_comes_back_is_masked(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("MEMFIN_AGENT_API_KEY", "canary-12345")

    async def echo(request: web.Request) -> web.Response:
        return web.json_response({"answer": f"you sent {request.headers['Authorization']}"})

    async with serving(service(echo)) as url:
        assert (await asked(url)).answer == RagAnswer(answer="you sent Bearer ***")


# --- the server against its document


def test_the_shipped_document_is_that_of_the_code() -> None:
    assert json.loads(SHIPPED.read_bytes()) == openapi_document()


async def endless() -> AsyncIterator[bytes]:
    """A body that stays half-sent."""
    yield b"{"
    await asyncio.sleep(30)


async def test_the_handlers_answer_as_the_document_says(monkeypatch: pytest.MonkeyPatch) -> None:
    """Every status of the call but the server's own failure is brought about here."""
    document = openapi_document()
    app = application(System, document=RECORD, timeout=0.05, max_body_bytes=2000, token="t")  # noqa: S106
    seen: set[int] = set()
    codes: set[str] = set()
    async with TestClient(TestServer(app)) as client:

        async def call(**options: Any) -> tuple[int, Any]:
            async with client.post("/query", **options) as response:
                data = await response.json()
                schema = document["paths"]["/query"]["post"]["responses"][str(response.status)]
                content = schema["content"]["application/json"]["schema"]
                jsonschema.Draft202012Validator({**content, "components": document["components"]}).validate(
                    data
                )
                seen.add(response.status)
                codes.add(data.get("error", {}).get("code", ""))
                return response.status, data

        assert (await call(json={"question": "q"}))[0] == 401
        assert (await call(json={"question": "q"}, headers={"Host": "evil.example"}))[0] == 421
        assert (await call(json={"question": "q"}, headers={"Origin": "http://evil.example"}))[0] == 403
        client.session.headers["Authorization"] = "Bearer t"
        status, data = await call(json={"question": "q", "unknown": 1})
        assert (status, data["amount"], data["citation"]) == (200, 42000, [{"quote": "y", "page": None}])
        assert (await call(json={"question": 1}))[0] == 400
        assert (await call(data=b"{", headers={"Content-Type": "application/json"}))[0] == 400
        assert (await call(data=b"question"))[0] == 415
        assert (await call(json={"question": "x" * 3000}))[0] == 413
        with monkeypatch.context() as patch:
            patch.setattr("memfin.hosting.MAX_WAIT", 0.05)
            assert (await call(data=endless(), headers={"Content-Type": "application/json"}))[0] == 408
        assert (await call(json={"question": "raise"}))[0] == 500
        assert (await call(json={"question": "hang"}))[0] == 500
        assert (await call(json={"question": "busy"}))[0] == 503
        async with client.get("/healthz") as response:
            assert (await response.json())["status"] == "ok"
        async with client.get("/openapi.json") as response:
            assert await response.json() == document
        for path, method in (("/nothing", "GET"), ("/query", "PUT")):
            async with client.request(method, path) as response:
                codes.add((await response.json())["error"]["code"])
    told = {int(status) for status in document["paths"]["/query"]["post"]["responses"]}
    assert seen == told
    assert codes - {""} == set(CODES) - {"internal"}


async def test_a_question_that_is_too_long_is_refused() -> None:
    async with serving(application(System)) as url:
        error = (await asked(url, "x" * (MAX_QUESTION_CHARS + 1))).error
    assert error is not None
    assert "HTTP 400 invalid_request" in error


async def test_a_system_that_cannot_be_made_ends_the_server() -> None:
    def factory(document: object) -> None:
        raise ValueError("no index")

    server = TestServer(application(factory))
    with pytest.raises(UsageError, match="ValueError: no index"):
        await server.start_server()
    await server.close()


def test_an_open_address_needs_a_token() -> None:
    with pytest.raises(UsageError, match="MEMFIN_AGENT_API_KEY"):
        serve(System, host="0.0.0.0")  # noqa: S104 - which is refused


def test_serve_says_where_and_stops_at_a_signal(tmp_path: Path) -> None:
    program = (
        "from memfin.rag.http import serve\n"
        "class Rag:\n"
        "    def __init__(self, document): pass\n"
        "    def query(self, question): return question\n"
        "    def close(self): print('closed', flush=True)\n"
        "serve(Rag, port=0)\n"
    )
    process = subprocess.Popen(
        [sys.executable, "-c", program],
        cwd=tmp_path,
        env={**os.environ, "PYTHONPATH": str(ROOT)},
        stdout=subprocess.PIPE,
        text=True,
    )
    assert process.stdout is not None
    line = process.stdout.readline()
    assert line.startswith("memfin rag server: http://127.0.0.1:")
    assert line.endswith("/query\n")
    outcome = asyncio.run(asked(line.split()[-1], "there?"))
    assert outcome.answer == RagAnswer(answer="there?")
    process.send_signal(signal.SIGTERM)
    assert process.communicate(timeout=60)[0] == "closed\n"
    assert process.returncode == 0


# --- services that fail


def service(*script: Answer) -> web.Application:
    """Return a service whose answers come from a script, the last one for ever."""
    left = list(script)

    async def answer(request: web.Request) -> web.StreamResponse:
        return await (left.pop(0) if len(left) > 1 else left[0])(request)

    app = web.Application()
    app.router.add_post("/", answer)
    return app


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


async def cut(request: web.Request) -> web.StreamResponse:
    response = web.StreamResponse(headers={"Content-Length": "1000"})
    await response.prepare(request)
    await response.write(b'{"answer": "')
    assert request.transport is not None
    request.transport.close()
    return response


async def drip(request: web.Request) -> web.StreamResponse:
    response = web.StreamResponse()
    await response.prepare(request)
    while request.transport is not None and not request.transport.is_closing():
        await response.write(b" ")
        await asyncio.sleep(0.01)
    return response


async def hang(request: web.Request) -> web.StreamResponse:
    await asyncio.sleep(30)
    raise AssertionError


GOOD = json_answer({"answer": "found"})


@pytest.mark.parametrize(
    "fault",
    [
        json_answer({}, 503),
        json_answer({"error": {"code": "system_unreachable", "message": "busy"}}, 503, {"Retry-After": "0"}),
        json_answer({"detail": "slow down"}, 429),
        raw(b"<html>bad gateway</html>", 502),
        cut,
    ],
    ids=["503", "503-told", "429", "502-html", "cut"],
)
async def test_what_fails_on_its_way_is_asked_again(fault: Answer) -> None:
    async with serving(service(fault, GOOD)) as url:
        outcome = await asked(url)
    assert (outcome.status, outcome.retries, outcome.answer) == ("ok", 1, RagAnswer(answer="found"))


@pytest.mark.parametrize(
    ("fault", "said"),
    [
        (json_answer({"detail": "x"}, 405), "HTTP 405; is this the base URL of a service that speaks"),
        (json_answer({}, 500), "HTTP 500"),
        (json_answer({}, 302, {"Location": "/elsewhere"}), "redirections are not followed"),
        (json_answer({"error": {"code": "odd", "message": "two\nlines"}}, 422), "HTTP 422 odd two lines"),
        (raw(b"{not json"), "none of the RAG protocol"),
        (raw(b"\xff\xfe"), "none of the RAG protocol"),
        (raw(b"[" * 100_000), "none of the RAG protocol"),
        (json_answer(["a"]), "Expected `object`, got `array`"),
        (json_answer({"text": "a"}), "an object without answer"),
        (json_answer({"answer": 1}), "$.answer"),
        (json_answer({"answer": "a", "amount": "one"}), "$.amount"),
        (json_answer({"answer": "a", "evidence": [{"page": 1}]}), "$.evidence[0]"),
        (json_answer({"answer": "a", "citation": [None]}), "$.citation"),
        (raw(b'{"answer": "a", "amount": 1e999}'), "none of the RAG protocol"),
        (json_answer({"answer": "x" * MAX_ANSWER_BYTES}), "larger than"),
        (
            raw(gzip.compress(b" " * (MAX_ANSWER_BYTES + 1)), headers={"Content-Encoding": "gzip"}),
            "larger than",
        ),
    ],
    ids=[
        "405", "500", "redirect", "422", "no-json", "no-utf8", "deep", "array", "no-answer", "number",
        "amount", "evidence", "null", "infinite", "huge", "bomb",
    ],
)  # fmt: skip
async def test_what_is_no_answer_is_told_in_one_line(fault: Answer, said: str) -> None:
    async with serving(service(fault)) as url:
        outcome = await asked(url)
    assert outcome.status == "error"
    assert outcome.retries == 0
    assert outcome.error is not None
    assert said in outcome.error
    assert len(outcome.error.splitlines()) == 1


@pytest.mark.parametrize("fault", [drip, hang], ids=["drip", "hang"])
async def test_a_service_that_never_ends_is_a_timeout(fault: Answer) -> None:
    async with serving(service(fault)) as url:
        outcome = await asked(url, limit=0.1)
    assert (outcome.status, outcome.error) == ("timeout", "no answer within 0.1 s")
