"""Measures against figures worked out by hand and published ones."""

import math
import random
from collections import Counter

import pytest
from hypothesis import given
from hypothesis import strategies as st

from memfin.metrics.interval import ratio_interval
from memfin.validity import measures
from memfin.validity.measures import Bounds, ClusteredTables, Table
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
    assert ClusteredTables().accuracy() is None
    assert measures.kappa_bounds(empty.matrix, (0.0, 1.0)) is None
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


def test_the_bounds_of_f1_by_hand() -> None:
    # f1 = 2 s / (1 + s): 1/3 -> 1/2, 1/2 -> 2/3
    assert measures.f1_bounds((1 / 3, 1 / 2)) == pytest.approx((1 / 2, 2 / 3))
    assert measures.f1_bounds((0.0, 1.0)) == (0.0, 1.0)


def clustered(*units: Table, dialog_id: str | None = None) -> ClusteredTables:
    found = ClusteredTables()
    for table in units:
        found.add(dialog_id, table)
    return found


def bounds_of(found: ClusteredTables) -> dict[str, Bounds | None]:
    accuracy = found.accuracy()
    return {
        "precision": found.precision(),
        "recall": found.recall(),
        "f1": found.f1(),
        "accuracy": accuracy,
        "kappa": measures.kappa_bounds(found.whole().matrix, accuracy),
    }


def test_intervals_are_those_of_ratios_over_dialogues() -> None:
    units = [Table(3, 1, 0, 2), Table(1, 0, 2, 2), Table(0, 0, 0, 4), Table(3, 1, 0, 2)]
    found = bounds_of(clustered(*units))
    assert found["precision"] == pytest.approx(ratio_interval([(t.tp, t.tp + t.fp) for t in units]))
    assert found["recall"] == pytest.approx(ratio_interval([(t.tp, t.tp + t.fn) for t in units]))
    assert found["accuracy"] == pytest.approx(ratio_interval([(t.tp + t.tn, t.total) for t in units]))
    overlap = ratio_interval([(t.tp, t.tp + t.fp + t.fn) for t in units])
    assert found["f1"] == pytest.approx(measures.f1_bounds(overlap))


def test_one_dialogue_has_no_interval() -> None:
    one = clustered(*[Table(1, 1, 1, 1)] * 9, dialog_id="d")
    assert set(bounds_of(one).values()) == {None}
    assert one.whole() == Table(9, 9, 9, 9)


@given(st.lists(st.tuples(st.sampled_from([None, "a", "b"]), tables), max_size=8))
def test_values_lie_in_their_intervals_and_no_interval_is_a_point(
    replies: list[tuple[str | None, Table]],
) -> None:
    found = ClusteredTables()
    for dialog_id, table in replies:
        found.add(dialog_id, table)
    whole = found.whole()
    values = {
        "precision": measures.precision(whole),
        "recall": measures.recall(whole),
        "f1": measures.f1(whole),
        "accuracy": measures.accuracy(whole),
        "kappa": measures.kappa(whole.matrix),
    }
    for name, bounds in bounds_of(found).items():
        value = values[name]
        if bounds is not None:
            assert value is not None
            assert bounds[0] - 1e-12 <= value <= bounds[1] + 1e-12, name
            assert bounds[0] < bounds[1], name


def test_bounds_of_a_mean_are_means_of_bounds() -> None:
    assert measures.mean_bounds([(0.2, 0.4), None]) == (0.1, 0.7)
    assert measures.mean_bounds([None]) is None


def test_intervals_cover_the_truth_where_replies_of_a_dialogue_are_alike() -> None:
    """Dialogues of ten replies with a common rate of errors: replies as units cover far too seldom."""
    source = random.Random(7)
    rounds, truth = 300, {"recall": 0.8, "accuracy": 0.8, "f1": 0.8, "kappa": 0.6}
    covered: Counter[str] = Counter()
    apart_covered: Counter[str] = Counter()
    for _ in range(rounds):
        together, apart = ClusteredTables(), ClusteredTables()
        for dialog_id in map(str, range(40)):
            rate = source.betavariate(1.6, 0.4)
            for number in range(10):
                right = source.random() < rate
                table = Table(tp=right, fn=not right) if number % 2 else Table(tn=right, fp=not right)
                together.add(dialog_id, table)
                apart.add(None, table)
        for counts, found in ((covered, bounds_of(together)), (apart_covered, bounds_of(apart))):
            for name, value in truth.items():
                bounds = found[name]
                assert bounds is not None
                counts[name] += bounds[0] <= value <= bounds[1]
    for name in truth:
        assert covered[name] / rounds > 0.92, name
        assert apart_covered[name] / rounds < 0.85, name


@given(tables)
def test_measures_stay_in_their_range(table: Table) -> None:
    for measure in (measures.precision, measures.recall, measures.f1, measures.accuracy):
        value = measure(table)
        assert value is None or 0 <= value <= 1
    kappa = measures.kappa(table.matrix)
    assert kappa is None or -1 <= kappa <= 1
    assert kappa is None or math.isfinite(kappa)
