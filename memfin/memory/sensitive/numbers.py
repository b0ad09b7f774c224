"""Rules for numbers: identity cards, bank cards and telephones."""

import datetime as dt
import re
from collections.abc import Iterator
from itertools import pairwise
from typing import Final, NamedTuple

from memfin.memory.sensitive.text import Finding, View, labelled, load_vocabulary, pattern

_SEQUENCE: Final = re.compile(r"\d+(?:(?:[ \t]{1,3}|[ \t]?[-./_·•|~*][ \t]?|[ \t]*-?[ \t]*\n[ \t]*)\d+)*")
_GROUP: Final = re.compile(r"\d+")
MAX_DIGITS: Final = 19
_TABLE: Final = 40  # groups that make a table: no number in it is looked for digit by digit
_MAX_GROUPS: Final = 9


class Number(NamedTuple):
    """Digits that may form one number, the lengths of its groups, and the characters between them."""

    digits: str
    sizes: tuple[int, ...]
    gaps: tuple[str, ...]
    start: int
    end: int

    @property
    def plain(self) -> bool:
        """True for a number in one piece, with one or two line ends, or one sign between all digits."""
        signs = set(self.gaps)
        broken = signs == {"\n"} and len(self.gaps) <= 2  # noqa: PLR2004 - as the docstring says
        return not signs or broken or (len(signs) == 1 and set(self.sizes) == {1})

    @property
    def uniform(self) -> bool:
        """True for a number with the same character between all groups, line ends apart."""
        return len(set(self.gaps) - {"\n"}) <= 1


def quiet(view: View) -> View:
    """Return the view with UUIDs and digests blanked out; offsets stay valid."""
    lower = pattern("digest").sub(lambda match: "=" * len(match[0]), view.lower)
    if lower == view.lower:
        return view
    text = "".join("=" if low == "=" else given for low, given in zip(lower, view.text, strict=True))
    return View(text, view.starts)


def written_numbers(view: View) -> Iterator[Number]:
    """Yield every number of at most 19 digits made of neighbouring groups, nested ones too."""
    for sequence in _SEQUENCE.finditer(view.text):
        groups = [match.span() for match in _GROUP.finditer(view.text, *sequence.span())]
        gaps = [_sign(view.text[end:start]) for (_, end), (start, _) in pairwise(groups)]
        max_groups = MAX_DIGITS if len(groups) <= _TABLE else _MAX_GROUPS
        for first in range(len(groups)):
            digits = ""
            for last in range(first, min(first + max_groups, len(groups))):
                digits += view.text[slice(*groups[last])]
                if len(digits) > MAX_DIGITS:
                    break
                yield Number(
                    digits,
                    tuple(end - start for start, end in groups[first : last + 1]),
                    tuple(gaps[first:last]),
                    groups[first][0],
                    groups[last][1],
                )


def _sign(gap: str) -> str:
    if "\n" in gap:
        return "\n"
    return gap.strip() or " "


_RESIDENT: Final = 18
_RESIDENT_OLD: Final = 15
# The first two digits; from 91 on cards of foreigners with permanent residence
_PROVINCES: Final = re.compile(r"1[1-5]|2[1-3]|3[1-7]|4[1-6]|5[0-4]|6[1-5]|71|8[123]|9[1-9]")
_ID_REACH: Final = 24


def identity_numbers(view: View, written: list[Number]) -> Iterator[Finding]:
    """Yield identity numbers without letters with a correct check digit or a label."""
    for number in written:
        yield from _resident(view, number)
        yield from _social(view, number)


def _resident(view: View, number: Number) -> Iterator[Finding]:
    length = len(number.digits)
    if length == _RESIDENT_OLD:
        dated = _PROVINCES.match(number.digits) and _has_birth_date("19" + number.digits[6:12])
        if not number.gaps and dated and labelled(view, number.start, "identity", _ID_REACH):
            yield view.finding("identity_number", "cn_resident_old", number.start, number.end)
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
        yield view.finding("identity_number", "cn_resident", number.start, end)
    elif labelled(view, number.start, "identity", _ID_REACH):
        yield view.finding("identity_number", "cn_resident_labelled", number.start, end)


def _social(view: View, number: Number) -> Iterator[Finding]:
    if number.sizes == (3, 2, 4) and set(number.gaps) in ({"-"}, {" "}):
        from stdnum.us import ssn  # noqa: PLC0415 - as above

        known = number.gaps[0] == "-" or labelled(view, number.start, "social")
        if known and ssn.is_valid(number.digits):
            yield view.finding("identity_number", "us_social_security", number.start, number.end)
    elif number.sizes == (9,) and labelled(view, number.start, "social"):
        yield view.finding("identity_number", "us_social_security", number.start, number.end)
    elif number.sizes == (6, 7) and number.gaps == ("-",):
        from stdnum.kr import rrn  # noqa: PLC0415 - as above

        if rrn.is_valid(number.digits):
            yield view.finding("identity_number", "kr_resident", number.start, number.end)


def names_beside(view: View, identities: list[Finding]) -> Iterator[Finding]:
    """Yield names before an identity number or behind a label, in texts with identity numbers."""
    if not identities:
        return
    for match in pattern("names").finditer(view.text):
        at, end = match.span("labelled") if match["labelled"] else match.span("beside")
        start, stop = view.span(at, end)
        near = any(0 <= each.start - stop <= _ID_REACH for each in identities)
        if match["labelled"] or near:
            yield Finding(kind="person_name", rule="name_beside_number", start=start, end=stop)


def _has_birth_date(digits: str) -> bool:
    if digits[:2] not in {"19", "20"}:
        return False
    try:
        return bool(dt.date.fromisoformat(digits))
    except ValueError:
        return False


# Sizes of groups
_FRACTION: Final = re.compile(r"(?<![0-9A-Za-z.])0\.\Z")
_SHAPES: Final = re.compile(r"(?:4 ){3,4}[1-4] |4 6 [45] |6 (?:9|1[0-3]) |4 (?:12|15) |8 (?:8|11) ")


def bank_cards(view: View, written: list[Number]) -> Iterator[Finding]:
    """Yield card numbers: an issuer's prefix and length with a correct check digit (Luhn) or a label.

    Groups are those that cards are printed in; a card divided by a line end or by digits counts too.
    """
    from stdnum import luhn  # noqa: PLC0415 - loads slowly

    for number in written:
        if not 14 <= len(number.digits) <= 19 or not _is_grouped(number):  # noqa: PLR2004 - lengths of cards
            continue
        issuer = pattern("card").fullmatch(number.digits)
        if issuer is None:
            continue
        # The digits of a ratio, as programs print it: 0.2458481292004392
        is_ratio = not number.gaps and _FRACTION.search(view.text, max(0, number.start - 3), number.start)
        if luhn.is_valid(number.digits) and not is_ratio:
            yield view.finding("bank_card", str(issuer.lastgroup), number.start, number.end)
        elif labelled(view, number.start, "card"):
            yield view.finding("bank_card", "labelled_card", number.start, number.end)


def _is_grouped(number: Number) -> bool:
    return number.plain or (
        number.uniform and _SHAPES.fullmatch("".join(f"{size} " for size in number.sizes)) is not None
    )


_CHINESE_MOBILE: Final = re.compile(r"1[3-9]\d{9}")
_MOBILE_SHAPES: Final = frozenset(
    {(3, 4, 4), (3, 8), (4, 3, 4), (4, 4, 3), (7, 4), (3, 3, 5), (5, 6), (3, 5, 3)}
)
_ROUND: Final = "00000"
_AFTER_PLUS: Final = re.compile(r"(?:\+|(?<!\d)00)[ ]?[1-9](?:[ \t]?[-.()/]?[ \t]?\d){6,14}(?!\d)")
_BRACKETED: Final = re.compile(r"\((0\d{2,4}|\d{3})\)[ \t]?-?[ \t]?(\d{3,4})[ \t.-]?(\d{3,4})(?!\d)")
_WORD_BEFORE: Final = re.compile(r"[a-z]+$")
_SERVICE: Final = re.compile(r"[48]00\d{7}|95\d{3,6}")
_CONTINUED: Final = re.compile(r"[-./]\d")
_CONTINUING: Final = re.compile(r"\d[-./]\Z")
# Toll-free, premium-rate, shared-cost, universal access and voice mail numbers, pagers
_SERVICE_TYPES: Final = frozenset({3, 4, 5, 8, 9, 10})


def phones(view: View, written: list[Number]) -> Iterator[Finding]:
    """Yield telephone numbers that can be assigned (by the numbering plans of `phonenumbers`).

    Mainland mobiles that are no amounts, country codes and groups of a region count; others need a label.
    """
    for number in written:
        rule = _mobile(view, number) or _shaped(view, number) or _labelled(view, number)
        if rule is not None:
            yield view.finding("phone", rule, number.start, number.end)
    for match in _AFTER_PLUS.finditer(view.text):
        digits = re.sub(r"\D", "", match[0])
        if _assignable("+" + digits.removeprefix("00")) and not _is_amount(view, match.start(), match.end()):
            yield view.finding("phone", "international", match.start(), match.end())
    for match in _BRACKETED.finditer(view.text):
        digits = "".join(match.groups())
        if _assignable(digits, "CN" if digits[0] == "0" else "US") or _assignable(digits, "GB"):
            yield view.finding("phone", "bracketed_area", match.start(), match.end())


def _mobile(view: View, number: Number) -> str | None:
    digits = number.digits.removeprefix("86") if len(number.digits) == 13 else number.digits  # noqa: PLR2004
    if _CHINESE_MOBILE.fullmatch(digits) is None or not _assignable(digits, "CN"):
        return None
    sizes = number.sizes[1:] if number.sizes[0] == 2 and len(number.digits) > len(digits) else number.sizes  # noqa: PLR2004
    known = labelled(view, number.start, "phone")
    if not (len(sizes) == 1 or number.plain):
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
    if not number.gaps or not number.uniform or not set(number.gaps) <= {"-", " ", ".", "\n"}:
        return None
    for region, shape in load_vocabulary().phones.shapes.items():
        fits = number.sizes in shape.groups and re.match(shape.first, number.digits)
        if fits and _assignable(number.digits, region):
            plain = (
                set(number.gaps) <= {"-"} or number.digits[0] == "0" or labelled(view, number.start, "phone")
            )
            if (plain or set(number.gaps) <= {"."}) and not _touches_letters(view, number):
                return f"{region.lower()}_grouped"
    return None


def _labelled(view: View, number: Number) -> str | None:
    before = view.text[max(0, number.start - 2) : number.start]
    if (
        not 7 <= len(number.digits) <= 12  # noqa: PLR2004 - lengths of local numbers
        or not number.uniform
        or not labelled(view, number.start, "phone")
        or _SERVICE.fullmatch(number.digits)
        or _CONTINUED.match(view.text, number.end)
        or _CONTINUING.match(before)
        or _is_amount(view, number.start, number.end, of_units=True)
    ):
        return None
    return (
        "labelled_phone"
        if any(_assignable(number.digits, region) for region in load_vocabulary().phones.regions)
        else None
    )


def _assignable(digits: str, region: str | None = None) -> bool:
    import phonenumbers  # noqa: PLC0415 - loads slowly, and most text holds no such number

    try:
        parsed = phonenumbers.parse(digits, region)
    except phonenumbers.NumberParseException:
        return False
    return phonenumbers.is_valid_number(parsed) and phonenumbers.number_type(parsed) not in _SERVICE_TYPES


def _is_amount(view: View, start: int, end: int, *, of_units: bool = False) -> bool:
    if pattern("unit_after").match(view.lower, end):
        return True
    return not of_units and pattern("sign_before").search(view.lower, max(0, start - 6), start) is not None


def _touches_letters(view: View, number: Number) -> bool:
    after = view.lower[number.end : number.end + 1]
    if after.isascii() and (after.isalpha() or after in {"_", "="}):
        return True
    before = view.lower[max(0, number.start - 12) : number.start]
    word = _WORD_BEFORE.search(before)
    return (word is not None and word[0] not in load_vocabulary().phones.touching) or before.endswith(
        ("_", "=")
    )
