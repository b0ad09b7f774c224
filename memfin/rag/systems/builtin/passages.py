"""Cuts a document into what can be found and quoted: questions with their answers, or paragraphs."""

import re
from collections import Counter
from collections.abc import Iterator
from itertools import groupby
from typing import Final, NamedTuple

from memfin.rag.document import Document
from memfin.rag.systems.builtin.words import joined
from memfin.rag.transcript import Segment, segments
from memfin.text.clauses import sentences

LONGEST: Final = 600
"""Characters of a passage of prose, after which the next sentence begins another."""

REPEATED: Final = 3
"""Pages from which on a line that stands on each of them is no content."""

_SPEAKER: Final = re.compile(
    r"^[ \t\u3000>*_#\-]*(?:问|答|question|answer|q|a)"
    r"[ \t\u3000]*[0-9]{0,4}[.、]?[*_]*[ \t\u3000]*[:：][*_]*[ \t\u3000]*",
    re.IGNORECASE,
)
_BLANK_LINES: Final = re.compile(r"\n[ \t\u3000]*\n")
_HEADING: Final = re.compile(r"#{1,6}\s")
_WRAPPED: Final = re.compile(r"(?<=[\u2e80-\U0003ffff])[ \t]*\n[ \t]*(?=[\u2e80-\U0003ffff])")
_PAGE_LINE: Final = re.compile(
    r"[-—– ]*(?:第[ \t]*\d+[ \t]*页.*|page[ \t]+\d+.*|\d{1,4})[-—– ]*", re.IGNORECASE
)


class Sentence(NamedTuple):
    """A sentence as it stands on a page, its line breaks taken out."""

    page: int
    text: str


class Passage(NamedTuple):
    """What belongs together: ``asked`` are a record's question or the heading above, ``said`` the rest.

    ``is_pair`` tells a question with its answer from prose.
    """

    asked: tuple[Sentence, ...]
    said: tuple[Sentence, ...]
    is_pair: bool

    @property
    def question(self) -> str:
        """The words of the question, or of the heading."""
        return joined(sentence.text for sentence in self.asked)

    @property
    def answer(self) -> str:
        """What is said, in one piece."""
        return joined(sentence.text for sentence in self.said)


def passages_of(document: Document) -> tuple[Passage, ...]:
    """Return the passages of a document in its order."""
    parts = segments(document)
    found = _record(document, parts) if parts else _prose(document)
    return tuple(passage for passage in found if passage.said or passage.asked)


def _record(document: Document, parts: tuple[Segment, ...]) -> Iterator[Passage]:
    text = {page.number: page.text for page in document.pages}
    lines: Counter[str] = Counter()
    head: list[Sentence] = []
    for part in parts:
        if part.pair == 0:
            found = list(_lines(part.page, text[part.page][part.start : part.end]))
            head += found
            lines.update({sentence.text for sentence in found})
    kept = [
        sentence
        for sentence in head
        if lines[sentence.text] < REPEATED and not _PAGE_LINE.fullmatch(sentence.text)
    ]
    for _, near in groupby(kept, key=lambda sentence: sentence.page):
        yield Passage((), tuple(near), is_pair=False)
    pairs = [part for part in parts if part.pair]
    for _, turns in groupby(sorted(pairs, key=lambda part: part.pair), key=lambda part: part.pair):
        asked: list[Sentence] = []
        said: list[Sentence] = []
        for part in turns:
            words = _SPEAKER.sub("", text[part.page][part.start : part.end])
            (asked if part.speaker == "question" else said).extend(_sentences(part.page, words))
        yield Passage(tuple(asked), tuple(said), is_pair=True)


def _prose(document: Document) -> Iterator[Passage]:
    counted = Counter(
        line for page in document.pages for line in {each.strip() for each in page.text.split("\n")} if line
    )
    heading: tuple[Sentence, ...] = ()
    for page in document.pages:
        kept = "\n".join(
            line
            for line in page.text.split("\n")
            if counted[line.strip()] < REPEATED and not (line.strip() and _PAGE_LINE.fullmatch(line.strip()))
        )
        for block in _BLANK_LINES.split(kept):
            words = block.strip()
            if not words:
                continue
            if _HEADING.match(words) and "\n" not in words:
                heading = (Sentence(page.number, words.lstrip("# ")),)
                continue
            for said in _windows(_sentences(page.number, words)):
                yield Passage(heading, said, is_pair=False)


def _windows(sentences: Iterator[Sentence]) -> Iterator[tuple[Sentence, ...]]:
    held: list[Sentence] = []
    length = 0
    for sentence in sentences:
        if held and length + len(sentence.text) > LONGEST:
            yield tuple(held)
            held, length = [], 0
        held.append(sentence)
        length += len(sentence.text)
    if held:
        yield tuple(held)


def _lines(page: int, text: str) -> Iterator[Sentence]:
    for line in text.split("\n"):
        if words := line.strip(" \t\u3000#>*"):
            yield Sentence(page, words)


def _sentences(page: int, text: str) -> Iterator[Sentence]:
    for words in sentences(_WRAPPED.sub("", text)):
        if words.strip(" \t\u3000\n*_|-"):
            yield Sentence(page, words.strip())
