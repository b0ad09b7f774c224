"""Statistics of a soak: slopes and their coverage, growth of memory by process, gates, bounded state."""

import math
import random
from itertools import combinations
from pathlib import Path
from statistics import median

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from memfin.contracts import (
    Counters,
    Distribution,
    ProcessSample,
    RunConfig,
    SoakEpoch,
    SoakErrors,
    TurnEvalRow,
)
from memfin.metrics.aggregate import MetricsState, encode_summary
from memfin.metrics.m3_risk import M3State
from memfin.metrics.percentiles import Percentiles
from memfin.runtime.soak_plan import dialog_gates
from memfin.runtime.soak_stats import MATERIAL_RATE, MAX_BATCHES, Series, Slope, SoakStats, sen_slope
from tests.support import each_case, length

MIB = 1 << 20
COVERAGE = "m3_risk_coverage.risk_coverage"
VALUES = st.floats(-1e6, 1e6, allow_nan=False)


def series(values: list[float]) -> Series:
    found = Series()
    for value in values:
        found.add(value)
    return found


def test_the_slope_of_a_line_is_its_own_with_a_point_for_an_interval() -> None:
    assert sen_slope([2.0, 4.0, 6.0, 8.0, 10.0, 12.0]) == Slope(2.0, (2.0, 2.0))


def test_it_is_the_median_of_the_slopes_of_all_pairs() -> None:
    values = [10.0, 15.0, 14.0, 20.0]
    slopes = [(values[j] - values[i]) / (j - i) for i, j in combinations(range(4), 2)]
    assert sen_slope(values).value == pytest.approx(median(slopes))


@pytest.mark.parametrize(("n", "bounds"), [(5, (0, 9)), (6, (1, 13)), (7, (3, 17)), (10, (11, 33))])
def test_few_points_have_the_bounds_that_kendalls_exact_distribution_gives(
    n: int, bounds: tuple[int, int]
) -> None:
    """Ranks of the bounds among the ordered slopes, as tables of it give them."""
    values = [random.Random(n).random() * 100 + 5 * number for number in range(n)]
    slopes = sorted((values[j] - values[i]) / (j - i) for i, j in combinations(range(n), 2))
    assert sen_slope(values).interval == (slopes[bounds[0]], slopes[bounds[1]])


@pytest.mark.parametrize("n", range(5))
def test_fewer_than_five_points_have_no_interval(n: int) -> None:
    assert sen_slope([float(number) for number in range(n)]).interval is None


def test_a_wild_epoch_does_not_move_the_slope() -> None:
    quiet = [1.0 + 0.01 * (number % 3) for number in range(30)]
    wild = [*quiet[:15], 1000.0, *quiet[16:]]
    assert abs(sen_slope(wild).value) < 0.001
    bounds = sen_slope(wild).interval
    assert bounds is not None
    assert bounds[0] <= 0 <= bounds[1]


@each_case("value", [0.0, 0.1, 1 / 3, 0.7432189, -5e-324, 1e300])
def test_equal_values_have_no_drift_at_all_however_many_epochs(value: float) -> None:
    drift = series([value] * 5000).drift(COVERAGE)
    assert (drift.slope, drift.ci95, drift.drifting) == (0.0, (0.0, 0.0), False)
    assert drift.first == drift.last == drift.mean == drift.min == drift.max == value


@pytest.mark.parametrize("n", [12, 40, 200])
def test_intervals_cover_the_true_slope_as_often_as_they_say(n: int) -> None:
    source = random.Random(20261122 + n)
    covered = 0
    rounds = length(200, 400)
    for _ in range(rounds):
        bounds = series([0.03 * number + source.gauss(0, 1) for number in range(n)]).drift(COVERAGE).ci95
        assert bounds is not None
        covered += bounds[0] <= 0.03 <= bounds[1]
    assert 0.92 <= covered / rounds <= 0.985


def test_batches_keep_the_coverage_where_neighbours_resemble_each_other() -> None:
    source = random.Random(7)
    covered = naive = 0
    rounds = length(80, 200)
    for _ in range(rounds):
        values, noise = [], 0.0
        for _ in range(1200):
            noise = 0.6 * noise + source.gauss(0, 1)
            values.append(noise)
        batched, plain = series(values).drift(COVERAGE).ci95, sen_slope(values[:63]).interval
        assert batched is not None
        assert plain is not None
        covered += batched[0] <= 0 <= batched[1]
        naive += plain[0] <= 0 <= plain[1]
    assert covered / rounds >= 0.9
    assert naive / rounds < 0.85  # what batching is for


def test_a_drift_is_found() -> None:
    source = random.Random(3)
    drift = series([0.8 - 0.0005 * number + source.gauss(0, 0.01) for number in range(300)]).drift(COVERAGE)
    assert drift.drifting
    assert drift.slope == pytest.approx(-0.0005, rel=0.1)
    assert drift.epochs > 250


@given(st.lists(VALUES, min_size=2, max_size=40), st.floats(-100, 100), st.floats(0.5, 8))
def test_shifting_moves_nothing_and_scaling_scales(values: list[float], shift: float, scale: float) -> None:
    plain = sen_slope(values)
    moved = sen_slope([value * scale + shift for value in values])
    assert moved.value == pytest.approx(plain.value * scale, rel=1e-6, abs=1e-6)
    turned = sen_slope(values[::-1])
    assert turned.value == pytest.approx(-plain.value, rel=1e-9, abs=1e-12)


@given(st.lists(VALUES, min_size=1, max_size=700))
def test_a_series_knows_its_values_and_stays_small(values: list[float]) -> None:
    found = series(values)
    drift = found.drift(COVERAGE)
    assert len(found) < MAX_BATCHES
    assert (drift.first, drift.last) == (values[0], values[-1])
    assert (drift.min, drift.max) == (min(values), max(values))
    assert drift.mean == pytest.approx(math.fsum(values) / len(values), rel=1e-12, abs=1e-300)
    assert drift.min <= drift.mean <= drift.max
    assert drift.ci95 is None or drift.ci95[0] <= drift.slope <= drift.ci95[1]
    assert 0 <= len(values) - drift.epochs < max(1, len(values) / 16)


def test_the_slope_is_for_one_epoch_however_large_the_batches() -> None:
    for n in (10, 63, 64, 100, 1000, 10_000):
        assert series([3.0 * number for number in range(n)]).drift(COVERAGE).slope == pytest.approx(3.0)


def test_a_warm_up_is_left_out_where_there_is_one() -> None:
    values = [100.0 * number for number in range(60)] + [6000.0] * 140
    found = series(values)
    assert found.drift("rss_bytes").slope == 0.0
    assert found.drift(COVERAGE).slope > 0.0


@pytest.mark.parametrize("value", [math.nan, math.inf, -math.inf])
def test_what_is_not_finite_is_refused(value: float) -> None:
    with pytest.raises(ValueError, match="finite"):
        Series().add(value)


def distribution(*values: float) -> Distribution:
    digest = Percentiles()
    digest.add_all(values)
    return digest.distribution()


def epoch(number: int, rss: int, *, process: int = 1, turns: int = 1000, failed: int = 0) -> SoakEpoch:
    return SoakEpoch(
        run_id="s",
        epoch=number,
        epoch_run_id=f"s.{number:06}",
        process=process,
        started_at="2026-02-19T10:18:55Z",
        ended_at="2026-02-19T10:18:56Z",
        wall_seconds=1.0,
        dialogs=50,
        turns=turns,
        metrics={"m3_risk_coverage.risk_coverage": 0.5 + 0.01 * (number % 2)},
        turn_latency_ms=distribution(*(random.Random(number).uniform(1, 2) for _ in range(turns - failed))),
        loop_lag_ms=distribution(1.0, 2.0),
        errors=SoakErrors(failed_turns=failed),
        resources=ProcessSample(rss_bytes=rss, open_files=10, threads=2, tasks=3),
        peak=ProcessSample(),
    )


def stats_of(*epochs: SoakEpoch) -> SoakStats:
    found = SoakStats()
    for each in epochs:
        found.add(each)
    return found


@pytest.mark.parametrize(("bytes_an_epoch", "drifting"), [(85, False), (1000, False), (20_000, True)])
def test_growth_of_memory_is_given_per_hundred_thousand_turns(bytes_an_epoch: int, drifting: bool) -> None:
    epochs = (epoch(number, 50 * MIB + number * bytes_an_epoch) for number in range(1, 41))
    found = stats_of(*epochs).fields()
    per_100k = bytes_an_epoch * 100  # an epoch has 1,000 turns
    assert found["rss_bytes_per_100k_turns"] == pytest.approx(per_100k)
    assert found["rss_ci95"] == pytest.approx((per_100k, per_100k))
    assert found["operation"]["rss_bytes"].slope == bytes_an_epoch
    assert found["operation"]["rss_bytes"].drifting is drifting


@each_case(
    ("name", "first", "slope", "drifting"),
    [
        (COVERAGE, 0.9, -0.0011, True),
        (COVERAGE, 0.9, -0.0009, False),
        ("error_rate", 0.0, 0.0011, True),
        ("error_rate", 0.0, 0.0009, False),
        ("rag.overall_percentage", 50.0, 0.11, True),
        ("rag.overall_percentage", 50.0, 0.09, False),
        ("rag.judge.faithfulness", 4.0, -0.03, True),
        ("rag.judge.faithfulness", 4.0, -0.01, False),
        ("turn_latency_p50_ms", 100.0, 0.6, True),
        ("turn_latency_p50_ms", 100.0, 0.4, False),
        ("turn_latency_p50_ms", 100.0, -5.0, False),
        ("loop_lag_p99_ms", 0.1, 0.09, False),
        ("open_files", 10.0, 0.2, True),
        ("tasks", 10.0, -0.5, False),
    ],
)
def test_a_drift_is_a_material_change_over_the_soak(
    name: str, first: float, slope: float, drifting: bool
) -> None:
    drift = series([first + slope * number for number in range(11)]).drift(name)
    assert drift.slope == pytest.approx(slope)
    assert drift.ci95 == pytest.approx((slope, slope))
    assert drift.drifting is drifting


@pytest.mark.parametrize("values", [[0.2, 0.5, 0.6, 0.9], [0.5, 0.9, 0.4, 0.6, 0.95, 0.3, 0.99, 0.5]])
def test_a_material_change_that_may_be_chance_is_no_drift(values: list[float]) -> None:
    drift = series(values).drift(COVERAGE)
    assert drift.slope * (len(values) - 1) > MATERIAL_RATE
    assert drift.ci95 is None or drift.ci95[0] <= 0 <= drift.ci95[1]
    assert not drift.drifting


def test_the_warm_up_is_no_growth() -> None:
    warming = [epoch(number, 50 * MIB + min(number, 9) * MIB) for number in range(1, 41)]
    found = stats_of(*warming).fields()
    assert found["rss_bytes_per_100k_turns"] == 0.0
    assert not found["operation"]["rss_bytes"].drifting


def test_another_process_begins_its_memory_anew_and_goes_on_with_the_metrics() -> None:
    first = [epoch(number, 90 * MIB) for number in range(1, 21)]
    second = [epoch(number, 50 * MIB, process=2) for number in range(21, 41)]
    found = stats_of(*first, *second).fields()
    assert found["rss_bytes_per_100k_turns"] == 0.0
    rss = found["operation"]["rss_bytes"]
    assert (rss.first, rss.max, rss.epochs) == (50 * MIB, 50 * MIB, 15)
    assert found["metrics"]["m3_risk_coverage.risk_coverage"].epochs == 40
    assert found["operation"]["turn_latency_p50_ms"].epochs == 40
    assert found["epochs"] == 40
    assert found["turn_latency_ms"].count == 40_000


def test_growth_is_not_given_before_ten_thousand_turns() -> None:
    found = stats_of(*(epoch(number, MIB * number) for number in range(1, 10))).fields()
    assert found["rss_bytes_per_100k_turns"] is None


def test_recorded_lines_amount_to_the_same_to_the_last_bit() -> None:
    epochs = [epoch(number, 50 * MIB + number % 7, failed=number % 3) for number in range(1, 90)]
    again = [msgspec.json.decode(msgspec.json.encode(each), type=SoakEpoch) for each in epochs]
    assert stats_of(*epochs).fields() == stats_of(*again).fields()


def test_gates_hold_means_and_turns_of_all_epochs(tmp_path: Path) -> None:
    found = stats_of(*(epoch(number, MIB, failed=1) for number in range(1, 5)))
    state = MetricsState()
    (tmp_path / "metrics_summary.json").write_bytes(encode_summary(state.summary("r", "d", Counters())))
    config = RunConfig(fail_under={COVERAGE: 0.506}, fail_on_error=4)
    errors = "--fail-on-error 4: 4 of 4000 turns failed (0.1%)"
    assert dialog_gates(found, tmp_path, config) == [
        errors,
        f"--fail-under {COVERAGE}=0.506: the value was not measured: {M3State.shares[0].empty}",
    ]
    turn = TurnEvalRow(
        trace_version="v1",
        run_id="r",
        dialog_id="d",
        turn_pair_id=1,
        eligible_m1=False,
        eligible_m2=False,
        eligible_m3=True,
        eligible_m4=False,
        eligible_m5=False,
        risk_required_tags=["market_risk"],
    )
    state.add_row(turn)
    (tmp_path / "metrics_summary.json").write_bytes(encode_summary(state.summary("r", "d", Counters())))
    assert dialog_gates(found, tmp_path, config) == [
        errors,
        f"--fail-under {COVERAGE}=0.506: the value is 0.505",
    ]
    assert dialog_gates(found, tmp_path, config.replace(fail_under={}, fail_on_error=5)) == []


def test_a_soak_in_which_every_turn_failed_passes_no_gate(tmp_path: Path) -> None:
    assert dialog_gates(stats_of(epoch(1, MIB, turns=3, failed=3)), tmp_path, RunConfig()) == [
        "every one of the 3 turns failed"
    ]
