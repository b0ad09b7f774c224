"""Rules for codes: e-mail addresses, API keys, wallet addresses, private keys and seed phrases."""

import hashlib
import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from functools import cache
from itertools import pairwise
from typing import Final, NamedTuple

from memfin.memory.sensitive.text import (
    Finding,
    View,
    labelled,
    load_vocabulary,
    ordinary_pairs,
    pattern,
)

_BASE58: Final = frozenset("123456789ABCDEFGHJKLMNPQRSTUVWXYZabcdefghijkmnopqrstuvwxyz")
_BECH32: Final = "qpzry9x8gf2tvdw0s3jn54khce6mua7l"
# Residues of a right checksum: Bech32 (BIP 173) and Bech32m (BIP 350)
_RESIDUES: Final = frozenset({1, 0x2BC830A3})
_WORD: Final = re.compile(r"[0-9A-Za-z]+")
_GAP: Final = re.compile(r"[ \t]?[-·][ \t]?|[ \t]{1,3}|[ \t]*\n[ \t]*")
_MIN_PIECE: Final = 3  # characters of a piece, on average, of a code that is written in several


class Coded(NamedTuple):
    """Letters and digits that may be one code, written in one piece or in several."""

    text: str
    start: int
    end: int
    whole: bool


def coded(view: View, first: re.Pattern[str], lengths: range) -> Iterator[Coded]:
    """Yield words, and joined neighbouring words, with the beginning and the length of a code."""
    if len(view.text) < lengths.start:  # most texts are short, and the gate reads each
        return
    max_words = max(2, lengths.stop // _MIN_PIECE)
    words = [match.span() for match in _WORD.finditer(view.text)]
    for number, (start, end) in enumerate(words):
        if first.match(view.text, start, end) is None:
            continue
        joined = view.text[start:end]
        if len(joined) in lengths:
            yield Coded(joined, start, end, whole=True)
        if end - start == 1:
            continue
        for (_, last), (begin, stop) in pairwise(words[number : number + max_words]):
            if len(joined) >= lengths.stop or not _GAP.fullmatch(view.text, last, begin):
                break
            joined += view.text[begin:stop]
            if len(joined) in lengths:
                yield Coded(joined, start, stop, whole=False)


def base58(text: str) -> bytes | None:
    """Decode Base58; None for invalid text."""
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


_REMOTE: Final = re.compile(r"(?::|/)[A-Za-z0-9._~-]+")


def emails(view: View) -> Iterator[Finding]:
    """Yield e-mail addresses, without names of assets (``icon@2x.png``) and remotes (``git@host:path``)."""
    not_domains = load_vocabulary().email["not_domains"]
    if "@" in view.text:
        for match in pattern("address").finditer(view.text):
            if match["top"].lower() not in not_domains and not _is_remote(view, match):
                yield view.finding("email", "address", match.start(), match.end())
        yield from view.matches("email", "chinese_domain", pattern("chinese_domain"))
    for match in pattern("spelt_address").finditer(view.text):
        if ("@" in match[0] or _is_spelt(match)) and not _is_remote(view, match):
            yield view.finding("email", "spelt_out", match.start(), match.end())


def _is_remote(view: View, match: re.Match[str]) -> bool:
    return match["local"] == "git" and _REMOTE.match(view.text, match.end()) is not None


def _is_spelt(match: re.Match[str]) -> bool:
    """Return True if both signs are marked or spelt: "meet at amazon.com" is a sentence."""
    between = match[0][len(match["local"]) : match.start("domain") - match.start()]
    return (
        any(sign in between for sign in "[({<【《")
        or re.search(r"(?i)\bdot\b|点", match["domain"]) is not None
    )


def api_keys(view: View) -> Iterator[Finding]:
    """Yield keys with a well-known prefix."""
    for match in pattern("prefixed_key").finditer(view.text):
        if _is_mixed(match[0]) or match.lastgroup in {"slack_hook", "url_password"}:
            yield view.finding("api_key", str(match.lastgroup), match.start(), match.end())


def _is_mixed(value: str) -> bool:
    return any(each.isdigit() for each in value) or (value != value.lower() and value != value.upper())


_FIRST_BASE58: Final = re.compile(r"[13TLMDXAtmn2]")
_BASE58_LENGTHS: Final = range(25, 37)
_FIRST_SOLANA: Final = re.compile(r"[1-9A-HJ-NP-Za-km-z]{6}")
_SOLANA_LENGTHS: Final = range(32, 45)
_SOLANA_BYTES: Final = 32
_PAYLOADS: Final = frozenset({21, 22})  # bytes of a version and a hash
_BECH32_LENGTHS: Final = range(14, 121)
_PART: Final = frozenset("-_=/+")  # signs beside a word that make it a part of some other code
_MIXED: Final = re.compile(r"(?=.*[a-z].*[a-z])(?=.*[A-Z].*[A-Z])(?=.*\d)")


def wallet_addresses(view: View) -> Iterator[Finding]:
    """Yield wallet addresses: by checksum, by form for those without one, or by form and label."""
    known = load_vocabulary().wallets
    for code in coded(view, _FIRST_BASE58, _BASE58_LENGTHS):
        payload = base58check(code.text)
        version = "" if payload is None or len(payload) not in _PAYLOADS else f"{payload[0]:02x}"
        if version in known["base58"]:
            yield view.finding("wallet_address", known["base58"][version], code.start, code.end)
        else:
            yield from _mistyped(view, code)
    for code in coded(view, pattern("first_bech32"), _BECH32_LENGTHS):
        prefix = bech32_prefix(code.text)
        if prefix is not None:
            rule = known["bech32"].get(prefix, "lightning")
            yield view.finding("wallet_address", rule, code.start, code.end)
        else:
            yield from _mistyped(view, code)
    for code in coded(view, _FIRST_SOLANA, _SOLANA_LENGTHS):
        touched = view.text[max(0, code.start - 1) : code.start] + view.text[code.end : code.end + 1]
        if not code.whole or _MIXED.match(code.text) is None or not _PART.isdisjoint(touched):
            continue
        if len(base58(code.text) or b"") == _SOLANA_BYTES:
            yield view.finding("wallet_address", "solana", code.start, code.end)


def _mistyped(view: View, code: Coded) -> Iterator[Finding]:
    if (
        code.whole
        and pattern("unchecked_wallet").fullmatch(code.text)
        and labelled(view, code.start, "wallet")
    ):
        yield view.finding("wallet_address", "labelled_address", code.start, code.end)


_REACH: Final = 40
_WIF_VERSIONS: Final = frozenset({0x80, 0xEF, 0xB0, 0x9E, 0xCC})
_PACKED_BYTES: Final = 64


def private_keys(view: View) -> Iterator[Finding]:
    """Yield encoded private keys."""
    for first, lengths, rule_of in _ENCODED_KEYS:
        for code in coded(view, first, lengths):
            if (found := rule_of(view, code)) is not None:
                yield view.finding("private_key", found, code.start, code.end)


def _wif(view: View, code: Coded) -> str | None:
    payload = base58check(code.text)
    if payload is not None and payload[0] in _WIF_VERSIONS and len(payload) in {33, 34}:
        return "wif"
    known = code.whole and base58(code.text) and labelled(view, code.start, "private", _REACH)
    return "labelled_wif" if known else None


def _extended(_: View, code: Coded) -> str | None:
    return "extended_key" if base58check(code.text) is not None else None


def _bech32_key(_: View, code: Coded) -> str | None:
    return "bech32_key" if bech32_prefix(code.text) is not None else None


def _packed(_: View, code: Coded) -> str | None:
    return "solana_key" if code.whole and len(base58(code.text) or b"") == _PACKED_BYTES else None


# The beginning and the lengths of keys in an encoding, and the rule that one fits, if any
_ENCODED_KEYS: Final = (
    (re.compile(r"[5KLc9]"), range(51, 53), _wif),
    (re.compile(r"[xyztuv]prv|6P"), range(58, 113), _extended),
    (re.compile(r"(?i)nsec1|AGE|suiprivkey1"), range(58, 75), _bech32_key),
    (re.compile(r"[1-9A-HJ-NP-Za-km-z]{20}"), range(86, 90), _packed),
)
SIZES: Final = (12, 15, 18, 21, 24)
_MIN_WORDS: Final = 12
_BITS: Final = 11
_LOWER_WORD: Final = re.compile(r"[a-z]+")
_HAN: Final = re.compile(r"[一-鿿]")
_BESIDE: Final = 2
# Ordinary pairs that make characters plain Chinese; one phrase of twelve in 14,000 holds so many
_MIN_PAIRS: Final = 2
Span = tuple[int, int]


def seed_phrases(view: View) -> Iterator[Finding]:
    """Yield seed phrases in English and in Chinese, simplified or traditional.

    Chinese words are single characters, of which nearly all text is made: they count when written apart, or
    behind a label, as many as a phrase has, and only if they do not read as ordinary Chinese.
    """
    for run in pattern("words_in_row").finditer(view.lower):
        yield from _english(view, run)
    for run in pattern("single_characters").finditer(view.text):
        places = [match.span() for match in _HAN.finditer(view.text, *run.span())]
        known = labelled(view, places[0][0], "phrase", _REACH)
        if not _reads_as_text(view, places):
            yield from _chinese(view, _trimmed(places), known=known)
    for run in pattern("labelled_phrase").finditer(view.lower):
        places = [match.span() for match in _HAN.finditer(view.lower, *run.span("phrase"))]
        if not _reads_as_text(view, places):
            yield from _chinese(view, [places], known=False)


def _english(view: View, run: re.Match[str]) -> Iterator[Finding]:
    indices = _index("english")
    places: list[Span] = []
    for match in _LOWER_WORD.finditer(view.lower, *run.span()):
        if match[0] not in indices:
            yield from _in_row(view, places)
            places = []
        else:
            places.append(match.span())
    yield from _in_row(view, places)


def _in_row(view: View, places: Sequence[Span]) -> Iterator[Finding]:
    if len(places) < _MIN_WORDS:
        return
    index = _index("english")
    numbers = [index[view.lower[slice(*place)]] for place in places]
    found = False
    for first, size in _checked(numbers):
        found = True
        yield view.finding("seed_phrase", "bip39_english", places[first][0], places[first + size - 1][1])
    # "Seed" and "phrase" are words of the list themselves.
    if not found and any(labelled(view, places[at][0], "phrase", _REACH) for at in (0, 1, 2)):
        yield view.finding("seed_phrase", "labelled_words", places[0][0], places[-1][1])


def _trimmed(places: list[Span]) -> Iterator[list[Span]]:
    """Yield the characters, and those without up to two at each end that belong to the text beside them."""
    for begin in range(_BESIDE + 1):
        for end in range(_BESIDE + 1):
            yield places[begin : len(places) - end]


def _chinese(view: View, runs: Iterable[Sequence[Span]], *, known: bool) -> Iterator[Finding]:
    for places in runs:
        if len(places) not in SIZES:
            continue
        characters = [view.text[slice(*place)] for place in places]
        for language in ("chinese_simplified", "chinese_traditional"):
            index = _index(language)
            numbers = [index.get(each, -1) for each in characters]
            if -1 not in numbers and (known or _is_right(numbers)):
                yield view.finding("seed_phrase", f"bip39_{language}", places[0][0], places[-1][1])
                return


def _checked(numbers: Sequence[int]) -> Iterator[Span]:
    """Yield the start and the length of each phrase with a correct checksum."""
    for first in range(len(numbers) - _MIN_WORDS + 1):
        for size in SIZES:
            if first + size <= len(numbers) and _is_right(numbers[first : first + size]):
                yield first, size


def _is_right(numbers: Sequence[int]) -> bool:
    value = 0
    for number in numbers:
        value = value << _BITS | number
    check = len(numbers) * _BITS // 33
    entropy = (value >> check).to_bytes(check * 4, "big")
    return hashlib.sha256(entropy).digest()[0] >> (8 - check) == value & ((1 << check) - 1)


def _reads_as_text(view: View, places: Sequence[Span]) -> bool:
    characters = [view.text[slice(*place)] for place in places]
    pairs = ordinary_pairs()
    return sum(one + other in pairs for one, other in pairwise(characters)) >= _MIN_PAIRS


@cache
def _index(language: str) -> Mapping[str, int]:
    from mnemonic import Mnemonic  # noqa: PLC0415 - reads its lists from files

    return {word: number for number, word in enumerate(Mnemonic(language).wordlist)}
