"""Dialogue-clustered intervals of ratios, and the Student quantile under them."""

import itertools
import math
import random

import pytest
from hypothesis import given
from hypothesis import strategies as st

from memfin.metrics.interval import ratio_interval, student_t_quantile
from tests.support import each_case


def test_the_quantile_has_its_closed_forms() -> None:
    assert student_t_quantile(1) == pytest.approx(math.tan(0.475 * math.pi), rel=1e-12)
    assert student_t_quantile(2) == pytest.approx(0.95 * math.sqrt(2 / (1 - 0.95**2)), rel=1e-12)


@each_case(
    ("df", "table"),
    [
        (3, 3.182446),
        (4, 2.776445),
        (7, 2.364624),
        (10, 2.228139),
        (30, 2.042272),
        (60, 2.000298),
        (120, 1.979930),
    ],
)
def test_the_quantile_agrees_with_the_printed_tables(df: int, table: float) -> None:
    assert student_t_quantile(df) == pytest.approx(table, abs=6e-7)


def test_the_quantile_falls_smoothly_towards_the_normal_one() -> None:
    values = [student_t_quantile(df) for df in range(190, 212)]
    steps = [a - b for a, b in itertools.pairwise(values)]
    assert all(0 < later < earlier for earlier, later in itertools.pairwise(steps))
    assert student_t_quantile(10**9) == pytest.approx(1.959963984540054, abs=1e-8)


@pytest.mark.parametrize("df", [0, -1])
def test_the_quantile_needs_a_degree_of_freedom(df: int) -> None:
    with pytest.raises(ValueError, match="positive"):
        student_t_quantile(df)


def test_equal_clusters_reduce_to_the_t_interval_of_a_mean() -> None:
    values = [0.2, 0.4, 0.9]
    mean, n = sum(values) / 3, 3
    deviation = math.sqrt(sum((value - mean) ** 2 for value in values) / (n - 1))
    half = student_t_quantile(2) * deviation / math.sqrt(n)
    assert ratio_interval([(10 * value, 10) for value in values], -9, 9) == pytest.approx(
        (mean - half, mean + half)
    )


def test_unequal_clusters_use_the_linearized_ratio() -> None:
    # residuals y - Rx with R = 6/12: 1, 0, -1; variance 3/2 * 2 / 144
    half = student_t_quantile(2) * math.sqrt(1.5 * 2) / 12
    assert ratio_interval([(3, 4), (1, 2), (2, 6)], -9, 9) == pytest.approx((0.5 - half, 0.5 + half))


def test_the_interval_stays_inside_the_range_of_the_value() -> None:
    assert ratio_interval([(0, 10), (10, 10)], 0, 1) == (0, 1)
    assert ratio_interval([(1, 1), (5, 1)], 1, 5) == (1, 5)


@pytest.mark.parametrize("clusters", [[], [(1, 2)], [(1, 2), (0, 0)]])
def test_fewer_than_two_dialogues_have_no_interval(clusters: list[tuple[float, float]]) -> None:
    assert ratio_interval(clusters, 0, 1) is None


def test_dialogues_that_do_not_carry_the_value_change_nothing() -> None:
    carrying = [(3.0, 4.0), (1.0, 2.0), (2.0, 6.0)]
    assert ratio_interval([*carrying, (0.0, 0.0), (0.0, 0.0)], 0, 1) == ratio_interval(carrying, 0, 1)


@given(
    st.lists(st.tuples(st.floats(0, 9), st.integers(1, 9).map(float)), min_size=2, max_size=30), st.randoms()
)
def test_the_order_of_dialogues_does_not_matter(
    clusters: list[tuple[float, float]], chance: random.Random
) -> None:
    shuffled = clusters.copy()
    chance.shuffle(shuffled)
    assert ratio_interval(shuffled, 0, 9) == ratio_interval(clusters, 0, 9)


def test_the_interval_covers_the_truth_about_as_often_as_it_says() -> None:
    chance = random.Random(7)
    covered = 0
    for _ in range(400):
        clusters = []
        for _ in range(25):
            propensity = chance.betavariate(4, 6)  # turns of one dialogue are alike
            turns = chance.randint(5, 20)
            clusters.append((float(sum(chance.random() < propensity for _ in range(turns))), float(turns)))
        bounds = ratio_interval(clusters, 0, 1)
        assert bounds is not None
        covered += bounds[0] <= 0.4 <= bounds[1]
    assert 0.92 <= covered / 400 <= 0.98
