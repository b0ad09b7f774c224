"""Wallet addresses."""

import re
from collections.abc import Iterator, Mapping
from typing import Final

from memfin.memory.sensitive.encodings import Coded, base58, base58check, bech32_prefix, coded
from memfin.memory.sensitive.findings import Finding
from memfin.memory.sensitive.view import View
from memfin.memory.sensitive.vocabulary import labelled

_ETHEREUM: Final = re.compile(
    r"(?<![0-9A-Za-z])0[xX](?:[ \t]?-?[ \t]?\n?[ \t]?[0-9a-fA-F]){40}(?![0-9A-Za-z])"
)
_FIRST_BASE58: Final = re.compile(r"[13TLMDXAtmn2]")
_BASE58_LENGTHS: Final = range(25, 37)
_VERSIONS: Final[Mapping[int, str]] = {
    0x00: "bitcoin",
    0x05: "bitcoin",
    0x41: "tron",
    0x30: "litecoin",
    0x32: "litecoin",
    0x1E: "dogecoin",
    0x16: "dogecoin",
    0x4C: "dash",
    0x6F: "bitcoin_test",
    0xC4: "bitcoin_test",
    0x17: "ark",
}
_PREFIXES: Final[Mapping[str, str]] = {
    "bc": "bitcoin",
    "tb": "bitcoin_test",
    "ltc": "litecoin",
    "addr": "cardano",
    "cosmos": "cosmos",
    "osmo": "cosmos",
    "celestia": "cosmos",
    "inj": "cosmos",
    "terra": "cosmos",
    "zil": "zilliqa",
    "one": "harmony",
    "bnb": "binance",
    "egld": "elrond",
    "npub": "nostr",
    "lnbc": "lightning",
}
_FIRST_BECH32: Final = re.compile(rf"(?:{'|'.join(_PREFIXES)})(?=1|[0-9]+[munp]?1)", re.IGNORECASE)
_FIRST_SOLANA: Final = re.compile(r"[1-9A-HJ-NP-Za-km-z]{6}")
_SOLANA_LENGTHS: Final = range(32, 45)
_SOLANA_BYTES: Final = 32
_PAYLOADS: Final = frozenset({21, 22})
"""Bytes of a version and a hash."""

_BECH32_LENGTHS: Final = range(14, 121)
_PART: Final = frozenset("-_=/+")
"""Signs beside a word that make it a part of some other code."""

_MIXED: Final = re.compile(r"(?=.*[a-z].*[a-z])(?=.*[A-Z].*[A-Z])(?=.*\d)")
_UNCHECKED: Final = re.compile(
    r"[13T][1-9A-HJ-NP-Za-km-z]{25,34}|(?:bc1|tb1|ltc1)[02-9ac-hj-np-z]{25,87}|(?i:0x)?[0-9a-fA-F]{40}"
)
"""The form of an address whose checksum may be mistyped."""


def wallet_addresses(view: View) -> Iterator[Finding]:
    """Yield addresses: by their checksum, by their form where there is none, or by form and label."""
    for match in _ETHEREUM.finditer(view.text):
        yield _finding(view, "ethereum", match.start(), match.end())
    for code in coded(view, _FIRST_BASE58, _BASE58_LENGTHS):
        payload = base58check(code.text)
        if payload is not None and len(payload) in _PAYLOADS and payload[0] in _VERSIONS:
            yield _finding(view, _VERSIONS[payload[0]], code.start, code.end)
        else:
            yield from _mistyped(view, code)
    for code in coded(view, _FIRST_BECH32, _BECH32_LENGTHS):
        prefix = bech32_prefix(code.text)
        if prefix is not None:
            yield _finding(view, _PREFIXES.get(prefix, "lightning"), code.start, code.end)
        else:
            yield from _mistyped(view, code)
    yield from _solana(view)


def _mistyped(view: View, code: Coded) -> Iterator[Finding]:
    if code.whole and _UNCHECKED.fullmatch(code.text) and labelled(view, code.start, "wallet"):
        yield _finding(view, "labelled_address", code.start, code.end)


def _solana(view: View) -> Iterator[Finding]:
    for code in coded(view, _FIRST_SOLANA, _SOLANA_LENGTHS):
        touched = view.text[max(0, code.start - 1) : code.start] + view.text[code.end : code.end + 1]
        if not code.whole or _MIXED.match(code.text) is None or not _PART.isdisjoint(touched):
            continue
        if len(base58(code.text) or b"") == _SOLANA_BYTES:
            yield _finding(view, "solana", code.start, code.end)


def _finding(view: View, rule: str, start: int, end: int) -> Finding:
    begin, stop = view.span(start, end)
    return Finding(kind="wallet_address", rule=rule, start=begin, end=stop)
