"""JSON text: a strict parser, and the lines of values in a document.

Most parsers keep the last of repeated names and read NaN, overflowing numbers and lone surrogates, none
of which other readers or writers of JSON agree on (RFC 8259 sections 4, 6 and 8.2).
"""

import json
import math
import re
import sys
from bisect import bisect_right
from collections import Counter
from collections.abc import Iterator, Sequence
from functools import cache
from typing import Any, Final

from memfin.contracts.reading import shown
from memfin.validation.findings import Steps, Violation

# Surrogates, constants such as NaN, and numbers that may be beyond a double, 1e308; or names like them.
_SUSPICIOUS: Final = re.compile(rb"\\u[dD][89a-fA-F]|[0-9]{200}|[eE]\+?[0-9]{3}|NaN|Infinity")
_SURROGATE: Final = re.compile("[\ud800-\udfff]")
_SPACE: Final = re.compile(r"[ \t\n\r]*")
_DECODER: Final = json.JSONDecoder()

_Repeated = dict[int, tuple[dict[str, Any], Sequence[str]]]
"""Objects with repeated names, and these names, by the identity of the object."""


class NotJsonError(ValueError):
    """The text is not a JSON value; ``line`` is where parsing stopped, from 1."""

    def __init__(self, message: str, line: int = 1) -> None:
        super().__init__(message)
        self.line = line


def parse(data: bytes) -> tuple[object, list[Violation]]:
    """Return the value of a JSON text and the violations of the text itself.

    Raises:
        NotJsonError: when the text is not JSON at all.
    """
    try:
        text = data.decode()
    except UnicodeDecodeError as problem:
        raise NotJsonError(
            f"not UTF-8: byte {data[problem.start]:#04x} at offset {problem.start}",
            data.count(b"\n", 0, problem.start) + 1,
        ) from None
    repeated: _Repeated = {}

    def fields_of(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
        fields = dict(pairs)
        if len(fields) < len(pairs):
            counts = Counter(name for name, _ in pairs)
            repeated[id(fields)] = fields, [name for name, count in counts.items() if count > 1]
        return fields

    try:
        value = json.loads(text, object_pairs_hook=fields_of)
    except json.JSONDecodeError as problem:
        raise NotJsonError(f"invalid JSON: {problem.msg} (column {problem.colno})", problem.lineno) from None
    except RecursionError:
        raise NotJsonError("the value is nested too deeply") from None
    except ValueError:  # the only other one: an integer of thousands of digits
        raise NotJsonError("invalid JSON: an integer has too many digits") from None
    suspicious = repeated or _SUSPICIOUS.search(data)
    return value, list(_look_closer(value, repeated)) if suspicious else []


def _look_closer(value: object, repeated: _Repeated) -> Iterator[Violation]:
    """Yield the violations in every part of a value; without recursion, since values may be deep."""
    pending: list[tuple[Steps, object]] = [((), value)]
    while pending:
        steps, part = pending.pop()
        if isinstance(part, dict):
            for name in repeated.get(id(part), (part, ()))[1]:
                yield Violation((*steps, name), "the name is repeated in its object")
            if any(_SURROGATE.search(name) for name in part):
                yield Violation(steps, "a name holds a lone surrogate, which is no character")
            pending += [((*steps, name), item) for name, item in reversed(part.items())]
        elif isinstance(part, list):
            pending += [((*steps, index), part[index]) for index in reversed(range(len(part)))]
        elif isinstance(part, float) and not math.isfinite(part):
            yield Violation(steps, f"{part} is no finite number")
        elif isinstance(part, int) and abs(part) > sys.float_info.max:
            yield Violation(steps, "the integer is beyond the range of numbers")
        elif isinstance(part, str) and _SURROGATE.search(part):
            yield Violation(steps, f"{shown(part)} holds a lone surrogate, which is no character")


class Locator:
    """Lines of the values of one JSON text that parses.

    Containers are indexed on their first look-up, so that many look-ups cost little more than one.
    """

    def __init__(self, text: str) -> None:
        self._text = text
        self._line_starts = [0, *(match.end() for match in re.finditer("\n", text))]
        self._parts = cache(self._index)

    def line(self, steps: Steps) -> int:
        """Return the line, from 1, of the value or, when it is absent, of what should hold it."""
        place = self._skip_space(0)
        for step in steps:
            if (part := self._parts(place).get(step)) is None:
                break
            place = part
        return bisect_right(self._line_starts, place)

    def _index(self, place: int) -> dict[str | int, int]:
        """Return the places of the parts of a value by their names or indices."""
        parts: dict[str | int, int] = {}
        opening = self._text[place]
        if opening not in "{[":
            return parts
        place = self._skip_space(place + 1)
        while self._text[place] not in "}]":
            step: str | int = len(parts)
            if opening == "{":
                step, place = _DECODER.raw_decode(self._text, place)
                place = self._skip_space(self._skip_space(place) + 1)  # over the colon
            parts[step] = place
            place = self._skip_space(_DECODER.raw_decode(self._text, place)[1])
            if self._text[place] == ",":
                place = self._skip_space(place + 1)
        return parts

    def _skip_space(self, place: int) -> int:
        match = _SPACE.match(self._text, place)
        return match.end() if match else place
