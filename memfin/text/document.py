"""A reply read as a Markdown document: lines with their kinds, sentences, tables, lead-ins.

Models write Markdown loosely (bold lines as headings, lists inside code fences, tables without a rule), so
the reader is a line reader and not a CommonMark parser. See ADR 0019 for the parsers that were measured.
"""

import itertools
import re
from bisect import bisect_right
from collections.abc import Iterator
from functools import cached_property
from typing import Final, Literal, NamedTuple

from memfin.text.normalize import normalize

LineKind = Literal["text", "heading", "item", "row", "rule", "blank"]

_STAR_BULLET: Final = re.compile(r"(?:^|(?<=\n)) {0,12}\*(?= )")
_MARK: Final = re.compile(r"(\*\*|\*(?!st)|`|~~|\u200b|\ufe0f)")
_MARK_SIGNS: Final = ("`", "~~", "\u200b", "\ufe0f")
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
"""Marks between sentences."""
_LEAD_REACH: Final = 40
"""Lines above a list in which its lead-in and heading are looked for."""
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
    """A reply prepared for reading.

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
        text = norm.replace("**", "") if "*" in norm else norm
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
    def lines(self) -> list[Line]:
        """All lines, blank ones included."""
        return list(_lines(self.text))

    @cached_property
    def _line_starts(self) -> list[int]:
        return [0, *itertools.accumulate(len(line) + 1 for line in self.text.split("\n"))]

    def line_number(self, offset: int) -> int:
        """Return the number, from 0, of the line that holds the offset."""
        return bisect_right(self._line_starts, offset) - 1

    def line_at(self, offset: int) -> Line:
        """Return the line that holds the offset."""
        return self.lines[min(self.line_number(offset), len(self.lines) - 1)]

    def content(self, line: Line) -> str:
        """Return the words of a line."""
        return self.text[line.start : line.end]

    def leads(self, offset: int) -> Iterator[str]:
        """Yield the lines that introduce the line at the offset, the nearest first: lead-ins, then headings.

        A lead-in of a list item or table row is the nearest line above that is neither, or that is less
        indented; a heading, or a short line that ends in a colon, introduces everything below it.
        """
        number = self.line_number(offset)
        here = self.lines[min(number, len(self.lines) - 1)]
        indent, listed = here.indent, here.kind in ("item", "row", "rule")
        ruled = False
        for above in reversed(self.lines[max(0, number - _LEAD_REACH) : number]):
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

    @cached_property
    def tables(self) -> list[Table]:
        """The tables, with a header where a rule follows the first row."""
        return list(self._read_tables()) if "|" in self.text else []

    def _read_tables(self) -> Iterator[Table]:
        block: list[int] = []
        for number, line in enumerate([*self.lines, Line(0, 0, "blank", 0, quoted=False)]):
            if line.kind in ("row", "rule") and "|" in self.content(line):
                block.append(number)
                continue
            rows = [(n, _cells(self.text, self.lines[n])) for n in block if self.lines[n].kind == "row"]
            if rows:
                headed = len(block) > 1 and self.lines[block[1]].kind == "rule"
                header = [cell.text for cell in rows[0][1]] if headed else []
                yield Table(header, [cells for _, cells in rows[1 if headed else 0 :]], block[0])
            block = []

    @cached_property
    def _dropped(self) -> tuple[list[int], list[int]]:
        """Offsets in `text` behind which marks were dropped, and the number of characters dropped so far."""
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


def _lines(text: str) -> Iterator[Line]:
    start = 0
    for raw in text.split("\n"):
        end = start + len(raw)
        words = raw.lstrip(_BLANKS)
        quoted = words.startswith(">")
        if quoted and (mark := _QUOTE_MARK.match(words)):
            words = words[mark.end() :].lstrip(_BLANKS)
        content = words.rstrip(_BLANKS)
        first = start + len(raw) - len(words)
        yield Line(first, first + len(content), _kind(content), len(raw) - len(words), quoted)
        start = end + 1


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
