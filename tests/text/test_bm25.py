"""The incremental BM25 index: its terms, its formula, and its flat cost."""

import math
from collections import Counter

import pytest

from memfin.text.bm25 import K1, POSTINGS, B, IncrementalBM25, terms


def test_terms_are_chinese_bigrams_and_whole_words_and_numbers() -> None:
    assert terms("回撤10%，Index funds 涨") == ["回撤", "10%", "index", "funds", "涨"]
    assert terms("分级基金") == ["分级", "级基", "基金"]


def test_scores_are_those_of_the_bm25_formula() -> None:
    index = IncrementalBM25()
    documents = [["债券", "利率", "债券"], ["股票", "利率"], ["黄金"]]
    for words in documents:
        index.add(Counter(words))
    average = sum(map(len, documents)) / 3

    def expected(document: list[str], term: str) -> float:
        holding = sum(term in words for words in documents)
        idf = math.log(1 + (3 - holding + 0.5) / (holding + 0.5))
        count = document.count(term)
        return idf * count * (K1 + 1) / (count + K1 * (1 - B + B * len(document) / average))

    found = index.search(["债券", "利率", "没有"], limit=5)
    assert [match.document for match in found] == [0, 1]
    assert found[0].score == pytest.approx(expected(documents[0], "债券") + expected(documents[0], "利率"))
    assert found[1].score == pytest.approx(expected(documents[1], "利率"))


def test_newer_document_wins_among_equals() -> None:
    index = IncrementalBM25()
    for _ in range(3):
        index.add(Counter(["a"]))
    assert [match.document for match in index.search(["a"], limit=2)] == [2, 1]


def test_postings_of_a_frequent_term_stay_few() -> None:
    index = IncrementalBM25()
    for _ in range(10 * POSTINGS):
        index.add(Counter(["a"]))
    assert len(index._postings["a"]) < 2 * POSTINGS
    assert index.search(["a"], limit=1)[0].document == 10 * POSTINGS - 1
