"""M1, rule by rule (spec section 6, trace schema sections 5-7, metrics contract 6.1)."""

from typing import Any, cast

import msgspec
import pytest

from memfin.contracts import ResolvedKey, SourceHits, TurnEvalRow
from memfin.metrics.m1_context import compute_m1_context_continuity
from tests.support import each_case


def key(resolvable: bool = True) -> ResolvedKey:
    return ResolvedKey(key="k", resolvable=resolvable, target_text="t" if resolvable else None)


def row(dialog_id: str = "d", flags: tuple[int, ...] = (), **fields: Any) -> TurnEvalRow:
    given: dict[str, Any] = {
        "trace_version": "v1",
        "run_id": "r",
        "dialog_id": dialog_id,
        "turn_pair_id": 1,
        **{f"eligible_m{number}": True for number in range(1, 6)},
        "key_hit_flags": list(flags),
        "resolved_keys": [key() for _ in flags],
        "turn_status": "ok",
    }
    return TurnEvalRow(**{**given, **fields})


def test_key_coverage_sums_hits_over_required_keys() -> None:
    result = compute_m1_context_continuity([row("a", (1, 0, 0)), row("a", (1,)), row("b", (0, 0))])
    assert result.micro["key_coverage"] == pytest.approx(2 / 6)
    assert result.macro["key_coverage"] == pytest.approx((2 / 4 + 0) / 2)
    assert result.by_dialog["a"]["key_coverage"] == pytest.approx(2 / 4)
    assert (result.counts["required_key_total"], result.counts["required_key_hit_total"]) == (6, 2)


def test_a_strict_hit_needs_every_key_of_the_turn() -> None:
    result = compute_m1_context_continuity(
        [row("a", (1, 1)), row("a", (1, 0)), row("a", (0,)), row("b", (1,))]
    )
    assert result.micro["strict_key_hit_rate"] == pytest.approx(2 / 4)
    assert result.macro["strict_key_hit_rate"] == pytest.approx((1 / 3 + 1) / 2)


def test_contradictions_on_turns_without_keys_are_counted_outside_the_rate() -> None:
    rows = [
        row("a", (1,), constraint_contradiction=1),
        row("a", (1,)),
        row("a", (), constraint_contradiction=1),
        row("b", (1,), eligible_m1=False, constraint_contradiction=1),
        row("b", (), constraint_contradiction=1, unjudged=["contradiction"]),
    ]
    result = compute_m1_context_continuity(rows)
    assert result.micro["contradiction_rate"] == pytest.approx(1 / 2)
    assert (result.counts["contradiction_count"], result.counts["contradictions_outside"]) == (1, 2)


def test_each_source_has_its_rate_over_required_keys() -> None:
    sources = [["short_term", "long_term"], ["short_term"], ["profile"], []]
    result = compute_m1_context_continuity([row("a", (1, 1, 1, 0), key_hit_sources=sources)])
    assert [result.micro[f"{name}_hit_rate"] for name in ("short_term", "long_term", "profile")] == [
        0.5,
        0.25,
        0.25,
    ]
    assert [result.counts[f"{name}_hit_total"] for name in ("short_term", "long_term", "profile")] == [
        2,
        1,
        1,
    ]


def test_sums_by_source_are_read_where_keys_name_none() -> None:
    hits = SourceHits(short_term=1, profile=2)
    result = compute_m1_context_continuity([row("a", (1, 1), m1_source_hits=hits)])
    assert [result.counts[f"{name}_hit_total"] for name in ("short_term", "long_term", "profile")] == [
        1,
        0,
        2,
    ]


def test_what_plain_v1_rows_lack_is_not_measured() -> None:
    """They may have neither the sources of their hits nor fields of MemFin's own."""
    sources = {"short_term_hit_rate", "long_term_hit_rate", "profile_hit_rate"}
    guarded = {"key_coverage_guarded", "recoverable_key_coverage"}
    for flags, unknown in (((1, 0), sources | guarded), ((0, 0), guarded)):
        assert compute_m1_context_continuity([row("a", flags)]).not_measured.keys() == unknown


def test_unresolvable_keys_leave_the_denominator_and_are_counted() -> None:
    keys = [key(), key(resolvable=False), key()]
    result = compute_m1_context_continuity([row("a", (1, 0), resolved_keys=keys)])
    assert result.micro["key_coverage"] == 0.5
    assert result.micro["strict_key_hit_rate"] == 0.0
    assert result.counts["unresolvable_key_total"] == 1


def test_a_turn_without_a_resolvable_key_is_not_in_the_denominator() -> None:
    result = compute_m1_context_continuity(
        [row("a", (), resolved_keys=[key(resolvable=False)]), row("b", (1,))]
    )
    assert (result.counts["eligible_count"], result.counts["skipped_count"]) == (1, 1)
    assert result.counts["unresolvable_key_total"] == 1
    assert list(result.by_dialog) == ["b"]


def test_flags_of_the_older_draft_align_with_all_keys() -> None:
    keys = [key(resolvable=False), key()]
    result = compute_m1_context_continuity([row("a", (0, 1), resolved_keys=keys)])
    assert result.micro["strict_key_hit_rate"] == 1.0
    assert result.counts["required_key_total"] == 1


def test_guarded_hits_have_a_value_of_their_own() -> None:
    result = compute_m1_context_continuity([row("a", (1, 1), key_hit_guarded=[1, 0]), row("a", (1,))])
    assert result.micro["key_coverage"] == 1.0
    assert result.micro["key_coverage_guarded"] == 0.5  # the row without guarded flags says nothing
    assert (result.counts["guarded_key_total"], result.counts["guarded_key_hit_total"]) == (2, 1)


def test_recoverable_coverage_leaves_out_what_the_agent_was_never_told() -> None:
    kinds = ["recoverable", "unrevealed", "self_reference", "recoverable"]
    result = compute_m1_context_continuity([row("a", (1, 1, 0, 0), key_recoverability=kinds)])
    assert result.micro["recoverable_key_coverage"] == 0.5
    assert [
        result.counts[f"{kind}_key_total"] for kind in ("recoverable", "unrevealed", "self_reference")
    ] == [2, 1, 1]


@pytest.mark.parametrize("status", ["timeout", "error"])
def test_failed_turns_are_counted_apart(status: str) -> None:
    result = compute_m1_context_continuity([row("a", (0,), turn_status=status), row("a", (1,))])
    assert result.micro["key_coverage"] == 1.0
    assert [result.counts[f"{name}_count"] for name in ("eligible", "skipped", "failed")] == [1, 0, 1]


def test_rows_that_are_not_eligible_are_skipped() -> None:
    result = compute_m1_context_continuity([row("a", (0,), eligible_m1=False), row("a", (1,))])
    assert result.micro["key_coverage"] == 1.0
    assert [result.counts[f"{name}_count"] for name in ("eligible", "skipped", "failed")] == [1, 1, 0]


def test_a_zero_denominator_gives_zero() -> None:
    result = compute_m1_context_continuity([])
    assert set(result.micro.values()) | set(result.macro.values()) == {0.0}
    assert result.counts["eligible_count"] == 0
    assert result.ci95 == {}
    assert result.by_dialog == {}


def test_every_name_of_the_contract_is_there() -> None:
    result = compute_m1_context_continuity([])
    assert {
        "key_coverage",
        "strict_key_hit_rate",
        "contradiction_rate",
        "short_term_hit_rate",
        "long_term_hit_rate",
        "profile_hit_rate",
        "key_coverage_guarded",
        "recoverable_key_coverage",
    } == set(result.micro)
    assert {
        "eligible_turns",
        "eligible_count",
        "skipped_count",
        "failed_count",
        "required_key_total",
        "required_key_hit_total",
        "short_term_hit_total",
        "long_term_hit_total",
        "profile_hit_total",
        "recoverable_key_total",
        "unrevealed_key_total",
        "self_reference_key_total",
    } <= set(result.counts)


BAD: list[Any] = [
    None,
    "row",
    {},
    {"trace_version": "v1"},
    msgspec.to_builtins(row("a", (1,))) | {"key_hit_flags": [2]},
    msgspec.to_builtins(row("a", (1,))) | {"trace_version": "v2"},
    msgspec.to_builtins(row("a", (1,))) | {"judge_score_1_5": float("nan")},
    row(cast("str", 3), (1,)),
    row("a", (1,), key_hit_flags=[None]),
    row("a", (1,), key_hit_flags=[1, 1]),
    row("a", (1,), key_hit_guarded=[]),
    row("a", (1,), key_recoverability=["recoverable", "recoverable"]),
    row("a", (1,), constraint_contradiction="yes"),
    row("a", (1,), m1_source_hits=SourceHits(short_term=2)),
]


@each_case("bad", BAD)
def test_a_bad_row_is_counted_and_changes_nothing_else(bad: Any) -> None:
    good = [row("a", (1, 0)), row("b", (0,))]
    result = compute_m1_context_continuity([good[0], bad, good[1]])
    without = compute_m1_context_continuity(good)
    assert (result.counts["bad_rows"], result.counts["failed_count"]) == (1, 1)
    assert (result.micro, result.by_dialog) == (without.micro, without.by_dialog)


@each_case("bad", BAD)
def test_nothing_but_bad_rows_gives_zero(bad: Any) -> None:
    result = compute_m1_context_continuity([bad])
    assert set(result.micro.values()) == {0.0}
    assert (result.counts["eligible_count"], result.counts["bad_rows"]) == (0, 1)


def test_plain_rows_count_like_structs() -> None:
    rows = [row("a", (1, 0), key_hit_sources=[["short_term"], []]), row("b", (1,))]
    plain = [msgspec.to_builtins(each) for each in rows]
    assert compute_m1_context_continuity(plain) == compute_m1_context_continuity(rows)


def test_later_minor_versions_are_read() -> None:
    plain = msgspec.to_builtins(row("a", (1,))) | {"trace_version": "v1.7", "novelty": 1}
    assert compute_m1_context_continuity([plain]).counts["eligible_count"] == 1


def test_intervals_come_with_the_headline_values() -> None:
    result = compute_m1_context_continuity([row("a", (1, 0)), row("b", (1,)), row("c", (0, 0))])
    assert {"key_coverage", "strict_key_hit_rate", "contradiction_rate"} <= set(result.ci95)
    low, high = result.ci95["key_coverage"]
    assert 0 <= low <= result.micro["key_coverage"] <= high <= 1


def test_dialogues_are_listed_in_the_order_of_their_ids() -> None:
    result = compute_m1_context_continuity([row(name, (1,)) for name in "cab"])
    assert list(result.by_dialog) == ["a", "b", "c"]


def test_undecided_constraints_count_where_no_contradiction_was_found() -> None:
    rows = [
        row("a", (1,), undecided_constraints=["保留20%现金应急"]),
        row("a", (1,), undecided_constraints=["最大回撤<10%"], constraint_contradiction=1),
        row("b", (1,)),
        row("b", (1,), eligible_m1=False, undecided_constraints=["最大回撤<10%"]),
    ]
    result = compute_m1_context_continuity(rows)
    assert result.counts["contradiction_undecided"] == 1
    assert result.micro["contradiction_rate"] == pytest.approx(1 / 3)
