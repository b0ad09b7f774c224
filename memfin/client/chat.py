"""The client of the chat completions protocol: every call is one attempt."""

import asyncio
import time
from collections.abc import Mapping
from contextlib import suppress
from datetime import UTC, datetime
from typing import Any, Final

import aiohttp
import msgspec

from memfin.client.answers import AnswerDraft, error_text
from memfin.client.body import ACCEPTED_ENCODING, Body, read_body, rest_of
from memfin.client.endpoint import Endpoint, tls_hint
from memfin.client.errors import WireError
from memfin.client.events import EVENTS, EventStream, is_event_stream
from memfin.client.messages import ChatAnswer, ChatRequest, ToolCall
from memfin.client.parameters import Parameters, refused_parameter
from memfin.client.retry_after import retry_after_seconds
from memfin.errors import UsageError
from memfin.secrets import Scrubber
from memfin.text.lines import one_line

__all__ = ["ChatAnswer", "ChatClient", "ChatRequest", "ToolCall"]

MOST_BYTES: Final = 1024 * 1024
"""Size of an answer that is accepted, after decompression (spec section 7)."""

STREAM_OVERHEAD: Final = 16
"""How many times larger a stream may be than the answer in it: every token comes in its own JSON."""

MOST_ERROR_BYTES: Final = 64 * 1024
"""How much of an error's body is looked at."""

DRAIN: Final = 0.25
"""Seconds that the end of a stream may take after its last event, so that the connection can be reused."""

_LARGE: Final = 1 << 20
"""Bytes that are allocated once and given back, before there are connections.

The event loop reads into blocks of 256 KiB. The allocator of glibc asks the kernel for each of them, and
gives it back, until a larger one has been freed: a fifth of what a call costs.
"""

_RETRYABLE: Final = frozenset({408, 409, 425, 429, 500, 502, 503, 504, 520, 521, 522, 523, 524, 529})
_SUCCESS: Final = 2
_REDIRECT: Final = 3
"""First digits of a status."""

_TOO_MANY: Final = 429
_PAUSING: Final = frozenset({_TOO_MANY, 503})
_QUOTA: Final = "insufficient_quota"
_WITHHELD: Final = frozenset({"content_filter", "content_policy_violation", "ResponsibleAIPolicyViolation"})
"""Codes of errors that mean that the provider does not want to deal with the text."""

_DONE: Final = "[DONE]"


class ChatClient:
    """Asks one endpoint; every method makes exactly one attempt and raises `WireError`.

    ``total`` bounds an attempt, ``read`` the silence within it, both in seconds; ``most_bytes`` the
    answer, after decompression. Redirects are never followed: the key is meant for one place, and a
    second request would go past the limits. Secrets are masked in errors and in answers.

    A parameter that the model refuses by name is left out of all later requests, or goes out under its
    other name: see `parameters`.

    The connections belong to the event loop that runs at the first call; their number is not
    bounded here but by the gate.
    """

    def __init__(
        self, endpoint: Endpoint, *, total: float, read: float, most_bytes: int = MOST_BYTES
    ) -> None:
        self.endpoint = endpoint
        self.parameters = Parameters()
        self._total = total
        self._read = read
        self._most_bytes = most_bytes
        self._url = endpoint.url("chat/completions")
        self._session: aiohttp.ClientSession | None = None

    async def complete(self, request: ChatRequest) -> ChatAnswer:
        """Ask for the answer in one piece."""
        return _raised(await self._attempt(request, stream=False))

    async def stream(self, request: ChatRequest) -> ChatAnswer:
        """Ask for the answer as a stream, and return it when it is whole.

        Servers that do not stream and answer in one piece are understood.
        """
        return _raised(await self._attempt(request, stream=True))

    async def close(self) -> None:
        """Close the connections; a later call opens new ones."""
        session, self._session = self._session, None
        if session is not None:
            await session.close()

    async def _attempt(self, request: ChatRequest, *, stream: bool) -> ChatAnswer | WireError:
        """Make the attempt and return its outcome.

        Errors are raised by another frame than this one: what hangs on to an error, and a traceback
        that shows local variables, must not get hold of headers and URLs.
        """
        scrubber = self.endpoint.scrubber()
        try:
            return await self._exchange(request, scrubber, stream=stream)
        except WireError as problem:
            error = problem
            if problem.parameter is not None:
                self.parameters.refuse(problem.parameter)
        except UsageError as problem:
            error = WireError("connect", str(problem), retryable=False)
        except (aiohttp.ClientError, OSError, ValueError) as problem:
            error = self._described(problem)
        return WireError(
            error.kind,
            f"{self.endpoint.base_url}: {scrubber.scrub(str(error))}",
            retryable=error.retryable,
            retry_after=error.retry_after,
            status=error.status,
            tokens=error.tokens,
            parameter=error.parameter,
        )

    async def _exchange(self, request: ChatRequest, scrubber: Scrubber, *, stream: bool) -> ChatAnswer:
        begun = time.perf_counter()
        fields = self.parameters.fitted(request, stream=stream)
        stream = fields.get("stream", False)
        headers = self.endpoint.headers() | {
            "Accept": "text/event-stream, application/json" if stream else "application/json",
            "Accept-Encoding": ACCEPTED_ENCODING,
            "Content-Type": "application/json",
        }
        draft = AnswerDraft(scrubber)
        async with self._connections().post(
            self._url,
            data=_encoded(fields),
            headers=headers,
            allow_redirects=False,
        ) as response:
            # Leaving the block before the end of the body closes the connection.
            if response.status // 100 != _SUCCESS:
                raise await _status_error(response, scrubber, fields, self.endpoint)
            first_token = await self._take(response, draft, stream=stream)
        now = time.perf_counter()
        first_ms = None if first_token is None else (first_token - begun) * 1000
        return draft.answer(request.model, (now - begun) * 1000, first_ms)

    async def _take(
        self, response: aiohttp.ClientResponse, draft: AnswerDraft, *, stream: bool
    ) -> float | None:
        """Read a response into the draft; return when the first word of a stream came."""
        events: bool | None = response.content_type == EVENTS
        larger = STREAM_OVERHEAD if stream or events else 1
        body, head = Body(response, larger * self._most_bytes), b""
        if stream and not events:
            # Some servers call a stream something else, and some answer in one piece all the same.
            while (events := is_event_stream(head)) is None and (piece := await body.read()):
                head += piece
        if events:
            return await _take_events(body, head, draft)
        draft.add_document(await rest_of(body, head, self._most_bytes))
        return None

    def _connections(self) -> aiohttp.ClientSession:
        if self._session is None:
            bytes(_LARGE)
            self._session = aiohttp.ClientSession(
                connector=aiohttp.TCPConnector(limit=0),
                cookie_jar=aiohttp.DummyCookieJar(),
                timeout=aiohttp.ClientTimeout(total=self._total, sock_read=self._read),
                auto_decompress=False,
            )
        return self._session

    def _described(self, problem: Exception) -> WireError:
        """Return what a failure below HTTP means; its own words may hold URLs and headers."""
        if isinstance(problem, TimeoutError):
            silent = isinstance(problem, aiohttp.SocketTimeoutError)
            limit = f"silent for {self._read:g} s" if silent else f"no whole answer within {self._total:g} s"
            return WireError("timeout", limit)
        if isinstance(problem, aiohttp.ClientConnectorError):
            return _unconnected(problem)
        if isinstance(problem, aiohttp.ClientPayloadError):
            return WireError("truncated", "the answer ended early")
        if isinstance(problem, aiohttp.ClientConnectionError | OSError):
            return WireError("closed", "the connection broke off")
        if isinstance(problem, aiohttp.ClientResponseError):
            return WireError("closed", "the answer is no HTTP that can be understood")
        return WireError("connect", f"no request can be made: {type(problem).__name__}", retryable=False)

    def __repr__(self) -> str:
        return f"ChatClient({self.endpoint!r})"


def _unconnected(problem: aiohttp.ClientConnectorError) -> WireError:
    reason = f"cannot connect: {problem.os_error.strerror or type(problem.os_error).__name__}"
    if hint := tls_hint(problem):
        return WireError("tls", reason + hint)
    return WireError("connect", reason, retryable=not isinstance(problem, aiohttp.ClientSSLError))


async def _take_events(body: Body, head: bytes, draft: AnswerDraft) -> float | None:
    """Read a stream whose head has been read into the draft; return when the first word came."""
    events = EventStream()
    first: float | None = None
    piece = head or await body.read()
    while piece:
        for data in events.feed(piece):
            if data.strip() == _DONE:
                await _drained(body)
                return first
            draft.add_chunk(data)
            if first is None and draft.begun:
                first = time.perf_counter()
        piece = await body.read()
    for data in events.finish():
        if data.strip() != _DONE:
            draft.add_chunk(data)
    if not draft.finished:
        raise WireError("truncated", "the stream ended before the answer did")
    return first


def _raised(outcome: ChatAnswer | WireError) -> ChatAnswer:
    if isinstance(outcome, WireError):
        raise outcome
    return outcome


def _encoded(fields: dict[str, Any]) -> bytes:
    try:
        return msgspec.json.encode(fields)
    except UnicodeEncodeError:
        raise WireError("encoding", "the request holds a lone surrogate", retryable=False) from None


async def _status_error(
    response: aiohttp.ClientResponse, scrubber: Scrubber, sent: Mapping[str, Any], endpoint: Endpoint
) -> WireError:
    """Return the error that a response with no success means, with what the server says about it."""
    status = response.status
    if status // 100 == _REDIRECT:
        return WireError(
            "redirect",
            f"HTTP {status}: the server redirects elsewhere; set the base URL to the right place",
            status=status,
        )
    data = b""
    with suppress(WireError, aiohttp.ClientError, TimeoutError, OSError):
        data = await read_body(response, MOST_ERROR_BYTES)
    said, code = _complaint(data)
    said = one_line(scrubber.scrub(said), 200)
    text = f"HTTP {status}: {said}" if said else f"HTTP {status}"
    text += endpoint.hint(status)
    wait = response.headers.get("Retry-After") if status in _PAUSING else None
    if status == _TOO_MANY and code == _QUOTA:
        return WireError("status", text, retryable=False, status=status)
    if code in _WITHHELD:
        return WireError("refusal", f"the provider refused: {text}", retryable=False, status=status)
    if (parameter := refused_parameter(sent, status, data)) is not None:
        return WireError("parameter", text, status=status, parameter=parameter)
    return WireError(
        "rate_limited" if status == _TOO_MANY else "status",
        text,
        retryable=status in _RETRYABLE,
        retry_after=retry_after_seconds(wait, datetime.now(UTC)),
        status=status,
    )


def _complaint(data: bytes) -> tuple[str, str | None]:
    """Return the words and the code of an error's body."""
    try:
        document = msgspec.json.decode(data)
    except (msgspec.DecodeError, UnicodeDecodeError, RecursionError):
        return data.decode("utf-8", "replace"), None
    error = document.get("error", document) if isinstance(document, dict) else document
    code = error.get("code") if isinstance(error, dict) else None
    return error_text(error), code if isinstance(code, str) else None


async def _drained(body: Body) -> None:
    """Read what is left after a stream's last event; a connection with a rest is not reused."""
    with suppress(TimeoutError, aiohttp.ClientError, WireError):
        async with asyncio.timeout(DRAIN):
            while await body.read():
                pass
