"""Numerals in Chinese and English text.

Digits with grouped thousands, Chinese numerals plain and formal (壹万贰仟), mixtures with 万 and 亿
(4.2万), spoken short forms (四万二 is 42000), numbers read out digit by digit (二〇二〇), and English words.
Values are computed as decimals and converted at the end, so that 4.2万 is exactly 42000.

`NUMBER` and `ENGLISH_NUMBER` are patterns without groups, to be embedded in other patterns.
"""

import re
from decimal import Decimal
from typing import Final

_ONES: Final = "zero|one|two|three|four|five|six|seven|eight|nine"
_TEENS: Final = "ten|eleven|twelve|thirteen|fourteen|fifteen|sixteen|seventeen|eighteen|nineteen"
_TENS: Final = "twenty|thirty|forty|fifty|sixty|seventy|eighty|ninety"
_SCALES: Final = {"hundred": 100, "thousand": 1000, "million": 10**6, "billion": 10**9}
_VALUES: Final = {"half": Decimal("0.5"), "couple": Decimal(2)} | {
    **{word: Decimal(value) for value, word in enumerate(f"{_ONES}|{_TEENS}".split("|"))},
    **{word: Decimal(10 * place) for place, word in enumerate(_TENS.split("|"), 2)},
}
ONE_TO_NINE: Final = _ONES.removeprefix("zero|")
BELOW_HUNDRED: Final = rf"(?:(?:{_TENS})(?:[- ](?:{ONE_TO_NINE}))?|{_TEENS}|{_ONES})"
ENGLISH_SCALE: Final = "|".join(_SCALES)
"""Patterns of English number words without their boundaries. Case is to be ignored."""

CHINESE_DIGITS: Final = "零〇○一二两兩三四五六七八九幺壹贰貳叁參肆伍陆陸柒捌玖"
NUMERALS: Final = f"{CHINESE_DIGITS}十百千万亿拾佰仟萬億廿卅"
"""Characters that Chinese numbers are written with, in their plain and their formal shapes."""
_DIGITS: Final = r"\d{1,3}(?:,\d{3}(?!\d))++(?:\.\d++)?|\d++(?:\.\d++)?"
NUMBER: Final = (
    rf"(?:(?:{_DIGITS})(?:[十百千万亿拾佰仟萬億][{NUMERALS}\d]*+|\s?[kKwW](?![A-Za-z0-9]))?+"
    rf"|半[百千万亿]++(?!分)|[{CHINESE_DIGITS}十拾廿卅][{NUMERALS}]*+(?:点[零〇一二三四五六七八九]+[万亿]?)?)"
)
"""A number in digits, Chinese numerals or both. Text has to be half-width."""

_WORD: Final = f"{_TENS}|{_TEENS}|{_ONES}|{ENGLISH_SCALE}"
ENGLISH_NUMBER: Final = (
    rf"(?<![A-Za-z])(?:(?<!\d)\d{{1,15}}(?:,\d{{3}}){{0,5}}(?:\.\d{{1,9}})?\s(?:{ENGLISH_SCALE})"
    rf"|(?:a\s(?={ENGLISH_SCALE}))?(?:{_WORD})(?:(?:\s|-|\sand\s)(?:{_WORD})){{0,15}})(?![A-Za-z])"
)
"""A number in English words, or in digits with an English scale (1.5 million). Case is to be ignored."""

_PLAIN: Final = str.maketrans(
    "壹贰貳叁參肆伍陆陸柒捌玖拾佰仟萬億圆○幺兩０１２３４５６７８９．，",
    "一二二三三四五六六七八九十百千万亿元〇一两0123456789.,",
)
_UNIFORM: Final = _PLAIN | {ord("廿"): "二十", ord("卅"): "三十", **dict.fromkeys(map(ord, ",， "))}
_FORMAL: Final = re.compile("[壹贰貳叁參肆伍陆陸柒捌玖拾]")
_DIGIT_VALUES: Final = {mark: value for value, mark in enumerate("〇一二三四五六七八九")} | {"零": 0, "两": 2}

_DIGIT: Final = r"\d++(?:\.\d++)?|[一二两三四五六七八九]"
_SECTION: Final = re.compile(
    rf"(?:({_DIGIT}|)千)?[零〇]*(?:({_DIGIT}|)百)?[零〇]*(?:({_DIGIT}|)十)?[零〇]*({_DIGIT})?"
)
"""A number below 万. An empty group means one (十五), a group without a match zero."""

_SHORT_FORM: Final = re.compile("([百千万亿])([一二三四五六七八九1-9])$")
_NEXT_BELOW: Final = {"百": "十", "千": "百", "万": "千", "亿": "千万"}
_DECIMAL: Final = re.compile(r"\d+(?:\.\d+)?")
_ABBREVIATIONS: Final = {"k": 1000, "w": 10_000}
_NEIGHBOURS: Final = re.compile(
    r"(?<![\d.,〇零一二两三四五六七八九])([一二两三四五六七八])([二两三四五六七八九])(?=[十百千万亿]|$)"
)
LONGEST: Final = 60
"""Characters of the longest numeral that has a value."""


def informal(text: str) -> str:
    """Return the text with formal numerals as plain ones; offsets stay valid."""
    return text.translate(_PLAIN) if _FORMAL.search(text) else text


def digit_string(text: str) -> str | None:
    """Return the digits of a number written digit by digit (一三八零), or None."""
    values = [_DIGIT_VALUES.get(mark) for mark in text.translate(_PLAIN)]
    return None if None in values or not values else "".join(map(str, values))


def number_value(text: str) -> float | None:
    """Return the value of a number in any notation, or None."""
    if not text.isascii():
        return chinese_number(text)
    plain = text.replace(",", "").strip().lower()
    number = plain.rstrip("kw ") if plain[-1:] in _ABBREVIATIONS else plain
    if len(plain) > LONGEST:
        return None
    if not _DECIMAL.fullmatch(number):
        return english_number(plain)
    return float(Decimal(number) * _ABBREVIATIONS.get(plain[-1], 1))


def number_values(text: str) -> tuple[float, ...]:
    """Return the value of a number, or both ends of a range of two adjacent digits (三四万)."""
    pair = _NEIGHBOURS.search(text.translate(_PLAIN))
    if pair is None or _DIGIT_VALUES[pair[1]] >= _DIGIT_VALUES[pair[2]]:
        found = [number_value(text)]
    else:
        found = [number_value(text[: pair.start()] + digit + text[pair.end() :]) for digit in pair.groups()]
    return tuple(value for value in found if value is not None)


def chinese_number(text: str) -> float | None:
    """Return the value of a number in digits, Chinese numerals (十五, 二点五, 二〇二〇) or both, or None."""
    plain = text.translate(_UNIFORM)
    if not plain or len(plain) > LONGEST:
        return None
    if (digits := digit_string(plain)) is not None:
        return float(digits)
    if plain[0] == "半":
        whole = chinese_number("一" + plain[1:])
        return None if whole is None else whole / 2
    value = _scaled(_SHORT_FORM.sub(lambda end: end.group() + _NEXT_BELOW[end[1]], plain))
    return None if value is None else float(value)


def _scaled(text: str) -> Decimal | None:
    """Return the value of a number, split at its greatest scale."""
    for scale, factor in (("亿", 10**8), ("万", 10**4)):
        head, mark, tail = text.rpartition(scale)
        if mark:
            above = _scaled(head) if head else Decimal(1)
            below = _scaled(tail)
            return None if above is None or below is None else above * factor + below
    return _section(text)


def _section(text: str) -> Decimal | None:
    """Return the value of a number below 万."""
    whole, point, decimals = text.partition("点")
    match = _SECTION.fullmatch(whole)
    digits = digit_string(decimals) if point else "0"
    if match is None or digits is None:
        return None
    total = Decimal(f"0.{digits}")
    for power, digit in zip((1000, 100, 10, 1), match.groups(), strict=True):
        if digit is not None:
            total += power * (Decimal(_DIGIT_VALUES.get(digit, digit)) if digit else 1)
    return total


def english_number(text: str) -> float | None:
    """Return the value of a number in English words (forty-two thousand, two and a half), or None."""
    total, current, counted = Decimal(0), Decimal(0), False
    for word in re.split(r"[\s-]+", text.lower().replace(",", "")):
        if word in ("a", "an", "and", "of"):
            continue
        if word == "hundred":
            current = (current or Decimal(1)) * _SCALES[word]
        elif word in _SCALES:
            total, current = total + (current or Decimal(1)) * _SCALES[word], Decimal(0)
        elif word in _VALUES or _DECIMAL.fullmatch(word):
            current += _VALUES[word] if word in _VALUES else Decimal(word)
        else:
            return None
        counted = True
    return float(total + current) if counted else None
