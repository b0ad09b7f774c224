"""Amounts of money as they are told, with or without their unit: 一千五, 3000, 2万."""

from typing import Final, NamedTuple

from memfin.scoring.numbers.chinese import chinese_number
from memfin.scoring.patterns.expressions import late


class Amount(NamedTuple):
    """An amount of money, with or without its unit."""

    value: float
    start: int
    end: int


_AMOUNT: Final = late(
    r"(?<![\d.%第证深普生指a])(?<!\d年)(?P<digits>\d{1,3}(?:,\d{3})+|\d{3,6})(?![\d%年月日号期只点万wk]|\.\d|"
    r"多?[只家人])|"
    r"(?P<scaled>\d+(?:\.\d+)?|[一二两三四五六七八九十]+)(?P<unit>万[一二三四五六七八九]?(?![亿份股家人])|"
    r"k\b)|"
    r"(?P<words>[一二两三四五六七八九][千百](?:[一二三四五六七八九](?:百)?)?)(?![万亿年只家股份])"
)
_SCALE: Final = {"k": 1e3, "万": 1e4}


def amounts(norm: str, low: int, high: int) -> list[Amount]:
    """Return the amounts of ``norm[low:high]``, those without a unit as well (一千五, 3000, 2万)."""
    found: list[Amount] = []
    for match in _AMOUNT.finditer(norm, low, high):
        if match["digits"] is not None:
            value = float(match["digits"].replace(",", ""))
        elif match["words"] is not None:
            value = _spoken(match["words"])
        else:
            number = chinese_number(match["scaled"])
            unit = match["unit"]
            value = (number or 0.0) * _SCALE[unit[0]] + (_DIGITS.find(unit[1:]) * 1e3 if unit[1:] else 0.0)
        found.append(Amount(value, *match.span()))
    return found


_DIGITS: Final = "零一二三四五六七八九"
_SHORT: Final = 3


def _spoken(words: str) -> float:
    """Return the value of an amount as it is spoken: 一千五 is 1500, 八百五 is 850."""
    if len(words) == _SHORT and words[-1] in _DIGITS:
        scale = 100.0 if words[1] == "千" else 10.0
        return (chinese_number(words[:2]) or 0.0) + scale * _DIGITS.index(words[-1])
    return chinese_number(words) or 0.0
