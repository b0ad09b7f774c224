"""Dialogue-clustered intervals of ratios, and the Student quantile under them."""

import itertools
import math
import random

import pytest
from hypothesis import given
from hypothesis import strategies as st

from memfin.metrics.interval import RatioSums, ratio_interval, student_t_quantile
from tests.support import each_case, length


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


def wilson(share: float, trials: float, t: float) -> tuple[float, float]:
    """Return the roots of (p - share)^2 = t^2 p (1 - p) / trials."""
    a, b, c = trials + t * t, -(2 * share * trials + t * t), share * share * trials
    root = math.sqrt(b * b - 4 * a * c)
    return (-b - root) / (2 * a), (-b + root) / (2 * a)


def test_many_independent_turns_have_wilsons_interval() -> None:
    chance = random.Random(3)
    clusters = [(float(chance.random() < 0.3), 1.0) for _ in range(4000)]
    share = sum(hits for hits, _ in clusters) / 4000
    assert ratio_interval(clusters) == pytest.approx(wilson(share, 4000, 1.9605), abs=2e-4)


def test_turns_of_a_dialogue_that_are_all_alike_count_once() -> None:
    whole = [(10.0 * (number % 3 == 0), 10.0) for number in range(60)]
    assert ratio_interval(whole) == pytest.approx(ratio_interval([(y / 10, 1.0) for y, _ in whole]), abs=0.01)


@pytest.mark.parametrize("dialogs", [2, 14, 300])
def test_where_no_turn_was_hit_a_dialogue_counts_once(dialogs: int) -> None:
    t = student_t_quantile(dialogs - 1)
    assert ratio_interval([(0, 9)] * dialogs) == pytest.approx((0, t * t / (dialogs + t * t)))
    assert ratio_interval([(9, 9)] * dialogs) == pytest.approx((dialogs / (dialogs + t * t), 1))


def test_the_interval_of_marks_is_in_their_range_and_never_a_point() -> None:
    for clusters in ([(5, 5), (10, 10)], [(25, 5), (50, 10)], [(20, 5), (40, 10)]):
        bounds = ratio_interval(clusters, 1, 5, graded=True)
        assert bounds is not None
        assert 1 <= bounds[0] < bounds[1] <= 5


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


def redrawn(chance: random.Random, dialogs: int, rate: float, alike: float) -> list[tuple[float, float]]:
    """Return dialogues whose turns are hit at a rate; ``alike`` is the correlation of turns of a dialogue."""
    clusters = []
    for _ in range(dialogs):
        turns = chance.randint(4, 13)
        scale = (1 - alike) / alike if alike else 0.0
        propensity = chance.betavariate(rate * scale, (1 - rate) * scale) if scale else rate
        clusters.append((float(sum(chance.random() < propensity for _ in range(turns))), float(turns)))
    return clusters


@pytest.mark.parametrize("dialogs", [14, 50, 300])
@pytest.mark.parametrize(("rate", "alike"), [(0.01, 0.3), (0.05, 0.5), (0.3, 0.1), (0.8, 0.4), (0.95, 0.6)])
def test_the_interval_covers_the_truth_at_least_as_often_as_it_says(
    dialogs: int, rate: float, alike: float
) -> None:
    chance = random.Random(dialogs)
    redraws = length(6000 // dialogs, 2000)
    covered = 0
    for _ in range(redraws):
        bounds = ratio_interval(redrawn(chance, dialogs, rate, alike))
        assert bounds is not None
        covered += bounds[0] <= rate <= bounds[1]
    few = 3 * math.sqrt(0.94 * 0.06 / redraws)  # what chance alone takes off so few redraws
    assert covered / redraws >= 0.94 - few


@given(
    st.lists(
        st.tuples(st.integers(0, 9), st.integers(0, 9)).map(lambda two: (min(two), max(two))), max_size=9
    ),
    st.booleans(),
)
def test_sums_give_the_interval_of_their_dialogues(clusters: list[tuple[int, int]], graded: bool) -> None:
    sums, others = RatioSums(graded=graded), RatioSums(graded=graded)
    for number, (hits, of) in enumerate(clusters):
        (sums if number % 2 else others).add(hits, of)
    sums.merge(others)
    bounds = ratio_interval(clusters, graded=graded)
    assert sums.interval() == (None if bounds is None else pytest.approx(bounds, abs=1e-9))
    assert sums.value == pytest.approx(
        sum(hits for hits, _ in clusters) / (sum(of for _, of in clusters) or 1)
    )
