"""The judge's part of a turn_eval row: the request to a judge, and the row with its answer.

Implements the judge side of trace schema section 5 and spec section 7.
"""

from typing import Any, Final

import msgspec

from memfin.contracts import (
    HEURISTIC_JUDGE,
    NO_JUDGE,
    READINGS,
    TRACE_VERSION,
    ComplianceTrace,
    Dialog,
    JudgeFailure,
    JudgeRequest,
    JudgeScope,
    Reading,
    TurnEvalRow,
    TurnPair,
    TurnTrace,
    Verdict,
    met_risk_tags,
)
from memfin.scoring import risk
from memfin.scoring.compliance import label_from_trace, worst_label

_CONTRADICTION: Final = "constraint_contradiction"
_REPLACED: Final = frozenset({risk.FIELD, _CONTRADICTION})
"""Fields of the findings that explain what the judge replaces; those of compliance explain forbidden hits."""


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


def is_judged(row: TurnEvalRow, scope: JudgeScope) -> bool:
    """Return True if a turn goes to the judge.

    In the scope ``m5`` those with a rubric do; in ``all`` every answered one besides; in ``uncertain`` the
    answered ones alone on which rules and classifier disagree or whose contradictions are undecided. A blank
    reply has nothing to be read besides its rubric.
    """
    if scope == "uncertain":
        return row.pred_compliance_label is not None and bool(row.unsure or row.undecided_constraints)
    if scope == "all" and row.pred_compliance_label is not None:
        return True
    return row.eligible_m5


def judge_request(
    dialog: Dialog, turn: TurnTrace, row: TurnEvalRow, scope: JudgeScope = "m5"
) -> JudgeRequest:
    """Return the request to a judge about a turn; ``row`` is the turn's row before any verdict."""
    return _request(
        dialog,
        row.turn_pair_id,
        scope,
        user_text=turn.user_text,
        reply=turn.pred_assistant_text or "",
        rubric_required=row.rubric_required,
        detected_items=row.rubric_hit_items,
    )


def reference_request(dialog: Dialog, pair: TurnPair, scope: JudgeScope = "m5") -> JudgeRequest:
    """Return what a judge would be asked if the agent had given the reference reply."""
    return _request(
        dialog,
        pair.turn_pair_id,
        scope,
        user_text=pair.user_text,
        reply=pair.gt_assistant_text,
        rubric_required=pair.gt_turn_tags.explainability_rubric_gt,
    )


def _request(dialog: Dialog, turn_pair_id: int, scope: JudgeScope, **asked: Any) -> JudgeRequest:
    truth = dialog.profile_gt
    return JudgeRequest(
        **asked,
        dialog_id=dialog.dialog_id,
        turn_pair_id=turn_pair_id,
        language=dialog.language or "zh",
        constraints=truth.constraints_gt,
        preferences=truth.preferences_gt,
        risk_level=truth.risk_level_gt or "",
        horizon=truth.horizon_gt or "",
        liquidity_need=truth.liquidity_need_gt or "",
        scope="m5" if scope == "m5" else "all",
    )


def with_verdict(
    row: TurnEvalRow,
    outcome: Verdict | JudgeFailure | None,
    *,
    judge: str | None = None,
    scope: JudgeScope = "m5",
    checked: ComplianceTrace | None = None,
) -> TurnEvalRow:
    """Return the row with the judge's part filled in (spec section 7).

    A verdict gives the score and, of the required rubric items, those it found satisfied. A failure
    gives its reason and neither score nor items. None says that the run has no judge. ``judge`` is
    noted in ``detectors``; the heuristic one takes its rubric items from the lexicons.

    In the scopes ``all`` and ``uncertain`` the verdict also takes the place of the detectors of
    contradictions, risk tags and compliance; ``checked`` is the agent's own check, the worse of both labels
    counts. After a failure nobody has read these: ``unjudged`` says so, and the metrics leave the turn out. A
    reply that the judge declines to read, as too long or by refusing, does not escape: the detectors'
    readings stay.
    """
    detectors = row.detectors
    if outcome is None:
        judge = NO_JUDGE
    if judge is not None:
        detectors = {**detectors, "judge": judge}
        if judge not in (NO_JUDGE, HEURISTIC_JUDGE):
            detectors["rubric"] = judge
    if not isinstance(outcome, Verdict):
        failed = row.replace(
            rubric_hit_items=[],
            judge_score_1_5=None,
            judge_error=None if outcome is None else outcome.reason,
            detectors=detectors,
        )
        if outcome is None:
            return failed
        if outcome.declined is not None:
            failed = failed.replace(judge_declined=outcome.declined)
            return failed if scope == "m5" else failed.replace(unjudged=["rubric"])
        if scope == "m5":
            return failed
        return _read_by_judge(failed, None, judge, None).replace(unjudged=list(READINGS))
    judged = row.replace(
        rubric_hit_items=[item for item in row.rubric_required if item in outcome.rubric_items],
        judge_score_1_5=outcome.score if row.eligible_m5 or scope == "m5" else None,
        judge_error=None,
        judge_spread=msgspec.UNSET if outcome.spread is None else outcome.spread,
        detectors=detectors,
    )
    if scope == "m5":
        return judged
    read = _read_by_judge(judged, outcome, judge, checked)
    return read.replace(judge_changed=_changed(row, read)) if scope == "uncertain" else read


def _changed(before: TurnEvalRow, after: TurnEvalRow) -> list[Reading]:
    """Return the readings on which a judge differs from the detectors."""
    differs: dict[Reading, bool] = {
        "contradiction": before.constraint_contradiction != after.constraint_contradiction,
        "risk": sorted(before.risk_pred_tags) != sorted(after.risk_pred_tags),
        "compliance": before.pred_compliance_label != after.pred_compliance_label,
    }
    return [reading for reading, changed in differs.items() if changed]


def _read_by_judge(
    row: TurnEvalRow, verdict: Verdict | None, judge: str | None, checked: ComplianceTrace | None
) -> TurnEvalRow:
    """Return the row with the judge's readings, none without a verdict, in place of the detectors'."""
    source = name = judge or "judge"
    label = None if verdict is None else verdict.compliance
    if label is not None and checked is not None:
        label, source = worst_label(label, label_from_trace(checked)), f"{name}+trace"
    tags = [] if verdict is None else sorted(set(verdict.risk_tags or ()))
    contradicted = [] if verdict is None else list(dict.fromkeys(verdict.contradicted_constraints or ()))
    return row.replace(
        constraint_contradiction=1 if contradicted else 0,
        contradicted_constraints=contradicted,
        unread_constraints=msgspec.UNSET,
        undecided_constraints=msgspec.UNSET,
        risk_pred_tags=tags,
        risk_tag_hits=len(met_risk_tags(row.risk_required_tags, tags)),
        pred_compliance_label=label,
        findings=[finding for finding in row.findings if finding.field not in _REPLACED],
        detectors={**row.detectors, "contradiction": name, "risk": name, "compliance": source},
    )
