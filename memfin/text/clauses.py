"""Sentences and clauses of plain prose, cut at punctuation in full-width and half-width forms.

A reply with Markdown is read by `memfin.text.document`.
"""

import re
from itertools import pairwise
from typing import Final

_SENTENCE_END: Final = re.compile(
    r"[。！？!?；;]+[”」』’\"）)]*|\n"
    r"|(?<=\.)(?<!\b[MDv][rs]\.)(?<!\bNo\.)(?<!\bMrs\.)(?<!\b[a-z]\.[a-z]\.)(?<!\bapprox\.)\s+(?=\S)"
)
CLAUSE_MARKS: Final = ",。;!?\n"
SENTENCE_MARKS: Final = "。;!?\n"
"""Marks at which clauses and sentences end, in half-width form but for the full stop."""
_LONGEST: Final = 200
_CLAUSE: Final = re.compile(r"[^,，。;；!！?？\n]+")


def sentence_bounds(text: str) -> list[tuple[int, int]]:
    """Return the half-open offsets of the sentences, including their end marks and following blanks.

    Line breaks and semicolons separate sentences too; what is blank is none.
    """
    ends = [match.end() for match in _SENTENCE_END.finditer(text)]
    return [(start, end) for start, end in pairwise((0, *ends, len(text))) if text[start:end].strip()]


def sentences(text: str) -> list[str]:
    """Return the sentences of `sentence_bounds`."""
    return [text[start:end] for start, end in sentence_bounds(text)]


def clauses(text: str) -> list[str]:
    """Return the clauses without their end marks."""
    return [clause for clause in _CLAUSE.findall(text) if clause.strip()]


def between_marks(text: str, start: int, end: int, marks: str) -> tuple[int, int]:
    """Return the span around ``text[start:end]`` between two of the given marks.

    It reaches up to 200 characters to each side.
    """
    first, last = max(0, start - _LONGEST), min(len(text), end + _LONGEST)
    begin = max(max(text.rfind(mark, first, start) for mark in marks) + 1, first)
    stops = [place for mark in marks if (place := text.find(mark, end, last)) >= 0]
    return begin, min(stops, default=last)
