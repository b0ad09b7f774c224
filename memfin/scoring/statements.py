"""Statements: the sentences of a reply and their kinds, read once for all detectors.

A sentence is the reply's own statement to this client unless words or layout make it a question, a
supposition, a report of what others say, a warning, a quotation, a mere mention of words, a fact about
a kind of product, an aim, or an item under a heading of things that are not offered. Detectors name the
kinds that they ignore.
"""

import re
from collections.abc import Iterable, Sequence
from functools import cache, cached_property
from typing import Final

from memfin.scoring.classifier import SentenceScores, load_classifier
from memfin.scoring.lexicon import Lexicon, Sentence
from memfin.text.document import Document

LEXICONS: Final = ("risk_tags", "compliance", "rubric")
"""The lexicons of all content detectors."""

# Kinds of statements, as bits; a sentence may be of several.
QUESTION: Final = 1
SUPPOSING: Final = 2
OTHERS: Final = 4
WARNING: Final = 8
MENTION: Final = 16
FACT: Final = 32
AIMING: Final = 64
ZERO: Final = 128

_KINDS: Final = {
    "SUPPOSING": SUPPOSING,
    "OTHERS": OTHERS,
    "WARNING": WARNING,
    "MENTION": MENTION,
    "FACT": FACT,
    "AIMING": AIMING,
    "ZERO": ZERO,
}
_QUESTION_ENDS: Final = ("?", "吗", "呢", "吗。", "呢。")
_QUESTION_CLOSING: Final = " |)”」\"'\n"
_QUOTATION: Final = re.compile(r"[“「『\"]([^”」』\"\n]{1,80})[”」』\"]")
_FEW_SENTENCES: Final = 3
_ROW_HEAD: Final = 200
"""Characters of a table row that tell what it is about."""
_QUOTE_MARGIN: Final = 4
"""Characters of a short reply that may stand outside the quotation marks around it."""


@cache
def content_lexicon() -> Lexicon:
    """Return the lexicon of all content detectors, compiled once per process."""
    return Lexicon(LEXICONS)


@cache
def class_mask(*names: str) -> int:
    """Return the bit mask of shared word classes of the content lexicon."""
    return content_lexicon().mask(*names)


@cache
def _kind_masks() -> tuple[int, tuple[tuple[int, int], ...]]:
    masks = tuple((class_mask(name), kind) for name, kind in _KINDS.items())
    return class_mask(*_KINDS), masks


class Analysis:
    """A reply read for the detectors.

    Attributes:
        document: The reply as a document; all offsets count in its ``text``.
        sentences: Its sentences with their tokens, in order.
    """

    def __init__(self, reply: str | Document) -> None:
        self.document: Final = reply if isinstance(reply, Document) else Document(reply)
        self.text: Final = self.document.text
        self.sentences: Final = content_lexicon().sentences(self.document)
        self._layout: Final = _Layout(self.document, short=len(self.sentences) <= _FEW_SENTENCES)
        self._statements: Final[dict[int, Statement]] = {}

    @cached_property
    def _scores(self) -> SentenceScores:
        return load_classifier().read(self.text, self.document.bounds)

    def candidates(self, label: str) -> Sequence[int]:
        """Return the numbers of the sentences near or above the threshold for a label, best first."""
        return self._scores.near.get(label, ())

    def margin(self, label: str, number: int) -> int:
        """Return how far the classifier's score of a sentence is above the label's threshold."""
        return load_classifier().margin(label, self._scores.sums[number])

    def statement(self, number: int) -> "Statement":
        """Return the statement that a sentence makes, by the number of the sentence."""
        found = self._statements.get(number)
        if found is None:
            found = self._statements[number] = Statement(self._layout, self.sentences[number])
        return found

    def statement_at(self, offset: int) -> "Statement":
        """Return the statement of the sentence that holds an offset."""
        return self.statement(self.document.sentence_number(offset))


class _Layout:
    """Surroundings of the sentences of a reply: quotation marks, lead-ins, headings, heads of table rows.

    It does not know the statements, so that a reply that was read is freed at once.
    """

    def __init__(self, document: Document, *, short: bool) -> None:
        self.document: Final = document
        self.short: Final = short
        self._leads: Final[dict[int, int]] = {}
        self._rows: Final[dict[int, int]] = {}

    @cached_property
    def quotations(self) -> list[tuple[int, int]]:
        """Half-open offsets of what stands in quotation marks."""
        return [match.span(1) for match in _QUOTATION.finditer(self.document.text)]

    def lead_classes(self, offset: int) -> int:
        """Return the classes of all words in the lead-ins and the heading above a place."""
        line = self.document.line_number(offset)
        found = self._leads.get(line)
        if found is None:
            found = self._leads[line] = _classes_of(self.document.leads(offset))
        return found

    def row_classes(self, offset: int) -> int:
        """Return the classes of the words at the head of the table row at an offset; 0 outside tables."""
        line = self.document.line_number(offset)
        found = self._rows.get(line)
        if found is None:
            row = self.document.line_at(offset)
            head = [self.document.content(row)[:_ROW_HEAD]] if row.kind == "row" else []
            found = self._rows[line] = _classes_of(head)
        return found


def _classes_of(texts: Iterable[str]) -> int:
    """Return the classes of all words in some texts."""
    words = content_lexicon().words
    classes = 0
    for text in texts:
        classes |= words.classes(words.tokens(text))
    return classes


class Statement:
    """One sentence and its kinds."""

    __slots__ = ("__dict__", "_layout", "kind", "sentence")

    def __init__(self, layout: _Layout, sentence: Sentence) -> None:
        self._layout: Final = layout
        self.sentence: Final = sentence
        any_kind, masks = _kind_masks()
        kind = 0
        if sentence.classes & any_kind:
            for mask, each in masks:
                if sentence.classes & mask:
                    kind |= each
        words = layout.document.text[sentence.start : sentence.end]
        if words.rstrip(_QUESTION_CLOSING).endswith(_QUESTION_ENDS):
            kind |= QUESTION
        self.kind: Final = kind

    def is_quoted(self, start: int, end: int) -> bool:
        """Return True if a span lies within quotation marks; around a whole short reply they are layout."""
        quotations = self._layout.quotations
        inside = [last - first for first, last in quotations if first <= start and end <= last]
        if not inside or not self._layout.short:
            return bool(inside)
        return max(inside) < self.sentence.end - self.sentence.start - _QUOTE_MARGIN

    @cached_property
    def in_block_quote(self) -> bool:
        """Place in a block quote, of a reply that is not one as a whole.

        Models set their own notes in block quotes too, so that only severe violations are not read there.
        """
        document = self._layout.document
        return document.line_at(self.sentence.start).quoted and not document.all_quoted

    @cached_property
    def not_offered(self) -> bool:
        """Place below a lead-in or heading of what is not offered."""
        return bool(self._layout.lead_classes(self.sentence.start) & class_mask("NOT_OFFERED"))

    @cached_property
    def fact(self) -> bool:
        """Mention, in the sentence, its table row or heading, of a product whose terms are facts."""
        if self.kind & FACT:
            return True
        start = self.sentence.start
        classes = self._layout.row_classes(start) | self._layout.lead_classes(start)
        return bool(classes & class_mask("FACT"))
