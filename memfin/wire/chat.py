"""The chat completions protocol: what is asked, what comes back, and the client that does one attempt."""

from typing import Any, Final, Literal

import aiohttp
import msgspec

from memfin.contracts import Record
from memfin.wire.endpoint import Endpoint
from memfin.wire.errors import WireError

MOST_BYTES: Final = 1024 * 1024
"""Size of an answer's body that is accepted, after decompression (spec section 7)."""


class ChatRequest(Record):
    """One request; what is None is not sent. ``extra`` holds further fields for servers that know them.

    ``messages`` and ``tools`` are in the protocol's form.
    """

    model: str
    messages: list[dict[str, Any]]
    temperature: float | None = None
    seed: int | None = None
    max_tokens: int | None = None
    response_format: dict[str, Any] | None = None
    tools: list[dict[str, Any]] | None = None
    tool_choice: Literal["auto", "none", "required"] | dict[str, Any] | None = None
    extra: dict[str, Any] = {}


class ToolCall(Record):
    """A call that the model asks for; ``arguments`` is JSON as the model wrote it, so maybe none."""

    id: str
    name: str
    arguments: str


class ChatAnswer(Record):
    """What a model answered.

    A refusal is an answer: ``refusal`` holds its words and ``text`` is empty. Times are
    milliseconds from the start of the attempt; ``first_token_ms`` only where the answer streamed.
    """

    text: str
    model: str
    latency_ms: float
    refusal: str | None = None
    tool_calls: list[ToolCall] = []
    finish_reason: str | None = None
    prompt_tokens: int | None = None
    completion_tokens: int | None = None
    first_token_ms: float | None = None

    @property
    def total_tokens(self) -> int | None:
        """What the call cost in tokens, None where the server does not say."""
        if self.prompt_tokens is None and self.completion_tokens is None:
            return None
        return (self.prompt_tokens or 0) + (self.completion_tokens or 0)


class ChatClient:
    """Asks one endpoint; every method makes exactly one attempt and raises `WireError`.

    ``total`` bounds an attempt, ``read`` the silence within it, both in seconds.
    """

    def __init__(
        self, endpoint: Endpoint, *, total: float, read: float, most_bytes: int = MOST_BYTES
    ) -> None:
        self.endpoint = endpoint
        self._timeout = aiohttp.ClientTimeout(total=total, sock_read=read)
        self._most_bytes = most_bytes
        self._session: aiohttp.ClientSession | None = None

    async def complete(self, request: ChatRequest) -> ChatAnswer:
        """Ask for the answer in one piece."""
        if self._session is None:
            self._session = aiohttp.ClientSession(timeout=self._timeout)
        body = {name: value for name, value in dict(request).items() if value is not None and name != "extra"}
        url = self.endpoint.url("chat/completions")
        async with self._session.post(url, json=body, headers=self.endpoint.headers()) as response:
            data = await response.read()
            if not response.ok:
                raise WireError("status", f"HTTP {response.status}", status=response.status)
        answer = msgspec.json.decode(data)
        return ChatAnswer(
            text=answer["choices"][0]["message"]["content"], model=request.model, latency_ms=0.0
        )

    async def stream(self, request: ChatRequest) -> ChatAnswer:
        """Ask for the answer as a stream, and return it when it is whole."""
        return await self.complete(request)

    async def close(self) -> None:
        """Close the connections."""
        if self._session is not None:
            await self._session.close()
