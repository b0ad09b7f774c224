"""Scoring of replayed turns: key resolution, detectors, turn_eval rows; pure functions (spec section 6).

The packages build on each other in this order: ``patterns``, ``numbers`` and ``text`` know nothing of
finance; ``constraints`` reads what clients ask for; ``attribution`` tells whose word a thing is; ``guards``
and ``lexicons`` find what rules look for; ``advice``, ``weights``, ``offers`` and ``limits`` what is advised,
how much of it, and whether it breaks a constraint. The modules here put the answers together: a detector
each for `risk`, `compliance`, the `rubric` and `contradiction`, then `content`, `keys` and `profile`, and
the `rows` made of all.
"""

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
