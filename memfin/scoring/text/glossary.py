"""What is put into other words before a reply is read, and where each of them stood.

Words of one meaning become one and English short forms full ones (`synonyms`), percentages digits
(`percentages`), English terms in Chinese sentences Chinese (`terms`).
"""

from bisect import bisect_right
from collections.abc import Iterable, Iterator, Sequence
from typing import NamedTuple

from memfin.scoring.numbers.percentages import percentages_in
from memfin.scoring.text.synonyms import variants_in
from memfin.scoring.text.terms import terms_in


class Gloss(NamedTuple):
    """A replacement at half-open offsets of the reading, and where it stood; ``term`` tells a term."""

    start: int
    end: int
    source_start: int
    source_end: int
    term: bool


def gloss(norm: str, *, terms: bool = True) -> tuple[str, list[Gloss]]:
    """Put a normalized text into the words that patterns know; English ``terms`` in Chinese if asked.

    Return the new reading, and where each replacement came from.
    """
    found = [(*each, True) for each in terms_in(norm)] if terms else []
    found += [(*each, False) for each in (*percentages_in(norm), *variants_in(norm))]
    if not found:
        return norm, []
    pieces: list[str] = []
    glosses: list[Gloss] = []
    last = length = 0
    for start, end, words, term in sorted(found):
        if start < last:  # a short form inside a term
            continue
        pieces += (norm[last:start], words)
        length += start - last
        glosses.append(Gloss(length, length + len(words), start, end, term))
        length += len(words)
        last = end
    return "".join((*pieces, norm[last:])), glosses


def unglossed(glosses: Sequence[Gloss], start: int, end: int) -> tuple[int, int]:
    """Translate a half-open span of the reading into offsets of the text before it was put into Chinese."""
    if not glosses:
        return start, end
    ends = [each.end for each in glosses]
    index = bisect_right(ends, start)
    shift = glosses[index - 1].source_end - glosses[index - 1].end if index else 0
    inside = index < len(glosses) and glosses[index].start <= start
    first = glosses[index].source_start if inside else start + shift
    index = bisect_right(ends, end - 1)
    shift = glosses[index - 1].source_end - glosses[index - 1].end if index else 0
    inside = index < len(glosses) and glosses[index].start < end
    return first, glosses[index].source_end if inside else end + shift


def glossed(glosses: Sequence[Gloss], start: int, end: int) -> tuple[int, int]:
    """Translate a half-open span the other way: of the text as it was written into the reading."""
    turned = [
        Gloss(source, source_end, first, last, term) for first, last, source, source_end, term in glosses
    ]
    return unglossed(turned, start, end)


def positions(glosses: Sequence[Gloss], sources: Iterable[int]) -> Iterator[int]:
    """Yield where rising offsets of the text as it was written stand in the reading."""
    index = shift = 0
    for source in sources:
        while index < len(glosses) and glosses[index].source_end <= source:
            shift = glosses[index].end - glosses[index].source_end
            index += 1
        inside = index < len(glosses) and glosses[index].source_start <= source
        yield glosses[index].start if inside else source + shift
