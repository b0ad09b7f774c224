"""Patterns with a Chinese and an English half.

The regular expression engine skips quickly to places where a pattern can begin only when every
alternative begins with a literal. English alternatives begin with a word boundary, so one pattern for
both languages tries every alternative at every character. The halves are compiled apart, the English
one when Latin words first stand in a text.
"""

import re
import sys
from collections.abc import Iterator
from typing import Final

from memfin.scoring.patterns.expressions import apart, compile_pattern, late

_WORD: Final = late(r"[a-z][a-z']")


class Bilingual:
    """Two compiled halves that are searched as one; Chinese matches come first.

    Group 1 of a match is what matched (``memfin.scoring.patterns.expressions.compile_pattern``).
    """

    __slots__ = ("_compiled", "_english", "chinese", "pattern")

    def __init__(self, chinese: str, english: str) -> None:
        """Compile the Chinese half."""
        self.chinese: Final = compile_pattern(chinese)
        self._english: Final = english
        self._compiled: re.Pattern[str] | None = None
        self.pattern: Final = f"{chinese}|{english}"

    def search(self, text: str, low: int = 0, high: int = sys.maxsize) -> re.Match[str] | None:
        """Return the first match within ``text[low:high]``, or None."""
        found = self.chinese.search(text, low, high)
        if found is not None or _WORD.search(text, low, high) is None:
            return found
        return self._latin().search(text, low, high)

    def finditer(self, text: str, low: int = 0, high: int = sys.maxsize) -> Iterator[re.Match[str]]:
        """Yield the matches of both halves."""
        yield from apart(self.chinese, text, low, high)
        if _WORD.search(text, low, high) is not None:
            yield from apart(self._latin(), text, low, high)

    def _latin(self) -> re.Pattern[str]:
        if self._compiled is None:
            self._compiled = compile_pattern(self._english)
        return self._compiled
