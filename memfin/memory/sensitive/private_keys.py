"""Private keys: of wallets, and of everything that keeps them in PEM or JSON."""

import re
from collections.abc import Iterator
from typing import Final

from memfin.memory.sensitive.encodings import base58, base58check, bech32_prefix, coded
from memfin.memory.sensitive.findings import Finding
from memfin.memory.sensitive.view import View
from memfin.memory.sensitive.vocabulary import labelled

_PEM: Final = re.compile(
    r"(?<!-)-{2,20}\s{0,9}BEGIN\s+(?:[A-Z0-9]+\s+){0,3}PRIVATE\s+KEY(?:\s+BLOCK)?(?:\s*-{2,})?"
)
_PUTTY: Final = re.compile(r"PuTTY-User-Key-File-\d")
_HEX: Final = re.compile(
    r"(?<![0-9A-Za-z])(?:0[xX])?(?:[0-9a-fA-F](?>[ \t]?-?[ \t]?\n?[ \t]?)){63}[0-9a-fA-F](?![0-9A-Za-z])"
)
_REACH: Final = 40
_WIF_FIRST: Final = re.compile(r"[5KLc9]")
_WIF_VERSIONS: Final = frozenset({0x80, 0xEF, 0xB0, 0x9E, 0xCC})
_EXTENDED_FIRST: Final = re.compile(r"[xyztuv]prv|6P")
_BECH32_FIRST: Final = re.compile(r"(?i)nsec1|AGE|suiprivkey1")
_PACKED_FIRST: Final = re.compile(r"[1-9A-HJ-NP-Za-km-z]{20}")
_PACKED_BYTES: Final = 64
_WIF_LENGTHS: Final = range(51, 53)
_EXTENDED_LENGTHS: Final = range(58, 113)
_BECH32_LENGTHS: Final = range(58, 75)
_PACKED_LENGTHS: Final = range(86, 90)
_BYTES: Final = re.compile(r"\[\s*(?:\d{1,3}\s*,\s*){63}\d{1,3}\s*\]")
_JWK: Final = re.compile(r"\"kty\"\s*:")
_JWK_PRIVATE: Final = re.compile(r"\"d\"\s*:\s*\"[A-Za-z0-9_-]{20,}\"")
_AGE: Final = re.compile(r"(?i)AGE-SECRET-KEY-1[02-9AC-HJ-NP-Z]{40,}")
_STELLAR: Final = re.compile(r"(?<![0-9A-Za-z])S[A-Z2-7]{55}(?![0-9A-Za-z])")


def private_keys(view: View) -> Iterator[Finding]:
    """Yield private keys.

    64 hexadecimal digits are a key only behind a label, for digests and transactions look the same;
    keys with a checksum, a head or a prefix of their own count wherever they stand.
    """
    yield from _headed(view)
    yield from _labelled(view)
    yield from _encoded(view)
    yield from _in_json(view)


def _headed(view: View) -> Iterator[Finding]:
    for pattern, rule in ((_PEM, "pem"), (_PUTTY, "putty"), (_AGE, "age")):
        for match in pattern.finditer(view.text):
            yield _finding(view, rule, match.start(), match.end())


def _labelled(view: View) -> Iterator[Finding]:
    for pattern, rule in ((_HEX, "labelled_hex"), (_STELLAR, "labelled_stellar")):
        for match in pattern.finditer(view.text):
            if labelled(view, match.start(), "private", _REACH):
                yield _finding(view, rule, match.start(), match.end())


def _encoded(view: View) -> Iterator[Finding]:
    for code in coded(view, _WIF_FIRST, _WIF_LENGTHS):
        payload = base58check(code.text)
        if payload is not None and payload[0] in _WIF_VERSIONS and len(payload) in {33, 34}:
            yield _finding(view, "wif", code.start, code.end)
        elif code.whole and base58(code.text) and labelled(view, code.start, "private", _REACH):
            yield _finding(view, "labelled_wif", code.start, code.end)
    for code in coded(view, _EXTENDED_FIRST, _EXTENDED_LENGTHS):
        if base58check(code.text) is not None:
            yield _finding(view, "extended_key", code.start, code.end)
    for code in coded(view, _BECH32_FIRST, _BECH32_LENGTHS):
        if bech32_prefix(code.text) is not None:
            yield _finding(view, "bech32_key", code.start, code.end)
    for code in coded(view, _PACKED_FIRST, _PACKED_LENGTHS):
        if code.whole and len(base58(code.text) or b"") == _PACKED_BYTES:
            yield _finding(view, "solana_key", code.start, code.end)


def _in_json(view: View) -> Iterator[Finding]:
    for match in _BYTES.finditer(view.text):
        if all(int(each) < 256 for each in re.findall(r"\d+", match[0])):  # noqa: PLR2004 - bytes
            yield _finding(view, "byte_array", match.start(), match.end())
    if _JWK.search(view.text):
        for match in _JWK_PRIVATE.finditer(view.text):
            yield _finding(view, "jwk", match.start(), match.end())


def _finding(view: View, rule: str, start: int, end: int) -> Finding:
    begin, stop = view.span(start, end)
    return Finding(kind="private_key", rule=rule, start=begin, end=stop)
