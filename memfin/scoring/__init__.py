"""Scoring of replayed turns: key resolution, detectors, turn_eval rows; pure functions (spec section 6)."""

from memfin.scoring.keys import detect_key_hits_from_memory_sources, resolve_memory_required_key
from memfin.scoring.rows import DialogScorer, build_turn_eval_rows, score_dialog
from memfin.scoring.verdicts import judge_request, with_verdict

__all__ = [
    "DialogScorer",
    "build_turn_eval_rows",
    "detect_key_hits_from_memory_sources",
    "judge_request",
    "resolve_memory_required_key",
    "score_dialog",
    "with_verdict",
]
