"""Chat completions: requests, answers, and strict parsing of servers' messages."""

from typing import Any, Final, Literal

import msgspec

from memfin.client.errors import RequestError
from memfin.contracts import Record
from memfin.secrets import Scrubber


class ChatRequest(Record):
    """A request; fields that are None are not sent.

    ``extra`` are further fields of the server, ``headers`` further headers.
    ``messages``, ``tools`` and ``response_format`` are in the protocol's form; messages may be JSON already.
    """

    model: str
    messages: list[dict[str, Any]] | msgspec.Raw
    temperature: float | None = None
    seed: int | None = None
    max_tokens: int | None = None
    response_format: dict[str, Any] | None = None
    tools: list[dict[str, Any]] | None = None
    tool_choice: Literal["auto", "none", "required"] | dict[str, Any] | None = None
    extra: dict[str, Any] = {}
    headers: dict[str, str] = {}

    def body(self, *, stream: bool = False) -> dict[str, Any]:
        """Return the body to send; a stream reports its usage."""
        fields = {name: value for name in _SENT if (value := getattr(self, name)) is not None}
        if stream:
            fields |= {"stream": True, "stream_options": {"include_usage": True}}
        return fields | self.extra if self.extra else fields


_SENT: Final = tuple(name for name in ChatRequest.__struct_fields__ if name not in {"extra", "headers"})


class ToolCall(Record):
    """A tool call of the model; ``arguments`` is its text, possibly invalid JSON."""

    id: str
    name: str
    arguments: str


class ChatAnswer(Record):
    """An answer of a model.

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
        """Prompt and completion tokens, None if the server reports neither."""
        if self.prompt_tokens is None and self.completion_tokens is None:
            return None
        return (self.prompt_tokens or 0) + (self.completion_tokens or 0)


FILTERED: Final = "content_filter"
CUT: Final = "length"
"""Finish reasons of incomplete answers: the server's filter, and its token limit."""

_BOM: Final = b"\xef\xbb\xbf"
_MAX_CALLS: Final = 1000


class _Function(msgspec.Struct):
    name: str | None = None
    arguments: str | dict[str, Any] | None = None


class _Call(msgspec.Struct):
    function: _Function
    index: int | None = None
    id: str | None = None


class _Part(msgspec.Struct):
    text: str | None = None


class _Message(msgspec.Struct):
    """A message, or the part of one in a stream's chunk."""

    content: str | list[_Part] | None = None
    refusal: str | None = None
    tool_calls: list[_Call] | None = None


class _Choice(msgspec.Struct):
    message: _Message | None = None
    delta: _Message | None = None
    finish_reason: str | None = None
    index: Any = None


class _Completion(msgspec.Struct):
    """Common fields of an answer and a stream's chunk; servers differ in all others."""

    choices: list[_Choice] | None = None
    model: str | None = None
    usage: Any = None
    error: Any = None


_DECODER: Final = msgspec.json.Decoder(_Completion)


class AnswerDraft:
    """Accumulator of an answer's first choice, with secrets masked.

    Raises:
        RequestError: a part is not JSON, not of the protocol's form, or reports an error.
    """

    def __init__(self, scrubber: Scrubber) -> None:
        self._scrub = scrubber.scrub
        self._text: list[str] = []
        self._refusal: list[str] = []
        self._calls: dict[int, tuple[list[str], list[str], list[str]]] = {}
        self._finish_reason: str | None = None
        self._model: str | None = None
        self._prompt_tokens: int | None = None
        self._completion_tokens: int | None = None

    @property
    def finished(self) -> bool:
        """True once the server has reported the end of the answer."""
        return self._finish_reason is not None

    @property
    def begun(self) -> bool:
        """True once a part of the answer has arrived."""
        return bool(self._text or self._refusal or self._calls)

    def add_document(self, data: bytes) -> None:
        """Add a whole answer."""
        completion = _decoded(data)
        self._add(completion, (completion.choices or [])[:1])
        if completion.choices is None:
            raise RequestError("invalid_schema", "the answer has no choices")
        if completion.choices and completion.choices[0].message is None:
            raise RequestError("invalid_schema", "the answer's first choice has no message")

    def add_chunk(self, data: str) -> None:
        """Add the data of one event of a stream."""
        chunk = _decoded(data.encode())
        # Answers beyond the first come mixed with it; one that is alone may have no index.
        self._add(chunk, [each for each in chunk.choices or () if each.index is None or each.index == 0])

    def answer(self, model: str, latency_ms: float, first_token_ms: float | None) -> ChatAnswer:
        """Return the answer; ``model`` is the default if the server names none."""
        text = self._scrub("".join(self._text))
        refusal = self._scrub("".join(self._refusal)) or None
        calls = [
            ToolCall(
                id=self._scrub("".join(ids)) or f"call_{index}",
                name=self._scrub("".join(names)),
                arguments=self._scrub("".join(arguments)),
            )
            for index, (ids, names, arguments) in sorted(self._calls.items())
        ]
        if refusal is None and not text.strip() and self._finish_reason == FILTERED:
            refusal = "the server's content filter withheld the answer"
        answer = ChatAnswer(
            text=text,
            model=self._scrub(self._model or model),
            latency_ms=latency_ms,
            refusal=refusal,
            tool_calls=calls,
            finish_reason=None if self._finish_reason is None else self._scrub(self._finish_reason),
            prompt_tokens=self._prompt_tokens,
            completion_tokens=self._completion_tokens,
            first_token_ms=first_token_ms,
        )
        if not text.strip() and refusal is None and not calls:
            reason = f" (finish_reason {answer.finish_reason})" if answer.finish_reason else ""
            raise RequestError("empty", f"the answer is empty{reason}", tokens=answer.total_tokens)
        return answer

    def _add(self, completion: _Completion, choices: list[_Choice]) -> None:
        if completion.error and not completion.choices:
            raise RequestError(
                "status", f"the server reports an error: {self._scrub(error_text(completion.error))}"
            )
        self._model = completion.model or self._model
        self._add_usage(completion.usage)
        for choice in choices[:1]:
            self._finish_reason = choice.finish_reason or self._finish_reason
            if (message := choice.message or choice.delta) is not None:
                self._add_message(message)

    def _add_message(self, message: _Message) -> None:
        if isinstance(message.content, str):
            self._text += [message.content] if message.content else []
        else:
            self._text += [part.text for part in message.content or [] if part.text]
        if message.refusal:
            self._refusal.append(message.refusal)
        for place, call in enumerate(message.tool_calls or []):
            index = place if call.index is None else call.index
            if not 0 <= index < _MAX_CALLS:
                raise RequestError("invalid_schema", f"a tool call has the index {index}")
            ids, names, arguments = self._calls.setdefault(index, ([], [], []))
            ids += [call.id] if call.id and not ids else []
            names += [call.function.name] if call.function.name and not names else []
            if isinstance(call.function.arguments, dict):
                arguments.append(msgspec.json.encode(call.function.arguments).decode())
            elif call.function.arguments:
                arguments.append(call.function.arguments)

    def _add_usage(self, usage: Any) -> None:
        """Add the token counts if valid; they are optional."""
        if isinstance(usage, dict):
            self._prompt_tokens = _count(usage.get("prompt_tokens"), self._prompt_tokens)
            self._completion_tokens = _count(usage.get("completion_tokens"), self._completion_tokens)


def error_text(error: Any) -> str:
    """Return the message of an error in the protocol's form, or the error as JSON."""
    if isinstance(error, dict) and isinstance(message := error.get("message"), str):
        return message
    return error if isinstance(error, str) else msgspec.json.encode(error).decode()


def _count(value: Any, otherwise: int | None) -> int | None:
    return value if type(value) is int and 0 <= value < 1 << 53 else otherwise


def _decoded(data: bytes) -> _Completion:
    try:
        data.decode()  # msgspec does not look into fields that nobody asked for
        return _DECODER.decode(data.removeprefix(_BOM))
    except UnicodeDecodeError:
        raise RequestError("encoding", "the answer is not UTF-8") from None
    except msgspec.ValidationError as problem:
        raise RequestError("invalid_schema", f"the answer does not fit the protocol: {problem}") from None
    except msgspec.DecodeError as problem:
        if "truncated" in str(problem):
            raise RequestError("truncated", "the answer ended in the middle of its JSON") from None
        raise RequestError("invalid_json", f"the answer is no JSON: {problem}") from None
    except RecursionError:
        raise RequestError("invalid_json", "the answer is nested too deeply") from None
