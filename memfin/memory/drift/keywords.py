"""How alike two theses are: the share of keywords they have in common (memory design §9.1, spec §10)."""

import re
import unicodedata
from collections.abc import Collection
from typing import Final

_HAN: Final = r"㐀-䶿一-鿿豈-﫿"
_TOKEN: Final = re.compile(rf"[{_HAN}]+|[^\W_{_HAN}]+")


def keywords(text: str, ignored: Collection[str] = ()) -> frozenset[str]:
    """Return the keywords of a text: words, and for Chinese every pair of neighbouring characters.

    Width and case make no difference. A Chinese character alone is a keyword by itself.
    """
    found: set[str] = set()
    for token in _TOKEN.findall(unicodedata.normalize("NFKC", text).casefold()):
        if not token.isascii() and re.match(f"[{_HAN}]", token) and len(token) > 1:
            found.update(token[at : at + 2] for at in range(len(token) - 1))
        elif token not in ignored:
            found.add(token)
    return frozenset(found)


def jaccard(one: frozenset[str], other: frozenset[str]) -> float:
    """Return how many of two sets' members are in both, as a share of all; 1 where there are none at all."""
    everything = one | other
    return len(one & other) / len(everything) if everything else 1.0
