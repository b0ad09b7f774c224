"""A checked reply: what the offline detectors find in it, as ``memfin check --json`` prints it."""

from typing import Literal

from memfin.contracts.base import ComplianceLabel, Count, Record

FindingKind = Literal["severe", "minor", "contradiction", "disclosure"]


class CheckedFinding(Record):
    """A finding in a reply: its kind, the rule that fired, and the words it fired on.

    ``value`` is a category of misconduct, the text of a constraint, or a risk tag. ``start`` and ``end``
    are half-open character offsets into the reply as written. ``line`` counts from 1 and is the line of
    the finding where the file is the reply, otherwise that of the JSON value that holds the reply.
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
    label that follows from ``categories``, null where no rule fired: nothing more is known then. ``contradictions``
    are the constraints that the reply breaks, ``undecided`` those that a proposal bears on without deciding
    them, ``unread_constraints`` those that the detectors do not understand. ``unsure`` names the labels on
    which a judge should be asked. ``findings`` are in the order of the text, disclosures last.
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
