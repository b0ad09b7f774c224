"""Normal form of text: half-width, lower case, simplified characters, one kind of dash and blank."""

import re
from functools import cache
from importlib.resources import files
from typing import TYPE_CHECKING, Final

if TYPE_CHECKING:
    from opencc import OpenCC

_FORMS: Final[dict[int, str]] = {
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
# str.translate costs 80 ns for every Chinese character. Whole-string replacements cost that only for the
# marks that occur: the frequent ones are always tried, the rare ones when a search finds any.
_BY_MARK: Final = {chr(code): form for code, form in _FORMS.items()}
_FREQUENT: Final = tuple((mark, _BY_MARK[mark]) for mark in "，：；！？（）％＋＜＞～—\u3000您")
_RARE: Final = re.compile(f"[{re.escape(''.join(_BY_MARK.keys() - dict(_FREQUENT)))}]")
_SURROGATE: Final = re.compile("[\ud800-\udfff]")


@cache
def _traditional() -> re.Pattern[str]:
    """Return a pattern of characters that only traditional texts use."""
    signs = (files("memfin") / "data" / "traditional.txt").read_text("utf-8").replace("\n", "")
    return re.compile(f"[{signs}]")


@cache
def _converter() -> "OpenCC":
    from opencc import OpenCC  # noqa: PLC0415 - its tables take up 4 MiB, and most runs need none

    return OpenCC("t2s")


def simplified(text: str) -> str:
    """Return the text in simplified characters, with the same length."""
    if _traditional().search(text) is None:
        return text
    convert = _converter().convert
    try:
        converted: str = convert(text)
    except UnicodeEncodeError:  # half of a surrogate pair
        converted = ""
    if len(converted) == len(text):
        return converted
    # Converting phrases changes the length of a few words; converting single characters never does.
    return _traditional().sub(lambda match: convert(match.group()), text)


def normalize(text: str) -> str:
    """Return the text half-width and in lower case, with the same length: offsets stay valid.

    Full-width letters, digits and punctuation become ASCII, unusual and invisible blanks a space, dashes a
    hyphen, line separators a line feed; traditional characters become simplified, the polite 您 becomes 你.
    Chinese quotation marks and the full stop ``。`` stay; half of a surrogate pair becomes U+FFFD.
    """
    text = _SURROGATE.sub("\ufffd", simplified(text))
    for mark, form in _FREQUENT:
        text = text.replace(mark, form)
    for mark in set(_RARE.findall(text)):
        text = text.replace(mark, _BY_MARK[mark])
    return text.lower()


def letters(text: str) -> str:
    """Return the letters and digits of a text in normal form, for comparing texts without their layout."""
    return "".join(filter(str.isalnum, normalize(text)))
