"""Numbers as people write them: digits, Chinese numerals plain and formal, mixtures, English words.

English words are read by `memfin.scoring.numbers.english`, the sections of Chinese numbers below 万 by
`memfin.scoring.numbers.quantities`; here stand what money
and records need besides: 万 and 亿 with fractions (4.2万), formal numerals (壹万贰仟), spoken short forms
(四万二 is 42000), digit by digit (一三八 ...), and grouped thousands. Values are exact until the end.
"""

import re
from decimal import Decimal
from typing import Final

from memfin.scoring.numbers.chinese import chinese_number
from memfin.scoring.numbers.english import english_number

_PLAIN: Final = str.maketrans(
    "壹贰貳叁參肆伍陆陸柒捌玖拾佰仟萬億圆○幺兩", "一二二三三四五六六七八九十百千万亿元〇一两"
)
_DIGITS: Final = {mark: value for value, mark in enumerate("〇一二三四五六七八九")} | {"零": 0, "两": 2}
_DIGIT_MARKS: Final = frozenset(_DIGITS)
_SMALL: Final = {"十": 10, "百": 100, "千": 1000}
_BIG: Final = (("亿", 10**8), ("万", 10**4))
_SHORT: Final = re.compile(r"([百千万亿])([一二三四五六七八九1-9])$")
_NEXT_BELOW: Final = {"百": "十", "千": "百", "万": "千", "亿": "千万"}
_MIXED: Final = re.compile(r"(\d+(?:\.\d+)?)([十百千]?)")

_DIGITAL: Final = r"\d{1,3}(?:,\d{3})+(?!\d)(?:\.\d+)?|\d+(?:\.\d+)?"
_CN: Final = "零〇○一二两兩三四五六七八九十百千万亿壹贰貳叁參肆伍陆陸柒捌玖拾佰仟萬億幺廿卅"
_CN_START: Final = "零〇○一二两兩三四五六七八九十壹贰貳叁參肆伍陆陸柒捌玖拾幺廿卅"
NUMBER: Final = (
    rf"(?:(?:{_DIGITAL})(?:[十百千万亿拾佰仟萬億][{_CN}\d]*+|\s?[kKwW](?![A-Za-z0-9]))?+"
    rf"|半[百千万亿]++(?!分)|[{_CN_START}][{_CN}]*+(?:点[零〇一二三四五六七八九]+[万亿]?)?)"
)
"""A pattern, without groups, of a number in digits, Chinese numerals or both; for `plain` text."""

_NEIGHBOURS: Final = re.compile(
    r"(?<![\d.,〇零一二两三四五六七八九])([一二两三四五六七八])([二三四五六七八九])(?=[十百千万亿]|$)"
)
_FORMAL: Final = re.compile("[壹贰貳叁參肆伍陆陸柒捌玖拾]")
_LONGEST: Final = 60
"""Characters of the longest number; what is longer is none."""


def _exact(text: str) -> Decimal | None:
    """Return the value of a section below 万."""
    if not text:
        return Decimal(0)
    mixed = _MIXED.match(text)
    if mixed is None:
        value = chinese_number(text)
        return None if value is None else Decimal(str(value))
    first = Decimal(mixed.group(1)) * _SMALL.get(mixed.group(2), 1)
    rest = text[mixed.end() :]
    if not rest:
        return first
    if not mixed.group(2):
        return None
    after = _exact(rest.lstrip("零〇"))
    return None if after is None else first + after


def _complete(text: str) -> str:
    """Return a number with its spoken short form written out: 四万二 as 四万二千."""
    return _SHORT.sub(lambda end: end.group() + _NEXT_BELOW[end.group(1)], text)


def informal(text: str) -> str:
    """Return the text with formal numerals in their plain shapes, as long as it was."""
    return text.translate(_PLAIN) if _FORMAL.search(text) else text


def digit_string(text: str) -> str | None:
    """Return the digits of a number that is read out digit by digit (一三八零), or None."""
    plain = text.translate(_PLAIN)
    return "".join(str(_DIGITS[mark]) for mark in plain) if plain and _DIGIT_MARKS.issuperset(plain) else None


def number_value(text: str) -> float | None:
    """Return the value of a number that `NUMBER` or the pattern of English numbers found, or None.

    A row of Chinese digits is read digit by digit: 二〇二〇 is 2020.
    """
    text = text.translate(_PLAIN).replace(",", "").replace("廿", "二十").replace("卅", "三十").strip()
    if not text or len(text) > _LONGEST:
        return None
    if text[-1] in "kKwW":
        return float(Decimal(text[:-1].strip()) * (1000 if text[-1] in "kK" else 10000))
    if text.isascii():
        return float(text) if text[-1].isdigit() and " " not in text else english_number(text)
    digits = digit_string(text)
    if digits is not None:
        return float(digits)
    if text[0] == "半":
        whole = _big("一" + text[1:], 0)
        return None if whole is None else float(whole) / 2
    value = _big(_complete(text), 0)
    return None if value is None else float(value)


def number_values(text: str) -> tuple[float, ...]:
    """Return the value of a number, or both ends of a range that two digits in it name (三四万)."""
    pair = _NEIGHBOURS.search(text.translate(_PLAIN))
    if pair is None or _DIGITS[pair[1]] >= _DIGITS[pair[2]]:
        found = [number_value(text)]
    else:
        found = [number_value(text[: pair.start()] + digit + text[pair.end() :]) for digit in pair.groups()]
    return tuple(value for value in found if value is not None)


def _big(text: str, level: int) -> Decimal | None:
    """Return the value of a number from its greatest scale down."""
    if level == len(_BIG):
        return _exact(text)
    scale, factor = _BIG[level]
    head, mark, tail = text.rpartition(scale)
    if not mark:
        return _big(text, level + 1)
    above = _big(head, level) if head else None
    below = _big(tail, level + 1)
    return None if above is None or below is None else above * factor + below
