"""Typed values in text: reading them, and changing one wherever it stands."""

import re
from collections.abc import Iterable, Iterator
from typing import Final, NamedTuple

from memfin.contracts.pressure import ValueChange
from memfin.rag.extraction.facts import PartialDate, find_dates
from memfin.text.numbers import number_value
from memfin.text.quantities import Quantity, quantities

_RATIOS: Final = (1.5, 2.0, 0.5, 0.8, 1.2)
_LARGEST_SHARE: Final = 0.95
_MONTHS: Final = (
    "january", "february", "march", "april", "may", "june",
    "july", "august", "september", "october", "november", "december",
)  # fmt: skip
_SHIFTS: Final = (3, 2, -2, -3)
"""Months by which a date is moved: its year, and what was said of it, stay."""

_DIGITS: Final = "零一二三四五六七八九"
_TENS: Final = 10
_NUMBER: Final = re.compile(rf"\d+(?:\.\d+)?|[{_DIGITS}两十]+(?:成半)?")


def typed(quantity: Quantity) -> str:
    """Return a value as ``kind:number``, a range with both ends."""
    ends = dict.fromkeys((quantity.low, quantity.high))
    return f"{quantity.kind}:{'-'.join(f'{round(end, 6):g}' for end in ends)}"


def _typed_date(date: PartialDate) -> str:
    """Return a date as ``date:2029-06``, with ``?`` for a year that is not said."""
    parts = ("?" if date.year is None else f"{date.year}", *(f"{part:02}" for part in date[1:] if part))
    return f"date:{'-'.join(parts)}"


def values_of(text: str) -> list[str]:
    """Return the typed values of a text, each once, in order."""
    return [*dict.fromkeys(value for value, _, _ in _places(text))]


def _places(text: str) -> list[tuple[str, int, int]]:
    places = [(typed(each), each.start, each.end) for each in quantities(text)]
    places += ((_typed_date(each.value), each.start, each.end) for each in find_dates(text))
    return sorted(places, key=lambda place: place[1])


class Change(NamedTuple):
    """One typed value that becomes another of its kind."""

    old: str
    new: str

    def apply(self, text: str) -> str | None:
        """Return the text with the new value in place of the old, None if a form of it has no new one."""
        pieces, end = [], 0
        for value, start, stop in _places(text):
            if value != self.old:
                continue
            written = self._written(text[start:stop])
            if written is None:
                return None
            pieces += [text[end:start], written]
            end = stop
        return "".join((*pieces, text[end:]))

    def _written(self, old: str) -> str | None:
        before, after = (value.partition(":")[2] for value in self)
        if self.old.startswith("date:"):
            return _redated(old, int(before.split("-")[1]), int(after.split("-")[1]))
        return _multiplied(old, float(after) / float(before))

    @property
    def record(self) -> ValueChange:
        """The values before and after."""
        return ValueChange(old=self.old, new=self.new)


def find_change(values: Iterable[str], texts: Iterable[str], fixed: Iterable[str]) -> Change | None:
    """Return a change of one of the values that the texts allow, None if there is none.

    ``texts`` are all that speak of the client, the first value of ``values`` that can be changed in all of
    them is taken; the ``fixed`` ones say what must stay. The new value stands in none of them.
    """
    spoken = [*texts]
    standing = {value for text in spoken for value in values_of(text)}
    kept = {value for text in fixed for value in values_of(text)}
    for text in values:
        for old, _, _ in _places(text):
            for new in () if old in kept else _alternatives(old, standing):
                change = Change(old, new)
                if new not in standing | kept and all(_reads(each, change) for each in spoken):
                    return change
    return None


def _alternatives(value: str, standing: Iterable[str]) -> Iterator[str]:
    """Yield other values of the same kind; none for a range, and for a date that another may be, too."""
    kind, _, number = value.partition(":")
    parts = number.split("-")
    if kind == "date":
        year, month, *day = (*parts, "")[: max(2, len(parts))]
        others = (each.partition(":")[2].split("-") for each in standing if each != value)
        if (
            not month
            or year == "?"
            or any(each[1:2] == [month] and each[0] in ("?", year) for each in others)
        ):
            return
        for shift in _SHIFTS:
            if 1 <= (new := int(month) + shift) <= len(_MONTHS):
                yield f"{kind}:{'-'.join((year, f'{new:02}', *day))}"
    elif len(parts) == 1 and float(number):
        for ratio in _RATIOS:
            if kind != "share" or float(number) * ratio <= _LARGEST_SHARE:
                yield f"{kind}:{round(float(number) * ratio, 6):g}"


def _reads(text: str, change: Change) -> bool:
    """Return True if the text with the change reads as the old one with the new value in its places."""
    changed = change.apply(text)
    wanted = [change.new if value == change.old else value for value, _, _ in _places(text)]
    return changed is not None and [value for value, _, _ in _places(changed)] == wanted


def _redated(written: str, old: int, new: int) -> str:
    """Return a date as written with its month changed; one in another form stays, and reads as before."""
    names = {name[:length]: _MONTHS[new - 1][:length] for name in (_MONTHS[old - 1],) for length in (3, 9)}
    for name, other in sorted(names.items(), reverse=True):
        written = re.sub(rf"\b{name}\b", other.title(), written, flags=re.IGNORECASE)
    return re.sub(rf"(?<=年)(\s*)0?{old}(?=\s*月)", rf"\g<1>{new}", written)


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
