"""How failed judgements of a run are counted, and what is said of them."""

from typing import Any

import pytest

from memfin.contracts import LatencyStats, RunStats, TurnEvalRow
from memfin.judges.stats import MAX_KINDS, MAX_SHOWN, OTHERS, JudgedTurns, judge_warnings


def row(judge: str | None = "openai:m", **fields: Any) -> TurnEvalRow:
    return TurnEvalRow(
        trace_version="v1",
        run_id="r",
        dialog_id="d",
        turn_pair_id=1,
        eligible_m1=False,
        eligible_m2=False,
        eligible_m3=False,
        eligible_m4=False,
        eligible_m5=True,
        detectors={} if judge is None else {"judge": judge},
        **fields,
    )


def test_only_turns_that_were_put_to_a_judge_count() -> None:
    judged = JudgedTurns()
    for each in (row(None), row("none"), row("heuristic"), row(), row(judge_error="x 12")):
        judged.add(each)
    assert (judged.turns, judged.failed, judged.reasons()) == (3, 1, {"x 12": 1})


def test_reasons_that_differ_in_numbers_are_one_and_the_most_frequent_comes_first() -> None:
    judged = JudgedTurns()
    judged.add(row(judge_error="HTTP 401"))
    for number in range(5):
        judged.add(row(judge_error=f"the texts have {number} characters", judge_declined="too_long"))
    judged.add(row(judge_error="no", judge_declined="refused"))
    assert next(iter(judged.reasons().items())) == ("the texts have 0 characters", 5)
    assert judged.declined == {"too_long": 5, "refused": 1}


def test_reasons_without_end_take_bounded_memory() -> None:
    judged = JudgedTurns()
    for number in range(MAX_KINDS * 3):
        judged.add(row(judge_error="x" * (number + 1)))
    assert len(judged._kinds) == MAX_KINDS + 1
    assert len(judged.reasons()) == MAX_SHOWN
    assert judged.reasons()[OTHERS] == MAX_KINDS * 2
    assert judged.failed == MAX_KINDS * 3


def stats(turns: int, failed: int, declined: dict[str, int], reasons: dict[str, int]) -> RunStats:
    return RunStats(
        run_id="r",
        wall_seconds=1.0,
        turn_latency_ms=LatencyStats(),
        turns_by_status={},
        dialogs_by_status={},
        skips_by_reason={},
        judged_turns=turns,
        judge_failures=failed,
        judge_declined=declined,
        judge_failure_reasons=reasons,
    )


@pytest.mark.parametrize(
    ("scope", "said"),
    [
        ("all", "the rules read them"),
        ("m5", "M5 leaves them out"),
        ("answers", "the formulas score them all the same"),
    ],
)
def test_the_warnings_tell_count_share_reason_and_what_escaped(scope: Any, said: str) -> None:
    assert judge_warnings(stats(10, 0, {}, {}), scope) == []
    assert judge_warnings(stats(125, 69, {}, {"HTTP 500": 60, "empty": 9}), scope) == [
        "69 of 125 judgements failed (55.2%), most often: HTTP 500"
    ]
    second = judge_warnings(stats(10, 3, {"too_long": 2, "refused": 1}, {"r": 3}), scope)[1]
    assert "2 too long to be judged, 1 refused by the judge or its provider" in second
    assert said in second
