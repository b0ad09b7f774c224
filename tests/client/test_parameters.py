"""Parameters that a model refuses: as opposed to other complaints, left out or renamed once, for good."""

import json
from typing import Any

import anyio
import pytest

from memfin.client.chat import ChatClient, Parameters, refused_parameter
from memfin.client.endpoint import Endpoint
from memfin.client.errors import RequestError
from memfin.client.limiter import CallLimiter
from memfin.client.messages import ChatRequest
from memfin.contracts import ParameterChange
from tests.client.faulty_server import FaultyServer
from tests.support import each_case

REQUEST = ChatRequest(
    model="m",
    messages=[{"role": "user", "content": "hello"}],
    temperature=0.0,
    seed=7,
    max_tokens=100,
    extra={"top_p": 1},
)


def openai_error(message: str, param: str | None = None, code: str | None = None) -> bytes:
    error = {"message": message, "type": "invalid_request_error", "param": param, "code": code}
    return json.dumps({"error": error}).encode()


LADDER = {"temperature", "seed", "max_tokens", "max_completion_tokens"}

REFUSALS: list[tuple[bytes, str]] = [
    (
        openai_error(
            "Unsupported parameter: 'max_tokens' is not supported with this model. "
            "Use 'max_completion_tokens' instead.",
            "max_tokens",
            "unsupported_parameter",
        ),
        "max_tokens",
    ),
    (
        openai_error(
            "Unsupported value: 'temperature' does not support 0.0 with this model. "
            "Only the default (1) value is supported.",
            "temperature",
            "unsupported_value",
        ),
        "temperature",
    ),
    (openai_error("Unrecognized request argument supplied: seed"), "seed"),
    (openai_error("`temperature` is deprecated for this model."), "temperature"),
    (openai_error("不支持参数 seed"), "seed"),
    (b'{"detail":[{"type":"extra_forbidden","loc":["body","seed"],"msg":"Not permitted"}]}', "seed"),
    (b"unknown field max_tokens", "max_tokens"),
    (openai_error("streaming not supported"), "stream"),
    (openai_error("This model does not support streaming responses.", "stream"), "stream"),
    (openai_error("Unrecognized request argument supplied: stream_options"), "stream_options"),
    (openai_error("Unknown parameter: 'stream_options'.", "stream_options.include_usage"), "stream_options"),
    (b'{"detail":[{"type":"extra_forbidden","loc":["body","stream_options"]}]}', "stream_options"),
]

OTHERS: list[bytes] = [
    openai_error("max_tokens is too large: 100. This model supports at most 50 completion tokens."),
    openai_error("This model's maximum context length is 10 tokens; you asked for 100 (max_tokens)."),
    openai_error("temperature must be between 0 and 1", "temperature"),
    openai_error("Unknown parameter: 'response_format'.", "response_format", "unknown_parameter"),
    openai_error("Unsupported: reseeding, temperatures", None),
    openai_error("the model does not support tools"),
    openai_error("upstreams are not supported"),
    b'{"detail":[{"type":"less_than","loc":["body","seed"],"msg":"Input should be less than 5"}]}',
    b"\xff\xfe",
    b"",
    b"[" * 10_000,
]


@each_case(("body", "name"), REFUSALS)
@each_case("status", [400, 422])
def test_a_refusal_is_known_by_the_name_of_the_parameter(body: bytes, name: str, status: int) -> None:
    sent = REQUEST.body(stream=True)
    assert refused_parameter(sent, status, body) == name
    assert refused_parameter(sent.keys() - {name}, status, body) is None
    assert refused_parameter(sent, 500, body) is None


@each_case("body", OTHERS)
def test_other_complaints_are_no_refusals(body: bytes) -> None:
    assert refused_parameter(REQUEST.body(stream=True), 400, body) is None


def test_a_request_is_fitted_with_one_notice() -> None:
    parameters, notices = Parameters(), list[str]()
    parameters.on_warning = notices.append
    assert parameters.fitted(REQUEST) == REQUEST.body()
    for name in ("max_tokens", "max_tokens", "seed"):
        parameters.refuse(name)
    assert parameters.fitted(REQUEST) == {
        "model": "m",
        "messages": REQUEST.messages,
        "temperature": 0.0,
        "max_completion_tokens": 100,
        "top_p": 1,
    }
    assert (
        parameters.fitted(REQUEST.replace(max_tokens=None))
        .keys()
        .isdisjoint({"max_tokens", "max_completion_tokens"})
    )
    assert notices == [
        "the model refuses the parameter max_tokens; from now on it is sent as max_completion_tokens",
        "the model refuses the parameter seed; from now on it is left out",
    ]
    assert parameters.changes() == [
        ParameterChange(parameter="max_tokens", sent_as="max_completion_tokens", refusals=2),
        ParameterChange(parameter="seed", sent_as=None, refusals=1),
    ]


class Choosy(FaultyServer):
    """Refuses parameters by name; with ``lasting`` whatever it is asked."""

    def __init__(self, *refused: str, lasting: bool = False, **settings: Any) -> None:
        super().__init__(**settings)
        self._refused = refused
        self._lasting = lasting

    async def _answer(self, request: Any, body: dict[str, Any], fault: str | None) -> Any:
        found = next((name for name in self._refused if name in body or self._lasting), None)
        if found is not None:
            fault = "400"
            body = {**body, "refused": found}
        return await super()._answer(request, body, fault)

    def complaint(self, body: dict[str, Any], fault: str) -> str:
        return f"Unsupported parameter: '{body['refused']}'" if "refused" in body else fault


def client_of(server: FaultyServer) -> ChatClient:
    return ChatClient(Endpoint(server.base_url), total=10, read=10)


@pytest.mark.parametrize("stream", [True, False])
async def test_the_next_request_goes_without(stream: bool) -> None:
    async with Choosy("temperature", "seed", "max_tokens") as server:
        client = client_of(server)
        ask = client.stream if stream else client.complete
        for _ in ("temperature", "seed", "max_tokens"):
            with pytest.raises(RequestError) as refused:
                await ask(REQUEST)
            assert (refused.value.kind, refused.value.retryable, refused.value.status) == (
                "parameter",
                True,
                400,
            )
        assert (await ask(REQUEST)).text == "echo: hello"
        await client.close()
    sent = [set(arrival.body) & LADDER for arrival in server.arrivals]
    assert sent == [
        {"temperature", "seed", "max_tokens"},
        {"seed", "max_tokens"},
        {"max_tokens"},
        {"max_completion_tokens"},
    ]


async def test_a_server_that_does_not_stream_is_asked_for_the_whole_answer_from_then_on() -> None:
    async with Choosy("stream_options", "stream") as server:
        client, notices = client_of(server), list[str]()
        client.parameters.on_warning = notices.append
        for name in ("stream_options", "stream"):
            with pytest.raises(RequestError) as refused:
                await client.stream(REQUEST)
            assert refused.value.parameter == name
        for _ in range(2):
            answer = await client.stream(REQUEST)
            assert (answer.text, answer.first_token_ms) == ("echo: hello", None)
        await client.close()
    sent = [set(arrival.body) & {"stream", "stream_options"} for arrival in server.arrivals]
    assert sent == [{"stream", "stream_options"}, {"stream"}, set(), set()]
    assert [arrival.headers["Accept"] for arrival in server.arrivals][1:3] == [
        "text/event-stream, application/json",
        "application/json",
    ]
    assert notices == [
        f"the model refuses the parameter {name}; from now on it is left out"
        for name in ("stream_options", "stream")
    ]


async def test_a_stream_without_usage_is_read() -> None:
    async with Choosy("stream_options") as server:
        client = client_of(server)
        with pytest.raises(RequestError):
            await client.stream(REQUEST)
        answer = await client.stream(REQUEST)
        await client.close()
    assert (answer.text, answer.total_tokens) == ("echo: hello", None)
    assert answer.first_token_ms is not None


async def test_many_calls_at_once_get_over_it_without_using_up_their_attempts() -> None:
    async with Choosy("temperature", "seed", "max_tokens", latency=0.01) as server:
        client, notices = client_of(server), list[str]()
        client.parameters.on_warning = notices.append
        limiter = CallLimiter(workers=32, max_attempts=1, on_warning=notices.append)
        texts: list[str] = []

        async def one() -> None:
            texts.append((await limiter.call(lambda: client.complete(REQUEST))).value.text)

        async with anyio.create_task_group() as group:
            for _ in range(100):
                group.start_soon(one)
        await client.close()
        assert texts == ["echo: hello"] * 100
        assert len(notices) == 3
        changes = client.parameters.changes()
        assert sum(change.refusals for change in changes) == len(server.arrivals) - 100
        assert all(1 <= change.refusals <= 32 for change in changes)


async def test_a_server_that_refuses_what_is_not_sent_is_a_failure() -> None:
    async with Choosy("seed", lasting=True) as server:
        client = client_of(server)
        limiter = CallLimiter(workers=1, on_warning=lambda line: None)
        with pytest.raises(RequestError) as refused:
            await limiter.call(lambda: client.complete(REQUEST))
        await client.close()
    assert (refused.value.kind, refused.value.retryable) == ("status", False)
    assert len(server.arrivals) == 2
