"""Client of the chat completions protocol; every call is one attempt."""

import asyncio
import re
import time
from collections.abc import Awaitable, Callable, Collection, Mapping
from contextlib import suppress
from datetime import UTC, datetime
from typing import Any, Final, TypeVar

import aiohttp
import msgspec

from memfin.client.body import (
    ACCEPTED_ENCODING,
    EVENTS,
    Body,
    EventStream,
    is_event_stream,
    read_body,
    rest_of,
)
from memfin.client.endpoint import Endpoint, tls_hint
from memfin.client.errors import RequestError
from memfin.client.limiter import request_sent, retry_after_seconds
from memfin.client.messages import AnswerDraft, ChatAnswer, ChatRequest, error_text
from memfin.contracts import ParameterChange
from memfin.errors import UsageError
from memfin.secrets import Scrubber
from memfin.text.lines import one_line

T = TypeVar("T")

MAX_BYTES: Final = 1024 * 1024
"""Maximum size of an answer after decompression."""

STREAM_OVERHEAD: Final = 16
"""Factor by which a stream may exceed that: every token comes in its own JSON."""

MAX_ERROR_BYTES: Final = 64 * 1024
"""Maximum bytes read of an error's body."""

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
"""First digits of HTTP statuses."""

_TOO_MANY: Final = 429
_PAUSING: Final = frozenset({_TOO_MANY, 503})
_QUOTA: Final = "insufficient_quota"
_WITHHELD: Final = frozenset({"content_filter", "content_policy_violation", "ResponsibleAIPolicyViolation"})
"""Error codes of a provider that refuses to handle the text."""

_DONE: Final = "[DONE]"


class ChatClient:
    """Client of one endpoint; every method makes exactly one attempt and raises `RequestError`.

    ``total`` bounds an attempt, ``read`` the silence within it, both in seconds; ``max_bytes`` the
    answer, after decompression. Redirects are never followed: the key is meant for one place, and a
    second request would go past the limits. Secrets are masked in errors and in answers.

    A parameter that the model refuses by name is left out of all later requests, or goes out under its
    other name: see `parameters`.

    The connections belong to the event loop that runs at the first call; their number is not
    bounded here but by the limiter.
    """

    def __init__(self, endpoint: Endpoint, *, total: float, read: float, max_bytes: int = MAX_BYTES) -> None:
        self.endpoint = endpoint
        self.parameters = Parameters()
        self._total = total
        self._read = read
        self._max_bytes = max_bytes
        self._url = endpoint.url("chat/completions")
        self._session: aiohttp.ClientSession | None = None

    async def complete(self, request: ChatRequest) -> ChatAnswer:
        """Request the answer as one document."""
        return _raised(await self._attempt(request, stream=False))

    async def stream(self, request: ChatRequest) -> ChatAnswer:
        """Request the answer as a stream and return it when complete; a single document is accepted, too."""
        return _raised(await self._attempt(request, stream=True))

    async def close(self) -> None:
        """Close the connections; a later call opens new ones."""
        session, self._session = self._session, None
        if session is not None:
            await session.close()

    async def _attempt(self, request: ChatRequest, *, stream: bool) -> ChatAnswer | RequestError:
        """Make the attempt and return its outcome.

        Errors are raised by another frame than this one: what hangs on to an error, and a traceback
        that shows local variables, must not get hold of headers and URLs.
        """
        scrubber = self.endpoint.scrubber()
        try:
            return await self._exchange(request, scrubber, stream=stream)
        except RequestError as problem:
            error = problem
            if problem.parameter is not None:
                self.parameters.refuse(problem.parameter)
        except UsageError as problem:
            error = RequestError("connect", str(problem), retryable=False)
        except (aiohttp.ClientError, OSError, ValueError) as problem:
            error = self._described(problem)
        return RequestError(
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
        headers = (
            request.headers
            | self.endpoint.headers()
            | {
                "Accept": "text/event-stream, application/json" if stream else "application/json",
                "Accept-Encoding": ACCEPTED_ENCODING,
                "Content-Type": "application/json",
            }
        )
        draft = AnswerDraft(scrubber)
        async with self._connections().post(
            self._url, data=_encoded(fields), headers=headers, allow_redirects=False
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
        """Read a response into the draft; return the time of the first token of a stream."""
        events: bool | None = response.content_type == EVENTS
        larger = STREAM_OVERHEAD if stream or events else 1
        body, head = Body(response, larger * self._max_bytes), b""
        if stream and not events:
            # Some servers call a stream something else, and some answer in one piece all the same.
            while (events := is_event_stream(head)) is None and (piece := await body.read()):
                head += piece
        if events:
            return await _take_events(body, head, draft)
        draft.add_document(await rest_of(body, head, self._max_bytes))
        return None

    def _connections(self) -> aiohttp.ClientSession:
        if self._session is None:
            bytes(_LARGE)
            trace = aiohttp.TraceConfig()
            trace.on_request_headers_sent.append(_on_headers_sent)
            self._session = aiohttp.ClientSession(
                connector=aiohttp.TCPConnector(limit=0),
                cookie_jar=aiohttp.DummyCookieJar(),
                timeout=aiohttp.ClientTimeout(total=self._total, sock_read=self._read),
                auto_decompress=False,
                trace_configs=[trace],
            )
        return self._session

    def _described(self, problem: Exception) -> RequestError:
        """Translate a failure below HTTP; its own message may hold URLs and headers."""
        if isinstance(problem, TimeoutError):
            silent = isinstance(problem, aiohttp.SocketTimeoutError)
            limit = f"silent for {self._read:g} s" if silent else f"no whole answer within {self._total:g} s"
            return RequestError("timeout", limit)
        if isinstance(problem, aiohttp.ClientConnectorError):
            return _unconnected(problem)
        if isinstance(problem, aiohttp.ClientPayloadError):
            return RequestError("truncated", "the answer ended early")
        if isinstance(problem, aiohttp.ClientConnectionError | OSError):
            return RequestError("closed", "the connection broke off")
        if isinstance(problem, aiohttp.ClientResponseError):
            return RequestError("closed", "the answer is not valid HTTP")
        return RequestError("connect", f"the request is invalid: {type(problem).__name__}", retryable=False)

    def __repr__(self) -> str:
        return f"ChatClient({self.endpoint!r})"


async def _on_headers_sent(*_: object) -> None:
    request_sent()


def _unconnected(problem: aiohttp.ClientConnectorError) -> RequestError:
    reason = f"cannot connect: {problem.os_error.strerror or type(problem.os_error).__name__}"
    if hint := tls_hint(problem):
        return RequestError("tls", reason + hint)
    return RequestError("connect", reason, retryable=not isinstance(problem, aiohttp.ClientSSLError))


async def _take_events(body: Body, head: bytes, draft: AnswerDraft) -> float | None:
    """Read the rest of a stream into the draft; return the time of its first token."""
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
        raise RequestError("truncated", "the stream ended before the answer did")
    return first


def _raised(outcome: ChatAnswer | RequestError) -> ChatAnswer:
    if isinstance(outcome, RequestError):
        raise outcome
    return outcome


def _encoded(fields: dict[str, Any]) -> bytes:
    try:
        return msgspec.json.encode(fields)
    except UnicodeEncodeError:
        raise RequestError("encoding", "the request holds a lone surrogate", retryable=False) from None


async def _status_error(
    response: aiohttp.ClientResponse, scrubber: Scrubber, sent: Mapping[str, Any], endpoint: Endpoint
) -> RequestError:
    """Return the error for an unsuccessful response, with the server's message."""
    status = response.status
    if status // 100 == _REDIRECT:
        return RequestError(
            "redirect",
            f"HTTP {status}: the server redirects; set the base URL to the right address",
            status=status,
        )
    data = b""
    with suppress(RequestError, aiohttp.ClientError, TimeoutError, OSError):
        data = await read_body(response, MAX_ERROR_BYTES)
    document, text = _error_of(data)
    error = document.get("error", document) if isinstance(document, dict) else document
    code = _field(error, "code")
    message = one_line(scrubber.scrub(text if document is None else error_text(error)), 200)
    text = f"HTTP {status}: {message}" if message else f"HTTP {status}"
    text += endpoint.hint(status)
    wait = response.headers.get("Retry-After") if status in _PAUSING else None
    if status == _TOO_MANY and code == _QUOTA:
        return RequestError("status", text, retryable=False, status=status)
    if code in _WITHHELD:
        return RequestError("refusal", f"the provider refused: {text}", retryable=False, status=status)
    if (parameter := refused_parameter(sent, status, data)) is not None:
        return RequestError("parameter", text, status=status, parameter=parameter)
    return RequestError(
        "rate_limited" if status == _TOO_MANY else "status",
        text,
        retryable=status in _RETRYABLE,
        retry_after=retry_after_seconds(wait, datetime.now(UTC)),
        status=status,
    )


def _error_of(data: bytes) -> tuple[Any, str]:
    """Return an error's body as JSON, None if invalid, and as text without JSON escapes."""
    try:
        document = msgspec.json.decode(data)
    except (msgspec.DecodeError, UnicodeDecodeError, RecursionError):
        return None, data.decode("utf-8", "replace")
    return document, msgspec.json.encode(document).decode()


def _field(error: Any, name: str) -> str | None:
    """Return a string field of an error in the protocol's form."""
    value = error.get(name) if isinstance(error, dict) else None
    return value if isinstance(value, str) else None


async def _drained(body: Body) -> None:
    """Read the rest after a stream's last event; otherwise the connection cannot be reused."""
    with suppress(TimeoutError, aiohttp.ClientError, RequestError):
        async with asyncio.timeout(DRAIN):
            while await body.read():
                pass


INSTEAD: Final[Mapping[str, str | None]] = {
    "temperature": None,
    "seed": None,
    "max_tokens": "max_completion_tokens",
    "stream_options": None,
    "stream": None,
}
"""Parameters that models may refuse, and the name under which they are then sent; None omits them.

Newer models take no ``temperature`` but their own, know no ``seed``, or want ``max_completion_tokens``
where others know ``max_tokens`` only; some servers do not stream, or know no ``stream_options``. A model's
name does not show this, so each is sent until the model refuses it by name.
"""

_STATUSES: Final = frozenset({400, 422, 501})
_UNWELCOME: Final = (
    r"(?:unsupported|not support|unrecogni[sz]ed|unknown|unexpected|extra[_ ](?:forbidden|inputs|fields)|"
    r"not permitted|not allowed|not available|not implemented|disabled|deprecated|only the default|"
    r"不支持|未知)"
)
_SPELLINGS: Final[Mapping[str, str]] = {"stream": "stream(?:ing)?"}
"""Other names of a parameter in an error message."""

_NEAR: Final = 100
"""Maximum characters between the name of a parameter and the words that refuse it."""

_PATTERNS: Final = {
    name: re.compile(
        rf"{_UNWELCOME}.{{0,{_NEAR}}}?(?<![a-z_]){spelling}(?![a-z_])|"
        rf"(?<![a-z_]){spelling}(?![a-z_]).{{0,{_NEAR}}}?{_UNWELCOME}",
        re.IGNORECASE | re.DOTALL,
    )
    for name in INSTEAD
    for spelling in (_SPELLINGS.get(name, name),)
}


def refused_parameter(sent: Collection[str], status: int, body: bytes) -> str | None:
    """Return the request parameter that an error refuses by name, or None.

    A value that is merely out of bounds is no refusal: it would be the same mistake under another name.
    """
    if status not in _STATUSES:
        return None
    refusable = [name for name in INSTEAD if name in sent]
    document, text = _error_of(body)
    named = _field(document.get("error"), "param") if isinstance(document, dict) else None
    if named is not None:
        named = named.partition(".")[0]  # it may name a field of the parameter
        return named if named in refusable and _PATTERNS[named].search(text) else None
    return next((name for name in refusable if _PATTERNS[name].search(text)), None)


class Parameters:
    """The parameters that an endpoint's model has refused so far.

    Attributes:
        on_warning: called once for each refused parameter, if set; it must not raise.
    """

    def __init__(self) -> None:
        self.on_warning: Callable[[str], None] | None = None
        self._refusals: dict[str, int] = {}

    def fitted(self, request: ChatRequest, *, stream: bool = False) -> dict[str, Any]:
        """Return the body of a request without the refused parameters."""
        body = request.body(stream=stream and "stream" not in self._refusals)
        for name in self._refusals:
            value, other = body.pop(name, None), INSTEAD[name]
            if value is not None and other is not None:
                body.setdefault(other, value)
        return body

    def refuse(self, name: str) -> None:
        """Count a refusal."""
        if name not in self._refusals and self.on_warning is not None:
            other = INSTEAD[name]
            instead = "it is left out" if other is None else f"it is sent as {other}"
            self.on_warning(f"the model refuses the parameter {name}; from now on {instead}")
        self._refusals[name] = self._refusals.get(name, 0) + 1

    def forget(self) -> None:
        """Forget all refusals."""
        self._refusals.clear()

    def changes(self) -> list[ParameterChange]:
        """Return the omitted and renamed parameters, and the number of refusals of each."""
        return [
            ParameterChange(parameter=name, sent_as=INSTEAD[name], refusals=count)
            for name, count in sorted(self._refusals.items())
        ]


async def retry_without_refused(attempt: Callable[[], Awaitable[T]]) -> T:
    """Make an attempt; repeat it, once per parameter, if the model refuses one.

    Raises:
        RequestError: any other failure.
    """
    for _ in INSTEAD:
        try:
            return await attempt()
        except RequestError as problem:
            if problem.kind != "parameter":
                raise
    return await attempt()
