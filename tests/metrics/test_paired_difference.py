"""The interval of a paired difference of ratios."""

import math
import random

import pytest
from hypothesis import given
from hypothesis import strategies as st

from memfin.metrics.interval import paired_difference, ratio_interval, student_t_quantile

Pair = tuple[tuple[float, float], tuple[float, float]]


def test_with_equal_denominators_it_is_the_paired_t_interval() -> None:
    first, second = [0.2, 0.4, 0.9, 0.5], [0.3, 0.7, 0.8, 0.9]
    pairs = [((a, 1.0), (b, 1.0)) for a, b in zip(first, second, strict=True)]
    differences = [b - a for a, b in zip(first, second, strict=True)]
    mean = sum(differences) / 4
    deviation = math.sqrt(sum((value - mean) ** 2 for value in differences) / 3)
    half = student_t_quantile(3) * deviation / 2
    difference, bounds = paired_difference(pairs, 0.0, 1.0)
    assert difference == pytest.approx(mean)
    assert bounds == pytest.approx((mean - half, mean + half))


def test_what_both_runs_find_hard_cancels() -> None:
    hard = [(float(hits), 10.0) for hits in (1, 9, 2, 8, 3, 7)]
    pairs = [((hits, of), (hits + 1, of)) for hits, of in hard]
    difference, bounds = paired_difference(pairs, 0.0, 1.0)
    assert difference == pytest.approx(0.1)
    assert bounds == pytest.approx((0.1, 0.1))
    assert ratio_interval(hard, 0.0, 1.0) == pytest.approx((0.145, 0.855), abs=0.01)


def test_a_pair_that_one_run_does_not_carry_is_left_out() -> None:
    pairs: list[Pair] = [((1, 2), (2, 2)), ((0, 2), (1, 2)), ((2, 2), (0, 0)), ((0, 0), (2, 2))]
    assert paired_difference(pairs, 0.0, 1.0) == paired_difference(pairs[:2], 0.0, 1.0)


def test_fewer_than_two_pairs_have_no_interval() -> None:
    assert paired_difference([], 0.0, 1.0) == (0.0, None)
    assert paired_difference([((1, 4), (3, 4))], 0.0, 1.0) == (0.5, None)


def test_the_interval_stays_in_the_range_of_a_difference() -> None:
    _, bounds = paired_difference([((0, 1), (1, 1)), ((1, 1), (1, 1)), ((0, 1), (0, 1))], 0.0, 1.0)
    assert bounds is not None
    assert bounds[1] == 1.0


COUNTS = st.tuples(st.integers(0, 9), st.integers(1, 9)).map(lambda two: (float(min(two)), float(two[1])))


@given(st.lists(st.tuples(COUNTS, COUNTS), min_size=2, max_size=12), st.randoms())
def test_order_does_not_matter_and_turning_round_flips_the_sign(
    pairs: list[Pair], order: random.Random
) -> None:
    shuffled = order.sample(pairs, len(pairs))
    assert paired_difference(shuffled, 0.0, 1.0) == paired_difference(pairs, 0.0, 1.0)
    difference, bounds = paired_difference(pairs, 0.0, 1.0)
    turned, turned_bounds = paired_difference([(b, a) for a, b in pairs], 0.0, 1.0)
    assert turned == -difference
    assert bounds is not None
    assert turned_bounds == pytest.approx((-bounds[1], -bounds[0]))


def test_it_covers_the_true_difference_about_as_often_as_it_says() -> None:
    source = random.Random(7)
    covered = 0
    for _ in range(400):
        pairs: list[Pair] = []
        for _ in range(30):
            of = source.randint(3, 12)
            easy = source.random() * 0.6
            hits = [sum(source.random() < easy + more for _ in range(of)) for more in (0.1, 0.3)]
            pairs.append(((float(hits[0]), float(of)), (float(hits[1]), float(of))))
        _, bounds = paired_difference(pairs, 0.0, 1.0)
        assert bounds is not None
        covered += bounds[0] <= 0.2 <= bounds[1]
    assert 0.91 <= covered / 400 <= 0.98
