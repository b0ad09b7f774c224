"""Answers kept for texts that come again and again, such as the constraints of a dataset's clients."""

from collections.abc import Callable
from functools import lru_cache, wraps
from typing import Final, TypeVar

T = TypeVar("T")

MOST: Final = 1024
"""Answers that each function keeps."""

LONGEST: Final = 256
"""Characters of a text whose answer is kept; longer ones seldom recur and would fill the memory."""


def kept(function: Callable[[str], T]) -> Callable[[str], T]:
    """Let a pure function of a text answer the same short text only once; what it returns is shared."""
    answer = lru_cache(maxsize=MOST)(function)

    @wraps(function)
    def keeping(text: str) -> T:
        return answer(text) if len(text) <= LONGEST else function(text)

    return keeping
