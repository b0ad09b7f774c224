"""The sensitive-input gate in front of every write: all rules over text, data and records."""

import re
from collections.abc import Iterator, Mapping, Sequence
from collections.abc import Set as AbstractSet
from typing import Any, Final

import msgspec

from memfin.memory.errors import InvalidInput, SensitiveInput
from memfin.memory.sensitive.codes import api_keys, emails, private_keys, seed_phrases, wallet_addresses
from memfin.memory.sensitive.numbers import bank_cards, identity_numbers, names_beside, numbers, phones, quiet
from memfin.memory.sensitive.rules import ruled
from memfin.memory.sensitive.text import (
    Finding,
    load_vocabulary,
    outermost,
    spelt_out,
    view_of,
    without_breaks,
)

_OVER_WORDS: Final = (emails, wallet_addresses, private_keys, seed_phrases, api_keys)
_MIN_DIGITS: Final = re.compile(r"(?:\d\D{0,6}){6}")
"""Every number that is looked for holds six digits close to each other."""


def find_sensitive(text: str) -> tuple[Finding, ...]:
    """Return the parts of a text that must never be saved, in order of place (memory design §10.2).

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
        written = list(numbers(plain))
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
    """Return how a value would be written where it is one text; None for what holds other values."""
    if isinstance(value, str):
        return value
    if isinstance(value, bytes | bytearray | memoryview):
        return bytes(value).decode("utf-8", "replace")
    if isinstance(value, float) and value.is_integer():
        return f"{value:.0f}"
    if isinstance(value, msgspec.Struct | Mapping | Sequence | AbstractSet):
        return None
    return "" if value is None or value is msgspec.UNSET else str(value)


def _across(items: Any, path: str) -> Iterator[Finding]:
    """Yield what is sensitive only when the texts of a list are read one after the other."""
    texts = [item for item in items if isinstance(item, str)]
    if len(texts) < 2 or any(find_sensitive(text) for text in texts):  # noqa: PLR2004 - one text was searched
        return
    for each in find_sensitive(" ".join(texts)):
        yield Finding(kind=each.kind, rule=each.rule, start=0, end=0, field=path)


def _joined(path: str, name: str) -> str:
    return f"{path}.{name}" if path else name
