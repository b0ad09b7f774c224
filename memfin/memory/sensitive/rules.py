"""Rules of one pattern, from the data file, and the checks that they name."""

import re
from collections.abc import Callable, Iterable, Iterator, Mapping
from functools import cache
from itertools import pairwise
from typing import Final

from memfin.memory.sensitive.text import Finding, Rule, View, labelled, load_vocabulary

_MIN_PASSWORD: Final = 6
_MIN_LETTERS: Final = 3
_CHANGES: Final = 4
_DIGITS: Final = re.compile(r"\d{6,}")
_PLACEHOLDERS: Final = re.compile(r"(?i)x{6,}|\*{4,}|your[_-]|example|placeholder|\.{3,}|<|changeme")
_KEY_TYPE: Final = re.compile(r"\"kty\"\s*:")
_TAIWAN_LETTERS: Final = "ABCDEFGHJKLMNPQRSTUVXYWZIO"


def ruled(view: View, rules: Iterable[Rule]) -> Iterator[Finding]:
    """Yield the matches of rules that count by a label or a check."""
    for rule in rules:
        for match in _pattern(rule.pattern).finditer(view.text):
            known = rule.label is not None and labelled(view, match.start(), rule.label, rule.reach)
            if not known and rule.check:
                ordered = rule.label is not None and labelled(view, match.start(), "order")
                known = not ordered and _CHECKS[rule.check](match)
            if known or not (rule.label or rule.check):
                group = "value" if "value" in match.re.groupindex else 0
                yield view.finding(rule.kind, rule.rule, match.start(group), match.end(group))


@cache
def _pattern(text: str) -> re.Pattern[str]:
    return re.compile(re.sub(r"<<(\w+)>>", lambda found: load_vocabulary().parts[found[1]], text))


def _is_random(match: re.Match[str]) -> bool:
    """Return whether a value has digits among letters, or letters of changing case, as prose has not."""
    value = match["value"]
    letters = [each for each in value if each.isalpha()]
    changes = sum(one.isupper() and other.islower() for one, other in pairwise(letters))
    mixed = any(map(str.isdigit, value)) or changes >= _CHANGES
    return len(letters) >= _MIN_LETTERS and mixed and "//" not in value and not _PLACEHOLDERS.search(value)


def _is_password(match: re.Match[str]) -> bool:
    value = match["value"]
    if _PLACEHOLDERS.search(value):
        return False
    if _DIGITS.fullmatch(value):
        return True
    kinds = (str.isdigit, str.isalpha, lambda each: not each.isalnum())
    value = value.rstrip(".,;:!?)\"'")
    return (
        len(value) >= _MIN_PASSWORD
        and sum(any(map(kind, value)) for kind in kinds) > 1
        and any(map(str.isdigit, value))
    )


def _is_hong_kong(match: re.Match[str]) -> bool:
    """Return whether the check digit is right and bracketed, as it is printed; other codes look alike."""
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


def _is_iban(match: re.Match[str]) -> bool:
    from stdnum import iban  # noqa: PLC0415 - loads slowly

    return bool(iban.is_valid(match[1]))


_CHECKS: Final[Mapping[str, Callable[[re.Match[str]], bool]]] = {
    "random": _is_random,
    "password": _is_password,
    "bytes": lambda match: all(int(each) < 256 for each in re.findall(r"\d+", match[0])),  # noqa: PLR2004
    "jwk": lambda match: _KEY_TYPE.search(match.string) is not None,
    "hong_kong": _is_hong_kong,
    "taiwan": _is_taiwan,
    "singapore": _is_singapore,
    "form": lambda _: True,
    "iban": _is_iban,
}
