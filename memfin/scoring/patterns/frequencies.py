"""How often a literal occurs in replies about money: the rarer it is, the better to scan for.

Rates are expected hits in a reply of 600 characters, from the short pieces of text counted over recorded
and made-up replies in both languages (``memfin/data/frequencies.json``). Only their order matters: it
decides which of several literals announces a pattern (``prefilter``), never what the pattern matches.
"""

from collections import Counter
from collections.abc import Iterable
from functools import cache
from importlib.resources import files
from typing import Final

import msgspec

_REPLY: Final = 600
_COUNTS: Final = files("memfin") / "data" / "frequencies.json"
# What is too rare to be counted occurs about so often, measured by the rarest counted; each further
# character makes it rarer.
_UNCOUNTED: Final = 0.3
_FURTHER: Final = 0.7


class Pieces(msgspec.Struct, frozen=True):
    """The counts of all pieces of up to ``longest`` characters that occur at least ``rarest`` times.

    ``characters`` is the length of the texts they were counted over, ``share`` how much of the replies
    one expects are in their language.
    """

    characters: int
    longest: int
    rarest: int
    share: float
    counts: dict[str, int]

    def rate(self, literal: str) -> float:
        """Return how often a literal occurs in a reply of this language, at most."""
        window = min(self.longest, len(literal))
        fewest = min(
            self.counts.get(literal[low : low + window], 0) for low in range(len(literal) - window + 1)
        )
        expected = fewest or self.rarest * _UNCOUNTED * _FURTHER ** (len(literal) - 1)
        return expected * _REPLY / self.characters


def count(texts: Iterable[str], longest: int, rarest: int, share: float) -> Pieces:
    """Count the pieces of normalized texts, the most frequent first."""
    counts: Counter[str] = Counter()
    characters = 0
    for text in texts:
        characters += len(text)
        for length in range(1, longest + 1):
            counts.update(text[low : low + length] for low in range(len(text) - length + 1))
    kept = sorted(((-n, piece) for piece, n in counts.items() if n >= rarest))
    return Pieces(characters, longest, rarest, share, {piece: -n for n, piece in kept})


@cache
def _languages() -> dict[str, Pieces]:
    return msgspec.json.decode(_COUNTS.read_bytes(), type=dict[str, Pieces])


@cache
def rate(literal: str) -> float:
    """Estimate how often a literal occurs in a reply of 600 characters."""
    return sum(pieces.share * pieces.rate(literal) for pieces in _languages().values())
