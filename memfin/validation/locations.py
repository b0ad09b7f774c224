"""Finds the line of a value inside a JSON document, for documents that span many lines."""

import json
import re
from bisect import bisect_right
from typing import Final

from memfin.validation.findings import Steps

_SPACE: Final = re.compile(r"[ \t\n\r]*")
_DECODER: Final = json.JSONDecoder()


class Locator:
    """Answers where the values of one JSON text stand.

    The text must be one that parses. Containers are indexed when they are first asked about, so
    that many questions about one document cost little more than one.
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
