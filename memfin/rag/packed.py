"""A long list of records in little memory, for those who go through it from its beginning."""

import zlib
from collections.abc import Collection, Iterable, Iterator
from typing import Any, Final, Generic, TypeVar

import msgspec

T = TypeVar("T")

_TOGETHER: Final = 64
"""Records that are compressed, and made anew, at a time."""

_FASTEST: Final = 1
"""The level of compression."""


class Packed(Collection[T], Generic[T]):
    """Immutable records of one type; every iteration makes them anew."""

    def __init__(self, kind: Any, records: Iterable[T] = ()) -> None:
        """Pack records; ``kind`` is their type, one that msgspec encodes and decodes."""
        self._encode = msgspec.msgpack.Encoder().encode
        self._decode = msgspec.msgpack.Decoder(list[kind]).decode
        self._parcels: list[bytes] = []
        self._loose: list[T] = []
        for record in records:
            self.append(record)

    def append(self, record: T) -> None:
        """Add a record at the end."""
        self._loose.append(record)
        if len(self._loose) == _TOGETHER:
            self._parcels.append(zlib.compress(self._encode(self._loose), _FASTEST))
            self._loose = []

    def __len__(self) -> int:
        return _TOGETHER * len(self._parcels) + len(self._loose)

    def __iter__(self) -> Iterator[T]:
        for parcel in self._parcels:
            yield from self._decode(zlib.decompress(parcel))
        yield from self._loose

    def __contains__(self, record: object) -> bool:
        return any(one == record for one in self)
