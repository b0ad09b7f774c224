"""Measures against figures worked out by hand and published ones."""

import math
import random
from collections import Counter

import pytest
from hypothesis import given
from hypothesis import strategies as st

from memfin.validity import measures
from memfin.validity.measures import PooledShare, Table
from tests.support import each_case

counts = st.integers(0, 60)
tables = st.builds(Table, counts, counts, counts, counts)


def test_a_table_by_hand() -> None:
    table = Table(tp=6, fp=2, fn=4, tn=8)
    assert measures.precision(table) == 6 / 8
    assert measures.recall(table) == 6 / 10
    assert measures.f1(table) == pytest.approx(2 * 0.75 * 0.6 / (0.75 + 0.6))
    assert measures.f1(table) == 12 / 18
    assert measures.accuracy(table) == 14 / 20
    # observed 0.7; by chance (10 * 8 + 10 * 12) / 400 = 0.5
    assert measures.kappa(table.matrix) == pytest.approx(0.4)
    assert measures.constant_accuracy((10, 10)) == 0.5
    assert measures.constant_accuracy((3, 1, 4)) == 0.5


def test_what_nothing_was_counted_for_is_undefined() -> None:
    empty = Table()
    for measure in (measures.precision, measures.recall, measures.f1, measures.accuracy):
        assert measure(empty) is None
    assert measures.kappa(empty.matrix) is None
    assert measures.wilson(0, 0) is None
    assert measures.f1_bounds(None) is None
    assert measures.constant_accuracy(()) is None
    assert measures.mean([]) is None
    assert measures.mean([None, None]) is None


def test_nothing_to_find_and_nothing_found_has_accuracy_and_no_f1() -> None:
    table = Table(tn=5)
    assert measures.accuracy(table) == 1.0
    assert measures.f1(table) is None
    assert measures.precision(table) is None
    assert measures.recall(table) is None


def test_findings_without_any_label_are_all_wrong() -> None:
    table = Table(fp=3, tn=5)
    assert (measures.precision(table), measures.recall(table), measures.f1(table)) == (0.0, None, 0.0)


def test_means_leave_out_what_is_undefined() -> None:
    assert measures.mean([1.0, None, 0.5]) == 0.75


def labels(text: str) -> Counter[tuple[str, str]]:
    """Count pairs of the words of two lines, labelled and found."""
    labelled, found = (line.split() for line in text.strip().splitlines())
    return Counter(zip(labelled, found, strict=True))


def against_the_rest(pairs: Counter[tuple[str, str]], label: str) -> Table:
    cells: Counter[tuple[bool, bool]] = Counter()
    for (labelled, found), count in pairs.items():
        cells[labelled == label, found == label] += count
    return Table(cells[True, True], cells[False, True], cells[True, False], cells[False, False])


def test_the_example_of_scikit_learn_for_precision_recall_and_f1() -> None:
    # sklearn.metrics.precision_recall_fscore_support
    pairs = labels("cat dog pig cat dog pig\ncat pig dog cat cat dog")
    rest = [against_the_rest(pairs, label) for label in ("pig", "dog", "cat")]
    assert [measures.precision(table) for table in rest] == pytest.approx([0.0, 0.0, 0.6666666666666666])
    assert [measures.recall(table) for table in rest] == [0.0, 0.0, 1.0]
    assert [measures.f1(table) for table in rest] == pytest.approx([0.0, 0.0, 0.8])
    assert measures.mean(map(measures.f1, rest)) == pytest.approx(0.26666666666666666)


def test_the_example_of_scikit_learn_for_kappa() -> None:
    # sklearn.metrics.cohen_kappa_score
    pairs = labels("negative positive negative neutral positive\nnegative positive negative neutral negative")
    assert measures.kappa(pairs) == pytest.approx(0.6875)


def matrix(rows: list[list[int]]) -> dict[tuple[str, str], int]:
    return {(str(i), str(j)): count for i, row in enumerate(rows) for j, count in enumerate(row)}


@each_case(
    ("rows", "kappa"),
    [
        ([[88, 10, 2], [14, 40, 6], [18, 10, 12]], 0.492),  # Cohen 1960, table 2
        ([[20, 5], [10, 15]], 0.4),
        ([[45, 15], [25, 15]], 0.1304),  # the same agreement as below, other margins
        ([[25, 35], [5, 35]], 0.2593),
        ([[0, 10], [10, 0]], -1.0),
        ([[10, 0], [0, 10]], 1.0),
    ],
)
def test_published_examples_of_kappa(rows: list[list[int]], kappa: float) -> None:
    assert measures.kappa(matrix(rows)) == pytest.approx(kappa, abs=0.0005)


def test_kappa_of_one_constant_side_is_zero_and_of_two_equal_ones_undefined() -> None:
    assert measures.kappa(matrix([[9, 0], [1, 0]])) == 0.0
    assert measures.kappa(matrix([[9, 0], [0, 0]])) is None


@pytest.mark.parametrize(
    ("successes", "trials", "low", "high"),
    [  # Newcombe 1998, table I, method 3
        (81, 263, 0.2553, 0.3662),
        (15, 148, 0.0624, 0.1605),
        (0, 20, 0.0000, 0.1611),
        (1, 29, 0.0061, 0.1718),
    ],
)
def test_published_intervals(successes: int, trials: int, low: float, high: float) -> None:
    assert measures.wilson(successes, trials) == pytest.approx((low, high), abs=0.00005)


def test_intervals_mirror_and_end_exactly_at_the_ends() -> None:
    bounds = measures.wilson(0, 20)
    assert bounds is not None
    assert bounds[0] == 0.0
    assert measures.wilson(20, 20) == pytest.approx((1 - bounds[1], 1.0), abs=1e-12)


@given(st.integers(1, 5000), st.data())
def test_a_share_lies_in_its_interval(trials: int, data: st.DataObject) -> None:
    successes = data.draw(st.integers(0, trials))
    bounds = measures.wilson(successes, trials)
    assert bounds is not None
    assert 0 <= bounds[0] <= successes / trials <= bounds[1] <= 1
    assert bounds[0] < bounds[1]


def test_the_bounds_of_f1_by_hand() -> None:
    # f1 = 2 s / (1 + s): 1/3 -> 1/2, 1/2 -> 2/3
    assert measures.f1_bounds((1 / 3, 1 / 2)) == pytest.approx((1 / 2, 2 / 3))
    assert measures.f1_bounds((0.0, 1.0)) == (0.0, 1.0)


@given(tables)
def test_f1_lies_in_its_interval(table: Table) -> None:
    bounds = measures.f1_bounds(measures.wilson(table.tp, table.tp + table.fp + table.fn))
    value = measures.f1(table)
    assert (bounds is None) == (value is None)
    if bounds is not None and value is not None:
        assert bounds[0] - 1e-12 <= value <= bounds[1] + 1e-12


def pooled(*pairs: tuple[int, int]) -> PooledShare:
    share = PooledShare()
    for successes, trials in pairs:
        share.add(successes, trials)
    return share


def test_independent_decisions_count_each() -> None:
    share = pooled(*[(1, 1)] * 6, *[(0, 1)] * 4)
    # residuals 10 * 0.24; clustered 10/9 * 2.4 / 100, independent 0.24 / 10: design effect 10/9
    assert share.value == 0.6
    assert share.worth() == pytest.approx(9.0)
    assert share.interval() == pytest.approx(measures.wilson(5.4, 9.0))


def test_decisions_that_agree_within_a_reply_count_as_one() -> None:
    share = pooled(*[(5, 5)] * 6, *[(0, 5)] * 4)
    assert share.value == 0.6
    assert share.worth() == pytest.approx(9.0)


def test_decisions_that_balance_within_a_reply_are_worth_no_more_than_they_are() -> None:
    share = pooled(*[(1, 2)] * 10)
    assert share.worth() == 20.0
    assert share.interval() == pytest.approx(measures.wilson(10, 20))


def test_where_all_agree_each_reply_counts_once() -> None:
    assert pooled(*[(5, 5)] * 8).interval() == measures.wilson(8, 8)
    assert pooled(*[(0, 5)] * 8).interval() == measures.wilson(0, 8)
    assert pooled((3, 5)).interval() == pytest.approx(measures.wilson(0.6, 1))


def test_replies_without_decisions_carry_nothing() -> None:
    assert pooled((0, 0), (0, 0)).interval() is None
    assert pooled((0, 0)).value is None
    assert pooled((1, 2), (0, 0), (2, 2)).worth() == pooled((1, 2), (2, 2)).worth()


def test_the_order_of_replies_does_not_matter() -> None:
    order = random.Random(3)
    pairs = [(order.randint(0, 4), 4 + order.randint(0, 3)) for _ in range(50)]
    once = pooled(*pairs).interval()
    order.shuffle(pairs)
    assert pooled(*pairs).interval() == once


def test_pooled_intervals_cover_what_they_should() -> None:
    """Replies of ten decisions that hang together: the plain interval covers far too seldom."""
    order = random.Random(7)
    truth, covered, plainly = 0.8, 0, 0
    rounds = 400
    for _ in range(rounds):
        pairs = []
        for _ in range(60):
            share = order.betavariate(truth * 2, (1 - truth) * 2)
            pairs.append((sum(order.random() < share for _ in range(10)), 10))
        bounds = pooled(*pairs).interval()
        plain = measures.wilson(sum(one for one, _ in pairs), 600)
        assert bounds is not None
        assert plain is not None
        covered += bounds[0] <= truth <= bounds[1]
        plainly += plain[0] <= truth <= plain[1]
    assert covered / rounds > 0.92
    assert plainly / rounds < 0.80


@given(tables)
def test_measures_stay_in_their_range(table: Table) -> None:
    for measure in (measures.precision, measures.recall, measures.f1, measures.accuracy):
        value = measure(table)
        assert value is None or 0 <= value <= 1
    kappa = measures.kappa(table.matrix)
    assert kappa is None or -1 <= kappa <= 1
    assert kappa is None or math.isfinite(kappa)
