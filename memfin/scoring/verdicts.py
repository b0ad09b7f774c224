"""The judge's part of a turn_eval row: what a judge is asked, and the row with its answer.

Implements the judge side of trace schema section 5 and spec section 7.
"""

from typing import Final

from memfin.contracts import (
    NO_JUDGE,
    TRACE_VERSION,
    Dialog,
    JudgeFailure,
    JudgeRequest,
    TurnEvalRow,
    TurnTrace,
    Verdict,
)

HEURISTIC_JUDGE: Final = "heuristic"
"""The judge that goes by what the detectors found."""


def unscored_row(
    run_id: str, dialog_id: str, turn: TurnTrace, reason: str, trace_version: str = TRACE_VERSION
) -> TurnEvalRow:
    """Return the row of a turn whose scoring failed: eligible for nothing, counted as failed."""
    return TurnEvalRow(
        trace_version=trace_version,
        run_id=run_id,
        dialog_id=dialog_id,
        turn_pair_id=turn.turn_pair_id,
        eligible_m1=False,
        eligible_m2=False,
        eligible_m3=False,
        eligible_m4=False,
        eligible_m5=False,
        required_keys_raw=turn.gt_turn_tags.memory_required_keys_gt,
        turn_status=turn.turn_status,
        scoring_error=reason,
    )


def judge_request(dialog: Dialog, turn: TurnTrace, row: TurnEvalRow) -> JudgeRequest:
    """Return what a judge is asked about a turn; ``row`` is the turn's row before any verdict."""
    return JudgeRequest(
        dialog_id=row.dialog_id,
        turn_pair_id=row.turn_pair_id,
        language=dialog.language or "zh",
        user_text=turn.user_text,
        reply=turn.pred_assistant_text or "",
        rubric_required=row.rubric_required,
        constraints=dialog.profile_gt.constraints_gt,
        detected_items=row.rubric_hit_items,
    )


def with_verdict(
    row: TurnEvalRow, outcome: Verdict | JudgeFailure | None, *, judge: str | None = None
) -> TurnEvalRow:
    """Return the row with the judge's part filled in (spec section 7).

    A verdict gives the score and, of the required rubric items, those it found satisfied. A failure
    gives its reason and neither score nor items. None says that the run has no judge. ``judge`` is
    noted in ``detectors``; the heuristic one takes its rubric items from the lexicons.
    """
    detectors = row.detectors
    if outcome is None:
        judge = NO_JUDGE
    if judge is not None:
        detectors = {**detectors, "judge": judge}
        if judge not in (NO_JUDGE, HEURISTIC_JUDGE):
            detectors["rubric"] = judge
    if isinstance(outcome, Verdict):
        satisfied = [item for item in row.rubric_required if item in outcome.rubric_items]
        return row.replace(
            rubric_hit_items=satisfied, judge_score_1_5=outcome.score, judge_error=None, detectors=detectors
        )
    return row.replace(
        rubric_hit_items=[],
        judge_score_1_5=None,
        judge_error=None if outcome is None else outcome.reason,
        detectors=detectors,
    )
