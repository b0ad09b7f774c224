"""Facts of a text, and finders of dates, periods and times of day in Chinese, ISO and English forms."""

import datetime as dt
import re
from collections.abc import Iterator
from contextlib import suppress
from itertools import pairwise
from typing import Any, Final, Literal, NamedTuple

from memfin.rag.extraction.normalize import load_patterns, plain
from memfin.text.numbers import informal, number_value


class PartialDate(NamedTuple):
    """A day of the calendar, or what a text says of one; parts that it leaves out are None."""

    year: int | None
    month: int | None = None
    day: int | None = None

    def agrees(self, other: "PartialDate") -> bool:
        """Say whether no part that both dates give differs, and they give a part in common."""
        pairs = [
            (own, its) for own, its in zip(self, other, strict=True) if own is not None and its is not None
        ]
        return bool(pairs) and all(own == its for own, its in pairs)

    def within(self, other: "PartialDate") -> bool:
        """Say whether the other date gives every part that this one gives, and the same."""
        return all(own is None or own == its for own, its in zip(self, other, strict=True))

    def iso(self) -> str:
        """Return the date in the form of ISO 8601, truncated where parts are not known: ``--08-30``."""
        year = "-" if self.year is None else f"{self.year:04}"
        if self.month is None and self.day is None:
            return year
        month = "" if self.month is None else f"{self.month:02}"
        return f"{year}-{month}" if self.day is None else f"{year}-{month}-{self.day:02}"


FactKind = Literal["amount", "share", "count", "number", "date", "time", "id", "name"]


class Fact(NamedTuple):
    """A fact at ``text[start:end]`` of the plain text.

    ``value`` is a float for ``amount`` (yuan, dollars), ``share`` (of one), ``count`` and ``number``, a
    `PartialDate`, a tuple of hour and minute (None if unknown) for ``time``, and the characters of an ``id``
    or ``name``. ``unit`` is that of a count in a canonical form, empty for units that go with anything (个).
    """

    kind: FactKind
    value: Any
    start: int
    end: int
    unit: str = ""


class FoundRange(NamedTuple):
    """A period; `period` makes one of two dates."""

    first: PartialDate
    last: PartialDate


def period(first: PartialDate, last: PartialDate) -> FoundRange:
    """Return the period between two dates, each completed by the year and month that the other one gives."""
    if last.year is None:
        last = PartialDate(first.year, last.month or first.month, last.day)
    elif first.year is None:
        first = PartialDate(last.year, first.month, first.day)
    return FoundRange(first, last)


_PATTERNS: Final = load_patterns("dates")
_MONTHS: Final = (
    *("january", "february", "march", "april", "may", "june"),
    *("july", "august", "september", "october", "november", "december"),
)
"""English month names. Those of the standard library depend on the locale."""
_NUMBER_OF_MONTH: Final = {name[:3]: number for number, name in enumerate(_MONTHS, 1)}
_LATIN: Final = re.compile("[A-Za-z]{2}")
_LEAP_YEAR: Final = 2000
_CENTURY: Final = 2000
_AFTERNOON: Final = frozenset(("下午", "傍晚", "晚上", "当晚"))
_NOON: Final = 12


def _number(text: str | None) -> int | None:
    if text is None:
        return None
    if text == "正":
        return 1
    value = number_value(text.removeprefix("初"))
    return None if value is None else int(value)


def _month(name: str | None) -> int | None:
    return _NUMBER_OF_MONTH[name[:3].lower()] if name else None


def _found(span: tuple[int, int], year: int | None, month: int | None, day: int | None) -> Iterator[Fact]:
    """Yield the date unless the calendar has no such day."""
    with suppress(ValueError):
        dt.date(year or _LEAP_YEAR, 1 if month is None else month, 1 if day is None else day)
        yield Fact("date", PartialDate(year, month, day), *span)


def _chinese(text: str) -> Iterator[Fact]:
    for match in _PATTERNS["chinese"].finditer(text):
        short = _number(match["short"])
        year = _number(match["year"] or match["only_year"]) if short is None else _CENTURY + short
        day = _number(match["day"] or match["only_day"])
        yield from _found(match.span(), year, _number(match["month"]), day)


def _english(text: str) -> Iterator[Fact]:
    for match in _PATTERNS["english"].finditer(text):
        month = _month(match["m1"] or match["m2"] or match["m3"] or match["m4"])
        year = _number(match["y1"] or match["y2"] or match["y3"] or match["y4"])
        yield from _found(match.span(), year, month, _number(match["d1"] or match["d2"]))


def _english_days(text: str) -> Iterator[Fact]:
    """Yield both ends of a period that names the month and the year once: March 2-5, 2021."""
    for match in _PATTERNS["english_days"].finditer(text):
        form = "1" if match["m1"] else "2"
        year, month = _number(match[f"y{form}"]), _month(match[f"m{form}"])
        gap, gap_end = match.span(f"gap{form}")
        yield from _found((match.start(), gap), year, month, _number(match[f"a{form}"]))
        yield from _found((gap_end, match.end()), year, month, _number(match[f"b{form}"]))


def _numeric(text: str) -> Iterator[Fact]:
    for pattern in (_PATTERNS["iso"], _PATTERNS["compact"]):
        for match in pattern.finditer(text):
            if match["day"] is None and match["mark"] == ".":
                continue  # 2020.8 is a number
            yield from _found(match.span(), int(match["year"]), int(match["month"]), _number(match["day"]))
    if "/" in text:
        for match in _PATTERNS["american"].finditer(text):
            first, second = int(match[1]), int(match[2])
            month, day = (second, first) if first > _NOON else (first, second)
            yield from _found(match.span(), int(match[3]), month, day)


def find_dates(text: str) -> list[Fact]:
    """Return the dates of a `plain` text in order; a day that is on no calendar is none."""
    text = informal(text)
    found = [*_chinese(text)] if "年" in text or "月" in text or "日" in text or "号" in text else []
    found.extend(_numeric(text))
    if _LATIN.search(text):
        found.extend(_english_days(text))
        found.extend(_english(text))
    found.sort(key=lambda date: (date.start, -date.end))
    kept: list[Fact] = []
    for date in found:
        if not kept or date.start >= kept[-1].end:
            kept.append(date)
    return kept


def find_ranges(text: str, dates: list[Fact] | None = None) -> list[FoundRange]:
    """Return the periods of a `plain` text: two dates with 至, 到, a dash, ``to`` or the like between."""
    return [
        period(left.value, right.value)
        for left, right in pairwise(find_dates(text) if dates is None else dates)
        if _PATTERNS["to"].fullmatch(text[left.end : right.start])
    ]


def parse_date(text: str) -> PartialDate | None:
    """Return the one date that a typed field holds, in any form; None when it holds none or several."""
    shown = plain(text).strip()
    if shown.isdigit() and len(shown) == len("2020"):
        return PartialDate(int(shown))
    dates = {found.value for found in find_dates(shown)}
    return dates.pop() if len(dates) == 1 else None


def find_times(text: str) -> list[Fact]:
    """Return the times of day of a `plain` text; 3点 without minutes or part of the day is none."""
    if ":" not in text and "时" not in text and "点" not in text:
        return []
    found = []
    for match in _PATTERNS["time"].finditer(text):
        hour = _number(match["h1"] or match["h2"])
        quarter = match["quarter"]
        minute = {"半": 30, "整": 0, "一刻": 15}[quarter] if quarter else _number(match["m1"] or match["m2"])
        sharp = match["half"] is not None or match["hour"] == "点钟" or (match["hour"] == "时" and hour != 1)
        if hour is None or (minute is None and not sharp):
            continue
        if match["half"] in _AFTERNOON and hour < _NOON:
            hour += _NOON
        found.append(Fact("time", (hour, minute), *match.span()))
    return found
