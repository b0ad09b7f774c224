"""Half-width lower-case text: one form for what is written in many widths, cases, dashes and scripts."""

import re
from functools import cache
from importlib.resources import files
from typing import TYPE_CHECKING, Final

from memfin.scoring.patterns.expressions import late

if TYPE_CHECKING:
    from opencc import OpenCC

_HALF_WIDTH: Final[dict[int, str]] = {
    **{code: chr(code - 0xFEE0) for code in range(0xFF01, 0xFF5F)},
    **dict.fromkeys((0x00A0, 0x1680, 0x202F, 0x205F, 0x3000, *range(0x2000, 0x2010), 0x2060, 0xFEFF), " "),
    **dict.fromkeys(map(ord, "\t\v\f\u00ad\r"), " "),
    **dict.fromkeys(map(ord, "｜│┃"), "|"),
    **dict.fromkeys(map(ord, "‘’‛ʼ"), "'"),
    **dict.fromkeys(map(ord, "‐‑‒–—−﹣"), "-"),
    **dict.fromkeys(map(ord, "\u2028\u2029\u0085"), "\n"),
    ord("﹪"): "%",
    ord("｡"): "。",
    ord("İ"): "i",
    ord("您"): "你",
}
# Translating character by character costs 80 ns each for Chinese. So whole-string operations replace the
# punctuation that fills every Chinese text, and of all other marks those that there are.
_PLAIN: Final = {chr(code): plain for code, plain in _HALF_WIDTH.items()}
_FREQUENT: Final = tuple((mark, _PLAIN[mark]) for mark in "，：；！？（）％＋＜＞～—\u3000您")
_RARE: Final = late("[" + "".join(re.escape(mark) for mark in _PLAIN if mark not in dict(_FREQUENT)) + "]")
# What is written in traditional characters has some of these; texts in simplified ones have none.
_SIGNS: Final = (files("memfin") / "data" / "traditional.txt").read_text("utf-8").replace("\n", "")
_TRADITIONAL: Final = late(f"[{_SIGNS}]")


@cache
def _converter() -> "OpenCC":
    from opencc import OpenCC  # noqa: PLC0415 - its tables take up 4 MiB, and most runs need none

    return OpenCC("t2s")


def simplified(text: str) -> str:
    """Return a text in simplified characters, of the same length; one that is in them already as it is."""
    if _TRADITIONAL.search(text) is None:
        return text
    convert = _converter().convert
    try:
        converted: str = convert(text)
    except UnicodeEncodeError:  # half of a surrogate pair
        converted = ""
    if len(converted) == len(text):
        return converted
    # A few words change their length; character by character none does.
    return _TRADITIONAL.sub(lambda match: convert(match.group()), text)


def normalize(text: str) -> str:
    """Return the text half-width and in lower case, of the same length, so that offsets stay valid.

    Full-width letters, digits and punctuation become ASCII, unusual and invisible blanks a space,
    dashes a hyphen, line separators a line feed; traditional characters become simplified, the polite 您
    is 你. Chinese quotes and the full stop ``。`` stay.
    """
    text = simplified(text)
    for mark, plain in _FREQUENT:
        text = text.replace(mark, plain)
    for mark in set(_RARE.findall(text)):
        text = text.replace(mark, _PLAIN[mark])
    return text.lower()
