"""Whether a passage is evidence that a question requires (RAG benchmark schema, required_evidence)."""

from collections.abc import Sequence
from typing import Final, Literal, NamedTuple

from memfin.contracts.rag import RequiredEvidence
from memfin.rag.extraction.normalize import contains, fold, quote_parts
from memfin.rag.scoring.index import DocumentIndex

Mismatch = Literal["empty", "lacks_must_include", "wrong_page", "not_in_document", "other_place", "too_long"]
"""Why a passage is not the evidence.

``lacks_must_include``: the words required are not in it. ``wrong_page``: they are, but another page is
named. ``not_in_document``: the document holds no such passage, not on the page named. ``other_place``: it
does, but in another section, of another speaker. ``too_long``: no passage but a text of several pages.
"""

_LONGEST: Final = 5000
"""Folded characters of a passage where there are no pages to measure it by."""
_MOST_PAGES: Final = 2
_COMPARED: Final = 8
"""Places of a passage that are looked at to tell whether it is another one again."""


class Passage(NamedTuple):
    """A piece of evidence or a quote, prepared for matching; ``spans`` are its places in the document."""

    page: int | None
    text: str
    parts: tuple[str, ...]
    spans: tuple[tuple[int, int], ...] | None
    problem: Mismatch | None

    @property
    def key(self) -> tuple[int, str]:
        """What two passages that are the same have in common."""
        return (0 if self.page is None else self.page, self.text)


def passage(text: str, page: int | None, index: DocumentIndex | None) -> Passage:
    """Prepare a passage: fold it and find its places in the document, if there is one.

    A page is looked at only where the document has several. A passage that runs over more than two pages
    (without pages: 5000 characters) is a dump, not evidence.
    """
    parts = quote_parts(text)
    folded = " ".join(parts)
    if not parts:
        return Passage(page, folded, parts, None, "empty")
    if index is None or not index.paged:
        if len(folded) > _LONGEST:
            return Passage(page, folded, parts, None, "too_long")
        if index is None:
            return Passage(page, folded, parts, None, None)
    spans = index.locate(parts, page if index.paged else None)
    if not spans:
        return Passage(page, folded, parts, (), "not_in_document")
    short = tuple(span for span in spans if index.crossed(*span) <= _MOST_PAGES)
    return Passage(page, folded, parts, short, None if short else "too_long")


def mismatch(  # noqa: PLR0911 - one return a reason
    passage: Passage, required: RequiredEvidence, index: DocumentIndex | None
) -> Mismatch | None:
    """Return why a passage is not the required evidence; None when it is.

    It is when it contains ``must_include``, names its page or none, and stands in the document there,
    around a place that section and speaker allow. Without a document words and page must do, and where the
    document does not hold the required words at all, which is the benchmark's mistake, too.
    """
    if passage.problem in ("empty", "too_long"):
        return passage.problem
    words = fold(required.must_include)
    if not any(contains(words, part) for part in passage.parts):
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


def reason(passage: Passage, mismatches: Sequence[str]) -> str | None:
    """Return why a passage is none of the required evidence, as what came nearest to it says."""
    for near in ("other_place", "wrong_page"):
        if near in mismatches:
            return near
    return passage.problem or (mismatches[0] if mismatches else None)


def same_passage(one: Passage, other: Passage) -> bool:
    """Say whether two passages are one: they share more than half of the shorter one's words.

    That is told by their places in the document, without one by the text of one containing the other's.
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
    """Return the passages without those that repeat a shorter one, in an order of their own.

    The shorter ones stay, so that a page around two separate answers does not make them one.
    """
    kept: list[Passage] = []
    for one in sorted(passages, key=lambda item: (len(item.text), item.key)):
        if not any(same_passage(one, other) for other in kept):
            kept.append(one)
    return kept
