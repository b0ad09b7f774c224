"""Seed phrases: words of the BIP-39 lists in a row, with a right checksum or a label."""

import hashlib
import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from functools import cache
from itertools import pairwise
from typing import Final

from memfin.memory.sensitive.findings import Finding
from memfin.memory.sensitive.view import View
from memfin.memory.sensitive.vocabulary import alternatives, labelled, load_vocabulary, ordinary_pairs

SIZES: Final = (12, 15, 18, 21, 24)
_FEWEST: Final = 12
_BITS: Final = 11
_REACH: Final = 40
_GAP: Final = r"[\s0-9,.、，;；:：|/\\_\-'\"“”()\[\]{}<>*#=+•·]{1,12}"
_WORDS: Final = re.compile(rf"[a-z]{{3,8}}(?:{_GAP}[a-z]{{3,8}}){{11,}}")
_WORD: Final = re.compile(r"[a-z]+")
_SINGLES: Final = re.compile(rf"[一-鿿](?:{_GAP}[一-鿿](?![一-鿿])){{10,}}{_GAP}[一-鿿]")
"""Characters written apart; the first and the last one may touch others."""

_HAN: Final = re.compile(r"[一-鿿]")
_IS: Final = r"[\"'”]?\s{0,2}(?:[((][^))]{0,12}[))]\s?)?(?:[:=]|是|为|如下)[:=]?\s{0,4}[\"'“]?"
_BESIDE: Final = 2
_FEWEST_PAIRS: Final = 2
"""Ordinary pairs that make characters plain Chinese; one phrase of twelve in 14,000 holds so many."""

Span = tuple[int, int]


def seed_phrases(view: View) -> Iterator[Finding]:
    """Yield seed phrases in English and in Chinese, simplified or traditional.

    English: words of the list with nothing but blanks, punctuation and numbers between them. Chinese
    words are single characters, and nearly all ordinary text is made of characters of the list: they
    count when they are written apart, or directly behind a label, as many as a phrase has, and only if
    they do not read as ordinary Chinese.
    """
    for run in _WORDS.finditer(view.lower):
        yield from _english(view, run)
    for run in _SINGLES.finditer(view.text):
        places = [match.span() for match in _HAN.finditer(view.text, *run.span())]
        known = labelled(view, places[0][0], "phrase", _REACH)
        if not _reads_as_text(view, places):
            yield from _chinese(view, _trimmed(places), known=known)
    for run in _behind_label().finditer(view.lower):
        places = [match.span() for match in _HAN.finditer(view.lower, *run.span("phrase"))]
        if not _reads_as_text(view, places):
            yield from _chinese(view, [places], known=False)


def _english(view: View, run: re.Match[str]) -> Iterator[Finding]:
    indices = _index("english")
    places: list[Span] = []
    for match in _WORD.finditer(view.lower, *run.span()):
        if match[0] not in indices:
            yield from _in_row(view, places)
            places = []
        else:
            places.append(match.span())
    yield from _in_row(view, places)


def _in_row(view: View, places: Sequence[Span]) -> Iterator[Finding]:
    if len(places) < _FEWEST:
        return
    index = _index("english")
    numbers = [index[view.lower[slice(*place)]] for place in places]
    found = False
    for first, size in _checked(numbers):
        found = True
        yield _finding(view, "bip39_english", places[first][0], places[first + size - 1][1])
    # "Seed" and "phrase" are words of the list themselves.
    if not found and any(labelled(view, places[at][0], "phrase", _REACH) for at in (0, 1, 2)):
        yield _finding(view, "labelled_words", places[0][0], places[-1][1])


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
                yield _finding(view, f"bip39_{language}", places[0][0], places[-1][1])
                return


def _checked(numbers: Sequence[int]) -> Iterator[Span]:
    """Yield where a phrase with a right checksum begins, and its size."""
    for first in range(len(numbers) - _FEWEST + 1):
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
    return sum(one + other in pairs for one, other in pairwise(characters)) >= _FEWEST_PAIRS


@cache
def _index(language: str) -> Mapping[str, int]:
    from mnemonic import Mnemonic  # noqa: PLC0415 - reads its lists from files

    return {word: number for number, word in enumerate(Mnemonic(language).wordlist)}


@cache
def _behind_label() -> re.Pattern[str]:
    labels = alternatives(load_vocabulary().labels["phrase"])
    return re.compile(
        rf"(?:{labels}){_IS}(?P<phrase>[一-鿿](?:[ \t\n,、/|-]{{0,3}}[一-鿿]){{11,23}})(?![一-鿿])"
    )


def _finding(view: View, rule: str, start: int, end: int) -> Finding:
    begin, stop = view.span(start, end)
    return Finding(kind="seed_phrase", rule=rule, start=begin, end=stop)
