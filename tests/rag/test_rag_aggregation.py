"""The summary of results: exact sums, the same bytes in any order and however they were divided."""

import random
from itertools import pairwise

import msgspec
from hypothesis import given, settings
from hypothesis import strategies as st

from memfin.contracts.rag import RagResult
from memfin.rag.aggregation import RagState, is_right_fact, regressions

WEIGHTS = (0.1, 0.2, 0.7, 1.0, 3.0, 1e-3, 1e6)


def result(place: int, **changes: object) -> RagResult:
    kind = ("fact_exact", "evidence_set", "conflict_gap")[place % 3]
    weight = WEIGHTS[place % len(WEIGHTS)]
    return msgspec.convert(
        {
            "schema_version": "1.0.0",
            "run_id": "r",
            "id": f"{kind}_{place}",
            "type": kind,
            "question": "?",
            "question_index": place + 1,
            "passed": place % 2 == 0,
            "score": weight * (0.1 * (place % 11)),
            "max_score": weight,
            "details": {"exact_match": float(place % 2 == 0)},
            "difficulty": (None, "easy", "hard")[place % 3],
            "category": (None, "monetary")[place % 2],
            "tags": ["甲", "乙", "甲"][: place % 4],
            **changes,
        },
        RagResult,
    )


RESULTS = [result(place) for place in range(40)]


def summary(*shards: list[RagResult]) -> bytes:
    whole = RagState()
    for shard in shards:
        state = RagState()
        for one in shard:
            state.add(one)
        whole.merge(state)
    return msgspec.json.encode(whole.summary("r", system="builtin"))


@settings(max_examples=30, deadline=None)
@given(order=st.permutations(RESULTS), cuts=st.lists(st.integers(0, 40), max_size=5))
def test_any_order_and_any_division_give_the_same_bytes(order: list[RagResult], cuts: list[int]) -> None:
    ends = [0, *sorted(cuts), len(order)]
    shards = [order[start:end] for start, end in pairwise(ends)]
    random.shuffle(shards)
    assert summary(*shards) == summary(RESULTS)


def test_sums_and_groups() -> None:
    state = RagState()
    state.add(result(0, score=0.1, max_score=0.1, passed=True, tags=["甲", "甲"], difficulty="easy"))
    state.add(result(3, score=0.0, max_score=0.3, passed=False, tags=["甲", "乙"], error="timeout"))
    state.add(result(1, score=0.2, max_score=0.2, passed=True, tags=[], category="c"))
    found = state.summary("r", document="record.md", type_filter=None)
    assert (found.total_tests, found.passed_tests, found.errors) == (3, 2, 1)
    assert found.pass_rate == 2 / 3
    assert (found.overall_score, found.max_score, found.overall_percentage) == (0.3, 0.6, 50.0)
    assert list(found.by_type) == ["evidence_set", "fact_exact"]
    fact = found.by_type["fact_exact"]
    assert (fact.count, fact.passed, fact.total_score, fact.max_score) == (2, 1, 0.1, 0.4)
    assert {name: group.count for name, group in found.by_tag.items()} == {"乙": 1, "甲": 2}
    assert found.by_difficulty["easy"].count == 2
    assert found.by_category["c"].passed == 1


def test_nothing_asked_is_nothing_and_no_division_by_zero() -> None:
    found = RagState().summary("r")
    assert (found.total_tests, found.pass_rate, found.overall_percentage, found.by_type) == (0, 0.0, 0.0, {})


def test_scores_that_add_up_in_decimals_do() -> None:
    state = RagState()
    for place in range(10):
        state.add(result(place, score=0.1, max_score=0.1))
    assert state.summary("r").overall_score == 1.0
    assert state.summary("r").overall_percentage == 100.0


def test_the_state_keeps_its_size() -> None:
    state = RagState()
    for _ in range(100):
        for one in RESULTS:
            state.add(one)
    assert state.summary("r").total_tests == 4000
    assert state.summary("r").individual_results == []
    assert len(state._groups) < 12


def test_a_regression_is_a_fact_that_was_right_and_is_wrong() -> None:
    right, wrong = {"exact_match": 1.0}, {"exact_match": 0.0}
    before = {
        one.id
        for one in (
            result(0, details=right),
            result(3, details=wrong),
            result(6, details=right, passed=False),
            result(9, details=right),
            result(1, details=right),
            result(12, details=right, error="late"),
        )
        if is_right_fact(one)
    }
    now = [
        result(9, details=right, error="timeout"),
        result(6, details=wrong),
        result(0, details=right, score=0.0),
        result(3, details=wrong),
        result(1, details=wrong),
        result(12, details=wrong),
        result(15, details=wrong),
    ]
    assert regressions(before, now) == ["fact_exact_6", "fact_exact_9"]
