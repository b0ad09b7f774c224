"""Request and response bodies of the memory service; its OpenAPI document is generated from them."""

from typing import Annotated, Any, Literal

from msgspec import UNSET, Meta, UnsetType

from memfin.contracts.base import Language, Record
from memfin.contracts.memory import (
    ChangeSummary,
    ConsentScopes,
    ContextFields,
    DriftRecord,
    Feedback,
    Identifier,
    MemoryItem,
    Moment,
    ObjectRef,
    Preferences,
    Rating,
    ResearchDepth,
    RiskPromptPreference,
    Route,
    SliceAttributes,
    Text,
    ThreadHeader,
    ThreadStatus,
    Title,
    UserContext,
    Version,
    WatchQuestionUpdate,
)
from memfin.memory.reading import Hint, Suggestions


class Strict(Record, forbid_unknown_fields=True):
    """Body of a request; unknown fields are refused, as they would be lost silently."""


class Scopes(ConsentScopes, frozen=True, forbid_unknown_fields=True):
    """Scopes that the person consents to."""


class GivenPreferences(Preferences, frozen=True, forbid_unknown_fields=True):
    """Preferences of the person about answers."""


class GivenContext(ContextFields, frozen=True, forbid_unknown_fields=True):
    """Context given by the person for one task or one thread."""


class GivenChange(ChangeSummary, frozen=True, forbid_unknown_fields=True):
    """Changes of a refresh."""


class GivenUpdate(WatchQuestionUpdate, frozen=True, forbid_unknown_fields=True):
    """Outcome of a watch question at a refresh."""


class Grant(Strict, frozen=True, kw_only=True):
    """A consent, with the preferences set in the same dialogue; without these, the saved ones stay."""

    scopes: Scopes
    preferences: GivenPreferences | None = None


class Granted(Record):
    """The consent that is now in force."""

    consent_id: Identifier
    version: Version


class Revoked(Record):
    """A revoked consent, or a revoked scope of it."""

    revoked_at: Moment


class ConsentState(Record):
    """The last version of a person's consent."""

    consent_id: Identifier
    version: Version
    scopes: ConsentScopes
    granted_at: Moment
    updated_at: Moment
    revoked_at: Moment | None


class ProfileReview(Strict, frozen=True, kw_only=True):
    """An explicit review: a value sets a field, null deletes it, an omitted one stays."""

    language_preference: Language | UnsetType | None = UNSET
    research_depth: ResearchDepth | UnsetType | None = UNSET
    risk_prompt_preference: RiskPromptPreference | UnsetType | None = UNSET
    user_focus_reason: Text | UnsetType | None = UNSET
    research_style: Text | UnsetType | None = UNSET
    user_stated_position_context: Text | UnsetType | None = UNSET
    time_horizon: Text | UnsetType | None = UNSET
    constraints: Annotated[list[Text], Meta(max_length=50)] | UnsetType | None = UNSET


class Profile(ContextFields, frozen=True):
    """The saved profile; null, or an empty list, where nothing is saved."""


class ConsentAck(Strict, frozen=True, kw_only=True):
    """The consent that the person saw when they asked for this."""

    consent_id: Identifier


class SaveAsThread(Strict, frozen=True, kw_only=True):
    """A snapshot to continue from, and the person's context to save with it."""

    title: Title
    cognition_object: dict[str, Any]
    save_user_context: bool | None = None
    consent_ack: ConsentAck | None = None
    user_focus_reason: Text | None = None
    research_style: Text | None = None
    user_stated_position_context: Text | None = None
    time_horizon: Text | None = None
    constraints: Annotated[list[Text], Meta(max_length=50)] = []


class SavedThread(Record):
    """The saved thread."""

    thread_id: Identifier


class Threads(Record):
    """A person's threads, the latest first."""

    threads: list[ThreadHeader]


class Refresh(Strict, frozen=True, kw_only=True):
    """Findings of a refresh, and the context that the person gave."""

    user_supplied_context: GivenContext | None = None
    main_thesis: Text | None = None
    change_summary: GivenChange = GivenChange()
    watch_question_updates: Annotated[list[GivenUpdate], Meta(max_length=200)] = []


class Refreshed(Record):
    """A recorded refresh, and the context that it added to the thread, if any."""

    thread_id: Identifier
    refresh_id: Identifier
    context_id: Identifier | None


class ThreadChange(Strict, frozen=True, kw_only=True):
    """``consent_blocked: true`` ends the use of a thread's contexts, ``status: closed`` closes the thread."""

    consent_blocked: bool | UnsetType = UNSET
    status: ThreadStatus | UnsetType = UNSET


class GivenFeedback(Strict, frozen=True, kw_only=True):
    """Feedback of the person on an object."""

    related_object_ref: ObjectRef
    cognition_object: dict[str, Any]
    rating: Rating
    comment: Text | None = None


class FeedbackList(Record):
    """A person's feedback, newest first."""

    feedback: list[Feedback]


class DriftList(Record):
    """A person's drift log, oldest first; empty without consent."""

    drift: list[DriftRecord]


class TakenFeedback(Record):
    """Recorded feedback."""

    feedback_id: Identifier


class NewTask(Strict, frozen=True, kw_only=True):
    """A new task for a person."""

    route: Route
    prompt: Annotated[str, Meta(max_length=100_000)] = ""
    thread_id: Identifier | None = None
    user_context_overrides: GivenContext | None = None
    user_stated_position_context: Text | None = None
    constraints: Annotated[list[Text], Meta(max_length=50)] = []


class ItemList(Record):
    """A person's remembered items, oldest first; blocked ones are in it."""

    items: list[MemoryItem]


class Tasks(Record):
    """The contexts of a person's tasks that have not expired, newest first."""

    tasks: list[UserContext]


class Task(Record):
    """A started task, with the memory for its prompt.

    Attributes:
        user_context: the block for the end of the system prompt.
        attributes: the slices in it, and those left out, with the reason.
        advisor_order: the order of the advisers.
    """

    task_id: Identifier
    user_context: str
    attributes: SliceAttributes
    advisor_order: list[str]


class Suggested(Suggestions, frozen=True):
    """Suggestions of a page; without consent the same for everybody.

    Attributes:
        task_types: three kinds of task, the latest first.
        example_question: one in the person's language.
        refresh_conditions: events to refresh a thread on, by the type of its object.
        skills: ids of the host's skills, those about the latest threads first.
    """


class TaskEnd(Strict, frozen=True, kw_only=True):
    """End of a task."""

    status: Literal["finished", "failed"] = "finished"


class EndedTask(Record):
    """An ended task.

    Attributes:
        expires_at: time of deletion of its context.
        hint: a light hint to show behind the result; at most one in 24 hours.
    """

    task_id: Identifier
    expires_at: Moment
    hint: Hint | None


class Health(Record):
    """The service is up."""

    status: str
    version: str


class Fault(Record):
    """An error.

    Attributes:
        code: a stable name, for programs.
        message: one sentence, for people.
        details: further data.
    """

    code: str
    message: str
    details: dict[str, Any] = {}


class ErrorAnswer(Record):
    """The answer to every call that fails."""

    error: Fault
