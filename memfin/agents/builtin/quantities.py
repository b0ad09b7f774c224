"""Numbers as clients say them, Chinese and English: shares, amounts of money, durations.

The ``*_PATTERN`` strings are regular expressions without groups, so that they can stand inside others.
"""

import re
from collections.abc import Iterator
from typing import Final, NamedTuple

_DIGITS: Final = dict(zip("零一二三四五六七八九", range(10), strict=True)) | {"两": 2, "〇": 0}
_UNITS: Final = {"十": 10, "百": 100, "千": 1000}
_ENGLISH: Final = {
    word: float(value)
    for value, words in (
        (0.5, "half|half a|half an"),
        (1, "a|an|one"),
        (2, "two|a couple of|couple of"),
        (3, "three|a few|few|several"),
        (4, "four"),
        (5, "five"),
        (6, "six"),
        (7, "seven"),
        (8, "eight"),
        (9, "nine"),
        (10, "ten"),
        (12, "twelve"),
        (15, "fifteen"),
        (18, "eighteen"),
        (20, "twenty"),
        (24, "twenty-four"),
        (25, "twenty-five"),
        (30, "thirty"),
        (40, "forty"),
        (50, "fifty"),
        (60, "sixty"),
    )
    for word in words.split("|")
}
_ENGLISH_NUMBER: Final = "|".join(sorted(_ENGLISH, key=len, reverse=True))
_NUMBER: Final = r"\d{1,9}(?:\.\d{1,9})?"
_TO: Final = r"\s?(?:-|~|～|–|—|到|至|to)\s?"
_HAN_NUMBER: Final = "[零一二两三四五六七八九十百]+"

PERCENT_PATTERN: Final = (
    rf"(?:(?:{_NUMBER}\s?%?{_TO})?{_NUMBER}\s?(?:%|percent\b|per cent\b)"
    rf"|(?:{_ENGLISH_NUMBER})\s(?:percent|per cent)\b"
    rf"|百分之(?:{_NUMBER}|{_HAN_NUMBER}(?!点))|[一二两三四五六七八九]成半?)"
)
PERCENT_SIGNS: Final = ("%", "percent", "per cent", "百分之", "成")
"""Every text that `PERCENT_PATTERN` matches holds one of these."""

COUNT_PATTERN: Final = rf"(?:{_NUMBER}|[一二两三四五六七八九十百半]+|\b(?:{_ENGLISH_NUMBER})\b)"
MONEY_PATTERN: Final = (
    r"(?:[$€£]\s?\d[\d,]{0,17}(?:\.\d{1,9})?(?:\s?(?:k|m|thousand|million)\b)?"
    r"|\d[\d,]{0,17}(?:\.\d{1,9})?\s?(?:k|thousand|million)?\s?(?:dollars|usd|euros?|pounds|yuan|rmb|cny)\b"
    r"|\d+k\b"
    r"|\d[\d,]{0,17}(?:\.\d{1,9})?\s?[万亿千](?:元|块钱?|人民币)?|\d[\d,]{0,17}(?:\.\d{1,9})?\s?(?:元|块钱?)"
    r"|[一二两三四五六七八九十百]+[万亿](?:元|块钱?)?)"
)
_AMOUNT: Final = re.compile(
    r"(\d[\d,]{0,17}(?:\.\d{1,9})?|[零一二两三四五六七八九十百]+)\s?(万|亿|千|k|m|thousand|million)?",
    re.IGNORECASE,
)
_SCALE: Final = {"万": 1e4, "亿": 1e8, "千": 1e3, "k": 1e3, "m": 1e6, "thousand": 1e3, "million": 1e6}

_MONTHS: Final = {
    "年": 12.0, "月": 1.0, "季度": 3.0, "周": 12 / 52, "星期": 12 / 52, "天": 12 / 365,
    "year": 12.0, "month": 1.0, "week": 12 / 52, "day": 12 / 365, "decade": 120.0,
}  # fmt: skip
_HAN_COUNT: Final = rf"{_NUMBER}|[一二两三四五六七八九十百]+|半|几|十几"
_HAN_UNIT: Final = "年|个月|个季度|个星期|星期|周|天"
_DURATION: Final = re.compile(
    rf"(?:(?P<low>{_HAN_COUNT})\s?(?P<low_unit>{_HAN_UNIT})?{_TO})?"
    rf"(?P<high>{_HAN_COUNT})\s?(?P<unit>(?:个半)?月|{_HAN_UNIT})(?P<half>半)?"
    rf"|\b(?:(?P<en_low>{_NUMBER}|{_ENGLISH_NUMBER})\s?(?P<en_low_unit>years?|months?)?(?:{_TO}|\sor\s))?"
    rf"(?<![%\d.] )(?P<en_high>{_NUMBER}|{_ENGLISH_NUMBER})[\s-]?"
    r"(?P<en_unit>year|month|week|day|decade)s?\b(?P<en_half>\sand\sa\shalf)?",
    re.IGNORECASE,
)
_FIRST_CALENDAR_YEAR: Final = 100.0


class Duration(NamedTuple):
    """A span of time in months, ``low`` to ``high``, and where its words stand."""

    low: float
    high: float
    start: int
    end: int


def han_number(text: str) -> tuple[float, float]:
    """Return the number that Chinese numerals say, as a range: 两三 is 2 to 3, 十五 is 15."""
    if text == "半":
        return 0.5, 0.5
    if text in ("几", "十几"):
        return (3.0, 3.0) if text == "几" else (15.0, 15.0)
    if len(text) > 1 and all(char in _DIGITS for char in text):
        # Two digits side by side without a unit between them are an estimate, not a number.
        return float(_DIGITS[text[0]]), float(_DIGITS[text[-1]])
    total, digit = 0, 0
    for char in text:
        if char in _UNITS:
            total += (digit or 1) * _UNITS[char]
            digit = 0
        else:
            digit = _DIGITS[char]
    return float(total + digit), float(total + digit)


def number(text: str) -> tuple[float, float]:
    """Return the range that digits, Chinese numerals or an English number word say."""
    words = text.strip().lower()
    if words[0].isascii() and words[0].isdigit():
        return float(words), float(words)
    if words in _ENGLISH:
        return _ENGLISH[words], _ENGLISH[words]
    return han_number(words)


def percent(text: str) -> tuple[float, float]:
    """Return the fraction that words matching `PERCENT_PATTERN` say, lower and upper bound."""
    if text.startswith("百分之"):
        low, high = number(text.removeprefix("百分之"))
        return low / 100, high / 100
    if "成" in text:
        value = _DIGITS[text[0]] / 10 + (0.05 if text.endswith("半") else 0.0)
        return value, value
    numbers = [float(found) for found in re.findall(_NUMBER, text)]
    if not numbers:
        numbers = [number(text.lower().rsplit("per", 1)[0])[0]]
    return numbers[0] / 100, numbers[-1] / 100


def money(text: str) -> float:
    """Return the amount that words matching `MONEY_PATTERN` say, in the unit they are said in."""
    found = _AMOUNT.search(text)
    if found is None:
        raise ValueError(f"not an amount of money: {text!r}")
    digits = found[1].replace(",", "")
    value = float(digits) if digits[0].isascii() else han_number(digits)[1]
    return value * _SCALE[found[2].lower()] if found[2] else value


def durations(text: str) -> Iterator[Duration]:
    """Yield the durations in a text; calendar years and months (2030年, 5月) are none."""
    lowered = text.lower()
    if not any(unit in lowered for unit in _MONTHS):
        return
    for found in _DURATION.finditer(text):
        if found["high"]:
            unit = _MONTHS[found["unit"].lstrip("个半")]
            low_unit, first, last = found["low_unit"], found["low"], found["high"]
            half = bool(found["half"]) or found["unit"] == "个半月"
            if found["unit"] == "月":
                continue
        else:
            unit = _MONTHS[found["en_unit"].lower()]
            low_unit, first, last = found["en_low_unit"], found["en_low"], found["en_high"]
            half = bool(found["en_half"])
        low, high = number(last)
        if high >= _FIRST_CALENDAR_YEAR and unit == _MONTHS["年"]:
            continue
        extra = unit / 2 if half else 0.0
        low, high = low * unit + extra, high * unit + extra
        if first:
            low = number(first)[0] * (
                _MONTHS[low_unit.lower().rstrip("s").lstrip("个")] if low_unit else unit
            )
        yield Duration(low, high, found.start(), found.end())
