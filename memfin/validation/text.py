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
from collections.abc import Iterator
from typing import Any, Final

from memfin.contracts.reading import shown
from memfin.validation.findings import Steps, Violation

# Surrogates, constants such as NaN, and numbers that may be beyond a double, 1e308; or names like them.
_SUSPICIOUS: Final = re.compile(rb"\\u[dD][89a-fA-F]|[0-9]{200}|[eE]\+?[0-9]{3}|NaN|Infinity")
_SURROGATE: Final = re.compile("[\ud800-\udfff]")
_SPACE: Final = re.compile(r"[ \t\n\r]*")
_DECODER: Final = json.JSONDecoder()


class NotJsonError(ValueError):
    """The text is not a JSON value; ``line`` is where parsing stopped, from 1."""

    def __init__(self, message: str, line: int = 1) -> None:
        super().__init__(message)
        self.line = line


class _Repeated(dict[str, Any]):
    """An object with repeated names."""

    def __init__(self, fields: dict[str, Any], names: tuple[str, ...]) -> None:
        super().__init__(fields)
        self.names = names


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
    suspicious = _SUSPICIOUS.search(data) is not None

    def fields_of(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
        nonlocal suspicious
        fields = dict(pairs)
        if len(fields) < len(pairs):
            suspicious = True
            counts = Counter(name for name, _ in pairs)
            fields = _Repeated(fields, tuple(name for name, count in counts.items() if count > 1))
        return fields

    try:
        value = json.loads(text, object_pairs_hook=fields_of)
    except json.JSONDecodeError as problem:
        raise NotJsonError(f"invalid JSON: {problem.msg} (column {problem.colno})", problem.lineno) from None
    except RecursionError:
        raise NotJsonError("the value is nested too deeply") from None
    except ValueError:  # the only other one: an integer of thousands of digits
        raise NotJsonError("invalid JSON: an integer has too many digits") from None
    return value, list(_look_closer(value)) if suspicious else []


def _look_closer(value: object) -> Iterator[Violation]:
    """Yield the violations in every part of a value; without recursion, since values may be deep."""
    pending: list[tuple[Steps, object]] = [((), value)]
    while pending:
        steps, part = pending.pop()
        if (message := _scalar_violation(part)) is not None:
            yield Violation(steps, message)
        elif isinstance(part, dict):
            if isinstance(part, _Repeated):
                for name in part.names:
                    yield Violation((*steps, name), "the name is repeated in its object")
            if any(_SURROGATE.search(name) for name in part):
                yield Violation(steps, "a name holds a lone surrogate, which is no character")
            pending += [((*steps, name), item) for name, item in reversed(part.items())]
        elif isinstance(part, list):
            pending += [((*steps, index), part[index]) for index in reversed(range(len(part)))]


def _scalar_violation(part: object) -> str | None:
    if isinstance(part, float) and not math.isfinite(part):
        return f"{part} is no finite number"
    if isinstance(part, int) and abs(part) > sys.float_info.max:
        return "the integer is beyond the range of numbers"
    if isinstance(part, str) and _SURROGATE.search(part):
        return f"{shown(part)} holds a lone surrogate, which is no character"
    return None


class Locator:
    """Lines of the values of one JSON text.

    The text must be one that parses. Containers are indexed on their first look-up, so that many
    look-ups in one document cost little more than one.
    """

    def __init__(self, text: str) -> None:
        self._text = text
        self._line_starts = [0, *(match.end() for match in re.finditer("\n", text))]
        self._offsets: dict[Steps, int] = {(): self._skip_space(0)}
        self._indexed: set[Steps] = set()

    def line(self, steps: Steps) -> int:
        """Return the line, from 1, of the value or, when it is absent, of what should hold it."""
        known: Steps = ()
        for step in steps:
            self._index(known)
            if (*known, step) not in self._offsets:
                break
            known = (*known, step)
        return bisect_right(self._line_starts, self._offsets[known])

    def _index(self, steps: Steps) -> None:
        if steps in self._indexed:
            return
        self._indexed.add(steps)
        position = self._offsets[steps]
        opening = self._text[position]
        if opening not in "{[":
            return
        position = self._skip_space(position + 1)
        count = 0
        while self._text[position] not in "}]":
            step: str | int = count
            if opening == "{":
                step, position = _DECODER.raw_decode(self._text, position)
                position = self._skip_space(self._skip_space(position) + 1)  # over the colon
            self._offsets[(*steps, step)] = position
            _, position = _DECODER.raw_decode(self._text, position)
            position = self._skip_space(position)
            if self._text[position] == ",":
                position = self._skip_space(position + 1)
            count += 1

    def _skip_space(self, position: int) -> int:
        match = _SPACE.match(self._text, position)
        return match.end() if match else position
