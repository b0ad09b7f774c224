"""Telephone numbers of people; service numbers (95588, 400-…) are nobody's."""

import re
from collections.abc import Iterator
from functools import cache
from typing import Final

from memfin.memory.sensitive.digits import Number
from memfin.memory.sensitive.findings import Finding
from memfin.memory.sensitive.view import View
from memfin.memory.sensitive.vocabulary import alternatives, labelled, load_vocabulary

_CHINESE_MOBILE: Final = re.compile(r"1[3-9]\d{9}")
_MOBILE_SHAPES: Final = frozenset(
    {(3, 4, 4), (3, 8), (4, 3, 4), (4, 4, 3), (7, 4), (3, 3, 5), (5, 6), (3, 5, 3)}
)
_ROUND: Final = "00000"
_AFTER_PLUS: Final = re.compile(r"(?:\+|(?<!\d)00)[ ]?[1-9](?:[ \t]?[-.()/]?[ \t]?\d){6,14}(?!\d)")
_BRACKETED: Final = re.compile(r"\((0\d{2,4}|\d{3})\)[ \t]?-?[ \t]?(\d{3,4})[ \t.-]?(\d{3,4})(?!\d)")
_WORD_BEFORE: Final = re.compile(r"[a-z]+$")
_WORDS: Final = frozenset(
    {
        "tel",
        "phone",
        "mobile",
        "mob",
        "cell",
        "call",
        "wx",
        "wechat",
        "vx",
        "v",
        "whatsapp",
        "sj",
        "dh",
        "t",
        "m",
        "p",
    }
)
"""Words that may touch a number."""

_SHAPED: Final = (
    (
        "CN",
        re.compile(r"0(?:10|2\d|[3-9]\d\d)"),
        frozenset({(3, 8), (4, 8), (4, 7), (3, 4, 4), (4, 4, 4), (4, 3, 4)}),
    ),
    ("US", re.compile(r"[2-9]\d\d[2-9]"), frozenset({(3, 3, 4)})),
    ("GB", re.compile(r"07|02"), frozenset({(5, 6), (5, 3, 3), (4, 3, 4), (3, 4, 4)})),
    ("TW", re.compile(r"09"), frozenset({(4, 3, 3), (4, 6)})),
    ("JP", re.compile(r"0[789]0"), frozenset({(3, 4, 4)})),
    ("KR", re.compile(r"01"), frozenset({(3, 4, 4), (3, 3, 4)})),
    ("AU", re.compile(r"04"), frozenset({(4, 3, 3)})),
)
"""Region, first digits and groups of numbers that their form alone gives away."""

_REGIONS: Final = ("CN", "HK", "TW", "MO", "SG", "US", "GB", "JP", "KR", "AU", "MY", "DE", "FR", "IN")
"""Where a number behind a label may belong."""

_SERVICE: Final = re.compile(r"[48]00\d{7}|95\d{3,6}")
_CONTINUED: Final = re.compile(r"[-./]\d")
_CONTINUING: Final = re.compile(r"\d[-./]\Z")
_SERVICE_TYPES: Final = frozenset({3, 4, 5, 8, 9, 10})
"""Toll-free, premium-rate, shared-cost, universal access and voice mail numbers, pagers."""


def phones(view: View, written: list[Number]) -> Iterator[Finding]:
    """Yield telephone numbers that can be assigned (by the numbering plans of `phonenumbers`).

    A mainland mobile number counts wherever it stands, unless it is an amount or an order's; numbers
    with a country code or in the groups of their region do, too; others need a label.
    """
    for number in written:
        rule = _mobile(view, number) or _shaped(view, number) or _labelled(view, number)
        if rule is not None:
            yield _finding(view, rule, number.start, number.end)
    for match in _AFTER_PLUS.finditer(view.text):
        digits = re.sub(r"\D", "", match[0])
        if _assignable("+" + digits.removeprefix("00")) and not _is_amount(view, match.start(), match.end()):
            yield _finding(view, "international", match.start(), match.end())
    for match in _BRACKETED.finditer(view.text):
        digits = "".join(match.groups())
        if _assignable(digits, "CN" if digits[0] == "0" else "US") or _assignable(digits, "GB"):
            yield _finding(view, "bracketed_area", match.start(), match.end())


def _mobile(view: View, number: Number) -> str | None:
    digits = number.digits.removeprefix("86") if len(number.digits) == 13 else number.digits  # noqa: PLR2004
    if _CHINESE_MOBILE.fullmatch(digits) is None or not _assignable(digits, "CN"):
        return None
    sizes = number.sizes[1:] if number.sizes[0] == 2 and len(number.digits) > len(digits) else number.sizes  # noqa: PLR2004
    known = labelled(view, number.start, "phone")
    if not (len(sizes) == 1 or number.broken or number.spaced):
        rounded = all(int(digits[sum(sizes[:i]) : sum(sizes[: i + 1])]) % 10 == 0 for i in range(len(sizes)))
        if sizes not in _MOBILE_SHAPES or not number.uniform or (rounded and not known):
            return None
    if known or not (
        _is_amount(view, number.start, number.end)
        or digits.endswith(_ROUND)
        or labelled(view, number.start, "order", 4)
        or _touches_letters(view, number)
    ):
        return "cn_mobile"
    return None


def _shaped(view: View, number: Number) -> str | None:
    if number.whole or not number.uniform or not set(number.gaps) <= {"-", " ", ".", "\n"}:
        return None
    for region, prefix, shapes in _SHAPED:
        if number.sizes in shapes and prefix.match(number.digits) and _assignable(number.digits, region):
            plain = (
                set(number.gaps) <= {"-"} or number.digits[0] == "0" or labelled(view, number.start, "phone")
            )
            if (plain or set(number.gaps) <= {"."}) and not _touches_letters(view, number):
                return f"{region.lower()}_grouped"
    return None


def _labelled(view: View, number: Number) -> str | None:
    if not 7 <= len(number.digits) <= 12 or not number.uniform:  # noqa: PLR2004 - lengths of local numbers
        return None
    if not labelled(view, number.start, "phone") or _SERVICE.fullmatch(number.digits):
        return None
    if _CONTINUED.match(view.text, number.end) or _CONTINUING.match(
        view.text, max(0, number.start - 2), number.start
    ):
        return None
    if _is_amount(view, number.start, number.end, of_units=True):
        return None
    if any(_assignable(number.digits, region) for region in _REGIONS):
        return "labelled_phone"
    return None


def _assignable(digits: str, region: str | None = None) -> bool:
    import phonenumbers  # noqa: PLC0415 - loads slowly, and most text holds no such number

    try:
        parsed = phonenumbers.parse(digits, region)
    except phonenumbers.NumberParseException:
        return False
    return phonenumbers.is_valid_number(parsed) and phonenumbers.number_type(parsed) not in _SERVICE_TYPES


@cache
def _units() -> re.Pattern[str]:
    return re.compile(
        rf"(?:\.\d{{1,2}}(?!\d))?[ ]?(?:{alternatives(load_vocabulary().amounts.units)})"
        r"|\.\d{1,2}(?!\d)|,\d{3}"
    )


@cache
def _signs() -> re.Pattern[str]:
    return re.compile(rf"(?:{alternatives(load_vocabulary().amounts.signs)})[ ]?$|(?<!\d)0\.$|\d,$")


def _is_amount(view: View, start: int, end: int, *, of_units: bool = False) -> bool:
    if _units().match(view.lower, end):
        return True
    return not of_units and _signs().search(view.lower, max(0, start - 6), start) is not None


def _touches_letters(view: View, number: Number) -> bool:
    after = view.lower[number.end : number.end + 1]
    if after.isascii() and (after.isalpha() or after in {"_", "="}):
        return True
    before = view.lower[max(0, number.start - 12) : number.start]
    word = _WORD_BEFORE.search(before)
    return (word is not None and word[0] not in _WORDS) or before.endswith(("_", "="))


def _finding(view: View, rule: str, start: int, end: int) -> Finding:
    begin, stop = view.span(start, end)
    return Finding(kind="phone", rule=rule, start=begin, end=stop)
