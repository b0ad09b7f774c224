"""pass^k: the estimate against all subsets of repeats, its interval, and the turns that fail a dialogue."""

import random
from itertools import combinations
from pathlib import Path
from statistics import fmean
from typing import Any

import msgspec
import pytest

from memfin.contracts import ClientReading, PassK, TurnEvalRow
from memfin.metrics.reliability import all_pass, count_passes, reliability, spread, turn_passes
from tests.support import each_case, length, write_jsonl


def row(dialog_id: str = "d", **changes: Any) -> TurnEvalRow:
    values: dict[str, Any] = {f"eligible_m{number}": False for number in range(1, 6)}
    values |= {"trace_version": "v1", "run_id": "r", "dialog_id": dialog_id, "turn_pair_id": 1, **changes}
    return TurnEvalRow(**values)


def test_the_estimate_is_the_share_of_all_subsets_that_pass() -> None:
    for repeats in range(1, 8):
        for passes in range(repeats + 1):
            results = [True] * passes + [False] * (repeats - passes)
            for k in range(1, repeats + 1):
                share = fmean(all(subset) for subset in combinations(results, k))
                assert all_pass(passes, repeats, k) == pytest.approx(share, abs=1e-12)


def test_values_are_means_over_dialogues_that_fall_with_k() -> None:
    found = reliability({"b": 3, "a": 1, "c": 0}, 3)
    assert [each.k for each in found.pass_k] == [1, 2, 3]
    assert [each.value for each in found.pass_k] == pytest.approx([4 / 9, 1 / 3, 1 / 3])
    assert (found.repeats, list(found.passes.items())) == (3, [("a", 1), ("b", 3), ("c", 0)])


@each_case("passes", [{f"d{n}": c for n in range(6)} for c in (0, 2, 5)])
def test_an_interval_is_around_the_value_and_has_a_width(passes: dict[str, int]) -> None:
    for each in reliability(passes, 5).pass_k:
        assert each.ci95 is not None
        assert 0 <= each.ci95[0] <= each.value <= each.ci95[1] <= 1
        assert each.ci95[1] - each.ci95[0] > 0.1


def test_one_dialogue_has_no_interval_and_none_has_no_value() -> None:
    assert [each.ci95 for each in reliability({"d": 1}, 2).pass_k] == [None, None]
    assert reliability({}, 2).pass_k == []


def test_intervals_hold_the_true_value_in_19_of_20_samples_of_dialogues() -> None:
    """Dialogues that pass with a probability of their own, here 0.9 or 0.5."""
    draw = random.Random(3)
    held, samples = [0, 0, 0], length(100, 3000)
    for _ in range(samples):
        rates = [draw.choice((0.9, 0.5)) for _ in range(20)]
        passes = {f"d{n}": sum(draw.random() < rate for _ in range(5)) for n, rate in enumerate(rates)}
        found = reliability(passes, 5).pass_k
        for at, k in enumerate((1, 3, 5)):
            low, high = found[k - 1].ci95 or (0.0, 0.0)
            held[at] += low <= (0.9**k + 0.5**k) / 2 <= high
    assert min(held) >= 0.92 * samples


@each_case(
    ("changes", "passes"),
    [
        ({}, True),
        ({"turn_status": "ok", "pred_compliance_label": "minor_violation"}, True),
        ({"turn_status": "error"}, False),
        ({"turn_status": "timeout"}, False),
        ({"scoring_error": "slow"}, False),
        ({"pred_compliance_label": "severe_violation"}, False),
        ({"pred_compliance_label": "severe_violation", "unjudged": ["compliance"]}, True),
        ({"constraint_contradiction": 1}, False),
        ({"constraint_contradiction": 1, "unjudged": ["contradiction"]}, True),
        ({"client": ClientReading(success=True)}, True),
        ({"client": ClientReading(success=False)}, False),
    ],
)
def test_a_turn_fails_only_by_what_is_found(changes: dict[str, Any], passes: bool) -> None:
    assert turn_passes(row(**changes)) is passes


def test_dialogues_that_are_not_in_every_repeat_are_left_out(tmp_path: Path) -> None:
    bad = {"turn_status": "error"}
    charged = {"client": ClientReading(success=True, simulator_errors=1)}
    spoiled = {"client": ClientReading(success=True, simulator_errors=1, misspoken=1)}
    repeats = [
        [row("a"), row("a"), row("b", **charged), row("d")],
        [row("a"), row("a", **bad), row("b"), row("c"), row("d", **spoiled)],
    ]
    runs = [tmp_path / "1", tmp_path / "2"]
    for run, rows in zip(runs, repeats, strict=True):
        run.mkdir()
        write_jsonl(run / "turn_eval.jsonl", [msgspec.to_builtins(each) for each in rows])
    assert count_passes(runs) == {"a": 1, "b": 2}


def test_a_spread_has_the_first_and_the_last() -> None:
    items = [PassK(k=k, value=1.0) for k in range(1, 101)]
    assert [each.k for each in spread(items[:5], 3)] == [1, 3, 5]
    assert [each.k for each in spread(items[:2], 3)] == [1, 2]
    assert [each.k for each in spread(items[:1], 3)] == [1]
    assert spread([], 3) == []
    assert len(spread(items, 10)) == 10
