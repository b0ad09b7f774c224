"""Recognizes the questions, the answers and the head of an interview's record (RAG benchmark schema).

A record is a head, then turns that begin with who speaks (``问：``, ``答：``, ``Q:``, ``A:``). A turn goes on
until the next one, over the end of a page too. What repeats on pages, such as their numbers, and the
signatures belong to no turn.
"""

import re
from collections.abc import Iterator
from typing import Final, NamedTuple

from memfin.contracts.rag import RagSection, RagSpeaker
from memfin.rag.document import Document, Page

_SPEAKERS: Final[dict[str, RagSpeaker]] = {
    "问": "question",
    "q": "question",
    "question": "question",
    "答": "answer",
    "a": "answer",
    "answer": "answer",
}
_DECORATION: Final = r"[ \t\u3000>*_#\-]*"
TURN: Final = re.compile(
    rf"^{_DECORATION}(?P<name>问|答|question|answer|q|a)[ \t\u3000]*+[0-9]{{0,4}}[.、]?[*_]*[ \t\u3000]*[:：]"
    r"|(?<=[。？！；?!])[ \t\u3000]*(?P<inner>[问答])[ \t\u3000]*[:：]",
    re.MULTILINE | re.IGNORECASE,
)
FURNITURE: Final = re.compile(
    rf"^{_DECORATION}(?:"
    r"第[ \t]*[0-9一二三四五六七八九十百]+[ \t]*页.{0,20}"
    r"|page[ \t]+[0-9]+.{0,20}"
    r"|[-—–][ \t]*[0-9]{1,4}[ \t]*[-—–]"
    r"|[^。，？！；:：\n]{0,16}(?:签名|签字|捺印)[ \t）)]*+(?:[:：（(_].*)?"
    r"|以上(?:笔录|记录).*"
    rf"){_DECORATION}$",
    re.MULTILINE | re.IGNORECASE,
)
"""Lines outside of turns: the number of a page, a line to sign on, the words above it."""


class Segment(NamedTuple):
    """A part of a page: half-open character offsets into its text, and whose words these are.

    ``speaker`` is None in the head; ``pair`` numbers each question with its answer from 1, and is 0 there.
    The name of the speaker is part of the first segment of a turn.
    """

    page: int
    start: int
    end: int
    section: RagSection
    speaker: RagSpeaker | None
    pair: int


def segments(document: Document) -> tuple[Segment, ...]:
    """Return the parts of a record in their order; none when no turn is found, as in other documents."""
    found: list[Segment] = []
    speaker: RagSpeaker | None = None
    pair = 0
    for page in document.pages:
        matches = TURN.finditer(page.text)
        turns: list[tuple[int, RagSpeaker]] = [
            (one.start(), _SPEAKERS[(one["name"] or one["inner"]).lower()]) for one in matches
        ]
        ends = [*(start for start, _ in turns), len(page.text)]
        starts: list[tuple[int, RagSpeaker | None]] = [(0, None), *turns]
        for (start, begins), end in zip(starts, ends, strict=True):
            if begins is not None:
                pair += begins == "question" or pair == 0
                speaker = begins
            found.extend(_parts(page, start, end, speaker, pair))
    return tuple(found) if pair else ()


def _parts(page: Page, start: int, end: int, speaker: RagSpeaker | None, pair: int) -> Iterator[Segment]:
    """Yield the parts between the beginnings of two turns, with furniture in parts of its own."""
    section: RagSection = "qa_pair" if pair else "header"
    position = start
    for line in FURNITURE.finditer(page.text, start, end):
        if position < line.start():
            yield Segment(page.number, position, line.start(), section, speaker, pair)
        yield Segment(page.number, line.start(), line.end(), "header", None, 0)
        position = line.end()
    if position < end:
        yield Segment(page.number, position, end, section, speaker, pair)
