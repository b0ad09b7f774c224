import pytest

from memfin.actors.dialog_scoring import DialogTotals
from memfin.contracts import DialogTrace, TurnTags, TurnTrace


def totals_of(latencies: list[float]) -> DialogTotals:
    turns = [
        TurnTrace(
            turn_pair_id=number,
            user_turn_abs_idx=0,
            gt_assistant_abs_idx=1,
            user_text="u",
            gt_assistant_text="a",
            gt_turn_tags=TurnTags(),
            turn_status="ok",
            latency_ms=latency,
        )
        for number, latency in enumerate(latencies, 1)
    ]
    totals = DialogTotals()
    totals.add_trace(
        DialogTrace(
            trace_version="v1",
            run_id="r",
            dialog_id="d",
            dataset_index=1,
            dialog_status="ok",
            valid_dialog=True,
            turns=turns,
        )
    )
    return totals


@pytest.mark.parametrize(
    ("latencies", "p50", "p90", "p99"),
    [
        ([1.0, 2.0], 1.0, 2.0, 2.0),
        ([float(number) for number in range(100, 0, -1)], 50.0, 90.0, 99.0),
        ([7.0], 7.0, 7.0, 7.0),
    ],
)
def test_percentiles_are_by_nearest_rank(latencies: list[float], p50: float, p90: float, p99: float) -> None:
    stats = totals_of(latencies).latency()
    assert (stats.p50, stats.p90, stats.p99) == (p50, p90, p99)
    assert stats.max == max(latencies)
    assert stats.count == len(latencies)


def test_no_latency_is_all_zero() -> None:
    assert totals_of([]).latency().count == 0
