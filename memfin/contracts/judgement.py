"""What a judge is asked and what it answers (spec section 7)."""

from typing import Annotated

import msgspec

from memfin.contracts.base import Finite, Record

Score = Annotated[float, msgspec.Meta(ge=1.0, le=5.0)]
"""Explainability of one reply on the judge's scale of 1 to 5."""


class JudgeRequest(Record):
    """One reply to judge; ``reply`` is untrusted text.

    ``detected_items`` are the rubric items that the offline detectors found, for the heuristic
    judge; a judge with a mind of its own does not look at them.
    """

    dialog_id: str
    turn_pair_id: int
    language: str
    user_text: str
    reply: str
    rubric_required: list[str]
    constraints: list[str] = []
    detected_items: list[str] = []


class Verdict(Record):
    """A judge's answer: the score, the rubric items the reply satisfies, and why."""

    score: Score
    rubric_items: list[str]
    reason: str = ""


class JudgeFailure(Record):
    """A judgement that did not come about; it yields no score, never a default one."""

    reason: str


class Judgement(Record):
    """One line of ``judgements.jsonl``: what an LLM judge was asked, answered and cost."""

    run_id: str
    dialog_id: str
    turn_pair_id: int
    judge: str
    prompt_hash: str
    attempts: int
    raw_answer: str | None = None
    verdict: Verdict | None = None
    error: str | None = None
    prompt_tokens: int | None = None
    completion_tokens: int | None = None
    latency_ms: Finite | None = None
