"""Checksummed encodings of addresses and keys: Base58Check, Bech32, and words that may be one of them."""

import hashlib
import re
from collections.abc import Iterator
from itertools import pairwise
from typing import Final, NamedTuple

from memfin.memory.sensitive.view import View

_BASE58: Final = frozenset("123456789ABCDEFGHJKLMNPQRSTUVWXYZabcdefghijkmnopqrstuvwxyz")
_BECH32: Final = "qpzry9x8gf2tvdw0s3jn54khce6mua7l"
_RESIDUES: Final = frozenset({1, 0x2BC830A3})
"""What the checksum leaves: Bech32 (BIP 173) and Bech32m (BIP 350)."""

_WORD: Final = re.compile(r"[0-9A-Za-z]+")
_GAP: Final = re.compile(r"[ \t]?[-·][ \t]?|[ \t]{1,3}|[ \t]*\n[ \t]*")
LONGEST: Final = 120
_LEAST_PIECE: Final = 3
"""Characters of a piece, on average, of a code that is written in several."""


class Coded(NamedTuple):
    """Letters and digits that may be one code, written in one piece or in several."""

    text: str
    start: int
    end: int
    whole: bool


def coded(view: View, first: re.Pattern[str], lengths: range) -> Iterator[Coded]:
    """Yield words, and neighbouring words taken together, that begin like a code and have a length of one."""
    most = max(2, lengths.stop // _LEAST_PIECE)
    words = [match.span() for match in _WORD.finditer(view.text)]
    for number, (start, end) in enumerate(words):
        if first.match(view.text, start, end) is None:
            continue
        joined = view.text[start:end]
        if len(joined) in lengths:
            yield Coded(joined, start, end, whole=True)
        if end - start == 1:
            continue
        for (_, last), (begin, stop) in pairwise(words[number : number + most]):
            if len(joined) >= lengths.stop or not _GAP.fullmatch(view.text, last, begin):
                break
            joined += view.text[begin:stop]
            if len(joined) in lengths:
                yield Coded(joined, start, stop, whole=False)


def base58(text: str) -> bytes | None:
    """Return the decoded bytes; None for text that is no Base58."""
    if not _BASE58.issuperset(text):
        return None
    from stdnum.bitcoin import b58decode  # noqa: PLC0415 - loads slowly, and most text holds no such code

    return b58decode(text)


def base58check(text: str) -> bytes | None:
    """Return the payload, version included; None where the checksum is wrong."""
    data = base58(text)
    if data is None or len(data) < 5:  # noqa: PLR2004 - a version and the checksum
        return None
    payload, check = data[:-4], data[-4:]
    return payload if hashlib.sha256(hashlib.sha256(payload).digest()).digest()[:4] == check else None


def bech32_prefix(text: str) -> str | None:
    """Return the human-readable part; None where the form or the checksum is wrong."""
    if text not in {text.lower(), text.upper()}:
        return None
    prefix, sign, data = text.lower().rpartition("1")
    if not sign or not prefix or len(data) < 6 or not set(data) <= set(_BECH32):  # noqa: PLR2004 - the checksum
        return None
    from stdnum.bitcoin import bech32_checksum  # noqa: PLC0415 - as above

    expanded = [ord(each) >> 5 for each in prefix] + [0] + [ord(each) & 31 for each in prefix]
    return prefix if bech32_checksum([*expanded, *map(_BECH32.index, data)]) in _RESIDUES else None
