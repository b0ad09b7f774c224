"""Reads the body of a response in pieces, with a bound on its size before and after decompression."""

import zlib
from typing import Final

import aiohttp

from memfin.wire.errors import WireError

ACCEPTED_ENCODING: Final = "gzip"
"""What a request offers; responses must not be decompressed by anyone else, or the bound comes too late."""

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
        self._received += len(data)
        if self._received > self._most:
            raise self._too_large()
        if not self._compressed:
            return data
        pieces: list[bytes] = []
        while data:
            if self._member is None:
                self._member = zlib.decompressobj(_GZIP)
            try:
                piece = self._member.decompress(data, self._room + 1)
            except zlib.error:
                raise WireError("encoding", "the answer claims to be gzip and is not") from None
            self._room -= len(piece)
            if self._room < 0:
                raise self._too_large()
            pieces.append(piece)
            # A gzip file may have several members, one behind the other.
            data = self._member.unused_data
            if self._member.eof:
                self._member = None
        return b"".join(pieces)

    def finish(self) -> None:
        """Check that nothing is missing at the end."""
        if self._member is not None:
            raise WireError("truncated", "the answer ended in the middle of its compressed data")

    def _too_large(self) -> WireError:
        return WireError("too_large", f"the answer is larger than {self._most} bytes")


def inflater_of(response: aiohttp.ClientResponse, most_bytes: int) -> Inflater:
    """Return what decompresses this body; raise `WireError` when its head says that it cannot be had."""
    if (response.content_length or 0) > most_bytes:
        raise WireError("too_large", f"the answer is larger than {most_bytes} bytes")
    return Inflater(response.headers.get("Content-Encoding", "").strip().lower(), most_bytes)


async def read_body(response: aiohttp.ClientResponse, most_bytes: int) -> bytes:
    """Return the whole body, decompressed; raise `WireError` when it cannot be had within the bound."""
    inflater = inflater_of(response, most_bytes)
    pieces = [inflater.feed(data) async for data in response.content.iter_any()]
    inflater.finish()
    return b"".join(pieces)
