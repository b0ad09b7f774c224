"""``compute_m*`` take whatever they are given: what cannot be counted is counted bad."""

import re
from collections.abc import Callable, Iterator, Mapping
from typing import Any

import pytest

from memfin.contracts import Dialog, DialogTrace, MetricResult, ProfileTruth, TurnEvalRow, TurnTags, TurnTrace
from memfin.metrics import (
    compute_m1_context_continuity,
    compute_m2_profile_accuracy,
    compute_m3_risk_coverage,
    compute_m4_compliance,
    compute_m5_explainability,
)
from tests.support import each_case

Compute = Callable[[Any], MetricResult]

DIALOG = Dialog(
    dialog_id="d",
    profile_gt=ProfileTruth(risk_level_gt="稳健", horizon_gt="2年以上", liquidity_need_gt="中"),
    turns=[],
)
COMPUTES: dict[str, Compute] = {
    "m1": compute_m1_context_continuity,
    "m2": lambda traces: compute_m2_profile_accuracy(traces, {"d": DIALOG}),
    "m2 without dialogues": lambda traces: compute_m2_profile_accuracy(traces, None),
    "m3": compute_m3_risk_coverage,
    "m4": compute_m4_compliance,
    "m5": compute_m5_explainability,
}
TRACE = DialogTrace(
    trace_version="v1.1",
    run_id="r",
    dialog_id="d",
    dataset_index=1,
    dialog_status="ok",
    valid_dialog=True,
    profile_gt=DIALOG.profile_gt,
    turns=[
        TurnTrace(
            turn_pair_id=1,
            user_turn_abs_idx=0,
            gt_assistant_abs_idx=1,
            user_text="u",
            gt_assistant_text="a",
            gt_turn_tags=TurnTags(),
            turn_status="ok",
            profile_snapshot={"risk_level": "medium"},
        )
    ],
)
ROW = TurnEvalRow(
    trace_version="v1",
    run_id="r",
    dialog_id="d",
    turn_pair_id=1,
    eligible_m1=True,
    eligible_m2=True,
    eligible_m3=True,
    eligible_m4=True,
    eligible_m5=True,
    key_hit_flags=[1],
    risk_required_tags=["a"],
    gt_compliance_label="compliant",
    pred_compliance_label="compliant",
    rubric_required=["x"],
    judge_score_1_5=3.0,
)


class Hostile(Mapping[str, Any]):
    """A mapping that raises at every touch."""

    def __getitem__(self, key: str) -> Any:
        raise RuntimeError("no item")

    def __iter__(self) -> Iterator[str]:
        raise RuntimeError("no names")

    def __len__(self) -> int:
        raise RuntimeError("no length")


class NotIterable:
    def __iter__(self) -> Iterator[Any]:
        raise OSError("the disk is gone")


def breaking_off(*units: object) -> Iterator[object]:
    yield from units
    raise OSError("the disk is gone")


def named(given: object) -> str:
    """Return the name of a test's case, the same in every process."""
    return re.sub(r" at 0x[0-9a-f]+", "", repr(given))


each_metric = pytest.mark.parametrize("compute", COMPUTES.values(), ids=COMPUTES)


@each_metric
@each_case(
    ("given", "bad"),
    [
        (None, 1),
        (7, 1),
        (NotIterable(), 1),
        (breaking_off, 1),
        ([], 0),
        ("ab", 2),
        ({"trace_version": "v1"}, 1),
        ([None, 1, "x", b"y", [], {}, {"dialog_id": []}, object(), Hostile(), float("nan")], 10),
    ],
)
def test_garbage_is_counted_and_never_raises(compute: Compute, given: object, bad: int) -> None:
    counts = compute(given).counts
    assert (counts["bad_rows"], counts["failed_count"], counts["eligible_count"]) == (bad, bad, 0)


@each_metric
def test_what_came_before_an_iterable_broke_off_counts(compute: Compute) -> None:
    unit = TRACE if compute in (COMPUTES["m2"], COMPUTES["m2 without dialogues"]) else ROW
    counts = compute(breaking_off(unit)).counts
    assert (counts["bad_rows"], counts["eligible_count"]) == (1, 1)
    whole = compute([unit])
    assert (whole.counts["bad_rows"], whole.counts["eligible_count"]) == (0, 1)
    assert compute(breaking_off(unit)).micro == whole.micro


def test_without_dialogues_the_trace_tells_the_true_profile_or_is_skipped() -> None:
    assert compute_m2_profile_accuracy([TRACE], None).micro["risk_level_acc"] == 1.0
    bare = DialogTrace(
        trace_version="v1",
        run_id="r",
        dialog_id="d",
        dataset_index=1,
        dialog_status="ok",
        valid_dialog=True,
        turns=TRACE.turns,
    )
    counts = compute_m2_profile_accuracy([bare], None).counts
    assert (counts["eligible_count"], counts["skipped_count"], counts["bad_rows"]) == (0, 1, 0)


@each_case("dialogs", [[], 3, "x", Hostile(), {"d": 3}, {"d": Hostile()}], ids=named)
def test_dialogues_that_are_none_make_the_trace_bad(dialogs: Any) -> None:
    assert compute_m2_profile_accuracy([TRACE], dialogs).counts["bad_rows"] == 1
