"""Normal forms of text: *plain* for reading values, *folded* for finding quotes.

Plain text is half-width (NFKC) and without the blanks that stand beside Chinese characters; punctuation
stays, as it separates numbers. Folded text is lower case besides and has no punctuation: only where
two words or two numbers would grow together is a single blank left between them. Folding keeps the values
of numbers: ``2,000`` is ``2000``, ``4.2`` keeps its point, and ``1、2000元`` stays two numbers.
"""

import re
import tomllib
import unicodedata
from collections.abc import Iterator, Mapping, Sequence
from functools import cache
from pathlib import Path
from typing import Any, Final

from memfin.contracts import Language
from memfin.text.numbers import NUMERALS

_DATA: Final = Path(__file__).parents[2] / "data" / "rag"
_CJK_FIRST: Final = "\u2e80"

_ENUMERATING_COMMA: Final = re.compile("(?<=[0-9])，(?=[0-9])")
_INVISIBLE: Final = re.compile("[\u00ad\u200b-\u200f\u2060\ufeff]")
_BLANKS: Final = re.compile(f"(?<=[{_CJK_FIRST}-\U0003ffff])\\s+|(?<!\\s)\\s++(?=[{_CJK_FIRST}-\U0003ffff])")
_GAP: Final = re.compile(r"(?:[^\w%‰$€£¥<>=]+|_+)+")
_GROUP: Final = re.compile(r"\d{3}(?!\d)")
_BEFORE_GROUP: Final = re.compile(r"(?<!\d)(?:\d{1,3}|\d{1,3}(?:,\d{3})+)$")
_LONGEST_GROUPED: Final = 24
_ELLIPSIS: Final = re.compile(r"(?:\.\s?){3,}|…+|[\[【(（]\s?(?:\.{3}|…+|略|省略)\s?[\]】)）]")
_ASIDE_LIMIT: Final = 400  # characters that an ellipsis in a quote may stand for, in folded text
_MARKUP: Final = " \t\r\n\v\f*_`"
_SCALES: Final = frozenset("百千万亿佰仟萬億")
_NUMERAL_SET: Final = frozenset(NUMERALS)


@cache
def tables() -> dict[str, Any]:
    """Return the shipped patterns and words."""
    files = (_DATA / name for name in ("patterns.toml", "names.toml"))
    return {name: table for file in files for name, table in tomllib.loads(file.read_text("utf-8")).items()}


class _Patterns(dict[str, re.Pattern[str]]):
    """Patterns by name, each compiled when it is first used."""

    def __init__(self, texts: Mapping[str, Sequence[str]], fragments: Mapping[str, str]) -> None:
        super().__init__()
        self._texts, self._fragments = texts, fragments

    def __missing__(self, name: str) -> re.Pattern[str]:
        pattern = self[name] = re.compile(self._filled("|".join(self._texts[name])))
        return pattern

    def _filled(self, text: str) -> str:
        for name, fragment in self._fragments.items():
            if f"<{name}>" in text:
                text = text.replace(f"<{name}>", self._filled(fragment))
        return text


def load_patterns(table: str, **fragments: str) -> Mapping[str, re.Pattern[str]]:
    """Return a table of the shipped patterns, with ``<name>`` replaced by a fragment."""
    data = tables()[table]
    shipped = {name: "|".join(each) for name, each in data["fragments"].items()}
    return _Patterns(data["patterns"], fragments | shipped | {"numerals": NUMERALS})


def widths(text: str) -> str:
    """Return the text in half-width forms (NFKC), without invisible characters.

    A full-width comma between half-width digits enumerates (100，200); between full-width ones it groups
    thousands, as its half-width form does.
    """
    if "，" in text:
        text = _ENUMERATING_COMMA.sub("、", text)
    return _INVISIBLE.sub("", unicodedata.normalize("NFKC", text))


def plain(text: str) -> str:
    """Return the text in half-width forms and without blanks and line breaks beside Chinese characters."""
    return _BLANKS.sub("", widths(text))


def fold(text: str) -> str:
    """Fold a text for comparing quotes, names and ``must_include``; it may be empty."""
    text = widths(text).casefold()
    return _GAP.sub(lambda gap: _joint(text, gap.start(), gap.end()), text)


def _joint(text: str, start: int, end: int) -> str:
    """Return the normal form of the gap ``text[start:end]`` between words."""
    if start == 0 or end == len(text):
        return ""
    left, right, gap = text[start - 1], text[end], text[start:end]
    if left < _CJK_FIRST and right < _CJK_FIRST:
        if left.isdigit() and right.isdigit():
            if gap == ".":
                return gap
            if gap == "," and _groups(text, start):
                return ""
        elif gap in ("'", "’"):
            return ""
        return " "
    numbers = (left.isdigit() or left in _NUMERAL_SET) and (right.isdigit() or right in _NUMERAL_SET)
    return " " if numbers and gap.strip(_MARKUP) else ""


def _groups(text: str, comma: int) -> bool:
    """Return True if the comma groups the thousands of a number."""
    before = text[max(0, comma - _LONGEST_GROUPED) : comma]
    return bool(_GROUP.match(text, comma + 1) and _BEFORE_GROUP.search(before))


def occurrences(needle: str, text: str, start: int = 0, end: int | None = None) -> Iterator[tuple[int, int]]:
    """Yield the spans of the needle in ``text[start:end]``, both folded.

    A needle that begins or ends with a number matches at that number's boundary only (spec section 9):
    2000元 is neither in 12000元 nor in 0.2000元, 2000 not in 2000万, 三万元 not in 十三万元.
    """
    found = text.find(needle, start, end) if needle else -1
    while found >= 0:
        after = found + len(needle)
        if _begins(needle, text, found) and _ends(needle, text, after):
            yield found, after
        found = text.find(needle, found + 1, end)


def contains(needle: str, text: str) -> bool:
    """Return True if the folded text contains the folded needle, never inside a number."""
    return next(occurrences(needle, text), None) is not None


def _begins(needle: str, text: str, start: int) -> bool:
    first, before = needle[0], text[max(0, start - 1) : start]
    if first.isdigit():
        return not (before.isdigit() or (before == "." and start > 1 and text[start - 2].isdigit()))
    return first not in _NUMERAL_SET or before not in _NUMERAL_SET


def _ends(needle: str, text: str, end: int) -> bool:
    last, after = needle[-1], text[end : end + 1]
    if last.isdigit():
        fraction = after == "." and text[end + 1 : end + 2].isdigit()
        return not (after.isdigit() or fraction or after in _SCALES)
    return last not in _NUMERAL_SET or after not in _NUMERAL_SET


def quote_parts(quote: str) -> tuple[str, ...]:
    """Return the folded parts of a quote between its ellipses; a quote without words has none."""
    return tuple(part for piece in _ELLIPSIS.split(quote) if (part := fold(piece)))


def find_quote(
    parts: tuple[str, ...], text: str, start: int = 0, end: int | None = None
) -> Iterator[tuple[int, int]]:
    """Yield the spans of the folded text that hold the parts of a quote one after the other.

    Words left out between two parts may be up to 400 characters long. For every place of the first part
    the nearest places of the others are taken.
    """
    if not parts:
        return
    stop = len(text) if end is None else end
    for first, after in occurrences(parts[0], text, start, stop):
        reach = after
        for part in parts[1:]:
            spot = next(occurrences(part, text, reach, min(stop, reach + _ASIDE_LIMIT + len(part))), None)
            if spot is None:
                break
            reach = spot[1]
        else:
            yield first, reach


def language_of(text: str) -> Language:
    """Return ``zh`` for a text with a Chinese character, else ``en``."""
    return "zh" if any("\u3400" <= mark <= "\u9fff" for mark in text) else "en"
