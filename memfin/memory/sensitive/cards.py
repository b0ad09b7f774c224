"""Bank cards and accounts."""

import re
from collections.abc import Iterator
from typing import Final

from memfin.memory.sensitive.digits import Number
from memfin.memory.sensitive.findings import Finding
from memfin.memory.sensitive.view import View
from memfin.memory.sensitive.vocabulary import labelled

_ISSUERS: Final = re.compile(
    r"(?P<unionpay>(?:62|81)\d{14,17}|60(?:11|3[0-9]|5[0-9]|9[0-9])\d{12,15}|9558[0-9]\d{11,14}|955[0-79]\d{12,15}|6858\d{12,15})"
    r"|(?P<visa>4\d{15}|4\d{18})"
    r"|(?P<mastercard>(?:5[1-5]\d\d|222[1-9]|22[3-9]\d|2[3-6]\d\d|27[01]\d|2720)\d{12})"
    r"|(?P<amex>3[47]\d{13})"
    r"|(?P<discover>(?:6011|64[4-9]\d|65\d\d)\d{12,15})"
    r"|(?P<jcb>35(?:2[89]|[3-8]\d)\d{12,15})"
    r"|(?P<mir>220[0-4]\d{12,15})"
    r"|(?P<diners>3(?:0[0-5]|[68]\d|9\d)\d{11})"
)
_SHAPES: Final = re.compile(r"(?:4 ){3,4}[1-4] |4 6 [45] |6 (?:9|1[0-3]) |4 (?:12|15) |8 (?:8|11) ")
"""Sizes of groups."""
_IBAN: Final = re.compile(
    r"(?<![0-9A-Za-z])([A-Z]{2}\d\d(?:[ -]?[A-Z0-9]{4}){2,7}(?:[ -]?[A-Z0-9]{1,3})?)(?![0-9A-Za-z])"
)
_CODE: Final = re.compile(r"(?<![a-z])(?:cvv2?|cvc2?|安全码|卡背后三位)[ :是为=]{0,4}(\d{3,4})(?!\d)")


def bank_cards(view: View, written: list[Number]) -> Iterator[Finding]:
    """Yield cards: an issuer's prefix and length with a right check digit (Luhn), or with a label.

    Groups are those that cards are printed in; a card divided by a line end or written digit by digit
    counts too. International account numbers (IBAN) are reported here.
    """
    from stdnum import iban, luhn  # noqa: PLC0415 - loads slowly

    for number in written:
        if not 14 <= len(number.digits) <= 19 or not _is_grouped(number):  # noqa: PLR2004 - lengths of cards
            continue
        issuer = _ISSUERS.fullmatch(number.digits)
        if issuer is None:
            continue
        if luhn.is_valid(number.digits):
            yield _finding(view, str(issuer.lastgroup), number.start, number.end)
        elif labelled(view, number.start, "card"):
            yield _finding(view, "labelled_card", number.start, number.end)
    for match in _IBAN.finditer(view.text):
        end = match.end()
        if iban.is_valid(match[1]):
            yield _finding(view, "iban", match.start(), end)


def card_codes(view: View) -> Iterator[Finding]:
    """Yield the three or four digits of a card's back behind their label."""
    for match in _CODE.finditer(view.lower):
        yield _finding(view, "card_code", match.start(1), match.end(1))


def _is_grouped(number: Number) -> bool:
    if number.whole or number.broken or number.spaced:
        return True
    return number.uniform and _SHAPES.fullmatch("".join(f"{size} " for size in number.sizes)) is not None


def _finding(view: View, rule: str, start: int, end: int) -> Finding:
    begin, stop = view.span(start, end)
    return Finding(kind="bank_card", rule=rule, start=begin, end=stop)
