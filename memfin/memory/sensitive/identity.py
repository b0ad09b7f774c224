"""Numbers of people: identity cards, passports, social insurance, and names beside them."""

import datetime as dt
import re
from collections.abc import Callable, Iterator
from functools import cache
from typing import Final

from memfin.memory.sensitive.digits import Number
from memfin.memory.sensitive.findings import Finding
from memfin.memory.sensitive.view import View
from memfin.memory.sensitive.vocabulary import alternatives, labelled, load_vocabulary

_RESIDENT: Final = 18
_RESIDENT_OLD: Final = 15
_PROVINCES: Final = re.compile(r"1[1-5]|2[1-3]|3[1-7]|4[1-6]|5[0-4]|6[1-5]|71|8[123]|9[1-9]")
"""The first two digits; from 91 on cards of foreigners with permanent residence."""

_NO_LETTER: Final = r"(?<![0-9A-Za-z_])"
_HONG_KONG: Final = re.compile(
    rf"{_NO_LETTER}([A-Za-z]{{1,2}})[ -]?(\d{{3}}[ -]?\d{{3}})[ -]?(\()?([0-9Aa])(\))?(?![0-9A-Za-z])"
)
_TAIWAN: Final = re.compile(rf"{_NO_LETTER}([A-Za-z])[ -]?([1289]\d{{8}})(?![0-9A-Za-z])")
_SINGAPORE: Final = re.compile(rf"{_NO_LETTER}([STFGMstfgm])[ -]?(\d{{7}})[ -]?([A-Za-z])(?![0-9A-Za-z])")
_MACAU: Final = re.compile(rf"{_NO_LETTER}[1578]\d{{6}}\(?\d\)?(?![0-9A-Za-z])")
_PASSPORT: Final = re.compile(
    rf"{_NO_LETTER}(?=[A-Za-z0-9]*\d{{6}})[A-Za-z]{{0,3}} ?\d{{6,10}}(?![0-9A-Za-z])"
)
_BRITISH: Final = re.compile(
    rf"{_NO_LETTER}[A-CEGHJ-PR-TW-Z][A-CEGHJ-NPR-TW-Z] ?\d\d ?\d\d ?\d\d ?[A-D](?![0-9A-Za-z])"
)
_TAIWAN_LETTERS: Final = "ABCDEFGHJKLMNPQRSTUVXYWZIO"
_ID_REACH: Final = 24


def identity_numbers(view: View, written: list[Number]) -> Iterator[Finding]:
    """Yield identity numbers.

    A resident identity number counts when its check digit is right, or when a label says what it is; so
    do numbers of other places, where a form that other codes share needs the label besides.
    """
    for number in written:
        yield from _resident(view, number)
        yield from _social(view, number)
    yield from _with_letters(view)


def _resident(view: View, number: Number) -> Iterator[Finding]:
    length = len(number.digits)
    if length == _RESIDENT_OLD:
        if number.whole and _is_old(number.digits) and labelled(view, number.start, "identity", _ID_REACH):
            yield _finding(view, "cn_resident_old", number.start, number.end)
        return
    end = number.end
    digits = number.digits
    if length == _RESIDENT - 1:
        tail = re.compile(r"[ \t]?-?[ \t]*\n?[ \t]*([Xx])(?![0-9A-Za-z])").match(view.text, end)
        if tail is None:
            return
        digits += "X"
        end = tail.end()
    if len(digits) != _RESIDENT or not _has_birth_date(digits[6:14]) or not _PROVINCES.match(digits):
        return
    from stdnum.cn import ric  # noqa: PLC0415 - loads slowly, and most text holds no such number

    if ric.calc_check_digit(digits) == digits[-1]:
        yield _finding(view, "cn_resident", number.start, end)
    elif labelled(view, number.start, "identity", _ID_REACH):
        yield _finding(view, "cn_resident_labelled", number.start, end)


def _social(view: View, number: Number) -> Iterator[Finding]:
    if number.sizes == (3, 2, 4) and set(number.gaps) in ({"-"}, {" "}):
        from stdnum.us import ssn  # noqa: PLC0415 - as above

        known = number.gaps[0] == "-" or labelled(view, number.start, "social")
        if known and ssn.is_valid(number.digits):
            yield _finding(view, "us_social_security", number.start, number.end)
    elif number.sizes == (9,) and labelled(view, number.start, "social"):
        yield _finding(view, "us_social_security", number.start, number.end)
    elif number.sizes == (6, 7) and number.gaps == ("-",):
        from stdnum.kr import rrn  # noqa: PLC0415 - as above

        if rrn.is_valid(number.digits):
            yield _finding(view, "kr_resident", number.start, number.end)


def _with_letters(view: View) -> Iterator[Finding]:
    for rule, pattern, counts in _LETTERED:
        for match in pattern.finditer(view.text):
            known = labelled(view, match.start(), "identity", _ID_REACH)
            if known or (counts(match) and not labelled(view, match.start(), "order")):
                yield _finding(view, rule, match.start(), match.end())
    for match in _PASSPORT.finditer(view.text):
        if labelled(view, match.start(), "passport", _ID_REACH):
            yield _finding(view, "passport", match.start(), match.end())


def names_beside(view: View, identities: list[Finding]) -> Iterator[Finding]:
    """Yield names that stand before an identity number or behind a label, where a text holds such numbers."""
    if not identities:
        return
    names = _names()
    for match in names.finditer(view.text):
        at, end = match.span("labelled") if match["labelled"] else match.span("beside")
        start, stop = view.span(at, end)
        near = any(0 <= each.start - stop <= _ID_REACH for each in identities)
        if match["labelled"] or near:
            yield Finding(kind="person_name", rule="name_beside_number", start=start, end=stop)


@cache
def _names() -> re.Pattern[str]:
    names = load_vocabulary().names
    return re.compile(
        rf"(?i:{alternatives(names.labels)})[ :是叫为=\"',]{{0,3}}"
        rf"(?P<labelled>[{names.surnames}][一-鿿]{{1,2}}(?=[^一-鿿]|[的身证电手]|$)"
        r"|[A-Z][a-z]+ [A-Z][a-z]+)"
        rf"|(?<![一-鿿])(?P<beside>[{names.surnames}][一-鿿]{{1,2}})(?=[ ,、:;\-(]|的?(?:身份|证件|护照)|\d)"
    )


def _has_birth_date(digits: str) -> bool:
    if digits[:2] not in {"19", "20"}:
        return False
    try:
        dt.date(int(digits[:4]), int(digits[4:6]), int(digits[6:]))
    except ValueError:
        return False
    return True


def _is_old(digits: str) -> bool:
    return _PROVINCES.match(digits) is not None and _has_birth_date("19" + digits[6:12])


def _is_hong_kong(match: re.Match[str]) -> bool:
    """Say whether the check digit is right and bracketed, as it is printed; other codes look alike."""
    if match[3] is None or match[5] is None:
        return False
    letters = [ord(letter) - 55 for letter in match[1].upper()]
    values = [36] * (2 - len(letters)) + letters + [int(each) for each in match[2] if each.isdigit()]
    left = -sum(weight * value for weight, value in zip(range(9, 1, -1), values, strict=True)) % 11
    return match[4].upper() == f"{left:X}"


def _is_taiwan(match: re.Match[str]) -> bool:
    tens, ones = divmod(_TAIWAN_LETTERS.index(match[1].upper()) + 10, 10)
    values = [tens, ones, *map(int, match[2])]
    return sum(a * b for a, b in zip((1, 9, 8, 7, 6, 5, 4, 3, 2, 1, 1), values, strict=True)) % 10 == 0


def _is_singapore(match: re.Match[str]) -> bool:
    letter = match[1].upper()
    total = sum(a * b for a, b in zip((2, 7, 6, 5, 4, 3, 2), map(int, match[2]), strict=True))
    total += {"T": 4, "G": 4, "M": 3}.get(letter, 0)
    checks = {"S": "JZIHGFEDCBA", "T": "JZIHGFEDCBA", "F": "XWUTRQPNMLK", "G": "XWUTRQPNMLK"}
    return match[3].upper() == checks.get(letter, "XWUTRQPNJLK")[total % 11]


_LETTERED: Final[tuple[tuple[str, re.Pattern[str], Callable[[re.Match[str]], bool]], ...]] = (
    ("hk_identity", _HONG_KONG, _is_hong_kong),
    ("tw_identity", _TAIWAN, _is_taiwan),
    ("sg_identity", _SINGAPORE, _is_singapore),
    ("mo_identity", _MACAU, lambda _: False),
    ("uk_national_insurance", _BRITISH, lambda _: True),
)
"""Rules with letters: what the form is, and what makes it count without a label."""


def _finding(view: View, rule: str, start: int, end: int) -> Finding:
    begin, stop = view.span(start, end)
    return Finding(kind="identity_number", rule=rule, start=begin, end=stop)
