"""A document prepared once for scoring: where quotes stand in it, whose words they are, its facts."""

import re
from bisect import bisect_right
from collections.abc import Iterable, Iterator
from functools import cached_property
from itertools import islice
from typing import Final, NamedTuple

from memfin.contracts.rag import RequiredEvidence
from memfin.rag.document import Document
from memfin.rag.extraction.dates import PartialDate
from memfin.rag.extraction.facts import Fact, find_facts
from memfin.rag.extraction.normalize import contains, find_quote, fold, fold_with_origins, joint, occurrences
from memfin.rag.transcript import segments

_MOST_PLACES: Final = 256
"""Places of one quote that are looked at; a quote with more is too short to point at anything."""

_SHORT_PAGE: Final = 60
"""Folded characters; a page with no more may well be the answer."""

_ID_SIGNS: Final = re.compile(r"[^0-9a-z]")
_NOON: Final = 12


class _Words(NamedTuple):
    """Folded offsets of a part of a record, with its section and speaker."""

    start: int
    end: int
    section: str
    speaker: str | None


class DocumentIndex:
    """What scoring asks of a document; build it once and score any number of answers with it.

    ``text`` is the whole document, folded (see `memfin.rag.extraction.normalize`); all spans are half-open
    offsets into it. ``paged`` says whether it has more pages than one.
    """

    def __init__(self, document: Document) -> None:
        self.document = document
        pieces: list[str] = []
        self._starts: list[int] = []
        self._numbers = [page.number for page in document.pages]
        origins: dict[int, tuple[int, list[int]]] = {}
        length, last = 0, ""
        for page in document.pages:
            folded, kept = fold_with_origins(page.text)
            between = joint(last, folded)
            pieces.append(between + folded)
            self._starts.append(length + len(between))
            origins[page.number] = (length + len(between), kept)
            length += len(between) + len(folded)
            last = folded or last
        self.text = "".join(pieces)
        self._ends = [*self._starts[1:], len(self.text)]
        self.paged = len(self._numbers) > 1
        self._words = tuple(self._record(origins))
        self._required: dict[tuple[int, str, str | None, str | None], tuple[tuple[int, int], ...]] = {}

    def _record(self, origins: dict[int, tuple[int, list[int]]]) -> Iterator[_Words]:
        for part in segments(self.document):
            base, kept = origins[part.page]
            start, end = bisect_right(kept, part.start - 1), bisect_right(kept, part.end - 1)
            if start < end:
                yield _Words(base + start, base + end, part.section, part.speaker)

    def page_span(self, number: int) -> tuple[int, int] | None:
        """Return the span of a page, or None when the document has no page of that number."""
        place = bisect_right(self._numbers, number) - 1
        if place < 0 or self._numbers[place] != number:
            return None
        return self._starts[place], self._ends[place]

    def pages_of(self, start: int, end: int) -> tuple[int, int]:
        """Return the numbers of the first and the last page that a span touches."""
        first = max(bisect_right(self._starts, start) - 1, 0)
        last = max(bisect_right(self._starts, end - 1) - 1, 0)
        return self._numbers[first], self._numbers[last]

    def crossed(self, start: int, end: int) -> int:
        """Return how many pages a span touches."""
        return bisect_right(self._starts, max(start, end - 1)) - bisect_right(self._starts, start) + 1

    def is_recited(self, text: str) -> bool:
        """Say whether a text contains a whole page, so that what it says is no answer but the document."""
        pages = [
            span for span in zip(self._starts, self._ends, strict=True) if span[1] - span[0] > _SHORT_PAGE
        ]
        if len(text) < min((end - start for start, end in pages), default=len(text) + 1):
            return False
        folded = fold(text)
        return any(self.text[start:end].strip() in folded for start, end in pages)

    def locate(self, parts: tuple[str, ...], page: int | None = None) -> list[tuple[int, int]]:
        """Return the spans where a quote stands, in whole or in part on the page when one is given.

        ``parts`` are the quote as `memfin.rag.extraction.normalize.quote_parts` returns it.
        """
        if page is None:
            return list(islice(find_quote(parts, self.text), _MOST_PLACES))
        own = self.page_span(page)
        if own is None:
            return []
        room = sum(map(len, parts)) * 2 + 400 * (len(parts) - 1)
        spans = find_quote(parts, self.text, max(0, own[0] - room), min(len(self.text), own[1] + room))
        touching = (span for span in spans if span[0] < own[1] and span[1] > own[0])
        return list(islice(touching, _MOST_PLACES))

    def required_spans(
        self, required: RequiredEvidence, *, anywhere: bool = False
    ) -> tuple[tuple[int, int], ...]:
        """Return the spans where a required evidence stands, as its section and speaker say.

        It is looked for on its page, or on all with ``anywhere`` and where the document has no such page.
        Where no place meets section and speaker, as in documents that are no record, they are left aside.
        Empty when the document does not hold it.
        """
        page = 0 if anywhere else required.page
        key = (page, required.must_include, required.section, required.speaker)
        spans = self._required.get(key)
        if spans is None:
            own = self.page_span(page)
            start, end = (0, len(self.text)) if own is None else own
            found = tuple(
                span
                for span in occurrences(fold(required.must_include), self.text)
                if span[0] < end and span[1] > start
            )
            meeting = tuple(span for span in found if self._meets(span, required))
            spans = self._required[key] = meeting or found
        return spans

    def _meets(self, span: tuple[int, int], required: RequiredEvidence) -> bool:
        if required.section is None and required.speaker is None:
            return True
        return any(
            words.start < span[1]
            and words.end > span[0]
            and required.section in (None, words.section)
            and required.speaker in (None, words.speaker)
            for words in self._words
        )

    @cached_property
    def facts(self) -> "KnownFacts":
        """The facts of the document, for looking up those of an answer."""
        whole = "\n".join(page.text for page in self.document.pages)
        return KnownFacts(find_facts(whole, names=False, indefinite=True), self.text)


class KnownFacts:
    """The facts of a text, to be asked whether it holds another fact."""

    def __init__(self, facts: Iterable[Fact], folded: str) -> None:
        self.text = folded
        self._amounts: set[float] = set()
        self._numbers: set[float] = set()
        self._shares: set[float] = set()
        self._counts: dict[float, set[str]] = {}
        self._most: dict[str, float] = {}
        self._dates: set[PartialDate] = set()
        self._times: set[tuple[int, int | None]] = set()
        self._ids: set[str] = set()
        year: int | None = None
        for fact in facts:
            value = fact.value
            if isinstance(value, PartialDate):
                year = value.year or year
                self._dates.add(value)
                # A day without a year is one of the year that was named last.
                self._dates.add(value._replace(year=year))
                if value.year is not None:
                    self._numbers.add(float(value.year))
            elif isinstance(value, tuple):
                self._times.add(value)
            elif isinstance(value, str):
                self._ids.add(_ID_SIGNS.sub("", value.lower()))
            else:
                self._add(fact, value)

    def _add(self, fact: Fact, value: float) -> None:
        if fact.kind == "share":
            self._shares.add(value)
            return
        self._numbers.add(value)
        if fact.kind in ("amount", "number"):
            self._amounts.add(value)
        if fact.kind in ("count", "number"):
            self._counts.setdefault(value, set()).add(fact.unit)
            self._most[fact.unit] = max(self._most.get(fact.unit, 0.0), value)

    def holds(self, fact: Fact, words: str) -> bool:
        """Say whether the text holds a fact, in any form, or the very words that the fact is written in."""
        value = fact.value
        if isinstance(value, PartialDate):
            known = any(value.within(date) for date in self._dates)
        elif isinstance(value, tuple):
            known = any(_same_time(value, time) for time in self._times)
        elif isinstance(value, str):
            known = fact.kind == "id" and self._holds_id(_ID_SIGNS.sub("", value.lower()))
        else:
            known = self._holds_number(fact, value, words)
        if known:
            return True
        folded = fold(value if fact.kind == "name" and isinstance(value, str) else words)
        return contains(folded, self.text)

    def _holds_number(self, fact: Fact, value: float, words: str) -> bool:
        if fact.kind == "share":
            return value in self._shares
        if fact.kind == "number":
            return value in self._numbers
        if fact.kind == "amount":
            return value in self._amounts
        if words.startswith("第"):
            return value <= self._most.get(fact.unit, 0.0)
        units = self._counts.get(value, set())
        return bool(units) and (not fact.unit or "" in units or fact.unit in units)

    def _holds_id(self, value: str) -> bool:
        return value in self._ids or (value.isdigit() and float(value) in self._numbers)


def _same_time(one: tuple[int, int | None], other: tuple[int, int | None]) -> bool:
    return one[0] % _NOON == other[0] % _NOON and (one[1] is None or one[1] == (other[1] or 0))
