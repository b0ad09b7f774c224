"""Facts of a text: amounts, counts, dates, times, ids and names in Chinese, ISO and English forms."""

import datetime as dt
import re
from bisect import bisect_right
from collections.abc import Iterator
from contextlib import suppress
from itertools import pairwise
from typing import Any, Final, Literal, NamedTuple

from memfin.rag.extraction.normalize import load_patterns, plain, tables, widths
from memfin.text import numbers
from memfin.text.quantities import quantities


class PartialDate(NamedTuple):
    """A calendar date; parts that a text omits are None."""

    year: int | None
    month: int | None = None
    day: int | None = None

    def agrees(self, other: "PartialDate") -> bool:
        """Return True if both dates share a part and contradict each other in none."""
        pairs = [pair for pair in zip(self, other, strict=True) if None not in pair]
        return bool(pairs) and all(own == its for own, its in pairs)

    def within(self, other: "PartialDate") -> bool:
        """Return True if the other date has every part of this one, with the same value."""
        return all(own is None or own == its for own, its in zip(self, other, strict=True))

    def iso(self) -> str:
        """Return the date in ISO 8601, truncated where parts are unknown: ``--08-30``."""
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


Period = tuple[PartialDate, PartialDate]


def period(first: PartialDate, last: PartialDate) -> Period:
    """Return the period between two dates, each completed by the year and month of the other."""
    if last.year is None:
        last = PartialDate(first.year, last.month or first.month, last.day)
    elif first.year is None:
        first = PartialDate(last.year, first.month, first.day)
    return first, last


_DATES: Final = load_patterns("dates")
_MONTHS: Final = ("jan", "feb", "mar", "apr", "may", "jun", "jul", "aug", "sep", "oct", "nov", "dec")
_SCALES: Final = {"m": 10**6, "b": 10**9, "t": 10**12}
_COINS: Final = re.compile("[角毛分]")
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
    value = numbers.number_value(text.removeprefix("初"))
    return None if value is None else int(value)


def _month(name: str | None) -> int | None:
    return _MONTHS.index(name[:3].lower()) + 1 if name else None


def _found(span: tuple[int, int], year: int | None, month: int | None, day: int | None) -> Iterator[Fact]:
    """Yield the date if the calendar has that day."""
    with suppress(ValueError):
        dt.date(year or _LEAP_YEAR, 1 if month is None else month, 1 if day is None else day)
        yield Fact("date", PartialDate(year, month, day), *span)


def _chinese(text: str) -> Iterator[Fact]:
    for match in _DATES["chinese"].finditer(text):
        short = _number(match["short"])
        year = _number(match["year"] or match["only_year"]) if short is None else _CENTURY + short
        day = _number(match["day"] or match["only_day"])
        yield from _found(match.span(), year, _number(match["month"]), day)


def _english(text: str) -> Iterator[Fact]:
    for match in _DATES["english"].finditer(text):
        month = _month(match["m1"] or match["m2"] or match["m3"] or match["m4"])
        year = _number(match["y1"] or match["y2"] or match["y3"] or match["y4"])
        yield from _found(match.span(), year, month, _number(match["d1"] or match["d2"]))


def _dotted(text: str) -> Iterator[Fact]:
    """Yield both ends of a period of dotted dates; its second end may lack the year or the month."""
    for match in _DATES["dotted"].finditer(text):
        year, month = int(match["y1"]), int(match["m1"])
        gap, gap_end = match.span("gap" if match["gap"] else "gap2")
        yield from _found((match.start(), gap), year, month, _number(match["d1"]))
        last = int(match["m2"] or match["m3"] or month)
        yield from _found((gap_end, match.end()), int(match["y3"] or year), last, _number(match["d2"]))


def _english_days(text: str) -> Iterator[Fact]:
    """Yield both ends of a period with the month and the year given once: March 2-5, 2021."""
    for match in _DATES["english_days"].finditer(text):
        form = "1" if match["m1"] else "2"
        year, month = _number(match[f"y{form}"]), _month(match[f"m{form}"])
        gap, gap_end = match.span(f"gap{form}")
        yield from _found((match.start(), gap), year, month, _number(match[f"a{form}"]))
        yield from _found((gap_end, match.end()), year, month, _number(match[f"b{form}"]))


def _numeric(text: str) -> Iterator[Fact]:
    for pattern in (_DATES["iso"], _DATES["compact"]):
        for match in pattern.finditer(text):
            if match["day"] is None and match["mark"] == ".":
                continue  # 2020.8 is a number
            yield from _found(match.span(), int(match["year"]), int(match["month"]), _number(match["day"]))
    if "/" in text:
        for match in _DATES["american"].finditer(text):
            first, second = int(match[1]), int(match[2])
            month, day = (second, first) if first > _NOON else (first, second)
            yield from _found(match.span(), int(match[3]), month, day)


def find_dates(text: str) -> list[Fact]:
    """Return the dates of a `plain` text in order, without days that no calendar has."""
    text = numbers.informal(text)
    found = [*_chinese(text)] if "年" in text or "月" in text or "日" in text or "号" in text else []
    found.extend((*_numeric(text), *_dotted(text)))
    if _LATIN.search(text):
        found.extend(_english_days(text))
        found.extend(_english(text))
    found.sort(key=lambda date: (date.start, -date.end))
    kept: list[Fact] = []
    for date in found:
        if not kept or date.start >= kept[-1].end:
            kept.append(date)
    return kept


def find_ranges(text: str, dates: list[Fact] | None = None) -> list[Period]:
    """Return the periods of a `plain` text: two dates with 至, 到, a dash, ``to`` or the like between."""
    return [
        period(left.value, right.value)
        for left, right in pairwise(find_dates(text) if dates is None else dates)
        if _DATES["to"].fullmatch(text[left.end : right.start])
    ]


def parse_date(text: str) -> PartialDate | None:
    """Parse the one date of a typed field, in any form; None for none or several."""
    shown = plain(text).strip()
    if shown.isdigit() and len(shown) == len("2020"):
        return PartialDate(int(shown))
    dates = {found.value for found in find_dates(shown)}
    return dates.pop() if len(dates) == 1 else None


def find_times(text: str) -> list[Fact]:
    """Return the times of day of a `plain` text; 3点 without minutes or part of the day does not count."""
    if ":" not in text and "时" not in text and "点" not in text:
        return []
    found = []
    for match in _DATES["time"].finditer(text):
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


_TABLE: Final = tables()["facts"]
_ROWS: Final = tables()["ordinary"]["pairs"].split()
ORDINARY_PAIRS: Final = frozenset(f"{row[0]}{mark}" for row in _ROWS for mark in row[1:])  # not of names
_UNITS: Final[dict[str, str]] = {word: unit for unit, words in _TABLE["units"].items() for word in words}
_PATTERNS: Final = load_patterns(
    "facts",
    units="|".join(sorted((unit for unit in _UNITS if not unit.isascii()), key=len, reverse=True)),
    any_number=numbers.NUMBER,
    english_number=f"{numbers.ENGLISH_NUMBER}|{numbers.NUMBER}",
)


def is_name(words: str) -> bool:
    """Return True if quoted words are a name: short, without words that only sentences have."""
    words = words.strip()
    if _PATTERNS["foreign_name"].match(words) or _PATTERNS["institution"].search(words):
        return True
    return _PATTERNS["chinese_name"].match(words) is not None and _PATTERNS["wordy"].search(words) is None


def _last_groups(pattern: str, text: str) -> Iterator[Fact]:
    """Yield the last group of every match that has one, as a name."""
    for match in _PATTERNS[pattern].finditer(text):
        if match.lastindex is not None:
            yield Fact("name", match[match.lastindex], *match.span(match.lastindex))


def quotations(text: str) -> Iterator[Fact]:
    """Yield the words in quotation marks or title marks in a text, without the marks."""
    return _last_groups("quoted", text)


def surname_with_title(words: str) -> str | None:
    """Return the surname if words are one with a title and without a given name: 孟 of 孟师傅."""
    match = _PATTERNS["titled"].fullmatch(words)
    return match[1] if match and len(match[1]) == 1 else None


def find_names(text: str) -> list[Fact]:
    """Return the names that a `plain` text marks as names, in order."""
    found = [quoted for quoted in quotations(text) if is_name(quoted.value)]
    for match in _PATTERNS["titled"].finditer(text) if _PATTERNS["title_sign"].search(text) else ():
        name = match[1]
        if not _PATTERNS["no_name"].fullmatch(name) and match[0][:2] not in ORDINARY_PAIRS:
            found.append(Fact("name", match.group() if len(name) == 1 else name, *match.span()))
    found += (*_last_groups("introduced", text), *_last_groups("mister", text))
    return sorted(found, key=lambda name: name.start)


def ordering_masked(text: str) -> str:
    """Return the plain form of a text with ordering figures (list numbers) blanked out.

    They are the numbers of list items, pages, lines, sections and citations.
    """
    masked = _PATTERNS["item"].sub(_blank, widths(_PATTERNS["circled"].sub("\0", text)))
    return _PATTERNS["ordering"].sub(_blank, _PATTERNS["about"].sub("", plain(masked)))


def _blank(match: re.Match[str]) -> str:
    return "\0" * len(match.group())


def _without(text: str, found: list[Fact]) -> str:
    """Return the text with the facts blanked out."""
    pieces: list[str] = []
    done = 0
    for fact in found:
        if fact.start >= done:
            pieces += (text[done : fact.start], "\0" * (fact.end - fact.start))
            done = fact.end
    return "".join((*pieces, text[done:]))


def _money(match: re.Match[str]) -> Iterator[float]:
    change = 0.5 if match["half"] else 0.0
    for part, share in (("jiao", 0.1), ("fen", 0.01)):
        if match[part]:
            change += (numbers.number_value(match[part]) or 0.0) * share
    scale = _SCALES[match["scale"][0].lower()] if match["scale"] else 1
    for value in numbers.number_values(match["number"]):
        yield round(value * scale + change, 2) if match["jiao"] or scale > 1 else value + change


def _amounts(text: str) -> list[Fact]:
    """Return the sums of money in a masked text: figures with a unit of money or a currency's sign."""
    found: list[Fact] = []
    pattern = _PATTERNS["english_amount" if _LATIN.search(text) else "amount"]
    for match in pattern.finditer(text):
        named = match["unit"] or match["coin"]
        is_one = _PATTERNS["one"].fullmatch(match["number"]) and match["unit"] in ("块", "元")
        if named and (match["jiao"] or not is_one):
            found.extend(Fact("amount", value, *match.span()) for value in _money(match))
    for match in _PATTERNS["coins"].finditer(text) if _COINS.search(text) else ():
        shares = zip((match["jiao"], match["fen"], match["cents"]), (0.1, 0.01, 0.01), strict=True)
        value = sum((numbers.number_value(part) or 0.0) * share for part, share in shares if part)
        found.append(Fact("amount", round(value, 2), *match.span()))
    return sorted(found, key=lambda fact: fact.start)


def _shares(text: str) -> list[Fact]:
    if _PATTERNS["share_sign"].search(text) is None:
        return []
    found: list[Fact] = []
    for share in quantities(text):
        if share.kind in ("share", "discount", "multiple") and not (found and share.start < found[-1].end):
            values = dict.fromkeys((share.high, share.low))
            found.extend(Fact("share", round(value, 9), share.start, share.end) for value in values)
    return found


def _identifiers(text: str) -> list[Fact]:
    letters = _PATTERNS["only_letters"]
    cards = [match for match in _PATTERNS["card"].finditer(text) if not letters.match(match.group())]
    ends = [match.end() for match in cards]
    found = [Fact("id", match.group(), *match.span()) for match in cards]
    for match in _PATTERNS["long"].finditer(text):
        at = bisect_right(ends, match.start())  # the first card that could overlap
        if at == len(cards) or cards[at].start() >= match.end():
            found.append(Fact("id", match.group(), *match.span()))
    for match in _PATTERNS["spelt"].finditer(text):
        digits = numbers.digit_string(match.group())
        after = text[match.end() : match.end() + 1]
        if digits is not None and (not after or after not in numbers.NUMERALS):
            found.append(Fact("id", digits, *match.span()))
    found.sort(key=lambda fact: fact.start)
    return found


def _counts(text: str) -> list[Fact]:
    """Return the counts and bare numbers of a masked text; 一个 and ``a`` count nothing."""
    found: list[Fact] = []
    pattern = _PATTERNS["english_count" if _LATIN.search(text) else "count"]
    for match in pattern.finditer(text):
        found.extend(_count(match))
    for match in _PATTERNS["words"].finditer(text):
        value, unit = _TABLE["word_counts"][match.group().lower()]
        found.append(Fact("count", value, *match.span(), unit))
    return sorted(found, key=lambda fact: fact.start)


def _count(match: re.Match[str]) -> Iterator[Fact]:
    written, unit, noun = match["number"], match["unit"], match["noun"]
    if unit is None and noun is None and len(written) == 1 and not written.isdigit():
        return
    is_dozen = (unit or noun or "").lower() in ("打", "dozen", "dozens")
    canonical = "" if is_dozen else _canonical_unit(unit or noun or "")
    kind: FactKind = "number" if unit is None and noun is None else "count"
    end = match.end("unit") if unit else match.end("number")
    for value in numbers.number_values(written):
        yield Fact(kind, 12 * value if is_dozen else value, match.start(), end, canonical)


def _is_indefinite(fact: Fact, text: str) -> bool:
    """Return True if a count is no more than an article: 一名, 第一次, one of."""
    start = fact.start + (text[fact.start] == "第")
    return fact.kind in ("count", "number") and fact.value == 1 and not text[start].isdigit()


_FINDERS: Final = (find_dates, find_times, _amounts, _identifiers, _shares, _counts)


def unit_asked(question: str) -> str | None:
    """Return the canonical unit of the count a question asks for (几次, how many times), or None."""
    match = _PATTERNS["unit_asked"].search(ordering_masked(question))
    return None if match is None else _canonical_unit(match["unit"] or match["noun"] or "")


def _canonical_unit(written: str) -> str:
    """Return the canonical unit of counts for a word: 位 and ``people`` are 人; empty for any."""
    return _UNITS.get(written.lower(), "" if written.isascii() else written)


def find_facts(text: str, *, names: bool = True, indefinite: bool = False) -> list[Fact]:
    """Return the facts of a text in order; offsets count in its `ordering_masked` form.

    Counts that are no more than an article (一名) are left out unless ``indefinite`` asks for them.
    """
    return facts_in(ordering_masked(text), names=names, indefinite=indefinite)


def facts_in(masked: str, *, names: bool = True, indefinite: bool = False) -> list[Fact]:
    """Return the facts of a text that is masked already, see `find_facts`."""
    facts = find_names(masked) if names else []
    rest = _PATTERNS["vague"].sub(_blank, _PATTERNS["idiom"].sub(_blank, masked))
    for finder in _FINDERS:
        found = finder(rest)
        facts += found
        rest = _without(rest, found)
    kept = facts if indefinite else [fact for fact in facts if not _is_indefinite(fact, masked)]
    kept.sort(key=lambda fact: (fact.start, fact.end, fact.kind))
    return kept
