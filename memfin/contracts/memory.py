"""The governed memory layer's objects: what its files hold (memory design §3, §6.6, §8 and §11).

Types say how text is treated. `Identifier` is a name that the layer or its host gave. Every other string,
and every string inside free-form data, is what a person wrote: it passes the sensitive-input gate before
a byte of the record is written, and its length is bounded.
"""

from datetime import datetime
from typing import Annotated, Any, Literal

import msgspec

from memfin.contracts.base import Count, Language, Record

Identifier = Annotated[str, msgspec.Meta(pattern=r"^[A-Za-z0-9_-]{1,64}\Z", extra={"given": True})]
"""An id: of a user, context, consent, thread, task, drift record or candidate."""

Reference = Annotated[str, msgspec.Meta(pattern=r"^[A-Za-z0-9_-]{1,64}\Z")]
"""An id that a caller chose, such as a snapshot's; it passes the gate as text does."""

ObjectRef = Annotated[str, msgspec.Meta(pattern=r"^[a-z_]{1,32}:[A-Za-z0-9_-]{1,64}\Z")]
"""A kind and an id: ``snapshot:snap_1``, ``thread:...``, ``checkpoint:...``."""

Text = Annotated[str, msgspec.Meta(min_length=1, max_length=4000)]
"""Free text of a person, in characters."""

Title = Annotated[str, msgspec.Meta(min_length=1, max_length=200)]
Moment = Annotated[datetime, msgspec.Meta(tz=True)]
SchemaVersion = Annotated[str, msgspec.Meta(pattern=r"^1\.[0-9]{1,3}\Z", extra={"given": True})]
Version = Annotated[int, msgspec.Meta(ge=1)]

ConsentScope = Literal["create_task", "save_to_profile", "save_to_thread", "training_use_allowed"]
ContextScope = Literal["task", "thread", "profile"]
ItemKind = Literal["constraint", "position", "note"]
ResearchDepth = Literal["quick", "standard", "deep"]
RiskPromptPreference = Literal["balanced", "counter_first", "risk_first", "permission_or_credential"]
Rating = Annotated[str, msgspec.Meta(pattern=r"^[a-z_]{1,32}\Z")]
ThreadStatus = Literal["active", "closed"]
TaskStatus = Literal["running", "finished", "failed"]
WatchStatus = Literal["open", "resolved", "reopened"]
WithdrawalStatus = Literal["active", "revoked"]
SignalKind = Literal[
    "grade_reversal", "feedback_conflict", "refresh_stance_flip", "watch_question_resolved_then_reopened"
]
Route = Literal[
    "snapshot", "thread_refresh", "risk_challenge", "pre_execution", "evidence_audit", "narrative_mapper",
    "event_impact_reader",
]  # fmt: skip
SliceName = Literal["S1", "S2", "S3", "S4", "S5", "S6", "S7", "S8", "S9", "S10", "S11"]


class ConsentScopes(Record):
    """The consents of a person, one by one (memory design §8.2)."""

    create_task: bool
    save_to_profile: bool
    save_to_thread: bool
    training_use_allowed: bool


class Preferences(Record):
    """Settings of a person for the answers they get; None where unset (memory design §8.2)."""

    language_preference: Language | None = None
    research_depth: ResearchDepth | None = None
    risk_prompt_preference: RiskPromptPreference | None = None
    user_focus_reason: Text | None = None


class ProfileConsent(Record):
    """One version of a person's consent; the last one is in force (memory design §3.1, §10.4).

    Versions count from 1 without gaps. ``consent_id`` lasts from a grant to its revocation; a later
    grant begins another. ``profile_context_id`` names the one profile context that is in force, so
    that a grant and its profile appear in the same instant. A revoked version keeps the scopes that
    were in force, but they allow nothing any more: ask `memfin.memory.workspace.allows`.
    """

    consent_id: Identifier
    user_id: Identifier
    version: Version
    scopes: ConsentScopes
    granted_at: Moment
    updated_at: Moment
    revoked_at: Moment | None = None
    profile_context_id: Identifier | None = None
    schema_version: SchemaVersion = "1.0"


class UserContext(Record):
    """Context of a person for a task, in a thread, or always (memory design §3.2).

    Task contexts have ``task_id``, ``route``, ``task_status`` and ``expires_at``; thread contexts have
    ``thread_id``. ``consent_blocked`` contexts are kept for their owner and never read for an answer.
    ``consent_version`` is the one under which the context was last written; None for a task context
    of a person whose consent is revoked.
    """

    context_id: Identifier
    user_id: Identifier
    scope: ContextScope
    created_at: Moment
    updated_at: Moment
    expires_at: Moment | None = None
    consent_version: Version | None = None
    consent_blocked: bool = False
    thread_id: Identifier | None = None
    task_id: Identifier | None = None
    route: Route | None = None
    task_status: TaskStatus | None = None
    language_preference: Language | None = None
    research_depth: ResearchDepth | None = None
    risk_prompt_preference: RiskPromptPreference | None = None
    user_focus_reason: Text | None = None
    research_style: Text | None = None
    user_stated_position_context: Text | None = None
    time_horizon: Text | None = None
    constraints: Annotated[list[Text], msgspec.Meta(max_length=50)] = []
    schema_version: SchemaVersion = "1.0"


class ContextFields(Preferences):
    """A context given by a caller; None, or an empty list, where nothing is given.

    The content of ``user_supplied_context`` and ``user_context_overrides``.
    """

    research_style: Text | None = None
    user_stated_position_context: Text | None = None
    time_horizon: Text | None = None
    constraints: Annotated[list[Text], msgspec.Meta(max_length=50)] = []


class ItemVersion(Record):
    """One value of an item, and since when it was the value."""

    text: Text
    at: Moment


class MemoryItem(Record):
    """One text that an agent remembers of a person, in a thread or always.

    ``versions`` holds earlier values, the newest last. A ``consent_blocked`` item is kept for its owner and
    never read for an answer.
    """

    item_id: Identifier
    user_id: Identifier
    kind: ItemKind
    text: Text
    created_at: Moment
    updated_at: Moment
    consent_version: Version
    thread_id: Identifier | None = None
    consent_blocked: bool = False
    metadata: Annotated[dict[str, Any], msgspec.Meta(max_length=16)] = {}
    versions: Annotated[list[ItemVersion], msgspec.Meta(max_length=32)] = []
    schema_version: SchemaVersion = "1.0"


class ThreadHeader(Record):
    """A saved thread (memory design §5.3, §11.2).

    A closed thread is read-only. ``consent_blocked`` says that its contexts are not read any more.
    """

    thread_id: Identifier
    user_id: Identifier
    snapshot_id: Reference
    title: Title
    cognition_object: dict[str, Any]
    created_at: Moment
    updated_at: Moment
    status: ThreadStatus = "active"
    consent_blocked: bool = False
    schema_version: SchemaVersion = "1.0"


class WatchQuestionUpdate(Record):
    """Outcome of a watch question at a refresh (memory design §9.1)."""

    question_id: Reference
    status: WatchStatus


class ChangeSummary(Record):
    """Changes of a refresh; the inferences are those of the thesis (memory design §9.1)."""

    changed_inferences: Annotated[list[Any], msgspec.Meta(max_length=200)] = []


class ThreadRefresh(Record):
    """One refresh of a thread: what it found, for the drift detectors (memory design §5.4, §9.1).

    ``context_id`` names the thread context that this refresh appended, if it did.
    """

    refresh_id: Identifier
    thread_id: Identifier
    created_at: Moment
    main_thesis: Text | None = None
    change_summary: ChangeSummary = ChangeSummary()
    watch_question_updates: Annotated[list[WatchQuestionUpdate], msgspec.Meta(max_length=200)] = []
    context_id: Identifier | None = None
    schema_version: SchemaVersion = "1.0"


class Feedback(Record):
    """Feedback of a person on an object (memory design §5.5)."""

    feedback_id: Identifier
    related_object_ref: ObjectRef
    cognition_object: dict[str, Any]
    rating: Rating
    created_at: Moment
    comment: Text | None = None
    schema_version: SchemaVersion = "1.0"


class DriftSignal(Record):
    """One of the two signals that contradict each other."""

    value: Text
    captured_at: Moment
    captured_in_object_ref: ObjectRef


class DriftRecord(Record):
    """An observed change of mind; it never changes a profile (memory design §3.3.1)."""

    drift_id: Identifier
    object_ref: ObjectRef
    cognition_object: dict[str, Any]
    signal_kind: SignalKind
    prior_signal: DriftSignal
    current_signal: DriftSignal
    delta_summary: Text
    triggers_alert: bool
    schema_version: SchemaVersion = "1.0"


class TrainingAssetCandidate(Record):
    """Something that may be asked to serve for training one day: metadata alone (memory design §3.4)."""

    candidate_id: Identifier
    source_object_ref: ObjectRef
    consent_id: Identifier
    consent_version: Version
    created_at: Moment
    status: Literal["pending"] = "pending"
    withdrawal_status: WithdrawalStatus = "active"
    withdrawn_at: Moment | None = None
    schema_version: SchemaVersion = "1.0"


class DeletionStub(Record):
    """All that is left of a deleted account (memory design §10.5).

    ``consent_version_at_deletion`` is 0 for a person who never gave consent.
    """

    deleted_at: Moment
    consent_version_at_deletion: Count


class SliceAttributes(Record):
    """Steps of assembling a context, as its trace span has them (memory design §6.6)."""

    slices_loaded: list[SliceName]
    slices_skipped_missing: list[SliceName]
    slices_blocked_by_consent: list[SliceName]
    slices_given_unread: list[SliceName]
    total_memory_tokens_estimated: Count
