"""Memory across a client's sessions: facts, what a reply did with them, and probes (dataset v1.2)."""

from typing import Annotated, Any, Literal

import msgspec

from memfin.contracts.base import Count, Finite, Record, TurnStatus

TurnNumber = Annotated[int, msgspec.Meta(ge=1)]
"""A turn pair of a session, counted from 1."""

AnswerKind = Literal["text", "name", "number", "percent", "amount", "date", "duration", "yes_no"]
"""Comparison of a value: ``text`` and ``name`` as words, the others by what they say in any form."""

ProfileField = Literal["risk_level", "horizon", "liquidity_need", "constraints", "preferences"]

ForkKind = Literal["snapshot", "replay", "session"]
"""Way to copy a conversation.

``snapshot`` puts a new agent into the state of the one that is asked, ``replay`` sends the client's words so
far to a new agent under another user id, ``session`` opens another session of the same user.
"""

FactState = Literal["active", "updated", "withdrawn", "expired", "foreign", "planted", "untold"]
"""The state of a fact at a turn.

``active`` holds for the client, ``updated`` was replaced by a later value, ``withdrawn`` was taken back,
``expired`` is past its ``until``, ``foreign`` is somebody else's, ``planted`` comes from a source that is not
to be believed, ``untold`` was never told.
"""

Stage = Literal[
    "not_stored", "overwritten", "not_retrieved", "not_used", "not_updated", "not_forgotten", "leaked",
    "believed", "invented", "unknown",
]  # fmt: skip
"""The stage of memory that a failure is blamed on.

A needed fact is missing from the reply: ``not_stored`` never reached the store, ``overwritten`` was in it and
is gone or changed, ``not_retrieved`` is in the store but not in the recall, ``not_used`` was recalled.
The reply uses what it must not: ``not_updated`` an old value, as the new one is not in the store,
``not_forgotten`` a value that was withdrawn or has expired, ``leaked`` that of somebody else, ``believed``
a planted one, ``invented`` any value where none was told. ``unknown``: the agent reports too little to tell.
"""


class Fact(Record):
    """A fact of a client, as the dataset names it in the session that it is told in.

    ``told_at`` is the turn pair of this session in which the client's words tell it, None where nobody tells
    it here. ``replaces`` is the id of the fact whose place it takes; an empty ``value`` withdraws that
    one. From the day after ``until``, an ISO date, it holds no longer. ``owner`` is who it is about: None
    for the client, else another user id or any other name. ``planted`` facts come from a document, a tool or
    a claim that the agent must not believe. ``aliases`` are other wordings that count as the value; ``field``
    is where M2 would look for it.
    """

    id: str
    value: str
    told_at: TurnNumber | None = None
    kind: AnswerKind = "text"
    aliases: list[str] = []
    replaces: str | None = None
    until: str | None = None
    owner: str | None = None
    planted: bool = False
    field: ProfileField | None = None


class Probe(Record):
    """A question to a copy of the conversation, asked after a turn pair of its session.

    ``fact`` is the id of the fact that it asks for, whose value at that moment is the right answer; without
    one ``answer`` is, and None means that the right answer is to abstain. ``evidence`` are places of the
    answer, ``DIALOG_ID`` or ``DIALOG_ID#TURN``, whose recall is measured. ``category`` is for reports.
    """

    id: str
    after: TurnNumber
    question: str
    fact: str | None = None
    answer: str | None = None
    kind: AnswerKind = "text"
    aliases: list[str] = []
    evidence: list[str] = []
    category: str | None = None


class EarlierSession(Record):
    """An earlier session of the same client, with the facts that its line of the dataset names."""

    dialog_id: str
    session_index: int
    session_time: str | None = None
    facts: list[Fact] = []


class MemoryEntry(Record):
    """An entry of an agent's store."""

    content: str
    item_id: str | None = None


class MemoryTrace(Record):
    """All that the agent's store holds about the client after this turn; the latest report counts."""

    items: list[MemoryEntry] = []


class ProbeTrace(Record):
    """A probe that was asked, with the answer of the copy; ``recall`` is what it reported, if anything."""

    probe_id: str
    after: TurnNumber
    question: str
    fork: ForkKind
    status: TurnStatus
    answer: str | None = None
    error: str | None = None
    latency_ms: Finite | None = None
    recall: dict[str, Any] | None = None


class FactReading(Record):
    """Use that a reply made of a fact.

    ``sessions`` and ``days`` are how long ago it was told, in sessions and days. ``stored`` and ``retrieved``
    are None where the agent reports nothing that would show it. ``needed`` facts are to be used, or if they
    do not hold, to be abstained from (``abstained``). ``used`` is True if the reply goes by the value.
    ``stage`` is what a failure is blamed on, None for none.
    """

    fact: str
    state: FactState
    needed: bool
    used: bool
    abstained: bool = False
    stored: bool | None = None
    retrieved: bool | None = None
    sessions: Count | None = None
    days: int | None = None
    stage: Stage | None = None


class ProbeReading(Record):
    """The score of a probe.

    ``outcome`` is what the answer gives: the ``right`` value, a ``stale`` one, one of somebody else
    (``foreign``), another ``wrong`` one, ``abstained``, or ``failed`` where there is no answer. ``correct``
    is the verdict: abstaining is right where nothing is to be known. ``evidence_any`` and ``evidence_all``
    say whether the reported recall has one or all places of the evidence, None where nothing was reported.
    ``known`` is False where abstaining is right. ``lenient`` and ``strict`` are grades of the judge in runs
    that ask it for them, None where it failed (``judge_error``); no answer is wrong without asking it.
    """

    probe: str
    outcome: Literal["right", "stale", "foreign", "wrong", "abstained", "failed"]
    correct: bool
    fact: str | None = None
    field: ProfileField | None = None
    category: str | None = None
    sessions: Count | None = None
    days: int | None = None
    evidence_any: bool | None = None
    evidence_all: bool | None = None
    known: bool = True
    lenient: bool | msgspec.UnsetType | None = msgspec.UNSET
    strict: bool | msgspec.UnsetType | None = msgspec.UNSET
    judge_error: str | msgspec.UnsetType = msgspec.UNSET
