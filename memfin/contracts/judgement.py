"""Requests to a judge and its answers (spec section 7)."""

from typing import Annotated, Final, Generic, Literal, TypeVar

import msgspec

from memfin.contracts.base import ComplianceLabel, Count, Finite, Record

Score = Annotated[float, msgspec.Meta(ge=1.0, le=5.0)]
"""Explainability of one reply on the judge's scale of 1 to 5."""

JudgeScope = Literal["m5", "uncertain", "all"]
"""Scope of a verdict: explainability alone, or contradictions, risk tags and compliance too, of every
answered turn or of those alone that the detectors are not certain of."""

Reading = Literal["contradiction", "risk", "compliance", "rubric"]
"""Readings of a reply by a detector or a judge; the keys of a row's ``detectors`` besides ``judge``."""

READINGS: Final[tuple[Reading, ...]] = ("contradiction", "risk", "compliance", "rubric")

ControlKind = Literal["null", "injected", "oracle"]

V = TypeVar("V", bound=Record)
"""The verdict of a suite's judge."""

C = TypeVar("C", bound=Record)
"""A control of a suite's judge."""


class JudgeRequest(Record):
    """One reply to judge; every text in it is untrusted.

    ``detected_items`` are the rubric items that the offline detectors found, for the heuristic
    judge; other judges do not look at them. With the scope ``all`` the verdict
    has to carry the contradicted constraints, the risk tags and the compliance label.
    """

    dialog_id: str
    turn_pair_id: int
    language: str
    user_text: str
    reply: str
    rubric_required: list[str]
    constraints: list[str] = []
    preferences: list[str] = []
    risk_level: str = ""
    horizon: str = ""
    liquidity_need: str = ""
    detected_items: list[str] = []
    scope: JudgeScope = "m5"


ProbeGrade = Literal["lenient", "strict"]
"""Criterion for the answer to a probe: much the same, or all that was asked for."""

PROBE_GRADES: Final[tuple[ProbeGrade, ...]] = ("lenient", "strict")


class ProbeRequest(JudgeRequest, kw_only=True):
    """The answer to a probe, ``reply``, to be graded.

    ``rubric_required`` are the right value and other wordings of it, none where abstaining is right. A
    verdict scores 5 for a right answer and 1 for any other.
    """

    probe: str
    grade: ProbeGrade


class Verdict(Record):
    """A judge's answer: the score, the rubric items the reply satisfies, and why.

    The three readings of the scope ``all`` are None where the judge does not give them.
    ``spread`` is the highest score minus the lowest one over several votes, None for a single one.
    """

    score: Score
    rubric_items: list[str]
    reason: str = ""
    compliance: ComplianceLabel | None = None
    contradicted_constraints: list[str] | None = None
    risk_tags: list[str] | None = None
    spread: Finite | None = None


Declined = Literal["too_long", "refused"]
"""The reason for which a judge does not read a reply at all: its length, or a refusal."""


class JudgeFailure(Record):
    """A judgement that failed; it yields no score, never a default one.

    ``declined`` says that it failed for what the reply is, not for what the judge is.
    """

    reason: str
    declined: Declined | None = None


class Vote(Record, Generic[V]):
    """One question to an LLM judge, its answer and its cost.

    ``prompt_hash`` is the SHA-256 of the messages with the fence's nonce left out. ``attempts`` counts
    requests sent, none when the answer was ``cached``. ``response_format`` says how the answer was
    asked for: ``json_schema``, or what the server takes instead: ``json_object_schema``,
    ``json_object`` or ``text``. Tokens are those of all attempts that reported them, failed ones included.
    ``latency_ms`` is from the first attempt to the answer, waiting for the limits included.
    """

    prompt_hash: str
    attempts: Count
    vote: int = 1
    raw_answer: str | None = None
    verdict: V | None = None
    error: str | None = None
    prompt_tokens: int | None = None
    completion_tokens: int | None = None
    latency_ms: Finite | None = None
    response_format: str | None = None
    cached: bool = False


class Judgement(Vote[Verdict], kw_only=True):
    """One line of ``judgements.jsonl``: a vote on one turn, or on the answer to a ``probe`` after it."""

    run_id: str
    dialog_id: str
    turn_pair_id: int
    judge: str
    probe: str | msgspec.UnsetType = msgspec.UNSET
    grade: ProbeGrade | msgspec.UnsetType = msgspec.UNSET


class JudgeControl(Record):
    """A reply whose quality is known beforehand, judged like any other.

    ``null`` says nothing, ``injected`` says nothing and orders the judge to give full marks,
    ``oracle`` is the reference reply of the turn.
    """

    kind: ControlKind
    dialog_id: str
    turn_pair_id: int
    rubric_required: list[str]
    score: Score | None = None
    rubric_items: list[str] = []
    error: str | None = None


class Controls(Record, Generic[C]):
    """Scores of a judge for the controls of its suite, and warnings about them."""

    run_id: str
    judge: str
    controls: list[C]
    warnings: list[str] = []


class JudgeControls(Controls[JudgeControl], kw_only=True):
    """``judge_controls.json``: scores of the judge for the controls, and warnings about them."""


class JudgeAgreement(Record):
    """Agreement of the votes on the same turns.

    ``alpha`` is Krippendorff's, None where all votes are alike and it is undefined; ``observed`` is
    the share of equal pairs of votes; ``units`` counts what was voted on more than once.
    """

    level: Literal["nominal", "interval"]
    units: Count
    observed: Finite
    alpha: Finite | None = None


class ParameterChange(Record):
    """A parameter that a model refuses: what is sent in its place, if anything, and how often it refused."""

    parameter: str
    sent_as: str | None
    refusals: Count


class JudgeStats(Record):
    """Statistics of an LLM judge in a run, controls included; part of ``run_stats.json``.

    The sums are over ``judgements.jsonl``, or ``rag_judgements.jsonl``, whichever process made it, and over
    the controls, which every process has judged anew, mostly from the cache. Of earlier processes the votes
    that were lost with an uncommitted dialogue are not in them. ``cache_damaged`` and ``parameters`` are of
    the last process.
    """

    votes: Count = 0
    failed_votes: Count = 0
    attempts: Count = 0
    cache_hits: Count = 0
    cache_misses: Count = 0
    cache_damaged: Count = 0
    prompt_tokens: Count = 0
    completion_tokens: Count = 0
    response_formats: dict[str, int] = {}
    spread_mean: Finite | None = None
    spread_max: Finite | None = None
    agreement: dict[str, JudgeAgreement] = {}
    parameters: list[ParameterChange] = []
    warnings: list[str] = []
