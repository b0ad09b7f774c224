"""Parser of replies as Markdown: lines with their kinds, sentences, tables, lead-ins.

Models write Markdown loosely (bold lines as headings, lists inside code fences, tables without a rule), so
the reader is a line reader and not a CommonMark parser. See ADR 0019 for the parsers that were measured.
"""

import itertools
import operator
import re
from bisect import bisect_left, bisect_right
from collections.abc import Container, Iterator
from functools import cached_property
from typing import Final, Literal, NamedTuple

from memfin.text.normalize import normalize
from memfin.text.quantities import Quantity, quantities

LineKind = Literal["text", "heading", "item", "row", "rule", "blank"]

_STAR_BULLET: Final = re.compile(r"(?:^|(?<=\n)) {0,12}\*(?= )")
_MARK: Final = re.compile(r"(\*\*|\*(?!st)|`|~~|\u200b|\ufe0f)")
_MARK_SIGNS: Final = ("**", "`", "~~", "\u200b", "\ufe0f")
_LONE_STAR: Final = re.compile(r"\*(?!st)")
# Begins with one character set, so that the engine skips from candidate to candidate.
_SENTENCE_END: Final = re.compile(
    r"[.。!?;\n|…](?:(?<=[^.])[。!?;\n|… ]*[”」\"')]?|"
    r"(?<=\.)(?<![0-9\n ][0-9]\.)(?<!\n[0-9]\.)[\"')]?(?=\s|$))"
)
_ITEM: Final = re.compile(
    r"(?:[-+•·●▪■◆○➤►→✅✔✓☑❌⚠👉🔹🔸]|\(?[0-9]{1,2}[.)、](?![0-9])|\(?[一二三四五六七八九十]{1,3}[)、.]|[①-⑳]|"
    r"(?:方案|选项|option|plan) ?[0-9a-e一二三四五](?![a-z]))"
)
_RULE: Final = re.compile(r"[ |:+-]*--[ |:+-]*")
_QUOTE_MARK: Final = re.compile(r"(?: ?>)+ ?")
_BLANKS: Final = " \t"
_BETWEEN: Final = ".。!?;\n|… "
_START: Final = operator.attrgetter("start")
_LEAD_REACH: Final = 40
"""Lines above a list that are searched for its lead-in and heading."""
_LONGEST_TITLE: Final = 40
_LONGEST_LEAD: Final = 80


class Line(NamedTuple):
    """One line: half-open offsets of its content (indent and quote marks left out), its kind and layout."""

    start: int
    end: int
    kind: LineKind
    indent: int
    quoted: bool


class Cell(NamedTuple):
    """A table cell at half-open offsets."""

    text: str
    start: int
    end: int


class Table(NamedTuple):
    """A table: its header cells (empty without a header), its rows, and the number of its first line."""

    header: list[str]
    rows: list[list[Cell]]
    line: int


class Document:
    """A parsed reply.

    Attributes:
        source: The reply as it was written.
        text: Its normal form without emphasis marks, code marks and invisible characters. All offsets of
            this class count in it; `source_span` translates them.
        bounds: Half-open offsets of the sentences. Line breaks, table cells and semicolons separate
            sentences.
    """

    def __init__(self, source: str) -> None:
        self.source: Final = source
        norm = normalize(source)
        if "* " in norm:
            norm = _STAR_BULLET.sub(lambda match: match[0][:-1] + "-", norm)
        self._norm: Final = norm
        self._lines: Final[dict[int, Line]] = {}
        self._quantities: Final[dict[int, list[Quantity]]] = {}
        text = norm
        for sign in _MARK_SIGNS:
            text = text.replace(sign, "")
        if "*" in text:
            text = _LONE_STAR.sub("", text)
        self.text: Final = text
        self.bounds: Final = _sentences(text)

    @cached_property
    def starts(self) -> list[int]:
        """Offsets at which the sentences start."""
        return [start for start, _ in self.bounds]

    def sentence_number(self, offset: int) -> int:
        """Return the number, from 0, of the sentence that holds the offset."""
        return max(0, bisect_right(self.starts, offset) - 1)

    def sentence_at(self, offset: int) -> tuple[int, int]:
        """Return the bounds of the sentence that holds the offset."""
        return self.bounds[self.sentence_number(offset)]

    @cached_property
    def _line_starts(self) -> list[int]:
        lengths = (len(line) + 1 for line in self.text.split("\n"))
        return list(itertools.accumulate(lengths, initial=0))

    @property
    def lines(self) -> list[Line]:
        """All lines, blank ones included."""
        return [self.line(number) for number in range(len(self._line_starts) - 1)]

    def line(self, number: int) -> Line:
        """Return the line of that number, from 0."""
        found = self._lines.get(number)
        if found is None:
            starts = self._line_starts
            found = self._lines[number] = _line(self.text, starts[number], starts[number + 1] - 1)
        return found

    @cached_property
    def all_quoted(self) -> bool:
        """Block quotes around every line with content."""
        return all(line.quoted for line in self.lines if line.kind != "blank")

    def line_number(self, offset: int) -> int:
        """Return the number, from 0, of the line that holds the offset."""
        return min(bisect_right(self._line_starts, offset), len(self._line_starts) - 1) - 1

    def line_at(self, offset: int) -> Line:
        """Return the line that holds the offset."""
        return self.line(self.line_number(offset))

    def quantities(self, start: int, end: int) -> list[Quantity]:
        """Return the quantities within ``text[start:end]``, a part of one line."""
        number = self.line_number(start)
        found = self._quantities.get(number)
        if found is None:
            line = self.line(number)
            found = self._quantities[number] = quantities(self.text, line.start, line.end)
        first = bisect_left(found, start, key=_START)
        here = found[first : bisect_left(found, end, first, key=_START)]
        if here and here[-1].end > end:
            here.pop()
        return here

    def content(self, line: Line) -> str:
        """Return the words of a line."""
        return self.text[line.start : line.end]

    def leads(self, offset: int) -> Iterator[str]:
        """Yield the lines that introduce the one at the offset, nearest first: lead-ins, then headings.

        A lead-in of a list item or table row is the nearest line above that is neither, or that is less
        indented; a heading, or a short line that ends in a colon, introduces everything below it.
        """
        number = self.line_number(offset)
        here = self.line(number)
        indent, listed = here.indent, here.kind in ("item", "row", "rule")
        ruled = False
        for above in map(self.line, range(number - 1, max(0, number - _LEAD_REACH) - 1, -1)):
            if above.kind in ("blank", "rule"):
                ruled = above.kind == "rule"
                continue
            words = self.content(above)
            if ruled and listed and above.kind == "row":
                yield words  # the header of the table
            ruled = False
            if above.kind == "heading":
                yield words
                return
            if above.indent < indent and above.kind == "item":
                indent = above.indent
                yield words
            elif listed and above.kind == "text":
                listed = False
                if words.endswith(":") or len(words) <= _LONGEST_LEAD:
                    yield words
            elif words.endswith(":") and len(words) <= _LONGEST_TITLE:
                yield words

    def tables(self, lines: Container[int] | None = None) -> Iterator[Table]:
        """Yield the tables, with a header where a rule follows the first row.

        Args:
            lines: Numbers of lines; only tables that hold one of them are read. None means all.
        """
        if "|" not in self.text:
            return
        piped = [number for number, line in enumerate(self.text.split("\n")) if "|" in line]
        for _, run in itertools.groupby(enumerate(piped), key=lambda each: each[1] - each[0]):
            numbers = [number for _, number in run]
            if lines is not None and not any(number in lines for number in numbers):
                continue
            block = [(number, self.line(number)) for number in numbers]
            for is_table, each in itertools.groupby(block, key=lambda each: each[1].kind in ("row", "rule")):
                if is_table:
                    yield from self._table(list(each))

    def _table(self, block: list[tuple[int, Line]]) -> Iterator[Table]:
        rows = [_cells(self.text, line) for _, line in block if line.kind == "row"]
        if rows:
            headed = len(block) > 1 and block[1][1].kind == "rule"
            header = [cell.text for cell in rows[0]] if headed else []
            yield Table(header, rows[1 if headed else 0 :], block[0][0])

    @cached_property
    def _dropped(self) -> tuple[list[int], list[int]]:
        """Offsets in `text` after which marks were dropped, with the number of characters dropped so far."""
        lengths = [len(part) for part in _MARK.split(self._norm)]  # words and marks by turns
        return list(itertools.accumulate(lengths[:-1:2])), list(itertools.accumulate(lengths[1::2]))

    def source_span(self, start: int, end: int) -> tuple[int, int]:
        """Translate a half-open span of `text` into offsets of `source`."""
        if len(self.text) == len(self.source):
            return start, end
        places, totals = self._dropped
        first, last = bisect_right(places, start), bisect_right(places, end - 1)
        return start + (totals[first - 1] if first else 0), end + (totals[last - 1] if last else 0)


def _sentences(text: str) -> list[tuple[int, int]]:
    ends = [match.end() for match in _SENTENCE_END.finditer(text)]
    if not ends or ends[-1] < len(text):
        ends.append(len(text))
    bounds = list(itertools.pairwise((0, *ends)))
    if not text[: ends[0]].strip(_BETWEEN):
        del bounds[0]
    return bounds


def _line(text: str, start: int, end: int) -> Line:
    raw = text[start:end]
    words = raw.lstrip(_BLANKS)
    quoted = words.startswith(">")
    if quoted and (mark := _QUOTE_MARK.match(words)):
        words = words[mark.end() :].lstrip(_BLANKS)
    content = words.rstrip(_BLANKS)
    first = end - len(words)
    return Line(first, first + len(content), _kind(content), len(raw) - len(words), quoted)


def _kind(words: str) -> LineKind:
    """Return the kind of a line from its first characters."""
    if not words:
        return "blank"
    first = words[0]
    if first == "#":
        return "heading"
    if first in "|-=:_+" and _RULE.fullmatch(words):
        return "rule"
    if first == "|" or words.count("|") > 1:
        return "row"
    return "item" if _ITEM.match(words) else "text"


def _cells(text: str, line: Line) -> list[Cell]:
    cells = []
    start = line.start + (text[line.start] == "|")
    for raw in text[start : line.end].removesuffix("|").split("|"):
        words = raw.strip()
        first = start + len(raw) - len(raw.lstrip())
        cells.append(Cell(words, first, first + len(words)))
        start += len(raw) + 1
    return cells
