"""Finds the passages that speak of a question, and says how much of it they meet."""

from collections import Counter
from typing import Final, NamedTuple

from memfin.agents.bm25 import IncrementalBM25
from memfin.rag.systems.builtin.passages import Passage
from memfin.rag.systems.builtin.words import Unit, index_terms, met, shown, unit_terms

QUERY_TERMS: Final = 64
POSTINGS: Final = 4096
"""What a query reads: a document is indexed once, so all of it may count."""

FOUND: Final = 8
"""Passages that are looked at for an answer."""

_ASKED_WEIGHT: Final = 2
_BM25_SHARE: Final = 0.4
_NEARBY: Final = 0.6
"""How much counts what only the passage right before has: questions go on from what was said."""


class Hit(NamedTuple):
    """A passage that was found.

    ``coverage`` is the share of the question that it meets, by the weight of its words; ``score`` orders
    the hits and is at most 1.
    """

    number: int
    passage: Passage
    score: float
    coverage: float


class PassageIndex:
    """The passages of a document, indexed."""

    def __init__(self, passages: tuple[Passage, ...]) -> None:
        self.passages = passages
        self._index = IncrementalBM25(query_terms=QUERY_TERMS, postings=POSTINGS)
        self._shown: list[str] = []
        for passage in passages:
            frequencies: Counter[str] = Counter()
            for term in index_terms(passage.question):
                frequencies[term] += _ASKED_WEIGHT
            frequencies.update(index_terms(passage.answer))
            self._index.add(frequencies)
            self._shown.append(f"{shown(passage.question)}\n{shown(passage.answer)}")

    def search(self, units: list[Unit]) -> list[Hit]:
        """Return the best passages, best first."""
        matches = self._index.search([term for unit in units for term in unit_terms(unit)], 4 * FOUND)
        if not matches:
            return []
        weights = [self._weight(unit) for unit in units]
        best = matches[0].score
        hits = []
        for match in matches:
            coverage = self._coverage(match.document, units, weights)
            score = _BM25_SHARE * match.score / best + (1.0 - _BM25_SHARE) * coverage
            hits.append(Hit(match.document, self.passages[match.document], score, coverage))
        hits.sort(key=lambda hit: (-hit.score, hit.number))
        return hits[:FOUND]

    def ranked(self, units: list[Unit]) -> list[int]:
        """Return the numbers of all passages that share a word with a question, nearest first."""
        found = self._index.search([term for unit in units for term in unit_terms(unit)], len(self.passages))
        return [match.document for match in found]

    def share(self, text: str, units: list[Unit]) -> float:
        """Return the share of a question that a text meets."""
        words = shown(text)
        total = sum(map(self._weight, units))
        return sum(self._weight(unit) * met(unit, words) for unit in units) / total if total else 0.0

    def _weight(self, unit: Unit) -> float:
        """Return what a unit counts: as much as the rarest term of a form that the document has."""
        known = [term for term in unit_terms(unit) if self._index.knows(term)]
        weights = [self._index.weight(term) for term in known or unit_terms(unit)]
        return unit.share * max(weights, default=0.0)

    def _coverage(self, number: int, units: list[Unit], weights: list[float]) -> float:
        own = self._shown[number]
        before = self._shown[number - 1] if number and self.passages[number].is_pair else ""
        total = sum(weights)
        gained = 0.0
        for unit, weight in zip(units, weights, strict=True):
            gained += weight * max(met(unit, own), _NEARBY * met(unit, before) if before else 0.0)
        return gained / total if total else 0.0
