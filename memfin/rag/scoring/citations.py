"""The share of the required evidence that an answer cites (spec section 9, ``citation_correctness``)."""

from collections.abc import Sequence
from typing import Any, NamedTuple

from memfin.contracts.rag import RagAnswer, RagQuestion, RequiredEvidence
from memfin.rag.scoring.index import DocumentIndex
from memfin.rag.scoring.matching import mismatch, nearest, passage


class Cited(NamedTuple):
    """A value from 0 to 1, and what it is made of."""

    value: float
    details: dict[str, Any]


def unique_required(required: Sequence[RequiredEvidence]) -> list[RequiredEvidence]:
    """Return the required evidence without items that the file repeats."""
    kept: dict[tuple[int, str, str | None, str | None], RequiredEvidence] = {}
    for item in required:
        kept.setdefault((item.page, item.must_include, item.section, item.speaker), item)
    return list(kept.values())


def cited_items(
    answer: RagAnswer, required: Sequence[RequiredEvidence], index: DocumentIndex | None
) -> tuple[list[bool], list[dict[str, Any]]]:
    """Return which required items a citation supports, and for each citation what it supports or why nothing.

    Numbers under ``supports`` count required items from 0.
    """
    cited = [False] * len(required)
    told: list[dict[str, Any]] = []
    for citation in answer.citation:
        quoted = passage(citation.quote, citation.page, index)
        results = [mismatch(quoted, item, index) for item in required]
        supports = [place for place, result in enumerate(results) if result is None]
        for place in supports:
            cited[place] = True
        entry: dict[str, Any] = {"page": citation.page, "supports": supports}
        if not supports:
            entry["reason"] = quoted.problem or nearest([result for result in results if result is not None])
        told.append(entry)
    return cited, told


def citation_correctness(question: RagQuestion, answer: RagAnswer, index: DocumentIndex | None) -> Cited:
    """Return the share of the critical required evidence that is cited.

    Where no evidence is critical all of it counts, and where none is required one quote that stands in the
    document is enough. Where citations are not required, an answer without them is not marked down, and one
    citation that supports it is enough.
    """
    every = unique_required(question.required_evidence)
    critical = [item for item in every if item.is_critical] or every
    needed = question.scoring.citation_required
    if not answer.citation and not needed:
        return Cited(1.0, {"required": False, "reason": "not_required"})
    details: dict[str, Any] = {"required": needed}
    if not critical:
        quoted = [passage(citation.quote, citation.page, index) for citation in answer.citation]
        value = float(any(one.problem is None for one in quoted))
        return Cited(
            value, {**details, "citations": [{"page": one.page, "reason": one.problem} for one in quoted]}
        )
    cited, told = cited_items(answer, critical, index)
    share = sum(cited) / len(cited)
    details["citations"] = told
    details["evidence"] = [
        {"page": item.page, "must_include": item.must_include, "cited": is_cited}
        for item, is_cited in zip(critical, cited, strict=True)
    ]
    return Cited(share if needed else float(any(cited)), details)


def citation_provided(question: RagQuestion, answer: RagAnswer, index: DocumentIndex | None) -> Cited:
    """Return 1 when a citation supports the answer: it is one of the required pieces of evidence.

    Where none is required, a quote that stands in the document does. Where citations are not required, an
    answer without them has the 1 as well.
    """
    needed = question.scoring.citation_required
    if not answer.citation and not needed:
        return Cited(1.0, {"required": False, "reason": "not_required"})
    required = unique_required(question.required_evidence)
    if not required:
        quoted = [passage(citation.quote, citation.page, index) for citation in answer.citation]
        told = [{"page": one.page, "reason": one.problem} for one in quoted]
        return Cited(
            float(any(one.problem is None for one in quoted)), {"required": needed, "citations": told}
        )
    cited, told = cited_items(answer, required, index)
    return Cited(float(any(cited)), {"required": needed, "citations": told})
