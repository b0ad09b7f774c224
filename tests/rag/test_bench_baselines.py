"""The system bm25s, and baselines beside the system of a benchmark run."""

import sys

import pytest

from memfin.errors import UsageError
from memfin.rag.document import Document, text_pages
from memfin.rag.systems import load_system
from memfin.rag.systems.bm25s import Bm25sRag
from tests.rag.bench_support import DOCUMENT

PROSE = """<!-- page 1 -->
The branch in Eastling closed in May after forty years.

Deposits grew by 12% to $9.84 billion.

<!-- page 2 -->
The fine of $6.4 million was paid in January.

Nobody has been named to lead the committee.
"""


def document(text: str) -> Document:
    return Document("record.md", tuple(text_pages(text)))


async def test_bm25s_answers_with_the_best_passage_and_shows_three() -> None:
    answer = await Bm25sRag(document(PROSE)).query("When was the fine of millions paid by the branch?")
    assert answer.answer == "The fine of $6.4 million was paid in January."
    assert [(each.page, each.quote) for each in answer.citation] == [(2, answer.answer)]
    assert [each.page for each in answer.evidence] == [2, 1, 1]
    assert answer.evidence[0].text == answer.answer


async def test_bm25s_finds_pairs_of_characters_in_questions_with_their_answers() -> None:
    system = Bm25sRag(document(DOCUMENT))
    first = await system.query("钱用在什么地方？")
    assert [(each.page, each.quote) for each in first.citation] == [(2, "具体用在哪里都忘记了。")]
    assert await system.query("钱用在什么地方？") == first


@pytest.mark.parametrize(
    ("text", "question", "words"),
    [
        (DOCUMENT, "保单号码？", "原文没有说明。"),
        (PROSE, "xyzzy?", "The document does not say."),
        ("<!-- page 1 -->\n", "钱用在哪里？", "原文没有说明。"),
        (DOCUMENT, "？", "原文没有说明。"),
    ],
)
async def test_bm25s_declines_without_a_shared_term(text: str, question: str, words: str) -> None:
    answer = await Bm25sRag(document(text)).query(question)
    assert (answer.answer, answer.abstained, answer.citation) == (words, True, [])


def test_bm25s_without_its_package_is_refused_in_one_line(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delitem(sys.modules, "memfin.rag.systems.bm25s")
    monkeypatch.setitem(sys.modules, "bm25s", None)
    with pytest.raises(UsageError, match=r"needs the extra: pip install 'memfin\[bm25s\]'$"):
        load_system("bm25s", document=document(DOCUMENT))


def test_bm25s_needs_a_document() -> None:
    with pytest.raises(UsageError, match="rag 'bm25s': reads the document itself, and there is none"):
        load_system("bm25s")
