"""Half-width lower-case text: one form for what is written in many widths, cases and dashes."""

import re
from typing import Final

from memfin.scoring.patterns import late

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


def normalize(text: str) -> str:
    """Return the text half-width and in lower case, of the same length, so that offsets stay valid.

    Full-width letters, digits and punctuation become ASCII, unusual and invisible blanks a space,
    dashes a hyphen, line separators a line feed; the polite 您 is 你. Chinese quotes and the full stop
    ``。`` stay.
    """
    for mark, plain in _FREQUENT:
        text = text.replace(mark, plain)
    for mark in set(_RARE.findall(text)):
        text = text.replace(mark, _PLAIN[mark])
    return text.lower()
