"""Printable text: invisible characters and display controls are escaped.

Control characters, direction marks, zero-width characters and lone surrogates are spelt out (⟨U+202E⟩).
Escaping for HTML or Markdown comes after this.
"""

import re
from collections.abc import Callable
from typing import Final

EMOJI_MARKS: Final = frozenset("\u200c\u200d\ufe0e\ufe0f")
"""Joiners, and the variation selectors between text and emoji; the other selectors can carry text unseen."""

_LINE_ENDS: Final = frozenset(("\r\n", *"\n\r\v\f\x1c\x1d\x1e\x85\u2028\u2029"))
"""The line ends of ``str.splitlines``."""
_UNSEEN: Final = frozenset("\u034f\u115f\u1160\u17b4\u17b5\u2800\u3164\uffa0")
"""Characters that show nothing although they count as printable."""
_SELECTORS: Final = ((0xFE00, 0xFE0F), (0xE0100, 0xE01EF), (0x180B, 0x180F))
_DOUBTFUL: Final = re.compile("\r\n|[^\n -~·—‘’“”…、。《》「」【】一-鿿！-～]")
"""Characters that need a closer check; nearly no character of a text does."""


def _spelt(character: str) -> str:
    return f"⟨U+{ord(character):04X}⟩"


def _unseen(character: str) -> bool:
    code = ord(character)
    hidden = character in _UNSEEN or any(low <= code <= high for low, high in _SELECTORS)
    return hidden or not character.isprintable()


def printable(text: str) -> str:
    """Return a name with all invisible characters but spaces escaped, line ends included."""
    return "".join(_spelt(each) if _unseen(each) and each not in EMOJI_MARKS else each for each in text)


def visible(text: str, *, kept: frozenset[str] = EMOJI_MARKS, spell: Callable[[str], str] = _spelt) -> str:
    r"""Return text with ``\n`` as line ends, spaces as blanks, and other invisible characters escaped.

    ``kept`` are unseen characters that stay; ``spell`` returns the replacement of the others.
    """

    def shown(found: re.Match[str]) -> str:
        character = found[0]
        if character in _LINE_ENDS:
            return "\n"
        if character.isspace():
            return " "
        return spell(character) if _unseen(character) and character not in kept else character

    return _DOUBTFUL.sub(shown, text)


def flat(text: str) -> str:
    """Return `visible` text with every run of blanks and line ends as one space."""
    return re.sub(r"\s+", " ", visible(text))


def one_line(text: str, limit: int) -> str:
    """Return `flat` text without blanks at its ends, cut to ``limit`` characters with an ellipsis."""
    looked_at = 4 * limit + 64  # bounds the work on a huge text
    line = flat(text[:looked_at]).strip()
    return line if len(line) <= limit and len(text) <= looked_at else f"{line[: limit - 1].rstrip()}…"
