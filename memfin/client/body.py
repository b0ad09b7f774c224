"""Reads the body of a response in pieces, with a bound on its size before and after decompression.

A few bytes may decompress into a thousand times as many. They come in steps, between which whatever
else is on the event loop has its turn: the time limit of the call, and other calls.
"""

import asyncio
import zlib
from collections.abc import Iterator
from typing import Final

import aiohttp

from memfin.client.errors import WireError

ACCEPTED_ENCODING: Final = "gzip"
"""What a request offers; responses must not be decompressed by anyone else, or the bound comes too late."""

STEP: Final = 1 << 16
"""Bytes that are decompressed at a time, and that may be handled before others have their turn."""

_GZIP: Final = 31
"""zlib's number for the gzip format with the largest window."""


class Inflater:
    """Decompresses pieces of a body, never more than ``most_bytes`` in all.

    Raises:
        WireError: ``too_large``, ``encoding`` (not the encoding that it claims) or ``truncated``.
    """

    def __init__(self, encoding: str, most_bytes: int) -> None:
        self._compressed = encoding in {"gzip", "x-gzip"}
        if not self._compressed and encoding not in {"", "identity"}:
            raise WireError("encoding", "the answer is compressed in a way that nobody asked for")
        self._most = most_bytes
        self._received = 0
        self._room = most_bytes
        self._member: zlib._Decompress | None = None

    def feed(self, data: bytes) -> bytes:
        """Return what a piece gives."""
        return b"".join(self.steps(data))

    def steps(self, data: bytes) -> Iterator[bytes]:
        """Return what a piece gives, `STEP` bytes at a time."""
        self._received += len(data)
        if self._received > self._most:
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
                raise WireError("encoding", "the answer claims to be gzip and is not") from None
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
        """Check that nothing is missing at the end."""
        if self._member is not None:
            raise WireError("truncated", "the answer ended in the middle of its compressed data")

    def _too_large(self) -> WireError:
        return WireError("too_large", f"the answer is larger than {self._most} bytes")


class Body:
    """The body of a response, decompressed, as pieces of about `STEP` bytes.

    Raises:
        WireError: as `Inflater`, also at once when the head says that the body cannot be had.
    """

    def __init__(self, response: aiohttp.ClientResponse, most_bytes: int) -> None:
        if (response.content_length or 0) > most_bytes:
            raise WireError("too_large", f"the answer is larger than {most_bytes} bytes")
        self._content = response.content
        self._inflater = Inflater(response.headers.get("Content-Encoding", "").strip().lower(), most_bytes)
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


async def read_body(response: aiohttp.ClientResponse, most_bytes: int) -> bytes:
    """Return the whole body, decompressed; raise `WireError` when it cannot be had within the bound."""
    return await rest_of(Body(response, most_bytes), b"", most_bytes)


async def rest_of(body: Body, head: bytes, most_bytes: int) -> bytes:
    """Return a body whose head has been read; raise `WireError` when it cannot be had within the bound."""
    pieces, size = [head], len(head)
    while size <= most_bytes and (piece := await body.read()):
        pieces.append(piece)
        size += len(piece)
    if size > most_bytes:
        raise WireError("too_large", f"the answer is larger than {most_bytes} bytes")
    return b"".join(pieces)
