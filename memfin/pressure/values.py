"""Typed values in text: reading them, and changing one wherever it stands."""

import re
from collections.abc import Iterable
from typing import Final, NamedTuple

from memfin.contracts.pressure import ValueChange
from memfin.text.numbers import number_value
from memfin.text.quantities import Quantity, quantities

_RATIOS: Final = (1.5, 2.0, 0.5, 0.8, 1.2)
_LARGEST_SHARE: Final = 0.95
_DIGITS: Final = "零一二三四五六七八九"
_TENS: Final = 10
_NUMBER: Final = re.compile(rf"\d+(?:\.\d+)?|[{_DIGITS}两十]+(?:成半)?")


def typed(quantity: Quantity) -> str:
    """Return a value as ``kind:number``, a range with both ends."""
    ends = dict.fromkeys((quantity.low, quantity.high))
    return f"{quantity.kind}:{'-'.join(f'{round(end, 6):g}' for end in ends)}"


def values_of(text: str) -> list[str]:
    """Return the typed values of a text, each once, in order."""
    return [*dict.fromkeys(map(typed, quantities(text)))]


class Change(NamedTuple):
    """One value that becomes ``ratio`` times as large."""

    old: str
    ratio: float

    def apply(self, text: str) -> str | None:
        """Return the text with the new value in place of the old, None if a form of it has no new one."""
        pieces, end = [], 0
        for quantity in quantities(text):
            if typed(quantity) != self.old:
                continue
            written = _multiplied(text[quantity.start : quantity.end], self.ratio)
            if written is None:
                return None
            pieces += [text[end : quantity.start], written]
            end = quantity.end
        return "".join((*pieces, text[end:]))

    @property
    def record(self) -> ValueChange:
        """The values before and after."""
        kind, _, number = self.old.partition(":")
        return ValueChange(old=self.old, new=f"{kind}:{round(float(number) * self.ratio, 6):g}")


def find_change(values: Iterable[str], texts: Iterable[str], fixed: Iterable[str]) -> Change | None:
    """Return a change of one of the values that the texts allow, None if there is none.

    ``texts`` are all that speak of the client, the first value of ``values`` that can be changed in all of
    them is taken; the ``fixed`` ones say what must stay. The new value stands in none of them.
    """
    spoken = [*texts]
    standing = {value for text in spoken for value in values_of(text)}
    kept = {value for text in fixed for value in values_of(text)}
    for text in values:
        for quantity in quantities(text):
            old = typed(quantity)
            if quantity.low != quantity.high or not quantity.low or old in kept:
                continue
            for ratio in _RATIOS:
                change = Change(old, ratio)
                new = quantity.low * ratio
                if change.record.new in standing | kept or (
                    quantity.kind == "share" and new > _LARGEST_SHARE
                ):
                    continue
                if all(_reads(each, change) for each in spoken):
                    return change
    return None


def _reads(text: str, change: Change) -> bool:
    """Return True if the text with the change reads as the old one with the new value in its places."""
    changed = change.apply(text)
    new = change.record.new
    wanted = [new if typed(each) == change.old else typed(each) for each in quantities(text)]
    return changed is not None and [*map(typed, quantities(changed))] == wanted


def _multiplied(written: str, ratio: float) -> str | None:
    """Return a quantity as written with its number multiplied, None where it cannot be written so."""
    found = [*_NUMBER.finditer(written)]
    last = found[-1] if found else None
    if last is None or (len(found) > 1 and not written.startswith("百分之")):
        return None
    number, half = last[0].removesuffix("成半"), last[0].endswith("成半")
    value = number_value(number)
    if value is None:
        return None
    value = round((value + 0.5 * half) * ratio, 6)
    if number[0].isdigit():
        text = f"{value:g}" if value == int(value) or "." in number else None
    elif half or written.endswith("成"):
        tail = "成半" if value % 1 else ""
        text = f"{_numeral(int(value))}{tail}" if value % 1 in (0, 0.5) and 1 <= value < _TENS else None
        if text is not None and (tail or half):
            rest = "" if tail else "成"
            return written[: last.start()] + text + rest + written[last.end() :].removeprefix("成")
    else:
        text = _numeral(int(value)) if value == int(value) and 1 <= value < _TENS * _TENS else None
    return None if text is None else written[: last.start()] + text + written[last.end() :]


def _numeral(value: int) -> str:
    tens, ones = divmod(value, _TENS)
    head = "" if not tens else "十" if tens == 1 else f"{_DIGITS[tens]}十"
    return head + (_DIGITS[ones] if ones or not tens else "")
