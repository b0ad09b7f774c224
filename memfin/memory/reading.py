"""Reads for tasks: memory slices, order of advisors, hints, suggestions (memory design §6 to §8)."""

from collections.abc import Iterable, Mapping, Sequence
from contextlib import suppress
from datetime import datetime, timedelta
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final, Literal

import msgspec

from memfin.contracts.base import Language, Record
from memfin.contracts.memory import (
    ContextFields,
    Moment,
    ProfileConsent,
    RiskPromptPreference,
    Route,
    SchemaVersion,
    ThreadHeader,
    UserContext,
)
from memfin.contracts.reading import read_toml
from memfin.errors import UsageError
from memfin.memory import slices
from memfin.memory.consent import OnboardingState, onboarding_state
from memfin.memory.contexts import Tasks, ThreadFiles, is_expired
from memfin.memory.errors import InvalidInput
from memfin.memory.items import Items, remembered
from memfin.memory.paths import check_id, stamp
from memfin.memory.records import Put, RecordDamaged, by_age, context_fields, load, load_sound
from memfin.memory.slices import LoadedMemory, Material, ReadPlan, plan_reads
from memfin.memory.tables import load_table
from memfin.memory.workspace import Workspace

if TYPE_CHECKING:
    from memfin.memory.telemetry import MemoryTelemetry

Advisor = Literal["asset_research", "market_macro", "risk", "counter_thesis", "pre_execution"]
Hint = Literal["set_preferences", "renew_consent"]
RefreshCondition = Literal[
    "price_move",
    "filing_published",
    "rating_change",
    "policy_change",
    "flow_shift",
    "constituent_change",
    "event_outcome",
    "date_reached",
    "new_evidence",
]


class _Tables(Record, forbid_unknown_fields=True):
    advisors: dict[RiskPromptPreference, tuple[Advisor, ...]]
    first_tasks: tuple[Route, ...]
    refresh_conditions: dict[str, tuple[RefreshCondition, ...]]
    examples: dict[Language, dict[str, str]]


_TABLES: Final = load_table("suggestions.toml", _Tables)
ORDERS: Final[Mapping[RiskPromptPreference, tuple[Advisor, ...]]] = _TABLES.advisors
PAUSE: Final = timedelta(hours=24)  # a user sees at most one hint in this time
_DRIFT_COUNTED: Final = timedelta(days=slices.DRIFT_DAYS)
# The preferences without which a hint says that there are some.
_SHAPING: Final = tuple(form.label for form in slices.SLICES.values() if form.default)
_MAX_TASKS: Final = 30  # last tasks that suggestions look at, however many a person has had in a day


def advisor_order(route: Route, preference: RiskPromptPreference | None) -> tuple[Advisor, ...]:
    """Return a route's advisors in the order of a preference; None stands for ``balanced``.

    The fifth, before execution, comes first for ``permission_or_credential`` and last otherwise.
    """
    order = ORDERS[preference or "balanced"]
    if route != "pre_execution":
        return order
    if preference == "permission_or_credential":
        return ("pre_execution", *order)
    return (*order, "pre_execution")


def advisors_for(memory: LoadedMemory) -> tuple[Advisor, ...]:
    """Return the advisors of a task in the order of its slice S3, ``balanced`` if that is not loaded."""
    loaded = memory.value("S3")
    return advisor_order(memory.route, next((each for each in ORDERS if each == loaded), None))


class HintShown(Record):
    """Record of the last hint that a user was shown."""

    hint: Hint
    shown_at: Moment
    schema_version: SchemaVersion = "1.0"


def hint_for(
    state: OnboardingState, shown_at: datetime | None, now: datetime, *, preferred: bool
) -> Hint | None:
    """Return the hint for a result, or None; a user gets at most one per `PAUSE`."""
    if shown_at is not None and now - shown_at < PAUSE:
        return None
    if state == "revoked":
        return "renew_consent"
    return "set_preferences" if state == "active" and not preferred else None


class Skill(Record, forbid_unknown_fields=True):
    """A skill: its id, and the words that describe its topic."""

    skill_id: str
    topics: tuple[str, ...] = ()


class _Skills(Record, forbid_unknown_fields=True):
    skills: tuple[Skill, ...]


def load_skills(path: str | Path) -> tuple[Skill, ...]:
    """Read skills from a TOML file of ``[[skills]]`` tables with ``skill_id`` and ``topics``."""
    try:
        skills = msgspec.convert(read_toml(Path(path)), _Skills).skills
    except (UsageError, msgspec.ValidationError) as problem:
        raise UsageError(f"skills {path}: {problem}") from problem
    ids = [skill.skill_id for skill in skills]
    if repeated := next((each for each in ids if ids.count(each) > 1), None):
        raise UsageError(f"skills {path}: skill_id {repeated!r} stands there twice; remove one of them")
    return skills


def recommended(skills: Sequence[Skill], memory: LoadedMemory) -> list[Skill]:
    """Sort skills: those about the user's recent threads first, newer threads first.

    A skill is related to a thread when the thread's line in S6 holds one of its topics.
    """
    named = memory.value("S6")
    threads = [line.casefold() for line in named] if isinstance(named, tuple) else []

    def rank(skill: Skill) -> int:
        topics = [topic.casefold() for topic in skill.topics if topic]
        related = (at for at, thread in enumerate(threads) if any(topic in thread for topic in topics))
        return next(related, len(threads))

    return sorted(skills, key=rank)


def suggested_tasks(used: Iterable[Route]) -> tuple[Route, ...]:
    """Return three kinds of task to suggest: the most recently used ones, then the defaults."""
    return tuple(dict.fromkeys((*used, *_TABLES.first_tasks)))[: len(_TABLES.first_tasks)]


def example_question(memory: LoadedMemory) -> str:
    """Return the example for the first task after onboarding, in the language and depth of the profile."""
    examples = _TABLES.examples["zh" if memory.value("S1") == "zh" else "en"]
    return examples.get(str(memory.value("S2")), examples["standard"])


class Suggestions(Record):
    """Suggestions for a user; refresh conditions are by type of object, or ``other``; skills are ids."""

    task_types: tuple[Route, ...]
    example_question: str
    refresh_conditions: dict[str, tuple[RefreshCondition, ...]]
    skills: tuple[str, ...]


class StartedTask(Record):
    """A started task: its context, its memory, and the advisors in the user's order."""

    context: UserContext
    memory: LoadedMemory
    advisor_order: tuple[Advisor, ...]


class Reading:
    """Service of reads for tasks; it takes no lock and writes nothing but the time of a hint."""

    def __init__(
        self, workspace: Workspace, tasks: Tasks, items: Items, telemetry: "MemoryTelemetry | None" = None
    ) -> None:
        self._workspace = workspace
        self._items = items
        self._tasks = tasks
        self._telemetry = telemetry
        self._threads = ThreadFiles(workspace)

    def load_memory_slices(
        self,
        user_id: str,
        route: Route,
        thread_id: str | None = None,
        overrides: ContextFields | Mapping[str, Any] | None = None,
        *,
        prompt: str = "",
    ) -> LoadedMemory:
        """Return the memory of a task on a route: the block, and the slices loaded and left out (§6).

        Consent is checked first and again at the end; without one in force, no stored data is read.
        Overrides win over the thread, which wins over the profile; the prompt may ask for titles of threads.
        """
        check_id(user_id)
        if thread_id is not None:
            check_id(thread_id, "thread id")
        _check(route, prompt)
        task = context_fields(overrides, "overrides")

        def read(consent: ProfileConsent | None) -> tuple[LoadedMemory, str]:
            memory = self._read(user_id, consent, route, prompt, thread_id, task)
            return memory, "" if consent is None else consent.consent_id

        memory, consent_id = self._workspace.consistently(user_id, read)
        if self._telemetry is not None:
            self._telemetry.context_built(memory.attributes, consent_id)
        return memory

    def start_task(
        self,
        user_id: str,
        route: Route,
        *,
        fields: ContextFields | Mapping[str, Any] | None = None,
        thread_id: str | None = None,
        prompt: str = "",
    ) -> StartedTask:
        """Start a task and return it with its memory; see `Tasks.begin_task` for its errors."""
        _check(route, prompt)
        given = context_fields(fields, "fields")
        context = self._tasks.begin_task(user_id, route, fields=given, thread_id=thread_id)
        memory = self.load_memory_slices(user_id, route, thread_id, given, prompt=prompt)
        return StartedTask(context=context, memory=memory, advisor_order=advisors_for(memory))

    def take_hint(self, user_id: str) -> Hint | None:
        """Return the hint to show with a result, at most one in 24 hours, and record its time (§8.3)."""
        workspace = self._workspace
        with workspace.writing(user_id):
            on_file = workspace.consent_on_file(user_id)
            path = workspace.paths.tree("hints", user_id) / "last.json"
            shown: HintShown | None = None
            with suppress(RecordDamaged):
                shown = load(workspace.files, path, HintShown)
            profile = workspace.profile_of(on_file.in_force)
            preferred = profile is not None and any(profile[name] is not None for name in _SHAPING)
            now = workspace.now()
            shown_at = None if shown is None else shown.shown_at
            hint = hint_for(onboarding_state(on_file), shown_at, now, preferred=preferred)
            if hint is not None:
                record = HintShown(hint=hint, shown_at=now)
                workspace.do(user_id, workspace.check([Put(path, record)]))
            return hint

    def suggestions(self, user_id: str, skills: Sequence[Skill] = ()) -> Suggestions:
        """Return the latest kinds of task, an example question, and refresh conditions (§7.4).

        Skills come in the recommended order: about the most recent threads first (§7.1). Without consent
        in force, the answer is that for an unknown user.
        """
        check_id(user_id)
        if not all(isinstance(each, Skill) for each in skills):
            raise InvalidInput("skills: give records of Skill, as load_skills returns them")

        def read(consent: ProfileConsent | None) -> Suggestions:
            memory = self._read(user_id, consent, "narrative_mapper")  # reads S6, the recent threads
            used = [] if consent is None else self._routes_used(user_id, consent)
            return Suggestions(
                task_types=suggested_tasks(used),
                example_question=example_question(memory),
                refresh_conditions=_TABLES.refresh_conditions,
                skills=tuple(skill.skill_id for skill in recommended(skills, memory)),
            )

        return self._workspace.consistently(user_id, read)

    def _read(
        self,
        user_id: str,
        consent: ProfileConsent | None,
        route: Route,
        prompt: str = "",
        thread_id: str | None = None,
        task: ContextFields | None = None,
    ) -> LoadedMemory:
        scopes = None if consent is None else consent.scopes
        plan = plan_reads(route, scopes, prompt=prompt, thread_id=thread_id)
        return slices.assemble(plan, self._material(user_id, plan, consent, prompt), task)

    def _routes_used(self, user_id: str, consent: ProfileConsent) -> list[Route]:
        """Return the routes of a user's last tasks, the latest first."""
        workspace, now = self._workspace, self._workspace.now()
        directory = workspace.paths.tasks(user_id)
        found: list[UserContext] = []
        # Ids begin with their moment, in a form that sorts as time goes.
        for name in workspace.files.names(directory)[-_MAX_TASKS:]:
            with suppress(RecordDamaged):
                context = load(workspace.files, directory / f"{name}.json", UserContext)
                if context and context.user_id == user_id and not is_expired(context.expires_at, now):
                    found.append(context)
        newest = reversed(by_age(found))
        return [each.route for each in newest if each.route and each.created_at >= consent.granted_at]

    def _material(
        self, user_id: str, plan: ReadPlan, consent: ProfileConsent | None, prompt: str
    ) -> Material:
        """Read only the sources that a plan opens; damaged records count as missing."""
        workspace = self._workspace
        files, paths = workspace.files, workspace.paths
        header: ThreadHeader | None = None
        contexts: Sequence[UserContext] = ()
        threads: Sequence[ThreadHeader] = ()
        blocked = False
        if "thread" in plan.open and plan.thread_id is not None:
            with suppress(RecordDamaged):
                header = self._threads.header(user_id, plan.thread_id)
            blocked = header is None or header.consent_blocked
            if not blocked:
                found = load_sound(files, paths.thread_contexts(user_id, plan.thread_id), UserContext)
                own = (each for each in found if (each.user_id, each.thread_id) == (user_id, plan.thread_id))
                contexts = by_age(own)
        if "threads" in plan.open:
            headers = load_sound(files, paths.threads(user_id), ThreadHeader)
            threads = [each for each in headers if each.user_id == user_id]
        places = [("thread_items", plan.thread_id), ("items", None)]
        items = [
            each
            for source, place in places
            if source in plan.open
            for each in self._items.readable(user_id, consent, place)
        ]
        return Material(
            profile=workspace.profile_of(consent) if "profile" in plan.open else None,
            thread=contexts,
            threads=threads,
            drift_signals=self._drift_signals(user_id) if "drift" in plan.open else 0,
            items=remembered(items, prompt),
            thread_blocked=blocked,
        )

    def _drift_signals(self, user_id: str) -> int:
        """Return the number of drift records of the last 30 days, from their file names."""
        oldest = f"drift_{stamp(self._workspace.now() - _DRIFT_COUNTED)}"
        names = self._workspace.files.names(self._workspace.paths.drift(user_id))
        return sum(name[: len(oldest)] > oldest for name in names)


def _check(route: Route, prompt: str) -> None:
    if route not in slices.MATRIX:
        raise InvalidInput(f"route: unknown; known routes: {', '.join(slices.MATRIX)}")
    if not isinstance(prompt, str):
        raise InvalidInput("prompt: must be a str")
