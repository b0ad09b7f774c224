"""Scoring of replayed turns: key resolution, detectors, turn_eval rows; pure functions (spec section 6).

A reply is read once as a document (`memfin.text`). `statements` finds the kind of each sentence;
`lexicon` holds the rules and `classifier` the trained model, which `detectors` combines into
disclosures, violations and explanations. `constraint_texts` reads the client's constraints,
`allocation` the reply's proposals, `contradiction` compares the two. `keys` and `profile` serve M1
and M2; `rows` builds the rows of a run, `verdicts` adds a judge's part. `worker` is the process that scores
for a run.
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
