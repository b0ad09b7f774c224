"""What a judge is shown of a question: the pages of the document that bear on its answer."""

from collections.abc import Iterator
from typing import Final

from memfin.contracts.rag import RagAnswer, RagJudgeRequest, RagPage, RagQuestion
from memfin.rag.extraction.normalize import quote_parts
from memfin.rag.language import language_of
from memfin.rag.scoring import DocumentIndex

MOST_PAGE_CHARS: Final = 40_000
"""Characters of pages after which no more of those are shown that only the answer points at."""


def judge_request(question: RagQuestion, answer: RagAnswer, index: DocumentIndex) -> RagJudgeRequest:
    """Return what a judge is asked about an answer.

    Pages with required evidence come first and are always shown; then those that the answer's evidence and
    citations point at, in its order, as far as there is room. A quote without a page points at the first
    page that holds it. Pages that the document does not have are left aside.
    """
    document = index.document
    needed = [each.page for each in question.required_evidence]
    if question.evidence_location is not None:
        needed.append(question.evidence_location.page)
    pages: list[RagPage] = []
    room, left_out = MOST_PAGE_CHARS, 0
    known = dict.fromkeys(needed)
    for number in dict.fromkeys((*known, *_pointed_at(answer, index))):
        page = document.page(number)
        if page is None:
            continue
        text = page.text.strip()
        if number not in known and len(text) > room:
            left_out += 1
            continue
        room -= len(text)
        pages.append(RagPage(number=number, text=text))
    return RagJudgeRequest(
        question=question,
        answer=answer,
        language=language_of(question.question),
        pages=pages,
        pages_left_out=left_out,
    )


def _pointed_at(answer: RagAnswer, index: DocumentIndex) -> Iterator[int]:
    pieces = [(piece.page, piece.text) for piece in answer.evidence]
    pieces += [(piece.page, piece.quote) for piece in answer.citation]
    for page, words in pieces:
        if page is not None:
            yield page
            continue
        parts = quote_parts(words)
        places = index.locate(parts) if parts else []
        if places:
            yield index.pages_of(*places[0])[0]
