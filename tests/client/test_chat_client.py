"""The chat client against a server on loopback that fails in every way there is."""

import asyncio
import gc
import logging
import traceback
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager

import anyio
import pytest

from memfin.client.chat import ChatClient
from memfin.client.endpoint import Endpoint
from memfin.client.errors import RequestError
from memfin.client.messages import ChatAnswer, ChatRequest
from tests.client.faulty_server import LASTING, RETRY_AFTER, SLOW, STATUSES, TRANSIENT, FaultyServer

QUESTION = ChatRequest(model="m-1", messages=[{"role": "user", "content": "你好, world"}])

KINDS = {
    **dict.fromkeys(("429", *(f"429_{form}" for form in RETRY_AFTER)), "rate_limited"),
    **dict.fromkeys((*STATUSES, "503_seconds", "401", "400", "quota", "echo_key"), "status"),
    "reset": "closed",
    "closed": "closed",
    "reset_in_body": "truncated",
    "truncated_length": "truncated",
    "truncated_chunked": "truncated",
    "truncated_no_length": "truncated",
    "truncated_gzip": "truncated",
    "invalid_json": "invalid_json",
    "html": "invalid_json",
    "wrong_schema": "invalid_schema",
    "no_object": "invalid_schema",
    "empty_choices": "empty",
    "empty_text": "empty",
    "too_large": "too_large",
    "too_large_chunked": "too_large",
    "gzip_bomb": "too_large",
    "bad_charset": "encoding",
    "unknown_encoding": "encoding",
    "error_in_body": "status",
    "redirect": "redirect",
    "redirect_elsewhere": "redirect",
    "hang": "timeout",
    "hang_in_body": "timeout",
    "slow_drip": "timeout",
}


@asynccontextmanager
async def client_of(
    server: FaultyServer, key: str | None = None, *, total: float = 20.0, read: float = 10.0
) -> AsyncIterator[ChatClient]:
    environ = {"KEY": key} if key is not None else {}
    client = ChatClient(Endpoint(server.base_url, "KEY", environ=environ), total=total, read=read)
    try:
        yield client
    finally:
        await client.close()


def asking(client: ChatClient, stream: bool) -> Callable[[ChatRequest], "asyncio.Future[ChatAnswer]"]:
    method = client.stream if stream else client.complete
    return lambda request: asyncio.ensure_future(method(request))


def test_every_fault_of_the_server_has_its_kind() -> None:
    assert set(KINDS) | {"refusal"} == {*TRANSIENT, *SLOW, *LASTING}


@pytest.mark.parametrize("stream", [False, True])
@pytest.mark.parametrize("fault", KINDS)
async def test_every_fault_is_one_typed_error_after_one_attempt(fault: str, stream: bool) -> None:
    total, read = (0.6, 0.3) if fault in SLOW else (20.0, 10.0)
    async with FaultyServer(script=[fault]) as server, client_of(server, total=total, read=read) as client:
        with pytest.raises(RequestError) as caught:
            await asking(client, stream)(QUESTION)
        error = caught.value
        assert error.kind == KINDS[fault]
        assert error.retryable == (fault not in LASTING)
        assert len(server.arrivals) == 1
        assert error.__cause__ is None
        assert error.__context__ is None
        text = str(error)
        assert text.startswith(f"{server.base_url}: ")
        assert text.isprintable()
        if fault[:3].isdecimal():
            assert (error.status, text) == (
                int(fault[:3]),
                f"{server.base_url}: HTTP {fault[:3]}: this is fault {fault}",
            )
        # The next attempt is not disturbed by what is left of this one.
        answer = await asking(client, stream)(QUESTION)
        assert answer.text == "echo: 你好, world"
        assert len(server.arrivals) == 2


@pytest.mark.parametrize(
    ("fault", "seconds"),
    [
        ("429", None),
        ("429_seconds", 1.0),
        ("503_seconds", 1.0),
        ("429_zero", 0.0),
        ("429_negative", 0.0),
        ("429_past_date", 0.0),
        ("429_absurd", None),
        ("429_nan", None),
        ("429_garbage", None),
        ("500", None),
    ],
)
async def test_retry_after_is_read(fault: str, seconds: float | None) -> None:
    async with FaultyServer(script=[fault]) as server, client_of(server) as client:
        with pytest.raises(RequestError) as caught:
            await client.complete(QUESTION)
        assert caught.value.retry_after == seconds


@pytest.mark.parametrize("stream", [False, True])
async def test_an_answer_with_its_cost(stream: bool) -> None:
    async with FaultyServer(usage=(120, 34)) as server, client_of(server) as client:
        answer = await asking(client, stream)(QUESTION)
        assert answer.text == "echo: 你好, world"
        assert (answer.prompt_tokens, answer.completion_tokens, answer.total_tokens) == (120, 34, 154)
        assert (answer.model, answer.finish_reason) == ("m-1", "stop")
        assert answer.latency_ms > 0
        assert (answer.first_token_ms is not None) == stream
        if answer.first_token_ms is not None:
            assert 0 < answer.first_token_ms <= answer.latency_ms


async def test_what_is_set_is_sent_and_nothing_else() -> None:
    async with FaultyServer() as server, client_of(server, "the-key") as client:
        await client.complete(QUESTION)
        await client.stream(
            ChatRequest(
                model="m",
                messages=[{"role": "system", "content": "s"}, {"role": "user", "content": "u"}],
                temperature=0.0,
                seed=7,
                max_tokens=50,
                response_format={"type": "json_object"},
                tools=[{"type": "function", "function": {"name": "f", "parameters": {}}}],
                tool_choice="auto",
                extra={"top_p": 0.5},
            )
        )
        plain, full = server.arrivals
        assert plain.body == {"model": "m-1", "messages": [{"role": "user", "content": "你好, world"}]}
        assert plain.headers["Authorization"] == "Bearer the-key"
        assert full.body == {
            "model": "m",
            "messages": [{"role": "system", "content": "s"}, {"role": "user", "content": "u"}],
            "temperature": 0.0,
            "seed": 7,
            "max_tokens": 50,
            "response_format": {"type": "json_object"},
            "tools": [{"type": "function", "function": {"name": "f", "parameters": {}}}],
            "tool_choice": "auto",
            "stream": True,
            "stream_options": {"include_usage": True},
            "top_p": 0.5,
        }


@pytest.mark.parametrize("stream", [False, True])
async def test_tool_calls_come_whole(stream: bool) -> None:
    message = {
        "role": "assistant",
        "content": None,
        "tool_calls": [
            {"id": "a", "type": "function", "function": {"name": "quote", "arguments": '{"code": "600519"}'}},
            {"id": "b", "type": "function", "function": {"name": "news", "arguments": "{}"}},
        ],
    }
    async with FaultyServer(responder=lambda _: message) as server, client_of(server) as client:
        answer = await asking(client, stream)(QUESTION)
        assert [(call.id, call.name, call.arguments) for call in answer.tool_calls] == [
            ("a", "quote", '{"code": "600519"}'),
            ("b", "news", "{}"),
        ]
        assert answer.finish_reason == "tool_calls"


@pytest.mark.parametrize("stream", [False, True])
async def test_a_refusal_is_an_answer(stream: bool) -> None:
    async with FaultyServer(script=["refusal"]) as server, client_of(server) as client:
        answer = await asking(client, stream)(QUESTION)
        assert (answer.text, answer.refusal) == ("", "I cannot help with that.")


async def test_servers_that_do_not_stream_are_understood() -> None:
    async with FaultyServer(streams=False) as server, client_of(server) as client:
        answer = await client.stream(QUESTION)
        assert (answer.text, answer.total_tokens, answer.first_token_ms) == ("echo: 你好, world", 15, None)


async def test_an_answer_without_usage_has_no_cost() -> None:
    async with FaultyServer(usage=None) as server, client_of(server) as client:
        assert (await client.stream(QUESTION)).total_tokens is None
        assert (await client.complete(QUESTION)).total_tokens is None


async def test_a_stream_may_be_larger_than_its_answer() -> None:
    text = "很长的回答。" * 10_000
    async with FaultyServer(responder=lambda _: text) as server, client_of(server) as client:
        assert (await client.stream(QUESTION)).text == text


@pytest.mark.parametrize("stream", [False, True])
async def test_connections_are_used_again(stream: bool) -> None:
    async with FaultyServer() as server, client_of(server) as client:
        for _ in range(20):
            await asking(client, stream)(QUESTION)
            assert server.open_connections == 1


async def test_an_endpoint_that_is_not_there() -> None:
    async with FaultyServer() as server:
        url = server.base_url
    client = ChatClient(Endpoint(url), total=5, read=5)
    try:
        with pytest.raises(RequestError) as caught:
            await client.complete(QUESTION)
    finally:
        await client.close()
    assert (caught.value.kind, caught.value.retryable) == ("connect", True)
    assert str(caught.value).startswith(f"{url}: cannot connect: ")


async def test_a_server_that_does_not_speak_http_is_reported() -> None:
    async def shout(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        await reader.readuntil(b"\r\n\r\n")
        writer.write(b"220 mail.example ESMTP\r\n")
        writer.close()

    server = await asyncio.start_server(shout, "127.0.0.1", 0)
    port = server.sockets[0].getsockname()[1]
    client = ChatClient(Endpoint(f"http://127.0.0.1:{port}/v1"), total=5, read=5)
    try:
        with pytest.raises(RequestError) as caught:
            await client.complete(QUESTION)
        assert caught.value.kind == "closed"
    finally:
        await client.close()
        server.close()
        await server.wait_closed()


async def test_a_redirect_takes_the_key_nowhere() -> None:
    async with FaultyServer() as other:
        elsewhere = f"{other.base_url}/chat/completions"
        async with (
            FaultyServer(script=["redirect_elsewhere", "redirect"], elsewhere=elsewhere) as server,
            client_of(server, "sk-secret") as client,
        ):
            for _ in range(2):
                with pytest.raises(RequestError, match="redirects"):
                    await client.complete(QUESTION)
            assert len(server.arrivals) == 2
        assert other.arrivals == []


async def test_no_part_of_a_key_is_left_where_a_message_is_cut() -> None:
    key = "sk-partly-0123456789abcdef0123456789abcdef"
    lengths = range(140, 205, 5)
    async with (
        FaultyServer(script=["echo_key"] * len(lengths)) as server,
        client_of(server, key) as client,
    ):
        for length in lengths:
            request = ChatRequest(model="m", messages=[{"role": "user", "content": "x" * length}])
            with pytest.raises(RequestError) as caught:
                await client.complete(request)
            assert "sk-" not in str(caught.value)
            assert caught.value.status == 401


async def test_text_that_cannot_be_sent_is_an_error_of_the_request() -> None:
    request = ChatRequest(model="m", messages=[{"role": "user", "content": "\ud800"}])
    async with FaultyServer() as server, client_of(server) as client:
        with pytest.raises(RequestError) as caught:
            await client.complete(request)
        assert (caught.value.kind, caught.value.retryable) == ("encoding", False)
        assert server.arrivals == []


async def test_a_closed_client_opens_again() -> None:
    async with FaultyServer() as server, client_of(server) as client:
        await client.close()
        await client.complete(QUESTION)
        await client.close()
        await client.close()
        await client.complete(QUESTION)


@pytest.mark.parametrize("stream", [False, True])
@pytest.mark.parametrize("fault", [None, "hang", "hang_in_body", "slow_drip"])
async def test_cancellation_leaks_no_connection_and_no_task(fault: str | None, stream: bool) -> None:
    """Cancelled while connecting, waiting for the head, and in the middle of the body."""
    async with FaultyServer(script=[fault] * 12, latency=0.0 if fault else 5.0) as server:
        async with client_of(server) as client:
            before = asyncio.all_tasks()
            for steps in range(12):
                server.arrived.clear()
                task = asking(client, stream)(QUESTION)
                if steps < 8:
                    for _ in range(steps):
                        await asyncio.sleep(0)
                else:
                    with anyio.fail_after(10):
                        await server.arrived.wait()
                    await asyncio.sleep(0.02)  # into the body, where there is one
                task.cancel()
                with pytest.raises(asyncio.CancelledError):
                    await task
            session = client._session
            assert session is not None
            assert session.connector is not None
            assert len(session.connector._acquired) == 0
            await anyio.wait_all_tasks_blocked()
            ours = [task for task in asyncio.all_tasks() - before if "RequestHandler" not in repr(task)]
            assert ours == []
            server.latency = 0.0
            server._script = iter(())
            assert (await asking(client, stream)(QUESTION)).text == "echo: 你好, world"
        with anyio.fail_after(10):
            while server.open_connections:  # noqa: ASYNC110 - sockets tell nobody that they are closed
                await asyncio.sleep(0.01)
    gc.collect()  # a connection that nobody closed warns when it is collected


CANARY = "sk-canary-7Qx93LmZ"
IN_URL = f"user-canary {CANARY}-pass"
ELSEWHERE = f"{CANARY}-query {CANARY}-other"


def with_locals(error: Exception) -> str:
    """Return the traceback as tools print it that show local variables.

    The outermost frame is left out: it is the test's, which knows the canary itself.
    """
    frames = error.__traceback__.tb_next if error.__traceback__ is not None else None
    shown = traceback.TracebackException(type(error), error, frames, capture_locals=True)
    return "".join(shown.format())


@pytest.mark.parametrize("stream", [False, True])
async def test_no_secret_leaves_the_wire(
    stream: bool, caplog: pytest.LogCaptureFixture, capfd: pytest.CaptureFixture[str]
) -> None:
    """A server that sends the key back in every place, and every fault: nothing shows it."""
    caplog.set_level(logging.DEBUG)
    seen: list[str] = []
    secret = ""

    def echo(body: dict[str, object]) -> dict[str, object]:
        call = {"id": secret, "type": "function", "function": {"name": secret, "arguments": secret}}
        return {"role": "assistant", "content": f"your keys: {secret}", "tool_calls": [call]}

    faults = [*TRANSIENT, *LASTING, "hang", None]
    async with FaultyServer(script=faults, responder=echo) as server:
        url = (
            server.base_url.replace("http://", f"http://user-canary:{CANARY}-pass@") + f"?key={CANARY}-query"
        )
        environ = {"KEY": f"{CANARY}-other"}
        for base, secret in (  # noqa: B007 - the responder sends it
            (url, f"{IN_URL} {ELSEWHERE}"),
            (server.base_url + f"?key={CANARY}-query", ELSEWHERE),
        ):
            server._script = iter(faults)
            client = ChatClient(Endpoint(base, "KEY", environ=environ), total=2, read=0.3)
            for _ in faults:
                try:
                    seen.append(repr(await asking(client, stream)(QUESTION)))
                except RequestError as error:
                    seen += [str(error), repr(error), repr(error.args), repr(vars(error))]
                    seen.append(with_locals(error))
            seen += [repr(client), repr(client.endpoint), client.endpoint.base_url]
            await client.close()
        # The server got all of it, so there was something to hide.
        assert any(CANARY in arrival.headers["Authorization"] for arrival in server.arrivals)
        assert all(f"{CANARY}-query" in str(arrival.query) for arrival in server.arrivals)
    output = capfd.readouterr()
    ours = [record for record in caplog.records if record.name.startswith(("memfin", "aiohttp.client"))]
    seen += [output.out, output.err, *(record.getMessage() for record in ours)]
    assert [line for text in seen for line in text.splitlines() if "canary" in line.lower()] == []
    assert sum("***" in text for text in seen) > len(faults)
