"""Limits of every HTTP server: half-sent requests, connections, hosts, origins."""

import asyncio
import itertools
import logging
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager, suppress
from pathlib import Path

import pytest
from aiohttp import ClientSession, web

from memfin.agents.http import application as agent_application
from memfin.errors import UsageError
from memfin.hosting import HostCheck, listening
from memfin.memory import MemoryStore
from memfin.memory.access_tokens import TOKENS_FILE, TokenFile
from memfin.rag.http import application as rag_application
from memfin.web.memory.application import memory_application
from tests.rag.rag_documents import RECORD

HEALTH = b"GET /healthz HTTP/1.1\r\nHost: localhost\r\n\r\n"
HALF_HEAD = b"GET /healthz HTTP/1.1\r\nHost: localhost\r\nX: "


class Nobody:
    """An agent and a system that is never asked."""

    def __init__(self, *given: object) -> None:
        pass

    def reply(self, user_text: str) -> str:
        raise AssertionError

    query = reply


def memory(root: Path) -> tuple[web.Application, str]:
    tokens = TokenFile(root / TOKENS_FILE)
    token = tokens.add("alice")[1]
    store = MemoryStore(root)
    app = memory_application(store, tokens)

    async def close(app: web.Application) -> None:
        store.close()

    app.on_cleanup.append(close)
    return app, f"/api/feedback HTTP/1.1\r\nAuthorization: Bearer {token}"


def agent(root: Path) -> tuple[web.Application, str]:
    return agent_application(Nobody), "/sessions HTTP/1.1"


def rag(root: Path) -> tuple[web.Application, str]:
    return rag_application(Nobody, document=RECORD), "/query HTTP/1.1"


@pytest.fixture(params=[memory, agent, rag])
def served(request: pytest.FixtureRequest, tmp_path: Path) -> tuple[web.Application, str]:
    make: Callable[[Path], tuple[web.Application, str]] = request.param
    return make(tmp_path)


@pytest.fixture
def quick(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("memfin.hosting.MAX_WAIT", 0.3)
    monkeypatch.setattr("memfin.hosting.LINGERING", 0.1)


Connection = tuple[asyncio.StreamReader, asyncio.StreamWriter]


@asynccontextmanager
async def port_of(app: web.Application) -> AsyncIterator[int]:
    async with listening(app, "test", "127.0.0.1", 0) as url:
        yield int(url.rpartition(":")[2])


async def send(port: int, data: bytes) -> Connection:
    reader, writer = await asyncio.open_connection("127.0.0.1", port)
    writer.write(data)
    with suppress(ConnectionError):
        await writer.drain()
    return reader, writer


def posting(call: str, length: int) -> bytes:
    """Return the head of a request with a body."""
    lines = (f"POST {call}", "Host: localhost", "Content-Type: application/json", f"Content-Length: {length}")
    return ("\r\n".join(lines) + "\r\n\r\n").encode()


async def rest(connection: Connection) -> bytes:
    """Return what comes until the server closes the connection, which is soon."""
    reader, writer = connection
    answer = b""
    async with asyncio.timeout(5):
        with suppress(ConnectionError):
            while data := await reader.read(1 << 16):
                answer += data
    writer.close()
    return answer


async def drip(writer: asyncio.StreamWriter) -> None:
    with suppress(ConnectionError):
        while True:
            await asyncio.sleep(0.05)
            writer.write(b"x")


async def test_a_head_that_never_ends_is_shed(served: tuple[web.Application, str], quick: None) -> None:
    async with port_of(served[0]) as port:
        connections = [await send(port, data) for data in (b"", b"G", HALF_HEAD, HEALTH + HALF_HEAD)]
        dripping = [asyncio.create_task(drip(writer)) for _, writer in connections[1:]]
        answers = [await rest(each) for each in connections]
        for task in dripping:
            task.cancel()
    assert [answer.count(b" 200 OK") for answer in answers] == [0, 0, 0, 1]


async def test_a_body_that_never_ends_is_shed(served: tuple[web.Application, str], quick: None) -> None:
    app, call = served
    async with port_of(app) as port:
        reader, writer = await send(port, posting(call, 99_999) + b'{"a": "')
        dripping = asyncio.create_task(drip(writer))
        answer = await rest((reader, writer))
        dripping.cancel()
        unasked = HEALTH.replace(b"\r\n\r\n", b"\r\nContent-Length: 9\r\n\r\n{")
        assert b" 200 OK" in await rest(await send(port, unasked))
    assert b" 408 " in answer
    assert b"too_slow" in answer


@pytest.mark.parametrize("half", ["head", "body"])
async def test_half_sent_requests_that_come_at_once_keep_nobody_out(
    served: tuple[web.Application, str], half: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("memfin.hosting.MAX_CONNECTIONS", 8)
    app, call = served
    data = HALF_HEAD if half == "head" else posting(call, 99) + b"{"
    async with port_of(app) as port:
        for _ in range(3):
            halves = await asyncio.gather(*(send(port, data) for _ in range(40)))
            answered = await send(port, HEALTH)
            async with asyncio.timeout(5):
                assert b" 200 OK" in await answered[0].readline()
            answered[1].close()
            ends = [asyncio.create_task(rest(each)) for each in halves]
            for end in itertools.islice(asyncio.as_completed(ends, timeout=5), 33):
                assert await end == b""
            for (_, writer), end in zip(halves, ends, strict=True):
                writer.close()
                await end


async def test_consent_is_taken_back_while_sign_ins_stay_half_sent(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("memfin.hosting.MAX_CONNECTIONS", 8)
    app, call = memory(tmp_path)
    consent = "/api/users/alice/profile-consent"
    headers = {"Authorization": call.rpartition(": ")[2], "Connection": "close"}
    scopes = dict.fromkeys(("create_task", "save_to_profile", "save_to_thread", "training_use_allowed"), True)
    sign_in = posting("/memory/sign-in HTTP/1.1", 99).replace(b"json", b"x-www-form-urlencoded") + b"token="
    async with listening(app, "test", "127.0.0.1", 0) as url, ClientSession(headers=headers) as client:
        async with client.post(url + consent, json={"scopes": scopes, "preferences": {}}) as granted:
            consent_id = (await granted.json())["consent_id"]
        halves = await asyncio.gather(*(send(int(url.rpartition(":")[2]), sign_in) for _ in range(40)))
        async with client.delete(f"{url}{consent}/{consent_id}") as revoked:
            assert revoked.status == 200
        for _, writer in halves:
            writer.close()


async def test_bodies_that_stall_make_room_for_newer_ones(
    served: tuple[web.Application, str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("memfin.hosting.MAX_HELD", 100_000)
    monkeypatch.setattr("memfin.hosting.LINGERING", 0.1)
    app, call = served
    async with port_of(app) as port:
        halves = [await send(port, posting(call, 90_000) + b"x" * 60_000) for _ in range(3)]
        ends = {asyncio.create_task(rest(each)): each[1] for each in halves}
        for end in itertools.islice(asyncio.as_completed(ends, timeout=5), 2):
            assert b" 408 " in await end
        ((end, writer),) = ((end, writer) for end, writer in ends.items() if not end.done())
        writer.write(b"x" * 30_000)
        writer.write_eof()
        assert b" 400 " in await end


async def test_connections_with_requests_under_way_are_kept_and_no_more_are_taken(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr("memfin.hosting.MAX_CONNECTIONS", 2)
    go_on, begun = asyncio.Event(), asyncio.Semaphore(0)

    async def wait(request: web.Request) -> web.Response:
        begun.release()
        await go_on.wait()
        return web.Response()

    app = web.Application()
    app.router.add_get("/healthz", wait)
    async with port_of(app) as port:
        kept = [await send(port, HEALTH) for _ in range(2)]
        for _ in kept:
            await begun.acquire()
        assert await rest(await send(port, HEALTH)) == b""
        go_on.set()
        for reader, writer in kept:
            assert b" 200 OK" in await reader.readline()
            writer.close()


async def test_a_server_that_drains_answers_what_is_under_way() -> None:
    begun = asyncio.Event()

    async def echo(request: web.Request) -> web.Response:
        begun.set()
        return web.Response(body=await request.read())

    app = web.Application()
    app.router.add_post("/", echo)
    stop = asyncio.Event()
    ready: asyncio.Future[int] = asyncio.get_running_loop().create_future()

    async def serve() -> None:
        async with listening(app, "test", "127.0.0.1", 0, drained=True) as url:
            ready.set_result(int(url.rpartition(":")[2]))
            await stop.wait()

    serving = asyncio.create_task(serve())
    reader, writer = await send(
        await ready, b"POST / HTTP/1.1\r\nHost: localhost\r\nContent-Length: 4\r\n\r\nab"
    )
    await begun.wait()
    stop.set()
    await asyncio.sleep(0.05)
    writer.write(b"cd")
    assert (await rest((reader, writer))).endswith(b"\r\n\r\nabcd")
    await serving


async def test_who_hangs_up_is_no_failing_storage(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    head = (
        b"POST /memory/sign-in HTTP/1.1\r\nHost: localhost\r\nContent-Length: 99\r\n"
        b"Content-Type: application/x-www-form-urlencoded\r\n\r\ntoken="
    )
    with caplog.at_level(logging.INFO):
        async with port_of(memory(tmp_path)[0]) as port:
            _, writer = await send(port, head)
            await asyncio.sleep(0.05)
            writer.transport.abort()
            await asyncio.sleep(0.05)
            assert b" 200 OK" in await rest(
                await send(port, HEALTH.replace(b"\r\n\r\n", b"\r\nConnection: close\r\n\r\n"))
            )
    assert caplog.text == ""


async def test_other_hosts_and_origins_get_no_answer(served: tuple[web.Application, str]) -> None:
    async with port_of(served[0]) as port:
        for line, status in (
            (b"Host: localhost", b"200"),
            (b"Host: localhost\r\nOrigin: http://127.0.0.1:9", b"200"),
            (b"Host: evil.example", b"421"),
            (b"Host: localhost\r\nOrigin: http://evil.example", b"403"),
            (b"Host: localhost\r\nOrigin: null", b"403"),
            (b"Host: localhost\r\nOrigin: http://localhost\r\nOrigin: http://evil.example", b"403"),
        ):
            request = b"GET /healthz HTTP/1.1\r\n" + line + b"\r\nConnection: close\r\n\r\n"
            answer = await rest(await send(port, request))
            assert answer.split()[1] == status, line
            assert b"aiohttp" not in answer


async def test_what_is_no_http_is_answered_and_logged_without_its_words(
    served: tuple[web.Application, str], caplog: pytest.LogCaptureFixture
) -> None:
    with caplog.at_level(logging.DEBUG):
        async with port_of(served[0]) as port:
            for request in (
                b"\x00Bearer-secret\r\n\r\n",
                b"GET / HTTP/1.1\r\nHost: localhost\r\nAuthorization\x00: Bearer-secret\r\n\r\n",
                b"GET / HTTP/1.1\r\nHost: localhost\r\nContent-Length: Bearer-secret\r\n\r\n",
            ):
                answer = await rest(await send(port, request))
                assert answer.split()[1] == b"400"
                assert not any(word in answer for word in (b"secret", b"aiohttp", b"Python"))
    assert "secret" not in caplog.text


async def test_what_a_handler_raises_is_told_by_its_kind_alone(caplog: pytest.LogCaptureFixture) -> None:
    async def fail(request: web.Request) -> web.Response:
        raise ValueError("Bearer-secret")

    app = web.Application()
    app.router.add_get("/healthz", fail)
    async with port_of(app) as port:
        answer = await rest(await send(port, HEALTH))
    assert answer.split()[1] == b"500"
    assert b"secret" not in answer
    assert "internal error: ValueError" in caplog.text
    assert "secret" not in caplog.text


def test_which_origins_a_server_has() -> None:
    check = HostCheck("127.0.0.1", ["advice.example"])
    for origin in ("https://advice.example", "http://LOCALHOST:3000", "http://[::1]:1"):
        assert check.allows_origin(origin)
    for origin in (
        "",
        "null",
        "advice.example",
        "file://",
        "https://advice.example.evil.example",
        "ftp://localhost",
    ):
        assert not check.allows_origin(origin)


async def test_an_address_that_cannot_be_had_is_told() -> None:
    async with port_of(web.Application()) as port:
        with pytest.raises(UsageError, match=f"^test server on 127.0.0.1:{port}: Address already in use$"):
            async with listening(web.Application(), "test", "127.0.0.1", port):
                pass
