"""Makes an answer of what a server sends: one JSON document, or the pieces of a stream."""

from typing import Any, Final

import msgspec

from memfin.client.errors import WireError
from memfin.client.messages import ChatAnswer, ToolCall
from memfin.secrets import Scrubber

FILTERED: Final = "content_filter"
CUT: Final = "length"
"""Reasons to finish that leave an answer short: the server's filter, and its limit of tokens."""

_BOM: Final = b"\xef\xbb\xbf"
_MOST_CALLS: Final = 1000


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
    """A message, or the part of one that a stream's chunk adds."""

    content: str | list[_Part] | None = None
    refusal: str | None = None
    tool_calls: list[_Call] | None = None


class _Choice(msgspec.Struct):
    message: _Message | None = None
    delta: _Message | None = None
    finish_reason: str | None = None
    index: Any = None


class _Completion(msgspec.Struct):
    """What an answer and a stream's chunk have in common; servers differ in everything else."""

    choices: list[_Choice] | None = None
    model: str | None = None
    usage: Any = None
    error: Any = None


_DECODER: Final = msgspec.json.Decoder(_Completion)


class AnswerDraft:
    """An answer that grows with what arrives; the first choice counts, secrets are masked.

    Raises:
        WireError: what arrived is no JSON, not of the protocol's form, or reports an error.
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
        """Whether the server has said that the answer is at its end."""
        return self._finish_reason is not None

    @property
    def begun(self) -> bool:
        """Whether a word of the answer has arrived."""
        return bool(self._text or self._refusal or self._calls)

    def add_document(self, data: bytes) -> None:
        """Take a whole answer."""
        completion = _decoded(data)
        self._add(completion, (completion.choices or [])[:1])
        if completion.choices is None:
            raise WireError("invalid_schema", "the answer has no choices")
        if completion.choices and completion.choices[0].message is None:
            raise WireError("invalid_schema", "the answer's first choice has no message")

    def add_chunk(self, data: str) -> None:
        """Take the data of one event of a stream."""
        chunk = _decoded(data.encode())
        # Answers beyond the first come mixed with it; one that is alone may have no index.
        self._add(chunk, [each for each in chunk.choices or () if each.index is None or each.index == 0])

    def answer(self, model: str, latency_ms: float, first_token_ms: float | None) -> ChatAnswer:
        """Return the answer; ``model`` stands in where the server names none."""
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
            raise WireError("empty", f"the answer is empty{reason}", tokens=answer.total_tokens)
        return answer

    def _add(self, completion: _Completion, choices: list[_Choice]) -> None:
        if completion.error and not completion.choices:
            raise WireError(
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
            if not 0 <= index < _MOST_CALLS:
                raise WireError("invalid_schema", f"a tool call has the index {index}")
            ids, names, arguments = self._calls.setdefault(index, ([], [], []))
            ids += [call.id] if call.id and not ids else []
            names += [call.function.name] if call.function.name and not names else []
            if isinstance(call.function.arguments, dict):
                arguments.append(msgspec.json.encode(call.function.arguments).decode())
            elif call.function.arguments:
                arguments.append(call.function.arguments)

    def _add_usage(self, usage: Any) -> None:
        """Take the token counts where there are sensible ones: an answer is not wrong for want of them."""
        if isinstance(usage, dict):
            self._prompt_tokens = _count(usage.get("prompt_tokens"), self._prompt_tokens)
            self._completion_tokens = _count(usage.get("completion_tokens"), self._completion_tokens)


def error_text(error: Any) -> str:
    """Return the message of an error in the protocol's form, or whatever stands in its place."""
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
        raise WireError("encoding", "the answer is not UTF-8") from None
    except msgspec.ValidationError as problem:
        raise WireError("invalid_schema", f"the answer does not fit the protocol: {problem}") from None
    except msgspec.DecodeError as problem:
        if "truncated" in str(problem):
            raise WireError("truncated", "the answer ended in the middle of its JSON") from None
        raise WireError("invalid_json", f"the answer is no JSON: {problem}") from None
    except RecursionError:
        raise WireError("invalid_json", "the answer is nested too deeply") from None
