"""Tables of a reply: the cells of each column by the words of its head."""

import re
from collections.abc import Iterator
from typing import Final, NamedTuple

from memfin.scoring.patterns.expressions import late

_RULE: Final = late(r"[ |:\-]*--[ |:\-]*")
_MOST_ROWS: Final = 40


class Cell(NamedTuple):
    """A cell of a table at half-open offsets of the text."""

    text: str
    start: int
    end: int


class Grid(NamedTuple):
    """A table: its head, its rows, and where it begins and ends."""

    head: list[str]
    rows: list[list[Cell]]
    start: int
    end: int

    def column(self, pattern: re.Pattern[str]) -> int | None:
        """Return the number of the first column, behind the names, whose head holds the pattern."""
        return next((n for n, text in enumerate(self.head) if n and pattern.search(text)), None)


def grids(norm: str) -> Iterator[Grid]:
    """Yield the tables with a head, a rule below it and one row at least."""
    if "--" not in norm or "|" not in norm:
        return
    start = 0
    lines: list[tuple[str, int]] = []
    for line in norm.split("\n"):
        lines.append((line, start))
        start += len(line) + 1
    for number, (line, _) in enumerate(lines):
        if number and "|" in line and _RULE.fullmatch(line) and "|" in lines[number - 1][0]:
            rows = []
            for text, offset in lines[number + 1 : number + 1 + _MOST_ROWS]:
                if not text.lstrip(" \0").startswith("|"):
                    break
                rows.append(_cells(text, offset))
            if rows:
                head = [cell.text for cell in _cells(*lines[number - 1])]
                last = rows[-1][-1]
                yield Grid(head, rows, lines[number - 1][1], last.end)


def _cells(line: str, offset: int) -> list[Cell]:
    found = []
    start = line.index("|") + 1
    while start < len(line):
        end = line.find("|", start)
        end = len(line) if end < 0 else end
        text = line[start:end].strip()
        if text or end < len(line):
            first = start + len(line[start:end]) - len(line[start:end].lstrip())
            found.append(Cell(text, offset + first, offset + first + len(text)))
        start = end + 1
    return found or [Cell("", offset, offset)]
