"""Distributions: close to the exact percentiles, and merged, not averaged."""

import math
import random

import msgspec
import pytest

from memfin.contracts import Distribution
from memfin.metrics.percentiles import LINE_CUTS, MAX_EXACT, Percentiles


def of(values: list[float]) -> Distribution:
    digest = Percentiles()
    digest.add_all(values)
    return digest.distribution()


def exact(values: list[float], share: float) -> float:
    return sorted(values)[math.ceil(share * len(values)) - 1]


def test_percentiles_are_close_to_the_exact_ones() -> None:
    source = random.Random(1)
    values = [source.lognormvariate(3, 1) for _ in range(MAX_EXACT + 5_000)]
    found = of(values)
    assert found.count == len(values)
    assert (found.min, found.max) == pytest.approx((min(values), max(values)), rel=1e-5)
    assert found.mean == pytest.approx(sum(values) / len(values), rel=1e-5)
    for share in (0.50, 0.90, 0.99):
        assert getattr(found, f"p{share * 100:.0f}") == pytest.approx(exact(values, share), rel=0.01)
    assert len(found.centroids) <= len(LINE_CUTS) + 1


def test_a_distribution_of_a_line_is_small_and_keeps_its_weight() -> None:
    source = random.Random(5)
    found = of([source.lognormvariate(3, 1) for _ in range(3000)])
    assert sum(weight for _, weight in found.centroids) == 3000
    assert all(found.min <= mean <= found.max for mean, _ in found.centroids)
    assert len(found.centroids) == len(LINE_CUTS) + 1
    assert len(msgspec.json.encode(found)) < 300


def test_epochs_are_merged_and_not_averaged() -> None:
    """Nine quick epochs and a slow one: the mean of their medians is nobody's median."""
    source = random.Random(2)
    epochs = [[source.uniform(1, 2) for _ in range(1000)] for _ in range(9)]
    epochs.append([source.uniform(100, 200) for _ in range(1000)])
    whole = Percentiles()
    for epoch in epochs:
        whole.merge(msgspec.json.decode(msgspec.json.encode(of(epoch)), type=Distribution))
    found = whole.distribution()
    pooled = [value for epoch in epochs for value in epoch]
    assert found.count == 10_000
    assert found.mean == pytest.approx(sum(pooled) / 10_000, rel=1e-5)
    assert found.p50 == pytest.approx(exact(pooled, 0.5), rel=0.02)
    assert found.p99 == pytest.approx(exact(pooled, 0.99), rel=0.02)
    assert found.p50 < 2
    assert sum(of(epoch).p50 for epoch in epochs) / 10 > 10


def test_nothing_measured_is_a_distribution_too() -> None:
    digest = Percentiles()
    assert digest.distribution() == Distribution()
    digest.merge(Distribution())
    assert digest.distribution() == Distribution()


def test_percentiles_of_an_ordinary_run_are_exact() -> None:
    source = random.Random(4)
    values = [source.lognormvariate(3, 1) for _ in range(1001)]
    found = of(values)
    assert (found.p50, found.p99) == pytest.approx((exact(values, 0.50), exact(values, 0.99)), rel=1e-5)


def test_one_value_is_all_percentiles() -> None:
    found = of([4.5])
    assert (found.min, found.p50, found.p99, found.max, found.count) == (4.5, 4.5, 4.5, 4.5, 1)


def test_a_thousand_merges_stay_small_and_in_order() -> None:
    source = random.Random(3)
    whole = Percentiles()
    values: list[float] = []
    for _ in range(1000):
        epoch = [source.expovariate(1 / 50) for _ in range(20)]
        values += epoch
        whole.merge(of(epoch))
    found = whole.distribution()
    assert len(found.centroids) <= len(LINE_CUTS) + 1
    assert found.min <= found.p50 <= found.p90 <= found.p99 <= found.max
    for share in (0.50, 0.90, 0.99):  # the digest breaks ties at random, and p90 is off by 1.9 to 2.0 % here
        assert getattr(found, f"p{share * 100:.0f}") == pytest.approx(exact(values, share), rel=0.025)
