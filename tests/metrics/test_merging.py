"""Merging shards in any order gives what scoring together gives, to the byte (spec section 6)."""

import functools
import itertools
import operator
import random
from typing import Any

import msgspec
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from memfin.contracts import Counters, DialogTrace, ProfileTruth, TurnEvalRow
from memfin.metrics.aggregate import MetricsState, encode_summary
from memfin.metrics.m3_risk import M3State
from tests.support import length

LABELS = ["compliant", "minor_violation", "severe_violation"]
FINDABLE = ["recoverable", "unrevealed", "self_reference"]


@st.composite
def rows(draw: st.DrawFn) -> TurnEvalRow | dict[str, Any]:
    if draw(st.integers(0, 19)) == 0:
        return {"dialog_id": "broken"}
    size = draw(st.integers(0, 4))
    flags = draw(st.lists(st.integers(0, 1), min_size=size, max_size=size))
    plain: dict[str, Any] = {
        "trace_version": "v1",
        "run_id": "r",
        "dialog_id": draw(st.sampled_from("abcdefg")),
        "turn_pair_id": 1,
        **{f"eligible_m{number}": draw(st.booleans()) for number in range(1, 6)},
        "resolved_keys": [{"key": "k", "resolvable": True, "target_text": "t"}] * size,
        "key_hit_flags": flags,
        "key_hit_guarded": draw(st.none() | st.just(flags)),
        "key_recoverability": draw(st.lists(st.sampled_from(FINDABLE), min_size=size, max_size=size)),
        "constraint_contradiction": draw(st.integers(0, 1)),
        "risk_required_tags": list("xyz"),
        "risk_tag_hits": draw(st.integers(0, 4)),
        "forbidden_hits": draw(st.lists(st.just("保本"), max_size=1)),
        "pred_compliance_label": draw(st.sampled_from(LABELS)),
        "gt_compliance_label": draw(st.sampled_from([None, *LABELS])),
        "rubric_required": list("xyz"),
        "rubric_hit_items": draw(st.lists(st.sampled_from("xyz"), max_size=3)),
        "judge_score_1_5": draw(st.none() | st.floats(1, 5)),
        "judge_error": draw(st.sampled_from([None, None, None, "HTTP 429"])),
        "turn_status": draw(st.sampled_from([None, "ok", "ok", "ok", "timeout"])),
        "findings": [{"field": "x:a", "value": "v", "rule": "r", "start": 0, "end": 1}] * size,
        "detectors": draw(st.sampled_from([{}, {"x:a": "1"}, {"risk": "lexicon", "x:b": "2"}])),
    }
    if draw(st.booleans()):
        plain["detector_errors"] = {"x:b": "ValueError", "risk_tag_mapper": "KeyError"}
    return msgspec.convert(plain, TurnEvalRow) if draw(st.booleans()) else plain


TERMS = ["不使用杠杆", "最大回撤<10%", "不投股票", "保留20%现金应急"]


@st.composite
def traces(draw: st.DrawFn) -> DialogTrace:
    snapshot = {
        "risk_level": draw(st.sampled_from(["low", "medium", "unknown"])),
        "forbidden_assets": draw(st.lists(st.sampled_from(["股票", "期权"]), max_size=2)),
        "preferred_topics": draw(st.lists(st.sampled_from(["基金", "债券"]), max_size=2)),
    }
    plain = {
        "trace_version": "v1.1",
        "run_id": "r",
        "dialog_id": draw(st.sampled_from("abcdefg")),
        "dataset_index": 1,
        "dialog_status": draw(st.sampled_from(["ok", "ok", "failed"])),
        "valid_dialog": True,
        "turns": [
            {
                "turn_pair_id": 1,
                "user_turn_abs_idx": 0,
                "gt_assistant_abs_idx": 1,
                "user_text": "",
                "gt_assistant_text": "",
                "gt_turn_tags": {},
                "turn_status": "ok",
                "profile_snapshot": snapshot,
            }
        ],
        "profile_gt": msgspec.to_builtins(
            ProfileTruth(
                risk_level_gt="稳健",
                horizon_gt="2年以上",
                liquidity_need_gt="高",
                constraints_gt=draw(st.lists(st.sampled_from(TERMS), max_size=3, unique=True)),
                preferences_gt=draw(st.lists(st.sampled_from(["基金", "债券"]), max_size=2, unique=True)),
            )
        ),
    }
    return msgspec.convert(plain, DialogTrace)


def encoded(state: MetricsState) -> bytes:
    return encode_summary(state.summary("r", "data.jsonl", Counters(total_dialogs=7)))


@settings(max_examples=length(40, 100), deadline=None)
@given(st.lists(rows(), max_size=40), st.lists(traces(), max_size=12), st.integers(1, 5), st.randoms())
def test_shards_merge_to_the_same_bytes_in_any_order(
    given_rows: list[TurnEvalRow | dict[str, Any]],
    given_traces: list[DialogTrace],
    shards: int,
    chance: random.Random,
) -> None:
    together = MetricsState()
    together.add_rows(given_rows)
    for trace in given_traces:
        together.add_dialog(trace, None)

    chance.shuffle(given_rows)
    chance.shuffle(given_traces)
    states = [MetricsState() for _ in range(shards)]
    for row in given_rows:
        chance.choice(states).add_row(row)
    for trace in given_traces:
        chance.choice(states).add_dialog(trace, None)
    while len(states) > 1:  # any tree of merges
        taken = states.pop(chance.randrange(len(states)))
        chance.choice(states).merge(taken)
    assert encoded(states[0]) == encoded(together)


def test_merging_leaves_the_other_state_as_it_was() -> None:
    row = {
        "trace_version": "v1",
        "run_id": "r",
        "dialog_id": "a",
        "turn_pair_id": 1,
        **{f"eligible_m{number}": True for number in range(1, 6)},
        "risk_required_tags": ["x"],
        "risk_tag_hits": 1,
        "pred_compliance_label": "compliant",
        "gt_compliance_label": "compliant",
    }
    first, second = MetricsState(), MetricsState()
    second.add_row(row)
    before = encoded(second)
    first.merge(second)
    first.add_row(row)
    assert encoded(second) == before
    assert first.m3.result().counts["eligible_count"] == 2


def test_scores_add_up_exactly_within_a_dialogue() -> None:
    scores = [1.1, 1.3, 3.3, 4.7]
    base = {
        "trace_version": "v1",
        "run_id": "r",
        "dialog_id": "a",
        "turn_pair_id": 1,
        **{f"eligible_m{number}": True for number in range(1, 6)},
        "rubric_required": ["x"],
    }
    exact, naive = set(), set()
    for order in itertools.permutations(scores):
        state = MetricsState()
        state.add_rows([base | {"judge_score_1_5": score} for score in order])
        exact.add(state.m5.result().micro["judge_score_mean"])
        naive.add(functools.reduce(operator.add, order))
    assert len(naive) > 1  # these scores can tell
    assert len(exact) == 1


def test_the_state_keeps_cells_and_no_rows() -> None:
    state = MetricsState()
    row = {
        "trace_version": "v1",
        "run_id": "r",
        "turn_pair_id": 1,
        **{f"eligible_m{number}": True for number in range(1, 6)},
        "risk_required_tags": ["x"],
    }
    for number in range(3000):
        state.add_row(row | {"dialog_id": str(number % 3)})
    assert {len(metric._cells) for metric in (state.m1, state.m3, state.m5)} <= {0, 3}


def test_equal_dialogues_share_their_sums_up_to_a_number_of_different_ones(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr("memfin.metrics.state.MAX_SHARED", 2)
    state = M3State()
    row: dict[str, Any] = {
        "trace_version": "v1",
        "run_id": "r",
        "turn_pair_id": 1,
        **{f"eligible_m{number}": True for number in range(1, 6)},
        "risk_tag_hits": 1,
    }
    for number, required in enumerate((3, 1, 2, 1, 3)):
        state.add(row | {"dialog_id": str(number), "risk_required_tags": [*"xyz"[:required]]})
    cells = [*state._cells.values()]
    assert cells[3] is cells[1]
    assert cells[4] == cells[0]
    assert cells[4] is not cells[0]
    values = [entry["risk_coverage"] for entry in state.result().by_dialog.values()]
    assert values == [1 / 3, 1.0, 1 / 2, 1.0, 1 / 3]


def test_the_sums_of_one_dialogue_with_many_turns_are_not_kept() -> None:
    state = MetricsState()
    row: dict[str, Any] = {
        "trace_version": "v1",
        "run_id": "r",
        "dialog_id": "",
        "turn_pair_id": 1,
        **{f"eligible_m{number}": True for number in range(1, 6)},
        "risk_required_tags": ["x"],
    }
    for _ in range(100):
        state.add_row(row)
    assert max(len(metric._shared) for metric in state.states) <= 1
