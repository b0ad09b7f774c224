"""Word-level differences of two texts, in bounded work."""

import re
from collections.abc import Iterator, Sequence
from difflib import Match, SequenceMatcher
from itertools import accumulate, groupby
from operator import itemgetter
from typing import Final

from memfin.web.view.conversation import Piece

MAX_WORK: Final = 400_000
"""Comparisons of sentences and words for a pair of texts; what is left beyond them counts as replaced."""

MIN_SHARED: Final = 0.25
"""Share of a passage below which words that happen to be in both are not matched."""

_SENTENCES: Final = re.compile(r"(?<=[。！？；!?])(?![。！？；!?\n])|(?<=\n)|(?<=\. )")
_WORDS: Final = re.compile(r"\d+(?:[.,]\d+)*%?|[^\W\u2e80-\uffef\U00020000-\U0003ffff]+|\s+|.")
"""Numbers, words of letters, spaces, and single characters of Chinese."""

Span = tuple[int, int]


class _Matcher(SequenceMatcher[str]):
    """A matcher that takes passages as replaced which would cost more than what is left of ``work``."""

    a: Sequence[str]
    b: Sequence[str]
    b2j: dict[str, list[int]]

    def __init__(self, a: Sequence[str], b: Sequence[str], work: int) -> None:
        super().__init__(None, a, b, autojunk=False)
        self.work = work

    def find_longest_match(
        self, alo: int = 0, ahi: int | None = None, blo: int = 0, bhi: int | None = None
    ) -> Match:
        if self.work <= 0:
            return Match(alo, blo, 0)
        tokens = self.a[alo:ahi]
        cost = sum(len(self.b2j.get(token, ())) for token in tokens)
        self.work -= len(tokens)
        if cost > self.work:
            return Match(alo, blo, 0)
        self.work -= cost
        return super().find_longest_match(alo, ahi, blo, bhi)


def differences(a: str, b: str) -> tuple[list[Span], list[Span], int]:
    """Return the spans of ``a`` that ``b`` lacks, those of ``b`` that ``a`` lacks, and the work done."""
    gone: list[Span] = []
    new: list[Span] = []
    sentences = _Matcher(_SENTENCES.split(a), _SENTENCES.split(b), MAX_WORK)
    passages = list(_replaced(sentences, 0.0))
    work = sentences.work
    for at_a, passage_a, at_b, passage_b in passages:
        words = _Matcher(_WORDS.findall(passage_a), _WORDS.findall(passage_b), work)
        for from_a, words_a, from_b, words_b in _replaced(words, MIN_SHARED):
            if words_a:
                gone.append((at_a + from_a, at_a + from_a + len(words_a)))
            if words_b:
                new.append((at_b + from_b, at_b + from_b + len(words_b)))
        work = words.work
    return gone, new, MAX_WORK - work


def _replaced(matcher: _Matcher, min_shared: float) -> Iterator[tuple[int, str, int, str]]:
    """Yield offset and text of each passage that differs, in the first text and in the second."""
    a, b = matcher.a, matcher.b
    at_a, at_b = ([0, *accumulate(map(len, tokens))] for tokens in (a, b))
    *blocks, end = matcher.get_matching_blocks()
    # A single character that both happen to have between two changes is no match that a reader sees.
    kept = [
        block
        for block in blocks
        if block.a == block.b == 0
        or (block.a + block.size, block.b + block.size) == (end.a, end.b)
        or len("".join(a[block.a : block.a + block.size]).strip()) > 1
    ]
    shared = sum(at_a[block.a + block.size] - at_a[block.a] for block in kept)
    if shared < min_shared * max(at_a[-1], at_b[-1]):
        kept = []
    i = j = 0
    for block in (*kept, end):
        if (i, j) != (block.a, block.b):
            yield at_a[i], "".join(a[i : block.a]), at_b[j], "".join(b[j : block.b])
        i, j = block.a + block.size, block.b + block.size


def layered(pieces: Sequence[Piece], spans: Sequence[Span]) -> list[tuple[bool, list[Piece]]]:
    """Cut pieces at the edges of spans, and group them into those outside and those inside of the spans."""
    edges = [edge for span in spans for edge in span]
    cut: list[tuple[bool, Piece]] = []
    at = passed = 0
    for piece in pieces:
        rest = piece
        while passed < len(edges) and edges[passed] < at + len(rest.text):
            if size := edges[passed] - at:
                cut.append((passed % 2 == 1, rest._replace(text=rest.text[:size], ends=())))
            rest, at = rest._replace(text=rest.text[size:]), edges[passed]
            passed += 1
        cut.append((passed % 2 == 1, rest))
        at += len(rest.text)
    return [(inside, [piece for _, piece in group]) for inside, group in groupby(cut, key=itemgetter(0))]
