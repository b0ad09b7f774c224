"""Quotations of every kind between one pair of marks; a quotation ends with its line."""

from collections.abc import Iterator
from typing import Final

from memfin.scoring.patterns.expressions import compile_pattern

_PAIRS: Final = (("“", "”"), ("「", "」"), ("『", "』"))
_OTHER_QUOTES: Final = "\"'「『"
_STRAIGHT: Final = compile_pattern(
    r"\"[^\"\n]*\"|'(?<![a-z0-9]')(?:[^'\n]|'(?<=[a-z]')(?=[a-z])){2,}'(?![a-z])"
)


def paired(norm: str, opening: str, closing: str) -> Iterator[tuple[int, int]]:
    """Yield where a line holds a mark and the one that closes it; what is never closed costs nothing."""
    start, end = norm.find(opening), -1
    while start >= 0:
        if end < start:
            end = norm.find(closing, start)
            if end < 0:
                return
        line = norm.find("\n", start, end)
        if line < 0:
            yield start, end + 1
        start = norm.find(opening, end if line < 0 else line)


def with_one_kind_of_quotes(norm: str) -> str:
    """Put quotations of every kind between “ and ”; what is quoted inside one keeps its marks."""
    if not any(map(norm.__contains__, _OTHER_QUOTES)):
        return norm
    found = [match.span(1) for match in _STRAIGHT.finditer(norm)]
    for marks in _PAIRS:
        found.extend(paired(norm, *marks))
    pieces: list[str] = []
    last = 0
    for start, end in sorted(found):
        if start >= last:
            pieces += (norm[last:start], "“", norm[start + 1 : end - 1], "”")
            last = end
    return "".join((*pieces, norm[last:]))
