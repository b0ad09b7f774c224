"""The records of the chat completions protocol, as callers see them."""

from typing import Any, Final, Literal

import msgspec

from memfin.contracts import Record


class ChatRequest(Record):
    """One request; what is None is not sent. ``extra`` holds further fields for servers that know them.

    ``messages``, ``tools`` and ``response_format`` are in the protocol's form, or that as JSON already.
    """

    model: str
    messages: list[dict[str, Any]] | msgspec.Raw
    temperature: float | None = None
    seed: int | None = None
    max_tokens: int | None = None
    response_format: dict[str, Any] | msgspec.Raw | None = None
    tools: list[dict[str, Any]] | None = None
    tool_choice: Literal["auto", "none", "required"] | dict[str, Any] | None = None
    extra: dict[str, Any] = {}

    def body(self, *, stream: bool = False) -> dict[str, Any]:
        """Return the request as it is sent; a stream is to tell its usage."""
        fields = {name: value for name in _SENT if (value := getattr(self, name)) is not None}
        if stream:
            fields |= {"stream": True, "stream_options": {"include_usage": True}}
        return fields | self.extra if self.extra else fields


_SENT: Final = tuple(name for name in ChatRequest.__struct_fields__ if name != "extra")


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
