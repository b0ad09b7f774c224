"""Numbers in English words: their patterns and their values."""

import re
from decimal import Decimal
from typing import Final

_UP_TO_NINE: Final = ("zero", "one", "two", "three", "four", "five", "six", "seven", "eight", "nine")
_TEENS: Final = (
    *("ten", "eleven", "twelve", "thirteen", "fourteen"),
    *("fifteen", "sixteen", "seventeen", "eighteen", "nineteen"),
)
_TENS: Final = ("twenty", "thirty", "forty", "fifty", "sixty", "seventy", "eighty", "ninety")
_VALUES: Final = {word: value for value, word in enumerate((*_UP_TO_NINE, *_TEENS))} | {
    word: 10 * place for place, word in enumerate(_TENS, 2)
}
_SCALES: Final = {"hundred": 100, "thousand": 1000, "million": 10**6, "billion": 10**9}
_WORD: Final = "|".join((*sorted(_VALUES, key=len, reverse=True), *_SCALES))

BELOW_HUNDRED: Final = (
    rf"(?:(?:{'|'.join(_TENS)})(?:[- ](?:{'|'.join(_UP_TO_NINE[1:])}))?|{'|'.join((*_TEENS, *_UP_TO_NINE))})"
)
"""A pattern, without groups, of a number from zero to ninety-nine; ends and case are for its user."""

ENGLISH_NUMBER: Final = (
    rf"(?<![A-Za-z])(?:\d[\d,]*(?:\.\d+)?\s(?:hundred|thousand|million|billion)|"
    rf"(?:a\s(?=hundred|thousand|million))?(?:{_WORD})"
    rf"(?:(?:\s|-|\sand\s)(?:{_WORD}))*)(?![A-Za-z])"
)
"""A pattern, without groups, of a number in English words, or in digits with such a scale; ignores case."""


def english_number(text: str) -> float | None:
    """Return the value of a number that one of the patterns found, or None when it has none."""
    total, current = Decimal(0), Decimal(0)
    counted = False
    for word in re.split(r"[\s-]+", text.lower().replace(",", "")):
        scale = _SCALES.get(word, 0)
        if word == "hundred":
            current = (current or Decimal(1)) * scale
        elif scale:
            total, current = total + (current or Decimal(1)) * scale, Decimal(0)
        elif word in _VALUES:
            current += _VALUES[word]
        elif word[:1].isdigit():
            current += Decimal(word)
        elif word in ("a", "and"):
            continue
        else:
            return None
        counted = True
    return float(total + current) if counted else None
