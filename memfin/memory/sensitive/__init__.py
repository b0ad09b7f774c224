"""The sensitive-input gate: text with findings is never written (memory design §10.2)."""

import re
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from collections.abc import Set as AbstractSet
from itertools import pairwise
from typing import Any, Final

import msgspec

from memfin.memory.errors import InvalidInput, SensitiveInput
from memfin.memory.sensitive.codes import api_keys, emails, private_keys, seed_phrases, wallet_addresses
from memfin.memory.sensitive.numbers import (
    bank_cards,
    identity_numbers,
    names_beside,
    phones,
    quiet,
    written_numbers,
)
from memfin.memory.sensitive.text import (
    KINDS,
    Finding,
    Kind,
    Rule,
    View,
    compiled,
    labelled,
    load_vocabulary,
    ordinary_pairs,
    outermost,
    spelt_out,
    view_of,
    without_breaks,
)

__all__ = ["KINDS", "Finding", "Kind", "find_sensitive", "findings_within", "refuse_sensitive"]
_MIN_PASSWORD: Final = 6
_MIN_LETTERS: Final = 3
_CHANGES: Final = 4
_DIGITS: Final = re.compile(r"\d{6,}")
_PLACEHOLDERS: Final = re.compile(r"(?i)x{6,}|\*{4,}|your[_-]|example|placeholder|\.{3,}|<|changeme")
_KEY_TYPE: Final = re.compile(r"\"kty\"\s*:")
_TAIWAN_LETTERS: Final = "ABCDEFGHJKLMNPQRSTUVXYWZIO"


def ruled(view: View, rules: Iterable[Rule]) -> Iterator[Finding]:
    """Yield the matches of rules that are confirmed by a label or a check."""
    for rule in rules:
        for match in compiled(rule.pattern).finditer(view.text):
            known = rule.label is not None and labelled(view, match.start(), rule.label, rule.reach)
            if not known and rule.check:
                ordered = rule.label is not None and labelled(view, match.start(), "order")
                known = not ordered and _CHECKS[rule.check](match)
            if known or not (rule.label or rule.check):
                group = "value" if "value" in match.re.groupindex else 0
                yield view.finding(rule.kind, rule.rule, match.start(group), match.end(group))


def _is_random(match: re.Match[str]) -> bool:
    """Return True if a value mixes digits with letters, or cases, unlike prose."""
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
    """Return True for a correct check digit in brackets, as it is printed; other codes look alike."""
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


def _is_name(match: re.Match[str]) -> bool:
    """Return True unless a name behind a label consists of ordinary words or is a surname with a title."""
    words = load_vocabulary().names
    value = match["value"]
    if not value.isascii():
        return value[:2] not in ordinary_pairs() and value[1:] not in words.titles
    parts = value.lower().split()
    derived = value.islower() and any(part.endswith(("ed", "ing", "ly")) for part in parts)
    return not derived and words.ordinary.isdisjoint(parts)


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
    "name": _is_name,
    "iban": _is_iban,
}
_OVER_WORDS: Final = (emails, wallet_addresses, private_keys, seed_phrases, api_keys)
# Every number that is looked for holds six digits close to each other
_MIN_DIGITS: Final = re.compile(r"(?:\d\D{0,6}){6}")


def find_sensitive(text: str) -> tuple[Finding, ...]:
    """Find the parts of a text that must never be saved, in order (memory design §10.2).

    The classifier knows the text and nothing else: no user, no profile, no setting changes its answer (§7.2).
    """
    view = view_of(text)
    if not view.text:
        return ()
    rules = load_vocabulary()
    found = [each for rule in _OVER_WORDS for each in rule(view)]
    found += ruled(view, rules.words)
    joined = without_breaks(view)
    if joined is not None:
        found += [*emails(joined), *api_keys(joined)]
        found += ruled(joined, [each for each in rules.words if each.kind == "api_key"])
    plain = quiet(spelt_out(view))
    if _MIN_DIGITS.search(plain.text):
        written = list(written_numbers(plain))
        found += [*bank_cards(plain, written), *phones(plain, written)]
        numbered = [*identity_numbers(plain, written), *ruled(plain, rules.numbers)]
        identities = [each for each in numbered if each.kind == "identity_number"]
        found += [*numbered, *names_beside(plain, identities)]
    return outermost(found)


_MAX_DEPTH: Final = 64
_SHOWN: Final = 40
_NAME: Final = re.compile(r"[A-Za-z_][A-Za-z0-9_]{0,63}")


def findings_within(value: Any) -> Iterator[Finding]:
    """Yield findings in text, plain data or structs, each with the path of its field.

    Names of fields and numbers are searched as well; in paths, what does not look like a name shows as ``*``.
    """
    yield from _within(value, "", _MAX_DEPTH)


def refuse_sensitive(value: Any, field: str = "text") -> None:
    """Raise `SensitiveInput` for something sensitive in text, plain data or structs (memory design §10.2).

    The message names the first field, ``field`` for the value itself, and all kinds in it, never the text.
    """
    found = tuple(_within(value, field, _MAX_DEPTH))
    if found:
        first = found[0].field or "text"
        raise SensitiveInput(
            first, list(dict.fromkeys(each.kind for each in found if each.field == found[0].field))
        )


def _within(value: Any, path: str, depth: int) -> Iterator[Finding]:
    if depth < 0:
        raise InvalidInput(f"{path[:_SHOWN]}...: nested more than {_MAX_DEPTH} deep")
    text = _as_text(value)
    if text is not None:
        for each in find_sensitive(text):
            yield each.replace(field=path) if path else each
    elif isinstance(value, msgspec.Struct):
        for name in value.__struct_fields__:
            yield from _within(getattr(value, name), _joined(path, name), depth - 1)
    elif isinstance(value, Mapping):
        for name, item in value.items():
            yield from _within(name, _joined(path, "*"), depth - 1)
            named = isinstance(name, str) and _NAME.fullmatch(name) and not find_sensitive(name)
            yield from _within(item, _joined(path, name if named else "*"), depth - 1)
    elif isinstance(value, Sequence | AbstractSet):
        for number, item in enumerate(value):
            yield from _within(item, f"{path}[{number}]", depth - 1)
        yield from _across(value, path)


def _as_text(value: Any) -> str | None:
    """Return the text of a scalar value; None for a container."""
    if isinstance(value, str):
        return value
    if isinstance(value, bytes | bytearray | memoryview):
        return bytes(value).decode("utf-8", "replace")
    if isinstance(value, float) and value.is_integer():
        return f"{value:.0f}"
    if isinstance(value, msgspec.Struct | Mapping | Sequence | AbstractSet):
        return None
    # A number with a fraction is nobody's number, whatever its digits.
    return "" if value is None or value is msgspec.UNSET or isinstance(value, float) else str(value)


def _across(items: Any, path: str) -> Iterator[Finding]:
    """Yield findings that span several texts of a list."""
    texts = [item for item in items if isinstance(item, str)]
    if len(texts) < 2 or any(find_sensitive(text) for text in texts):  # noqa: PLR2004 - one text was searched
        return
    for each in find_sensitive(" ".join(texts)):
        yield Finding(kind=each.kind, rule=each.rule, start=0, end=0, field=path)


def _joined(path: str, name: str) -> str:
    return f"{path}.{name}" if path else name
