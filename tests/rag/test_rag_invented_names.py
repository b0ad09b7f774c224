"""Bare names of people, places and firms in answers, against five invented documents.

A line of ``rag_invented_names.jsonl`` is a document, or an answer with the names that it invents. The lines
of half 1 were there before the patterns, those of half 2 were written after them.
"""

from pathlib import Path
from typing import Any

import msgspec
import pytest

from memfin.contracts.rag import RagAnswer, RagQuestion
from memfin.rag.document import Document, Page
from memfin.rag.scoring import DocumentIndex
from memfin.rag.scoring.question import check_answer

ROWS = (Path(__file__).parent / "rag_invented_names.jsonl").read_bytes().splitlines()
CASES: list[dict[str, Any]] = [msgspec.json.decode(row) for row in ROWS]
INDEXES = {
    case["domain"]: DocumentIndex(Document("d.md", (Page(1, case["document"]),)))
    for case in CASES
    if "document" in case
}


def found(say: str, *, domain: str, q: str) -> list[str]:
    question = msgspec.convert({"id": "q", "type": "conflict_gap", "question": q}, RagQuestion)
    invented = check_answer(question, RagAnswer(answer=say), INDEXES[domain])["invented"]
    return [one["text"] for one in invented if one["kind"] == "name"]


@pytest.mark.parametrize(("half", "precision", "recall"), [(1, 0.97, 0.97), (2, 0.8, 0.9)])
def test_invented_names_are_found_and_ordinary_words_are_none(
    half: int, precision: float, recall: float
) -> None:
    answers = [case for case in CASES if case.get("half") == half]
    wrong = [bool(case.get("names")) for case in answers]
    blamed = [bool(found(case["say"], domain=case["domain"], q=case["q"])) for case in answers]
    hits = sum(is_wrong and is_blamed for is_wrong, is_blamed in zip(wrong, blamed, strict=True))
    assert min(sum(wrong), len(wrong) - 2 * sum(wrong)) > 0
    assert hits / sum(blamed) >= precision
    assert hits / sum(wrong) >= recall
