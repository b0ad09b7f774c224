"""Response bodies: decompression with a bound on the size, and server-sent events.

A few bytes may decompress into a thousand times as many. They come in steps, between which the event loop
serves others: the time limit of the call, and other calls.
"""

import asyncio
import zlib
from collections.abc import Iterator
from typing import Final

import aiohttp

from memfin.client.errors import RequestError

ACCEPTED_ENCODING: Final = "gzip"
"""Encoding offered by requests; only this module may decompress, or the bound comes too late."""

STEP: Final = 1 << 16
"""Bytes decompressed at a time, and handled before the event loop serves others."""

_GZIP: Final = 31
"""zlib's number for the gzip format with the largest window."""


class Inflater:
    """Decompression of a body in pieces, of at most ``max_bytes`` in all.

    Raises:
        RequestError: ``too_large``, ``encoding`` (not the encoding that it claims) or ``truncated``.
    """

    def __init__(self, encoding: str, max_bytes: int) -> None:
        self._compressed = encoding in {"gzip", "x-gzip"}
        if not self._compressed and encoding not in {"", "identity"}:
            raise RequestError("encoding", "the answer has an encoding that was not requested")
        self._max_bytes = max_bytes
        self._received = 0
        self._room = max_bytes
        self._member: zlib._Decompress | None = None

    def steps(self, data: bytes) -> Iterator[bytes]:
        """Yield the decompressed piece, `STEP` bytes at a time."""
        self._received += len(data)
        if self._received > self._max_bytes:
            raise self._too_large()
        if not self._compressed:
            yield data
            return
        full = False
        while data or full:
            if self._member is None:
                self._member = zlib.decompressobj(_GZIP)
            most = min(STEP, self._room + 1)
            try:
                piece = self._member.decompress(data, most)
            except zlib.error:
                raise RequestError("encoding", "the answer is labelled as gzip but is not gzip") from None
            self._room -= len(piece)
            if self._room < 0:
                raise self._too_large()
            if piece:
                yield piece
            # A gzip file may have several members, one behind the other.
            full = len(piece) == most and not self._member.eof
            data = self._member.unused_data if self._member.eof else self._member.unconsumed_tail
            if self._member.eof:
                self._member = None

    def finish(self) -> None:
        """Check that the compressed data is complete."""
        if self._member is not None:
            raise RequestError("truncated", "the answer ended in the middle of its compressed data")

    def _too_large(self) -> RequestError:
        return RequestError("too_large", f"the answer is larger than {self._max_bytes} bytes")


class Body:
    """Decompressed body of a response, in pieces of about `STEP` bytes.

    Raises:
        RequestError: as `Inflater`, also at once when the head announces an unacceptable body.
    """

    def __init__(self, response: aiohttp.ClientResponse, max_bytes: int) -> None:
        if (response.content_length or 0) > max_bytes:
            raise RequestError("too_large", f"the answer is larger than {max_bytes} bytes")
        self._content = response.content
        self._inflater = Inflater(response.headers.get("Content-Encoding", "").strip().lower(), max_bytes)
        self._steps: Iterator[bytes] = iter(())
        self._handled = 0

    async def read(self) -> bytes:
        """Return the next piece; an empty one at the end."""
        while True:
            if self._handled >= STEP:
                self._handled = 0
                await asyncio.sleep(0)
            if piece := next(self._steps, b""):
                self._handled += len(piece)
                return piece
            if not (data := await self._content.readany()):
                self._inflater.finish()
                return b""
            self._handled += len(data)
            self._steps = self._inflater.steps(data)


async def read_body(response: aiohttp.ClientResponse, max_bytes: int) -> bytes:
    """Return the whole body, decompressed; raise `RequestError` if it exceeds the bound."""
    return await rest_of(Body(response, max_bytes), b"", max_bytes)


async def rest_of(body: Body, head: bytes, max_bytes: int) -> bytes:
    """Return a body whose head has been read; raise `RequestError` if it exceeds the bound."""
    pieces, size = [head], len(head)
    while size <= max_bytes and (piece := await body.read()):
        pieces.append(piece)
        size += len(piece)
    if size > max_bytes:
        raise RequestError("too_large", f"the answer is larger than {max_bytes} bytes")
    return b"".join(pieces)


EVENTS: Final = "text/event-stream"
"""The content type of a stream."""

_BOM: Final = b"\xef\xbb\xbf"
_BEGINNINGS: Final = (b"data:", b"event:", b"id:", b"retry:", b":")
_MAX_HEAD: Final = 1 << 16


def is_event_stream(head: bytes) -> bool | None:
    """Return True if a body with this head is a stream of events, None while undecided."""
    text = head.removeprefix(_BOM).lstrip()
    if text.startswith(_BEGINNINGS):
        return True
    is_open = len(head) < _MAX_HEAD and any(each.startswith(text) for each in _BEGINNINGS)
    return None if is_open else False


class EventStream:
    """Parser of server-sent events (WHATWG HTML section 9.2) from bytes cut anywhere.

    Only ``data`` fields matter here; comments, names and ids of events are ignored.

    Raises:
        RequestError: ``encoding`` when a line is not UTF-8.
    """

    def __init__(self) -> None:
        self._line = bytearray()
        self._data: list[str] = []
        self._begun = False
        self._after_return = False

    def feed(self, piece: bytes) -> list[str]:
        """Return the data of the events that end in this piece."""
        if not piece:
            return []
        if self._after_return:  # the second half of a line end that was cut in two
            piece = piece.removeprefix(b"\n")
        self._after_return = piece.endswith(b"\r")
        self._line += piece
        if b"\n" not in piece and b"\r" not in piece:
            return []
        lines = bytes(self._line).splitlines(keepends=True)
        self._line = bytearray(b"" if lines[-1].endswith((b"\n", b"\r")) else lines.pop())
        return [data for line in lines for data in self._end_line(line.rstrip(b"\r\n"))]

    def finish(self) -> list[str]:
        """Return the unfinished last event: many servers end without a blank line."""
        return [*self._end_line(bytes(self._line)), *self._end_line(b"")]

    def _end_line(self, line: bytes) -> list[str]:
        """Return the data of the event that a blank line ends."""
        if not self._begun:
            self._begun = True
            line = line.removeprefix(_BOM)
        if not line:
            data, self._data = self._data, []
            return ["\n".join(data)] if data else []
        name, _, value = line.partition(b":")
        if name == b"data":
            try:
                self._data.append(value.removeprefix(b" ").decode())
            except UnicodeDecodeError:
                raise RequestError("encoding", "the answer is not UTF-8") from None
        return []
