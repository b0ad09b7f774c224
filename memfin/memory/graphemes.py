"""Where text may be cut: between characters as readers see them, not between code points.

The rules are those of Unicode's extended grapheme clusters (UAX #29), decided from the standard
library's character properties. Where these are too coarse to tell, two code points count as one
character: a cut may come out earlier than the standard's, and never inside a cluster.
"""

import unicodedata
from typing import Final

_ZWJ: Final = "\u200d"
_VIRAMA: Final = 9
"""The combining class of signs that join the consonants around them."""

_MARKS: Final = frozenset(("Mn", "Me", "Mc"))
_SKIN_TONES: Final = ("\U0001f3fb", "\U0001f3ff")
_TAGS: Final = ("\U000e0020", "\U000e007f")
_FLAG_LETTERS: Final = ("\U0001f1e6", "\U0001f1ff")
_LEADING_JAMO: Final = (("\u1100", "\u115f"), ("\ua960", "\ua97c"))
_SYLLABLES: Final = ("\uac00", "\ud7a3")
_FOLLOWING_JAMO: Final = (("\u1160", "\u11ff"), ("\ud7b0", "\ud7fb"))
_PREPENDED: Final = frozenset(
    "\u0600\u0601\u0602\u0603\u0604\u0605\u06dd\u070f\u0890\u0891\u08e2\u0d4e\U000110bd\U000110cd"
)
_SPACING_VOWELS: Final = frozenset("\u0e33\u0eb3\uff9e\uff9f\u200c")
"""Code points that extend the one before although their category does not say so."""


def boundary_before(text: str, at: int) -> int:
    """Return the last position not after ``at`` at which no character is cut in two."""
    if at >= len(text):
        return len(text)
    while at > 0 and _joined(text, at):
        at -= 1
    return max(at, 0)


def _joined(text: str, at: int) -> bool:
    """Say whether the code points on both sides of a position are parts of one character."""
    left, right = text[at - 1], text[at]
    if left < "\u0300" and right < "\u0300":
        return left == "\r" and right == "\n"
    return (
        _extends(right)
        or left == _ZWJ
        or left in _PREPENDED
        or unicodedata.combining(left) == _VIRAMA
        or (_within(left, *_LEADING_JAMO) and _within(right, _SYLLABLES, *_LEADING_JAMO))
        or (
            _within(left, _FLAG_LETTERS)
            and _within(right, _FLAG_LETTERS)
            and _flag_letters_before(text, at) % 2 == 1
        )
    )


def _extends(character: str) -> bool:
    return (
        character == _ZWJ
        or character in _SPACING_VOWELS
        or unicodedata.category(character) in _MARKS
        or _within(character, _SKIN_TONES, _TAGS, *_FOLLOWING_JAMO)
    )


def _within(character: str, *ranges: tuple[str, str]) -> bool:
    return any(first <= character <= last for first, last in ranges)


def _flag_letters_before(text: str, at: int) -> int:
    start = at
    while start > 0 and _within(text[start - 1], _FLAG_LETTERS):
        start -= 1
    return at - start
