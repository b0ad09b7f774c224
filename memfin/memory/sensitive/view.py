"""Text as the rules read it: one form for every width, digit, dash and blank, with the way back."""

import re
import unicodedata
from collections.abc import Sequence
from functools import lru_cache
from typing import Final

_KEPT_CONTROLS: Final = frozenset("\n\t")
_INVISIBLE_LETTERS: Final = frozenset("ᅟᅠㅤﾠ⠀")
"""Fillers that are letters or symbols by category and show nothing."""

_NUMERALS: Final = str.maketrans("〇零一二三四五六七八九幺壹贰叁肆伍陆柒捌玖", "001234567891123456789")
_SPELT_OUT: Final = re.compile(r"[〇零一二三四五六七八九幺壹贰叁肆伍陆柒捌玖0-9]{11,}")
"""So many numerals in a row are read digit by digit."""


_LIKE_DIGITS: Final = str.maketrans("lIoO", "1100")
_MISSPELT: Final = re.compile(r"(?<![0-9A-Za-z_])[0-9lIoO](?:[ -]?[0-9lIoO]){10,}(?=[Xx]?(?![0-9A-Za-z_]))")
"""What may be a number some of whose digits are letters that look like them."""

_FEWEST_DIGITS: Final = 4
_ALIKE: Final = str.maketrans(
    "АВЕКМНОРСТУХЅІЈаеорсухѕіјΑΒΕΖΗΙΚΜΝΟΡΤΥΧοχ", "ABEKMHOPCTYXSIJaeopcyxsijABEZHIKMNOPTYXox"
)
"""Cyrillic and Greek letters that look like Latin ones."""


class View:
    """Normalized text; character ``i`` of it stands at ``starts[i]`` of the text that was given.

    Widths and styles of letters are unified (NFKC), letters of other scripts that look like Latin ones
    are Latin, digits of every script are ASCII digits, dashes are
    ``-``, blanks are a space and line ends a line feed; what shows nothing (zero-width characters,
    variation selectors, combining marks, control characters) is gone.

    Attributes:
        text: the normalized text.
        lower: the same in lower case, places kept.
        starts: where its characters stand.
        label_ends: where labels end, by topic, as far as that was asked for.
    """

    __slots__ = ("label_ends", "lower", "starts", "text")

    def __init__(self, text: str, starts: Sequence[int]) -> None:
        self.text = text
        self.lower = _lowered(text)
        self.starts = starts
        self.label_ends: dict[str, list[int]] = {}

    def span(self, start: int, end: int) -> tuple[int, int]:
        """Return where a span of the view stands in the text that was given, the end exclusive."""
        return self.starts[start], self.starts[end - 1] + 1


def view_of(text: str) -> View:
    """Return the normalized text."""
    pieces: list[str] = []
    starts: list[int] = []
    for at, character in enumerate(text.replace("\r\n", "\u200b\n")):
        form = character if " " <= character <= "~" else _form(character)
        pieces.append(form)
        starts.extend([at] * len(form))
    normalized = "".join(pieces)
    return View(normalized, starts)


def spelt_out(view: View) -> View:
    """Return the view with long runs of numerals as digits: 一三八… as 138…, l38O… as 1380…."""
    text = _SPELT_OUT.sub(lambda match: match[0].translate(_NUMERALS), view.text)
    text = _MISSPELT.sub(_as_digits, text)
    return view if text == view.text else View(text, view.starts)


def _as_digits(match: re.Match[str]) -> str:
    """Return a run with letters for digits as digits; one with hardly a digit is left as it is."""
    digits = sum(map(str.isdigit, match[0]))
    return match[0].translate(_LIKE_DIGITS) if digits >= _FEWEST_DIGITS else match[0]


def without_breaks(view: View) -> View | None:
    """Return the view with line breaks inside words taken out, or None when there are none."""
    kept: list[int] = []
    last = 0
    for match in _BREAK.finditer(view.text):
        kept.extend(range(last, match.start()))
        last = match.end()
    if not last:
        return None
    kept.extend(range(last, len(view.text)))
    return View("".join(view.text[at] for at in kept), [view.starts[at] for at in kept])


_BREAK: Final = re.compile(r"(?<=[!-~])[ \t]*\n\s*(?=[!-~])")


def _lowered(text: str) -> str:
    """Return the text in lower case, character by character, so that places stay the same."""
    lowered = text.lower()
    if len(lowered) == len(text):
        return lowered
    return "".join(low if len(low := each.lower()) == 1 else each for each in text)


@lru_cache(maxsize=65536)
def _form(character: str) -> str:
    if character in _KEPT_CONTROLS:
        return character
    if character == "\r":
        return "\n"
    if character in _INVISIBLE_LETTERS:
        return ""
    return "".join(map(_plain, unicodedata.normalize("NFKC", character).translate(_ALIKE)))


def _plain(character: str) -> str:
    category = unicodedata.category(character)
    if category in {"Cf", "Cc", "Cs", "Mn", "Me"}:
        return ""
    if category == "Nd":
        return str(unicodedata.decimal(character))
    if category == "Pd" or character == "−":
        return "-"
    if category == "Zs":
        return " "
    if category in {"Zl", "Zp"}:
        return "\n"
    return character
