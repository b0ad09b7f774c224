"""How often a sentence is looked at: a question about a span reads its sentence, so many cost a square."""

from collections.abc import Callable, Iterable, Iterator
from typing import Final, TypeVar

from memfin.scoring.text.language import Analysis

T = TypeVar("T")

MOST: Final = 24
"""Spans of one sentence that are asked about; a sentence that anybody wrote has fewer."""


def few(analysis: Analysis, found: Iterable[T], start: Callable[[T], int], most: int = MOST) -> Iterator[T]:
    """Yield what was found but for what comes after the first ``most`` of a sentence."""
    tried: dict[int, int] = {}
    for each in found:
        sentence = analysis.sentence_at(start(each))
        tried[sentence] = tried.get(sentence, 0) + 1
        if tried[sentence] <= most:
            yield each
