"""Traces of what was replayed: of a turn, and what the turns amount to (metrics contract section 4)."""

from collections.abc import Mapping
from typing import Any

from memfin.agents.observer import Observed
from memfin.contracts import DialogStatus, TurnPair, TurnStatus, TurnTrace
from memfin.contracts.reading import convert


def dialog_status(turns: list[TurnTrace]) -> DialogStatus:
    """Return ``ok`` when all turns are, ``failed`` when none is, else ``partial`` (spec section 4)."""
    answered = sum(turn.turn_status == "ok" for turn in turns)
    if answered == len(turns):
        return "ok"
    return "partial" if answered else "failed"


def build_turn_trace(
    turn_pair: TurnPair | Mapping[str, Any],
    pred_text: str | None,
    observer_payload: Observed | Mapping[str, Any],
    latency_ms: float | None,
    turn_status: TurnStatus = "ok",
    error: str | None = None,
) -> TurnTrace:
    """Return the trace of one turn; latency in milliseconds (metrics contract section 4).

    Raises:
        InvalidRecord: a plain mapping does not fit the contract; the message begins with its path.
    """
    if isinstance(turn_pair, Mapping):
        turn_pair = convert(turn_pair, TurnPair)
    if isinstance(observer_payload, Mapping):
        observer_payload = convert(observer_payload, Observed)
    return TurnTrace(
        turn_pair_id=turn_pair.turn_pair_id,
        user_turn_abs_idx=turn_pair.user_turn_abs_idx,
        gt_assistant_abs_idx=turn_pair.gt_assistant_abs_idx,
        user_text=turn_pair.user_text,
        gt_assistant_text=turn_pair.gt_assistant_text,
        gt_turn_tags=turn_pair.gt_turn_tags,
        turn_status=turn_status,
        pred_assistant_text=pred_text,
        latency_ms=latency_ms,
        error=error,
        recall=observer_payload.recall,
        tools=observer_payload.tools,
        compliance=observer_payload.compliance,
        profile_snapshot=observer_payload.profile_snapshot,
    )
