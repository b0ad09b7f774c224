"""Token estimates, and truncation of text to a budget at safe boundaries.

Tokenizers of current models take between half and one and a half times the estimate. Cuts never fall
inside an extended grapheme cluster (UAX #29), as far as the standard library has its properties.
"""

import re
import unicodedata
from collections.abc import Callable, Sequence
from typing import Final

from memfin.text.numbers import NUMERALS

_MARKS: Final = frozenset(("Mn", "Me", "Mc"))
_VIRAMA: Final = 9  # the combining class of signs that join the consonants around them
_PREPENDED: Final = "\u0600-\u0605\u06dd\u070f\u0890\u0891\u08e2\u0d4e\U000110bd\U000110cd"
_JOINERS: Final = "\u200c\u200d\u0e33\u0eb3\uff9e\uff9f"
_SKIN_TONES_AND_TAGS: Final = "\U0001f3fb-\U0001f3ff\U000e0020-\U000e007f"
_LEADING_JAMO: Final = "\u1100-\u115f\ua960-\ua97c"
_SYLLABLES: Final = "\uac00-\ud7a3"
_FOLLOWING_JAMO: Final = "\u1160-\u11ff\ud7b0-\ud7fb"
# Two code points of one character that their categories do not show
_PAIR: Final = re.compile(
    rf"[\u200d{_PREPENDED}].|.[{_JOINERS}{_SKIN_TONES_AND_TAGS}{_FOLLOWING_JAMO}]"
    rf"|[{_LEADING_JAMO}][{_LEADING_JAMO}{_SYLLABLES}]",
    re.DOTALL,
)
_FLAG_LETTERS: Final = re.compile("[\U0001f1e6-\U0001f1ff]+")


def boundary_before(text: str, at: int) -> int:
    """Return the last grapheme boundary at or before ``at``."""
    if at >= len(text):
        return len(text)
    while at > 0 and _joined(text, at):
        at -= 1
    return max(at, 0)


def _joined(text: str, at: int) -> bool:
    """Return True if the code points around a position belong to one grapheme."""
    left, right = text[at - 1], text[at]
    if left < "\u0300" and right < "\u0300":
        return left == "\r" and right == "\n"
    if unicodedata.category(right) in _MARKS or unicodedata.combining(left) == _VIRAMA:
        return True
    if _PAIR.fullmatch(text, at - 1, at + 1):
        return True
    # Two flag letters are one flag, counted from the first of their run.
    runs = _FLAG_LETTERS.finditer(text) if _FLAG_LETTERS.match(right) else ()
    return any(run.start() < at < run.end() and (at - run.start()) % 2 for run in runs)


OMITTED: Final = "…"  # stands for the omitted rest
_CHARACTERS_A_TOKEN: Final = 4
_NUMERALS: Final = f"0-9０-９{NUMERALS}几半"
_CLAUSE_END: Final = re.compile(r"[。！？；，、]|[.!?;,](?=\s)")
_BREAK: Final = re.compile(r"\s+")
_NUMBER_AT_END: Final = re.compile(rf"[{_NUMERALS}.,，．+–−¥￥$€£<>≤≥-]+\s*$")
_DIGIT: Final = re.compile(f"[{_NUMERALS}]")
_COMPARISON_AT_END: Final = re.compile(r"[<>][\s=+±¥￥$€£-]*$")


def estimate_tokens(text: str) -> int:
    """Estimate how many model tokens a text takes: one per Chinese character, one per four others."""
    size = len(text)
    # A Chinese character takes three bytes and an ASCII one a single byte, so the surplus counts them.
    wide = (len(text.encode("utf-8", "surrogatepass")) - size) // 2
    return wide + (size - wide + _CHARACTERS_A_TOKEN - 1) // _CHARACTERS_A_TOKEN


def fitted_text(text: str, budget: int, line: Callable[[str], str]) -> str:
    """Truncate a text so that its line, made by ``line``, stays within a budget of tokens.

    A cut text ends in `OMITTED`, behind a clause or word in the latter half of what fits if there is one, and
    never inside a number: "12" is not "12万". Empty when nothing fits.
    """
    if estimate_tokens(line(text)) < budget:
        return text
    low, high = 0, min(len(text), budget * _CHARACTERS_A_TOKEN)
    while low < high:
        middle = (low + high + 1) // 2
        if estimate_tokens(line(text[:middle] + OMITTED)) < budget:
            low = middle
        else:
            high = middle - 1
    kept = text[: safe_cut(text, low)].rstrip()
    return kept + OMITTED if kept else ""


def fitted_items(items: Sequence[str], budget: int, line: Callable[[Sequence[str]], str]) -> list[str]:
    """Return the first items that fit a budget, then `OMITTED`; the first one may be cut."""
    if not items or estimate_tokens(line(items)) < budget:
        return list(items)
    for count in range(len(items) - 1, 0, -1):
        kept = [*items[:count], OMITTED]
        if estimate_tokens(line(kept)) < budget:
            return kept
    first = fitted_text(items[0], budget, lambda text: line([text]))
    return [first] if first else []


def safe_cut(text: str, max_length: int) -> int:
    """Return the position to cut a text at so that at most ``max_length`` code points stay."""
    if max_length >= len(text):
        return len(text)
    head = text[:max_length]
    if end := _late_end(_CLAUSE_END, head):
        return boundary_before(text, end)
    head = head[: _late_end(_BREAK, head) or len(head)]
    if (number := _NUMBER_AT_END.search(head)) and _DIGIT.search(number.group()):
        head = head[: number.start()]
    if comparison := _COMPARISON_AT_END.search(head):  # with a number that is cut off
        head = head[: comparison.start()]
    return boundary_before(text, len(head))


def _late_end(pattern: re.Pattern[str], head: str) -> int:
    """Return the end of the pattern's last match if it is in the latter half, else 0."""
    return max((found.end() for found in pattern.finditer(head) if 2 * found.end() > len(head)), default=0)
