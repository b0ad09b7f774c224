"""A small incremental BM25 index whose cost per query does not grow with what it holds.

A query reads its rarest terms only, and of each term only the newest postings (ADR 0003).
"""

import heapq
import math
import re
from collections import Counter
from typing import Final, NamedTuple

K1: Final = 1.2
B: Final = 0.75

QUERY_TERMS: Final = 24  # that are looked up: the rarest
POSTINGS: Final = 48  # of a term that a query reads: the newest

_RUN: Final = re.compile(r"[\u3400-\u9fff]+|[a-z0-9]+(?:\.[0-9]+)?%?")
_FIRST_HAN: Final = "\u3400"


def terms(text: str) -> list[str]:
    """Return the index terms of a text in order: Chinese character bigrams, words and numbers.

    A Chinese run of a single character is a term by itself; words are lower case.
    """
    found: list[str] = []
    for run in _RUN.findall(text.lower()):
        if run[0] < _FIRST_HAN or len(run) == 1:
            found.append(run)
        else:
            found.extend([run[at : at + 2] for at in range(len(run) - 1)])
    return found


class Match(NamedTuple):
    """A document that a query found; ``score`` is its BM25 score over the terms that were read."""

    document: int
    score: float


class IncrementalBM25:
    """Documents by number, in the order they were added; the index is a function of that order.

    A query reads the ``newest`` postings of a term; with one for each document it reads all of them.
    """

    def __init__(self, newest: int = POSTINGS) -> None:
        self._newest = newest
        self._postings: dict[str, list[tuple[int, int]]] = {}
        self._frequency: Counter[str] = Counter()
        self._lengths: list[int] = []
        self._total_length = 0
        self.postings_read = 0

    def add(self, frequencies: Counter[str]) -> None:
        """Add a document, given as the frequency of each term."""
        document = len(self._lengths)
        length = frequencies.total()
        self._lengths.append(length)
        self._total_length += length
        postings = self._postings
        for term, count in frequencies.items():
            entries = postings.setdefault(term, [])
            entries.append((document, count))
            if len(entries) >= 2 * self._newest:
                del entries[: -self._newest]
        self._frequency.update(frequencies.keys())

    def search(self, query: list[str], limit: int) -> list[Match]:
        """Return at most `limit` documents by falling score, the newer first among equals."""
        frequency = self._frequency
        known = [term for term in dict.fromkeys(query) if term in frequency]
        if not known:
            return []
        rarest = heapq.nsmallest(QUERY_TERMS, known, key=frequency.__getitem__)
        fixed = K1 * (1.0 - B)
        slope = K1 * B * len(self._lengths) / self._total_length
        lengths = self._lengths
        scores: dict[int, float] = {}
        for term in rarest:
            holding = frequency[term]
            weight = math.log1p((len(lengths) - holding + 0.5) / (holding + 0.5)) * (K1 + 1.0)
            newest = self._postings[term][-self._newest :]
            self.postings_read += len(newest)
            for document, count in newest:
                gain = weight * count / (count + fixed + slope * lengths[document])
                scores[document] = scores.get(document, 0.0) + gain
        best = heapq.nlargest(limit, scores.items(), key=lambda item: (item[1], item[0]))
        return [Match(document, score) for document, score in best]
