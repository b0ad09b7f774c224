"""Required evidence: document index, matching of passages, and citation correctness."""

import re
from bisect import bisect_right
from collections.abc import Iterable, Sequence
from functools import cached_property
from itertools import groupby, islice
from typing import Any, Final, Literal, NamedTuple

from memfin.contracts.rag import RagAnswer, RagQuestion, RequiredEvidence
from memfin.rag.document import Document, Segment, segments
from memfin.rag.extraction import normalize
from memfin.rag.extraction.facts import Fact, PartialDate, find_facts, surname_with_title
from memfin.rag.extraction.names import KnownWords

MAX_PLACES: Final = 256  # of a quote; one with more is too short to point at anything
MAX_PASSAGE_PAGES: Final = 2  # pages that a passage may run over
MAX_PASSAGE_CHARS: Final = 5000  # its folded characters where there are no pages
_SHORT_PAGE: Final = 60  # folded characters; a page with no more may well be the answer
_COMPARED: Final = 8  # places of a passage that are compared with those of another
_ID_SIGNS: Final = re.compile(r"[^0-9a-z]")
_NOON: Final = 12

Span = tuple[int, int]
Mismatch = Literal["empty", "lacks_must_include", "wrong_page", "not_in_document", "other_place", "too_long"]
"""Reasons why a passage is not the evidence.

``lacks_must_include``: the words required are not in it. ``wrong_page``: they are, but another page is
named. ``not_in_document``: the document holds no such passage, not on the page named. ``other_place``: it
does, but in another section, of another speaker. ``too_long``: no passage but a text of several pages.
"""


class DocumentIndex:
    """Index of a document for scoring; build it once and score any number of answers with it.

    ``text`` is the whole document, folded (see `memfin.rag.extraction.normalize`); all spans are half-open
    offsets into it. ``paged`` is True if it has several pages, ``is_record`` if it has questions and answers.
    """

    def __init__(self, document: Document) -> None:
        self.document = document
        self.paged = len(document.pages) > 1
        of_pages = groupby(segments(document), key=lambda part: part.page)
        parts = {page: list(of_page) for page, of_page in of_pages}
        self.is_record = bool(parts)
        self._starts: list[int] = []
        self._parts: list[tuple[int, int, Segment]] = []
        pieces: list[str] = []
        length, last = 0, ""
        for page in document.pages:
            whole = Segment(page.number, 0, len(page.text), "header", None, 0)
            of_page = parts.get(page.number, [whole])
            for part in of_page:
                folded = normalize.fold(page.text[part.start : part.end])
                between = normalize.fold(f"{last[-1:]}|{folded[:1]}")[1:-1]
                pieces += (between, folded)
                start, length = length + len(between), length + len(between) + len(folded)
                last = folded or last
                if part is of_page[0]:
                    self._starts.append(start)
                self._parts.append((start, length, part))
        self.text = "".join(pieces)
        self._numbers = [page.number for page in document.pages]
        ends = [*self._starts[1:], length]
        self._pages = dict(zip(self._numbers, zip(self._starts, ends, strict=True), strict=True))
        self._required: dict[tuple[int, str, str | None, str | None], tuple[Span, ...]] = {}

    def page_span(self, number: int) -> Span | None:
        """Return the span of a page, or None if the document has no page with that number."""
        return self._pages.get(number)

    def pages_of(self, start: int, end: int) -> list[int]:
        """Return the numbers of the pages that a span touches, in their order."""
        last = bisect_right(self._starts, max(start, end - 1))
        return self._numbers[bisect_right(self._starts, start) - 1 : last]

    def is_recited(self, text: str) -> bool:
        """Return True if a text contains a whole page, so that it copies the document."""
        pages = [(start, end) for start, end in self._pages.values() if end - start > _SHORT_PAGE]
        if len(text) < min((end - start for start, end in pages), default=len(text) + 1):
            return False
        folded = normalize.fold(text)
        return any(self.text[start:end].strip() in folded for start, end in pages)

    def locate(self, parts: tuple[str, ...], page: int | None = None) -> list[Span]:
        """Return the spans of a quote, at least partly on the page if one is given.

        ``parts`` are the quote as `memfin.rag.extraction.normalize.quote_parts` returns it.
        """
        if page is None:
            return list(islice(normalize.find_quote(parts, self.text), MAX_PLACES))
        own = self.page_span(page)
        if own is None:
            return []
        room = sum(map(len, parts)) * 2 + 400 * (len(parts) - 1)
        start, end = max(0, own[0] - room), min(len(self.text), own[1] + room)
        spans = normalize.find_quote(parts, self.text, start, end)
        touching = (span for span in spans if span[0] < own[1] and span[1] > own[0])
        return list(islice(touching, MAX_PLACES))

    def required_spans(self, required: RequiredEvidence, *, anywhere: bool = False) -> tuple[Span, ...]:
        """Return the spans of a required evidence within its section and speaker.

        It is looked for on its page, or on all with ``anywhere`` and where the document has no such page.
        Where no place meets section and speaker, as in documents that are no record, they are left aside.
        Empty when the document does not hold it.
        """
        page = 0 if anywhere else required.page
        key = (page, required.must_include, required.section, required.speaker)
        if key not in self._required:
            start, end = self.page_span(page) or (0, len(self.text))
            spans = normalize.occurrences(normalize.fold(required.must_include), self.text)
            found = tuple(span for span in spans if span[0] < end and span[1] > start)
            self._required[key] = tuple(span for span in found if self.meets(span, required)) or found
        return self._required[key]

    def meets(self, span: Span, required: RequiredEvidence) -> bool:
        """Return True if a span overlaps the required section and speaker."""
        if required.section is None and required.speaker is None:
            return True
        return any(
            start < min(span[1], end)
            and end > span[0]
            and required.section in (None, part.section)
            and required.speaker in (None, part.speaker)
            for start, end, part in self._parts
        )

    @cached_property
    def facts(self) -> "KnownFacts":
        """The facts of the document, for checking those of an answer."""
        whole = "\n".join(page.text for page in self.document.pages)
        return KnownFacts(find_facts(whole, names=False, indefinite=True), self.text)


AnyIndex = DocumentIndex | None
Scored = tuple[float, dict[str, Any]]  # a share of a score with its details


class KnownFacts:
    """Facts of a text, for looking up other facts in it.

    A fact is known by keys: an amount also as a number, a bare number also as an amount and a count.
    """

    def __init__(self, facts: Iterable[Fact], folded: str) -> None:
        self.text = folded
        self._keys: set[tuple[str, Any]] = set()
        self._units: dict[float, set[str]] = {}
        self._largest: dict[str, float] = {}
        self._dates: set[PartialDate] = set()
        year: int | None = None
        for kind, value, _, _, unit in facts:
            if kind == "date":
                year = value.year or year  # a day without a year is one of the year that was named last
                self._dates |= {value, value._replace(year=year)}
                self._keys.add(("number", value.year))
            elif kind == "time":
                hour, minute = value
                self._keys |= {("time", (hour % _NOON, minute or 0)), ("time", (hour % _NOON, None))}
            elif kind in ("id", "name"):
                self._keys.add((kind, _ID_SIGNS.sub("", value.lower())))
            else:
                self._keys.add(("share" if kind == "share" else "number", value))
                if kind in ("amount", "number"):
                    self._keys.add(("amount", value))
                if kind in ("count", "number"):
                    self._units.setdefault(value, set()).add(unit)
                    self._largest[unit] = max(self._largest.get(unit, 0.0), value)

    @cached_property
    def words(self) -> KnownWords:
        """The words of the text, for names without a mark."""
        return KnownWords(self.text)

    def holds(self, fact: Fact, words: str) -> bool:
        """Return True if the text contains a fact in any form, or its exact words."""
        written = fact.value if fact.kind == "name" else words
        if fact.kind == "name" and (surname := surname_with_title(words)) and f"姓{surname}" in self.text:
            return True
        return self._knows(fact, words) or normalize.contains(normalize.fold(written), self.text)

    def _knows(self, fact: Fact, words: str) -> bool:
        kind, value = fact.kind, fact.value
        if kind == "date":
            return any(value.within(date) for date in self._dates)
        if kind == "time":
            value = (value[0] % _NOON, value[1])
        elif kind == "id":
            value = _ID_SIGNS.sub("", value.lower())
            if value.isdigit() and ("number", float(value)) in self._keys:
                return True
        elif kind == "count":
            if words.startswith("第"):
                return bool(value <= self._largest.get(fact.unit, 0.0))
            units = self._units.get(value, set())
            return bool(units) and (not fact.unit or "" in units or fact.unit in units)
        return kind != "name" and (kind, value) in self._keys


class Passage(NamedTuple):
    """Evidence or quote prepared for matching; ``spans`` are its positions in the document."""

    page: int | None
    text: str
    parts: tuple[str, ...]
    spans: tuple[tuple[int, int], ...] | None
    problem: Mismatch | None

    @property
    def key(self) -> tuple[int, str]:
        """Page and text, for comparing passages."""
        return (self.page or 0, self.text)


def passage(text: str, page: int | None, index: AnyIndex) -> Passage:
    """Prepare a passage: fold it and find its positions in the document, if given.

    A page is looked at only where the document has several. A passage that runs over more than two pages
    (without pages: 5000 characters) is a dump, not evidence.
    """
    parts = normalize.quote_parts(text)
    folded = " ".join(parts)
    spans: tuple[Span, ...] | None = None
    problem: Mismatch | None = None
    if not parts:
        problem = "empty"
    elif not (index and index.paged) and len(folded) > MAX_PASSAGE_CHARS:
        problem = "too_long"
    elif index is not None:
        located = index.locate(parts, page if index.paged else None)
        spans = tuple(span for span in located if len(index.pages_of(*span)) <= MAX_PASSAGE_PAGES)
        if not spans:
            problem = "too_long" if located else "not_in_document"
    return Passage(page, folded, parts, spans, problem)


def mismatch(  # noqa: PLR0911 - one return a reason
    passage: Passage, required: RequiredEvidence, index: AnyIndex
) -> Mismatch | None:
    """Return the reason why a passage is not the required evidence, or None.

    It is when it contains ``must_include``, names its page or none, and stands in the document there,
    around a place that section and speaker allow. Without a document words and page must do, and where the
    document does not hold the required words at all, which is the benchmark's mistake, too.
    """
    if passage.problem in ("empty", "too_long"):
        return passage.problem
    words = normalize.fold(required.must_include)
    if not any(normalize.contains(words, part) for part in passage.parts):
        return "lacks_must_include"
    pages_matter = index is None or index.paged or index.page_span(required.page) is not None
    if pages_matter and passage.page is not None and passage.page != required.page:
        return "wrong_page"
    if index is None or passage.spans is None:
        return None
    places = index.required_spans(required, anywhere=passage.page is None or not pages_matter)
    if not places:
        return None
    if passage.problem is not None:
        return passage.problem
    if any(start <= first and last <= end for start, end in passage.spans for first, last in places):
        return None
    return "other_place"


def same_passage(one: Passage, other: Passage) -> bool:
    """Return True if two passages share more than half of the shorter one's words.

    Their places in the document decide; without places, one text that contains the other.
    """
    if one.spans and other.spans:
        return any(
            2 * (min(a[1], b[1]) - max(a[0], b[0])) > min(a[1] - a[0], b[1] - b[0])
            for a in one.spans[:_COMPARED]
            for b in other.spans[:_COMPARED]
        )
    if one.page is not None and other.page is not None and one.page != other.page:
        return False
    return one.text in other.text or other.text in one.text


def distinct(passages: list[Passage]) -> list[Passage]:
    """Return the passages, sorted, without those that repeat a shorter one.

    The shorter ones stay, so that a page around two separate answers does not make them one.
    """
    kept: list[Passage] = []
    for one in sorted(passages, key=lambda item: (len(item.text), item.key)):
        if not any(same_passage(one, other) for other in kept):
            kept.append(one)
    return kept


def unique_required(required: Sequence[RequiredEvidence]) -> list[RequiredEvidence]:
    """Return the required evidence without items that the file repeats."""
    kept: dict[tuple[int, str, str | None, str | None], RequiredEvidence] = {}
    for item in required:
        kept.setdefault((item.page, item.must_include, item.section, item.speaker), item)
    return list(kept.values())


def supported(
    passages: Iterable[Passage], required: Sequence[RequiredEvidence], index: AnyIndex
) -> tuple[list[bool], list[dict[str, Any]]]:
    """Return True or False per required item, if a passage supports it, and the record of each passage.

    Numbers under ``supports`` count required items from 0.
    """
    entries: list[dict[str, Any]] = []
    for each in passages:
        results = [mismatch(each, item, index) for item in required]
        supports = [place for place, result in enumerate(results) if result is None]
        entry: dict[str, Any] = {"page": each.page, "supports": supports}
        if not supports:  # the reason of the item that came nearest
            near = [result for result in ("other_place", "wrong_page") if result in results]
            entry["reason"] = next(iter([*near, each.problem or next(iter(results), None)]))
        entries.append(entry)
    found = {place for entry in entries for place in entry["supports"]}
    return [place in found for place in range(len(required))], entries


def citation_correctness(question: RagQuestion, answer: RagAnswer, index: AnyIndex) -> Scored:
    """Return the share of the critical required evidence that is cited, with its details (spec section 9).

    Without critical evidence all of it counts, and without required evidence one quote that stands in the
    document is enough. If citations are optional, none or one that supports the answer is enough.
    """
    every = unique_required(question.required_evidence)
    critical = [item for item in every if item.is_critical] or every
    cited, details = cited_items(question, answer, critical, index)
    if critical and "citations" in details:
        details["evidence"] = [
            {"page": item.page, "must_include": item.must_include, "cited": is_cited}
            for item, is_cited in zip(critical, cited, strict=True)
        ]
    if question.scoring.citation_required:
        return sum(cited) / len(cited), details
    return float(any(cited)), details


def cited_items(
    question: RagQuestion, answer: RagAnswer, required: Sequence[RequiredEvidence], index: AnyIndex
) -> tuple[list[bool], dict[str, Any]]:
    """Return True per required item that is cited; one value if no item or citation is required.

    Without a required item, a quote that stands in the document counts as cited.
    """
    needed = question.scoring.citation_required
    if not answer.citation and not needed:
        return [True], {"required": False, "reason": "not_required"}
    quoted = [passage(citation.quote, citation.page, index) for citation in answer.citation]
    if not required:
        entries = [{"page": one.page, "reason": one.problem} for one in quoted]
        return [any(one.problem is None for one in quoted)], {"required": needed, "citations": entries}
    cited, entries = supported(quoted, required, index)
    return cited, {"required": needed, "citations": entries}
