"""What epochs amount to: growth of memory by process, gates, the same totals from recorded lines."""

import random

import msgspec
import pytest

from memfin.contracts import Distribution, ProcessSample, RunConfig, SoakEpoch, SoakErrors
from memfin.metrics.percentiles import Percentiles
from memfin.runtime.soak_plan import dialog_gates
from memfin.runtime.soak_stats import SoakStats

MIB = 1 << 20


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


def tally(*epochs: SoakEpoch) -> SoakStats:
    found = SoakStats()
    for each in epochs:
        found.add(each)
    return found


def test_growth_of_memory_is_told_for_a_hundred_thousand_turns() -> None:
    found = tally(*(epoch(number, 50 * MIB + number * 1000) for number in range(1, 41))).fields()
    assert found["rss_bytes_per_100k_turns"] == pytest.approx(1000 * 100)  # 1,000 bytes in 1,000 turns
    assert found["rss_ci95"] == pytest.approx((100_000, 100_000))
    assert found["operation"]["rss_bytes"].drifting


def test_the_warm_up_is_no_growth() -> None:
    warming = [epoch(number, 50 * MIB + min(number, 9) * MIB) for number in range(1, 41)]
    found = tally(*warming).fields()
    assert found["rss_bytes_per_100k_turns"] == 0.0
    assert not found["operation"]["rss_bytes"].drifting


def test_another_process_begins_its_memory_anew_and_goes_on_with_the_metrics() -> None:
    first = [epoch(number, 90 * MIB) for number in range(1, 21)]
    second = [epoch(number, 50 * MIB, process=2) for number in range(21, 41)]
    found = tally(*first, *second).fields()
    assert found["rss_bytes_per_100k_turns"] == 0.0
    rss = found["operation"]["rss_bytes"]
    assert (rss.first, rss.max, rss.epochs) == (50 * MIB, 50 * MIB, 15)
    assert found["metrics"]["m3_risk_coverage.risk_coverage"].epochs == 40
    assert found["operation"]["turn_latency_p50_ms"].epochs == 40
    assert found["epochs"] == 40
    assert found["turn_latency_ms"].count == 40_000


def test_growth_is_not_told_before_ten_thousand_turns() -> None:
    assert (
        tally(*(epoch(number, MIB * number) for number in range(1, 10))).fields()["rss_bytes_per_100k_turns"]
        is None
    )


def test_recorded_lines_amount_to_the_same_to_the_last_bit() -> None:
    epochs = [epoch(number, 50 * MIB + number % 7, failed=number % 3) for number in range(1, 90)]
    again = [msgspec.json.decode(msgspec.json.encode(each), type=SoakEpoch) for each in epochs]
    assert tally(*epochs).fields() == tally(*again).fields()


def test_gates_hold_means_and_turns_of_all_epochs() -> None:
    found = tally(*(epoch(number, MIB, failed=1) for number in range(1, 5)))
    config = RunConfig(fail_under={"m3_risk_coverage.risk_coverage": 0.506}, fail_on_error=4)
    assert dialog_gates(found, config) == [
        "--fail-on-error 4: 4 of 4000 turns failed (0.1%)",
        "--fail-under m3_risk_coverage.risk_coverage=0.506: the value is 0.505",
    ]
    assert dialog_gates(found, config.replace(fail_under={}, fail_on_error=5)) == []


def test_a_soak_in_which_every_turn_failed_passes_no_gate() -> None:
    assert dialog_gates(tally(epoch(1, MIB, turns=3, failed=3)), RunConfig()) == [
        "every one of the 3 turns failed"
    ]
