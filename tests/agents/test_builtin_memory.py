"""Short-term window and long-term recall of the builtin agent."""

import math
from collections import Counter

import pytest
from hypothesis import given
from hypothesis import strategies as st

from memfin.agents.bm25 import K1, POSTINGS, QUERY_TERMS, B, IncrementalBM25, terms
from memfin.agents.builtin.memory import (
    RECALLED,
    WINDOW,
    DialogueMemory,
    MemoryState,
    recall_fields,
)
from memfin.memory.tokens import estimate_tokens


def talked(memory: DialogueMemory, *exchanges: tuple[str, str]) -> DialogueMemory:
    for user, assistant in exchanges:
        memory.hear(user)
        memory.record(assistant)
    return memory


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


def test_exchange_is_recalled_only_after_it_left_the_window() -> None:
    memory = DialogueMemory("s1")
    talked(memory, ("我对国债逆回购感兴趣", "国债逆回购是短期资金出借。"))
    for number in range(WINDOW - 1):
        talked(memory, (f"问题{number}", "回答"))
    assert memory.recall("国债逆回购").items == []
    assert "user: 我对国债逆回购感兴趣" in memory.recall("国债逆回购").short_term_context()
    talked(memory, ("另一个话题", "好的"))
    recall = memory.recall("国债逆回购怎么买")
    assert "国债逆回购" not in recall.short_term_context()
    (item,) = recall.items
    assert item.content == "user: 我对国债逆回购感兴趣\nassistant: 国债逆回购是短期资金出借。"
    assert (item.rank, item.source, item.turn_index, item.session_id) == (1, "bm25", 1, "s1")


def test_recall_returns_the_best_few_in_order_of_score() -> None:
    memory = DialogueMemory("s")
    for number in range(12):
        talked(memory, (f"gold and silver {number}" if number % 2 else f"bonds {number}", "noted"))
    items = memory.recall("gold").items
    assert len(items) == RECALLED
    assert [item.rank for item in items] == [1, 2, 3]
    scores = [item.score or 0.0 for item in items]
    assert scores == sorted(scores, reverse=True)
    assert all("gold" in item.content for item in items)


def test_current_question_is_not_its_own_memory() -> None:
    memory = DialogueMemory("s")
    memory.hear("从没说过的话")
    recall = memory.recall("从没说过的话")
    assert recall.short_term_context() == ""
    assert recall.short_term_turns() == []
    assert recall.items == []


def test_forced_history_keeps_the_reference_reply() -> None:
    memory = DialogueMemory("s")
    memory.hear("问")
    memory.record("参考回复")
    assert memory.recall("x").short_term_context() == "user: 问\nassistant: 参考回复"


def test_words_without_a_committed_reply_are_still_remembered() -> None:
    memory = DialogueMemory("s")
    memory.hear("一")
    memory.hear("二")
    memory.record("答二")
    memory.record("补充")
    assert memory.recall("x").short_term_context() == "user: 一\nuser: 二\nassistant: 答二\nassistant: 补充"


def test_cost_of_recall_does_not_grow_with_the_dialogue() -> None:
    memory = DialogueMemory("s")
    cost: list[int] = []
    words = "我想了解指数基金债券黄金保险的费用和风险以及怎么配置"
    for number in range(1200):
        memory.hear(words + str(number % 7))
        before = memory.postings_read
        memory.recall(words)
        cost.append(memory.postings_read - before)
        memory.record("指数基金的费用通常较低，债券有利率风险，黄金没有现金流。")
    assert max(cost) <= QUERY_TERMS * POSTINGS
    assert max(cost[600:]) == max(cost[300:600])


def test_postings_of_a_frequent_term_stay_few() -> None:
    index = IncrementalBM25()
    for _ in range(10 * POSTINGS):
        index.add(Counter(["a"]))
    assert len(index._postings["a"]) < 2 * POSTINGS
    assert index.search(["a"], limit=1)[0].document == 10 * POSTINGS - 1


utterances = st.text(alphabet="股债金回撤ab 1%，", max_size=12)


@given(
    st.lists(st.tuples(utterances, st.one_of(st.none(), utterances)), max_size=12),
    st.integers(0, 12),
    utterances,
)
def test_loaded_memory_recalls_what_the_original_would(
    said: list[tuple[str, str | None]], cut: int, query: str
) -> None:
    original = DialogueMemory("s")
    copy = DialogueMemory("s")

    def play(memory: DialogueMemory, part: list[tuple[str, str | None]]) -> None:
        for user, assistant in part:
            memory.hear(user)
            if assistant is not None:
                memory.record(assistant)

    play(original, said[:cut])
    copy.load(original.state())
    play(original, said[cut:])
    play(copy, said[cut:])
    assert copy.recall(query) == original.recall(query)
    assert copy.state() == original.state()


def test_loading_forgets_what_was_there() -> None:
    memory = talked(DialogueMemory("s"), *[("旧的内容", "好")] * 6)
    memory.load(MemoryState())
    assert memory.recall("旧的内容").items == []
    assert memory.turn_index == 0


def test_packed_context_joins_the_three_sources_and_counts_its_tokens() -> None:
    memory = talked(DialogueMemory("s"), *[(f"黄金{n}", "好") for n in range(5)])
    labels = {"recalled": "相关历史", "recent": "近期对话"}
    fields = recall_fields("黄金", memory.recall("黄金"), "风险等级: 稳健", labels)
    packed = fields["packed_context"]
    assert packed.startswith("[相关历史]\nuser: 黄金")
    assert packed.endswith("\n\n风险等级: 稳健\n\n[近期对话]\n" + fields["short_term_context"])
    assert fields["token_count"] == estimate_tokens(packed)
