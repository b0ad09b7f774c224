"""Percentages that are written out are read in digits: 百分之二十 and twenty percent as 20%."""

from collections.abc import Iterator
from typing import Final

from memfin.scoring.numbers.chinese import chinese_number
from memfin.scoring.numbers.english import BELOW_HUNDRED, english_number
from memfin.scoring.patterns.expressions import late

_SHARE: Final = r"[零〇一二两三四五六七八九十点0-9.]++(?![百千万])"
_CHINESE_PERCENTAGE: Final = late(
    rf"百分之({_SHARE})(?:([到至~-])(?:百分之)?({_SHARE})(?![年个月天号日成只倍分%]))?"
)
_ENGLISH_PERCENTAGE: Final = late(
    rf"(?:(?<=[0-9])[ -]?|(?<![a-z])(?:({BELOW_HUNDRED})([- ](?:to|or|and)[- ]))?({BELOW_HUNDRED})[ -])"
    rf"per ?cent(?![a-z])"
)


def percentages_in(norm: str) -> Iterator[tuple[int, int, str]]:
    """Yield where a percentage is written out, and how digits say it."""
    if "百分之" in norm:
        for match in _CHINESE_PERCENTAGE.finditer(norm):
            low, between, high = match.groups()
            values = [chinese_number(each) for each in (low, high) if each]
            shares = [f"{value:g}%" for value in values if value is not None]
            if len(shares) == len(values):
                yield (*match.span(), (between or "").join(shares))
    if "percent" in norm or "per cent" in norm:
        for match in _ENGLISH_PERCENTAGE.finditer(norm):
            low, between, high = match.groups()
            shares = [f"{english_number(each):g}%" for each in (low, high) if each]
            yield (*match.span(), (between or "").join(shares) or "%")
