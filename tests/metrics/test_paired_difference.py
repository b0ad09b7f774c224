"""Paired differences: interval, exact test, Holm's adjustment, smallest difference."""

import itertools
import math
import random

import pytest
from hypothesis import given
from hypothesis import strategies as st

from memfin.metrics.interval import (
    CONFIDENCE,
    exchange_p_value,
    holm,
    paired_difference,
    smallest_difference,
)
from tests.support import length

Change = tuple[float, float, float]

COMPARISONS = length(100, 1000)
"""Simulated comparisons; all of them take a minute."""


def test_gains_and_losses_give_the_difference_of_the_ratios() -> None:
    found = paired_difference([(3, 0, 10), (1, 2, 10), (0, 0, 20)])
    assert found.difference == pytest.approx(2 / 40)
    assert found.interval is not None
    assert found.interval[0] < found.difference < found.interval[1]


def test_the_interval_is_in_the_unit_of_the_value() -> None:
    marks = paired_difference([(4.0, 0, 5), (2.0, 1.0, 5), (0, 3.0, 5)], 4.0)
    shares = paired_difference([(1.0, 0, 5), (0.5, 0.25, 5), (0, 0.75, 5)])
    assert marks.difference == pytest.approx(4 * shares.difference)
    assert marks.interval is not None
    assert shares.interval is not None
    assert marks.interval == pytest.approx([4 * bound for bound in shares.interval])


@pytest.mark.parametrize("dialogs", [2, 14, 300])
def test_runs_that_agree_in_all_turns_still_have_an_interval_with_a_width(dialogs: int) -> None:
    found = paired_difference([(0, 0, 9)] * dialogs)
    assert (found.difference, found.p_value) == (0.0, 1.0)
    assert found.interval is not None
    assert found.interval[0] == -found.interval[1] < 0


def test_fewer_than_two_dialogues_have_no_interval() -> None:
    assert paired_difference([]) == (0.0, None, 1.0)
    assert paired_difference([(0, 0, 0)]) == (0.0, None, 1.0)
    assert paired_difference([(2, 0, 4), (0, 0, 0)]) == (0.5, None, 1.0)


def test_the_interval_stays_in_the_range_of_a_difference() -> None:
    found = paired_difference([(1, 0, 1), (1, 0, 1), (0, 0, 1)])
    assert found.interval is not None
    assert found.interval[1] <= 1


CHANGES = st.lists(
    st.tuples(st.integers(0, 4), st.integers(0, 4), st.integers(8, 9)).map(
        lambda counts: (float(counts[0]), float(counts[1]), float(counts[2]))
    ),
    min_size=2,
    max_size=12,
)


@given(CHANGES, st.randoms())
def test_order_does_not_matter_and_turning_round_flips_the_sign(
    changes: list[Change], order: random.Random
) -> None:
    found = paired_difference(changes)
    assert paired_difference(order.sample(changes, len(changes))) == found
    turned = paired_difference([(loss, gain, of) for gain, loss, of in changes])
    assert turned.difference == -found.difference
    assert turned.p_value == found.p_value
    assert found.interval is not None
    assert turned.interval == pytest.approx((-found.interval[1], -found.interval[0]))


@given(st.lists(st.integers(-5, 5), max_size=9))
def test_the_exact_test_counts_the_choices_of_signs(nets: list[int]) -> None:
    observed = abs(sum(nets))
    choices = list(itertools.product(*((net, -net) for net in nets)))
    far = sum(abs(sum(choice)) >= observed for choice in choices)
    assert exchange_p_value(nets) == pytest.approx(far / len(choices))


def test_fractions_are_tested_on_a_grid() -> None:
    nets = [0.31, -0.12, 0.27, 0.05, 0.44, -0.08, 0.13]
    choices = list(itertools.product(*((net, -net) for net in nets)))
    far = sum(abs(sum(choice)) >= sum(nets) - 1e-9 for choice in choices)
    assert exchange_p_value(nets) == pytest.approx(far / len(choices), abs=0.02)


def test_many_dialogues_are_tested_by_the_normal_distribution() -> None:
    nets = [1.0] * 290 + [-1.0] * 230
    exact = exchange_p_value(nets[:240] + nets[-190:])
    score = 50 / math.sqrt(430)
    assert exact == pytest.approx(math.erfc(score / math.sqrt(2)), rel=0.2)
    assert exchange_p_value(nets) == pytest.approx(math.erfc(60 / math.sqrt(520) / math.sqrt(2)))


def test_holm_steps_down_and_never_below_a_smaller_p_value() -> None:
    found = holm({"a": 0.04, "b": 0.01, "c": 0.03})
    assert found == pytest.approx({"a": 0.06, "b": 0.03, "c": 0.06})
    assert list(found) == ["a", "b", "c"]
    assert holm({"a": 0.6, "b": 0.7}) == {"a": 1.0, "b": 1.0}


def test_few_dialogues_show_no_difference_however_large() -> None:
    assert exchange_p_value([9.0] * 5) > 1 - CONFIDENCE
    assert smallest_difference((-0.5, 0.5), 5) is None
    assert exchange_p_value([9.0] * 6) < 1 - CONFIDENCE
    assert smallest_difference((-0.5, 0.5), 6) == pytest.approx(0.5 * (1.96 + 0.8416) / 1.96, abs=1e-3)
    assert smallest_difference((-0.5, 0.5), 7, tests=5) is None
    assert (smallest_difference((-0.5, 0.5), 8, tests=5) or 0) > 0.8


def drawn(chance: random.Random, dialogs: int, rate: float, other: float, spread: float) -> list[Change]:
    """Return the changes between two agents; both find the same turns hard, ``spread`` is by dialogue."""
    changes = []
    for _ in range(dialogs):
        turns = chance.randint(4, 13)
        hard = chance.random()
        shifts = [chance.gauss(0, spread) for _ in range(2)]
        gain = loss = 0
        for _ in range(turns):
            bar = (hard + chance.random()) / 2
            first, second = (
                bar + shift + chance.gauss(0, 0.1) < share
                for shift, share in zip(shifts, (rate, other), strict=True)
            )
            gain += second and not first
            loss += first and not second
        changes.append((float(gain), float(loss), float(turns)))
    return changes


@pytest.mark.parametrize(("dialogs", "spread"), [(14, 0.0), (14, 0.2), (50, 0.0), (50, 0.2)])
def test_equal_agents_raise_an_alarm_in_at_most_one_of_twenty_comparisons(
    dialogs: int, spread: float
) -> None:
    chance = random.Random(dialogs)
    alarms = 0
    for _ in range(COMPARISONS):
        found = paired_difference(drawn(chance, dialogs, 0.5, 0.5, spread))
        assert found.interval is not None
        alarms += found.p_value <= 1 - CONFIDENCE and not found.interval[0] <= 0 <= found.interval[1]
    assert alarms <= COMPARISONS * 0.05


@pytest.mark.parametrize("dialogs", [14, 50])
def test_twice_the_smallest_difference_is_shown_in_four_of_five_comparisons(dialogs: int) -> None:
    chance = random.Random(dialogs)
    equal = paired_difference(drawn(chance, dialogs, 0.5, 0.5, 0.05))
    assert equal.interval is not None
    smallest = smallest_difference(equal.interval, dialogs, tests=6)
    assert smallest is not None
    # The shift of the bar that makes a difference of twice that size, searched for on many dialogues.
    other = 0.5
    while paired_difference(drawn(chance, 1000, 0.5, other, 0.05)).difference < 2 * smallest:
        other += 0.02
    shown = 0
    for _ in range(COMPARISONS // 5):
        found = paired_difference(drawn(chance, dialogs, 0.5, other, 0.05))
        assert found.interval is not None
        shown += found.p_value * 6 <= 1 - CONFIDENCE and found.interval[0] > 0
    assert shown >= COMPARISONS // 5 * 0.8
