"""What the memory service takes and gives: the server decodes with these, OpenAPI is made of them."""

from typing import Annotated, Any, Literal

from msgspec import UNSET, Meta, UnsetType

from memfin.contracts.base import Language, Record
from memfin.contracts.memory import (
    ChangeSummary,
    ConsentScopes,
    ContextFields,
    Identifier,
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
    Version,
    WatchQuestionUpdate,
)
from memfin.memory.reading import Hint, RefreshCondition


class Strict(Record, forbid_unknown_fields=True):
    """A request's body: a field that is not known is refused, as it would be lost silently."""


class Scopes(ConsentScopes, frozen=True, forbid_unknown_fields=True):
    """What the person consents to, one by one."""


class GivenPreferences(Preferences, frozen=True, forbid_unknown_fields=True):
    """What the person set about the answers they get."""


class GivenContext(ContextFields, frozen=True, forbid_unknown_fields=True):
    """What the person says for one task or one thread."""


class GivenChange(ChangeSummary, frozen=True, forbid_unknown_fields=True):
    """What a refresh changed."""


class Grant(Strict, frozen=True, kw_only=True):
    """A consent, with what the person set in the same dialogue; without that, what was saved stays."""

    scopes: Scopes
    preferences: GivenPreferences | None = None


class Granted(Record):
    """The consent that is now in force."""

    consent_id: Identifier
    version: Version


class Revoked(Record):
    """A consent, or one scope of it, taken back."""

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
    """An explicit review: a value sets a preference, null deletes it, what is left out stays."""

    language_preference: Language | UnsetType | None = UNSET
    research_depth: ResearchDepth | UnsetType | None = UNSET
    risk_prompt_preference: RiskPromptPreference | UnsetType | None = UNSET
    user_focus_reason: Text | UnsetType | None = UNSET


class ConsentAck(Strict, frozen=True, kw_only=True):
    """The consent that the person saw when they asked for this."""

    consent_id: Identifier


class SaveAsThread(Strict, frozen=True, kw_only=True):
    """A snapshot to go on from, and what of the person's context to keep with it."""

    title: Title
    cognition_object: dict[str, Any]
    save_user_context: bool = False
    consent_ack: ConsentAck | None = None
    user_focus_reason: Text | None = None
    research_style: Text | None = None
    user_stated_position_context: Text | None = None


class SavedThread(Record):
    """The thread that was made."""

    thread_id: Identifier


class Threads(Record):
    """A person's threads, the latest first."""

    threads: list[ThreadHeader]


class Refresh(Strict, frozen=True, kw_only=True):
    """What a refresh found, and what the person said on the way."""

    user_supplied_context: GivenContext | None = None
    main_thesis: Text | None = None
    change_summary: GivenChange = GivenChange()
    watch_question_updates: Annotated[list[WatchQuestionUpdate], Meta(max_length=200)] = []


class Refreshed(Record):
    """A refresh that was taken down; the context is the one it added to the thread, if any."""

    thread_id: Identifier
    refresh_id: Identifier
    context_id: Identifier | None


class ThreadChange(Strict, frozen=True, kw_only=True):
    """``consent_blocked: true`` ends the use of a thread's contexts, ``status: closed`` closes the thread."""

    consent_blocked: bool | UnsetType = UNSET
    status: ThreadStatus | UnsetType = UNSET


class GivenFeedback(Strict, frozen=True, kw_only=True):
    """What the person thinks of an object."""

    related_object_ref: ObjectRef
    cognition_object: dict[str, Any]
    rating: Rating
    comment: Text | None = None


class TakenFeedback(Record):
    """Feedback that was taken down."""

    feedback_id: Identifier


class NewTask(Strict, frozen=True, kw_only=True):
    """A task that is about to be done for a person."""

    route: Route
    prompt: Annotated[str, Meta(max_length=100_000)] = ""
    thread_id: Identifier | None = None
    user_context_overrides: GivenContext | None = None
    user_stated_position_context: Text | None = None
    constraints: Annotated[list[Text], Meta(max_length=50)] = []


class Task(Record):
    """A task that may go on, with what of memory goes into its prompt.

    Attributes:
        user_context: the block for the end of the system prompt.
        attributes: which slices are in it, and which are not and why.
        advisor_order: in which order the advisers speak.
    """

    task_id: Identifier
    user_context: str
    attributes: SliceAttributes
    advisor_order: list[str]


class Suggested(Record):
    """What a page may suggest; without consent, what it suggests to everybody.

    Attributes:
        task_types: three kinds of task, those done last first.
        example_question: one in the person's language.
        refresh_conditions: what to refresh a thread on, by the type of what it is about.
    """

    task_types: list[Route]
    example_question: str
    refresh_conditions: dict[str, list[RefreshCondition]]


class TaskEnd(Strict, frozen=True, kw_only=True):
    """How a task ended."""

    status: Literal["finished", "failed"] = "finished"


class EndedTask(Record):
    """A task that is over.

    Attributes:
        expires_at: until when its context is kept.
        hint: a light hint that may stand behind the result; at most one in 24 hours.
    """

    task_id: Identifier
    expires_at: Moment
    hint: Hint | None


class Health(Record):
    """The service is up."""

    status: str
    version: str


class Fault(Record):
    """What went wrong.

    Attributes:
        code: a stable name, for programs.
        message: one sentence, for people.
        details: plain data that tells more.
    """

    code: str
    message: str
    details: dict[str, Any] = {}


class ErrorAnswer(Record):
    """The answer to every call that fails."""

    error: Fault
