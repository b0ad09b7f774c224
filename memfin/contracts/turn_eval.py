"""Scored turns (``turn_eval.jsonl``, trace schema section 5), and replies as ``memfin check`` reads them."""

from collections.abc import Collection, Iterable
from typing import Final, Literal

import msgspec

from memfin.contracts.base import Bit, ComplianceLabel, Count, Finite, KeySource, Record, TurnStatus
from memfin.contracts.clients import ClientReading
from memfin.contracts.judgement import Declined, JudgeScope, Reading
from memfin.contracts.ledger import FactReading, ProbeReading
from memfin.contracts.pressure import PressureReading

Resolver = Literal[
    "profile_field", "constraints_gt", "preferences_gt", "history_user_turn", "history_abs_turn", "unresolved"
]
Recoverability = Literal["recoverable", "unrevealed", "self_reference"]

NO_JUDGE: Final = "none"
"""The judge reference of a run without a judge, and what ``detectors["judge"]`` says in its rows."""

HEURISTIC_JUDGE: Final = "heuristic"
"""The judge that goes by what the detectors found."""

DETECTOR_PREFIX: Final = "x:"
"""Beginning of the names of users' detectors, and of the field of their findings."""

ANY_RISK_TAG: Final = "risk_disclosure_present"
"""The required tag that every predicted tag meets."""


class ResolvedKey(Record):
    """A required memory key and the text that shows it was remembered."""

    key: str
    resolvable: bool
    target_text: str | None = None
    resolver: Resolver | None = None


class SourceHits(Record):
    """Hits of one turn by the memory source that held the target; a key may count in several."""

    short_term: Count = 0
    long_term: Count = 0
    profile: Count = 0


class Finding(Record):
    """A finding of a detector: the rule that fired and the characters of the reply it fired on.

    Where the classifier spoke, ``rule`` holds ``classifier:`` and the words that weighed most. ``start``
    and ``end`` are half-open character offsets into ``pred_assistant_text``.
    """

    field: str
    value: str
    rule: str
    start: int
    end: int


class CustomValue(Record):
    """Value of a custom metric in a row: ``hits`` divided by ``of``, which is 0 where it does not apply.

    ``value`` is its name; ``low`` and ``high`` are its range where that is not 0 to 1. ``of_dialog`` marks
    the value of a dialogue, in its last row. ``error`` is the reason for which there is no value.
    """

    value: str
    hits: Finite = 0.0
    of: Count = 0
    low: Finite | msgspec.UnsetType = msgspec.UNSET
    high: Finite | msgspec.UnsetType = msgspec.UNSET
    lower_is_better: bool | msgspec.UnsetType = msgspec.UNSET
    of_dialog: bool | msgspec.UnsetType = msgspec.UNSET
    error: str | msgspec.UnsetType = msgspec.UNSET


class TurnEvalRow(Record):
    """Everything the five metrics need of one turn.

    The fields after ``judge_score_1_5`` are MemFin's own optional intermediate values. Lists that
    are about keys (``key_hit_flags``, ``key_hit_sources``, ``key_hit_guarded``,
    ``key_recoverability``) align with the resolvable entries of ``resolved_keys``, in order.
    ``unjudged`` names what nobody read because the judge whose part it was failed (``judge_error``);
    ``judge_declined`` says why a judge would not read the reply, where that was the reason; with a judge
    that was to read everything, the readings are then the detectors', as ``detectors`` says.
    ``judge_spread`` is the highest score minus the lowest over several votes. ``unread_constraints`` are
    those of the client's constraints that the detectors do not understand: no reply can break them.
    ``undecided_constraints`` are those that a proposal bears on without deciding it offline. ``unsure`` names
    the labels on which rules and classifier disagree; ``judge_changed`` the readings that a judge changed
    where only uncertain turns go to it, empty when it agreed. ``scored_chars`` is how many characters of a
    long reply, its first, the detectors have read. ``detector_errors`` are failures of users' detectors by
    their names, ``x:`` in front, and that of ``risk_tag_mapper``. ``custom`` holds the values of custom
    metrics by their names.
    ``recall_reported`` is False where the agent reported nothing of its memory in this turn. ``facts`` and
    ``probes`` are of datasets that name some; probes are in the row of the turn after which they were asked.
    ``pressure`` is there in runs with perturbed dialogues, ``client`` in the last row of a simulated one.
    """

    trace_version: str
    run_id: str
    dialog_id: str
    turn_pair_id: int
    eligible_m1: bool
    eligible_m2: bool
    eligible_m3: bool
    eligible_m4: bool
    eligible_m5: bool
    required_keys_raw: list[str] = []
    resolved_keys: list[ResolvedKey] = []
    key_hit_flags: list[Bit] = []
    key_hit_sources: list[list[KeySource]] = []
    m1_source_hits: SourceHits = SourceHits()
    constraint_contradiction: Bit = 0
    risk_required_tags: list[str] = []
    risk_pred_tags: list[str] = []
    risk_tag_hits: Count = 0
    forbidden_hits: list[str] = []
    pred_compliance_label: ComplianceLabel | None = None
    gt_compliance_label: ComplianceLabel | None = None
    rubric_required: list[str] = []
    rubric_hit_items: list[str] = []
    judge_score_1_5: Finite | None = None
    turn_status: TurnStatus | None = None
    key_hit_guarded: list[Bit] | None = None
    key_recoverability: list[Recoverability] | None = None
    contradicted_constraints: list[str] = []
    risk_unmapped_tags: list[str] = []
    findings: list[Finding] = []
    detectors: dict[str, str] = {}
    judge_error: str | None = None
    judge_declined: Declined | msgspec.UnsetType = msgspec.UNSET
    unjudged: list[Reading] | msgspec.UnsetType = msgspec.UNSET
    judge_spread: Finite | msgspec.UnsetType = msgspec.UNSET
    unread_constraints: list[str] | msgspec.UnsetType = msgspec.UNSET
    undecided_constraints: list[str] | msgspec.UnsetType = msgspec.UNSET
    unsure: list[str] | msgspec.UnsetType = msgspec.UNSET
    judge_changed: list[Reading] | msgspec.UnsetType = msgspec.UNSET
    scoring_error: str | None = None
    scored_chars: Count | msgspec.UnsetType = msgspec.UNSET
    recall_reported: bool | msgspec.UnsetType = msgspec.UNSET
    custom: dict[str, CustomValue] | msgspec.UnsetType = msgspec.UNSET
    detector_errors: dict[str, str] | msgspec.UnsetType = msgspec.UNSET
    client_id: str | msgspec.UnsetType = msgspec.UNSET
    session_index: int | msgspec.UnsetType = msgspec.UNSET
    facts: list[FactReading] | msgspec.UnsetType = msgspec.UNSET
    probes: list[ProbeReading] | msgspec.UnsetType = msgspec.UNSET
    pressure: PressureReading | msgspec.UnsetType = msgspec.UNSET
    client: ClientReading | msgspec.UnsetType = msgspec.UNSET


def was_asked(row: TurnEvalRow, scope: JudgeScope) -> bool:
    """Return True if the run's judge was asked about a turn.

    In the scope ``uncertain`` the heuristic judge scores the turns that are not sent to the run's own.
    """
    judge = row.detectors.get("judge", NO_JUDGE)
    return judge != NO_JUDGE and (scope != "uncertain" or judge != HEURISTIC_JUDGE)


def is_variant(row: TurnEvalRow) -> bool:
    """Return True for a row of a perturbed dialogue, which the metrics leave out."""
    reading = row.get("pressure")
    return reading is not None and reading.family is not None


def met_risk_tags(required: Iterable[str], predicted: Collection[str]) -> list[str]:
    """Return the required risk tags that the predicted ones meet, each once, in their order."""
    return [
        tag
        for tag in dict.fromkeys(required)
        if tag in predicted or (tag == ANY_RISK_TAG and len(predicted) > 0)
    ]


FindingKind = Literal["severe", "minor", "contradiction", "finding", "disclosure"]


class CheckedFinding(Record):
    """A finding in a reply: its kind, the rule that fired, and the words it fired on.

    ``value`` is a category of misconduct, the text of a constraint, a risk tag, or what a user's detector
    found, whose name is then in front of the rule; without a severity its kind is ``finding``. ``start`` and
    ``end`` are half-open character offsets into the reply as written. ``line`` counts from 1 and is the line
    of the finding where the file is the reply, otherwise that of the JSON value that holds the reply.
    """

    kind: FindingKind
    value: str
    rule: str
    line: Count
    start: Count
    end: Count
    words: str


class CheckedReply(Record):
    """A reply and the findings of the offline detectors.

    ``file`` and ``line`` are where the reply begins; ``id`` names it within its file. ``compliance`` is the
    label that follows from ``categories``, null where no rule fired: nothing more is known then.
    ``contradictions`` are the constraints that the reply breaks, ``undecided`` those that a proposal bears on
    without deciding them, ``unread_constraints`` those that the detectors do not understand. ``unsure`` names
    the labels on which a judge should be asked. ``findings`` are in the order of the text, disclosures and
    other findings without a severity last. ``detector_errors`` are as in `TurnEvalRow`.
    """

    file: str
    line: Count
    id: str | None
    compliance: ComplianceLabel | None
    categories: list[str]
    risk_tags: list[str]
    contradictions: list[str]
    undecided: list[str]
    unread_constraints: list[str]
    unsure: list[str]
    findings: list[CheckedFinding]
    detector_errors: dict[str, str] | msgspec.UnsetType = msgspec.UNSET
