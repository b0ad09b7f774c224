"""The service of reading: slices under consent, hints and suggestions for a task (memory design §6 to §8)."""

from collections.abc import Mapping, Sequence
from contextlib import suppress
from datetime import timedelta
from typing import TYPE_CHECKING, Any, Final

import msgspec

from memfin.contracts.base import Record
from memfin.contracts.memory import ContextFields, ProfileConsent, Route, ThreadHeader, UserContext
from memfin.memory import suggestions
from memfin.memory.consent import onboarding_state
from memfin.memory.errors import InvalidInput, invalid_value
from memfin.memory.paths import check_id, stamp
from memfin.memory.records import Put, RecordDamaged, load, load_sound, preferences_of
from memfin.memory.slices import (
    DEFAULTS,
    DRIFT_DAYS,
    FIELDS,
    MATRIX,
    LoadedMemory,
    Material,
    ReadPlan,
    assemble,
    plan_reads,
)
from memfin.memory.tasks import Tasks, is_expired
from memfin.memory.threads import ThreadFiles
from memfin.memory.workspace import Workspace

if TYPE_CHECKING:
    from memfin.memory.telemetry import MemoryTelemetry

_DRIFT_COUNTED: Final = timedelta(days=DRIFT_DAYS)
_SHAPING: Final = tuple(FIELDS[name] for name in DEFAULTS)
"""The preferences without which a hint says that there are some."""

_MAX_TASKS: Final = 30  # last tasks that suggestions look at, however many a person has had in a day


class StartedTask(Record):
    """A task that has begun: its context, its memory, and the advisors in the person's order."""

    context: UserContext
    memory: LoadedMemory
    advisor_order: tuple[suggestions.Advisor, ...]


class Reading:
    """Memory as a task sees it. Reading takes no lock and writes nothing."""

    def __init__(
        self, workspace: Workspace, tasks: Tasks, telemetry: "MemoryTelemetry | None" = None
    ) -> None:
        self._workspace = workspace
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

        Consent is looked at first and again at the end; without one in force, nothing that is stored is read.
        Overrides win over the thread, which wins over the profile; the prompt may ask for titles of threads.
        """
        check_id(user_id)
        if thread_id is not None:
            check_id(thread_id, "thread id")
        _check_route(route)
        task = _fields(overrides, "overrides")

        def read(consent: ProfileConsent | None) -> LoadedMemory:
            scopes = None if consent is None else consent.scopes
            plan = plan_reads(route, scopes, prompt=prompt, thread_id=thread_id)
            with self._workspace.faults():
                return assemble(plan, self._material(user_id, plan, consent), task)

        memory = self._workspace.consistently(user_id, read)
        if self._telemetry is not None:
            self._telemetry.context_built(memory.attributes)
        return memory

    def start_task(
        self,
        user_id: str,
        route: Route,
        *,
        prompt: str = "",
        thread_id: str | None = None,
        fields: ContextFields | Mapping[str, Any] | None = None,
    ) -> StartedTask:
        """Begin a task and return it with its memory; see `Tasks.begin_task` for its errors."""
        _check_route(route)
        given = _fields(fields, "fields")
        context = self._tasks.begin_task(user_id, route, fields=given, thread_id=thread_id)
        memory = self.load_memory_slices(user_id, route, thread_id, given, prompt=prompt)
        advisors = suggestions.advisors_for(memory)
        return StartedTask(context=context, memory=memory, advisor_order=advisors)

    def take_hint(self, user_id: str) -> suggestions.Hint | None:
        """Return the hint to show with a result, at most one in 24 hours, and note the time (§8.3)."""
        workspace = self._workspace
        with workspace.writing(user_id):
            on_file = workspace.consent_on_file(user_id)
            state = onboarding_state(on_file)
            path = workspace.paths.tree("hints", user_id) / "last.json"
            shown: suggestions.HintShown | None = None
            with suppress(RecordDamaged):
                shown = load(workspace.files, path, suggestions.HintShown)
            preferences = preferences_of(workspace.profile_of(on_file.in_force))
            preferred = any(preferences[name] is not None for name in _SHAPING)
            now = workspace.now()
            shown_at = None if shown is None else shown.shown_at
            hint = suggestions.hint_for(state, shown_at, now, preferred=preferred)
            if hint is not None:
                record = suggestions.HintShown(hint=hint, shown_at=now)
                workspace.do(user_id, workspace.check([Put(path, record)]))
            return hint

    def suggestions(self, user_id: str) -> suggestions.Suggestions:
        """Return the kinds of task done last, an example question, and refresh conditions (§7.4).

        Without consent in force, the answer is that of a person of whom nothing was ever known.
        """
        check_id(user_id)

        def read(consent: ProfileConsent | None) -> suggestions.Suggestions:
            plan = plan_reads("snapshot", None if consent is None else consent.scopes, prompt="")
            with self._workspace.faults():
                memory = assemble(plan, self._material(user_id, plan, consent), None)
                used = [] if consent is None else self._routes_used(user_id, consent)
            return suggestions.suggestions_for(used, memory)

        return self._workspace.consistently(user_id, read)

    def _routes_used(self, user_id: str, consent: ProfileConsent) -> list[Route]:
        """Return the routes of a person's last tasks, the latest first."""
        workspace, now = self._workspace, self._workspace.now()
        directory = workspace.paths.tasks(user_id)
        found: list[UserContext] = []
        # Ids begin with their moment, in a form that sorts as time goes.
        for name in workspace.files.names(directory)[-_MAX_TASKS:]:
            with suppress(RecordDamaged):
                context = load(workspace.files, directory / f"{name}.json", UserContext)
                if context and context.user_id == user_id and not is_expired(context.expires_at, now):
                    found.append(context)
        found.sort(key=lambda each: (each.created_at, each.context_id), reverse=True)
        return [each.route for each in found if each.route and each.created_at >= consent.granted_at]

    def _material(self, user_id: str, plan: ReadPlan, consent: ProfileConsent | None) -> Material:
        """Read the sources that a plan leaves open, and nothing else; damaged records count as missing."""
        workspace = self._workspace
        paths = workspace.paths
        header: ThreadHeader | None = None
        contexts: Sequence[UserContext] = ()
        threads: Sequence[ThreadHeader] = ()
        forgotten = False
        if "thread" in plan.open and plan.thread_id is not None:
            with suppress(RecordDamaged):
                header = self._threads.header(user_id, plan.thread_id)
            forgotten = header is None or header.consent_blocked
            contexts = [] if forgotten else self._contexts(user_id, plan.thread_id)
        if "threads" in plan.open:
            found = load_sound(workspace.files, paths.threads(user_id), ThreadHeader)
            threads = [each for each in found if each.user_id == user_id]
        return Material(
            profile=workspace.profile_of(consent) if "profile" in plan.open else None,
            thread=contexts,
            threads=threads,
            drift_signals=self._drift_signals(user_id) if "drift" in plan.open else 0,
            thread_forgotten=forgotten,
        )

    def _contexts(self, user_id: str, thread_id: str) -> list[UserContext]:
        """Return the readable contexts of a thread, oldest first."""
        directory = self._workspace.paths.thread_contexts(user_id, thread_id)
        found = load_sound(self._workspace.files, directory, UserContext)
        own = (each for each in found if (each.user_id, each.thread_id) == (user_id, thread_id))
        return sorted(own, key=lambda each: (each.created_at, each.context_id))

    def _drift_signals(self, user_id: str) -> int:
        """Return the number of drift records younger than 30 days, by their names alone."""
        oldest = f"drift_{stamp(self._workspace.now() - _DRIFT_COUNTED)}"
        # Ids begin with their moment, in a form that sorts as time goes.
        names = self._workspace.files.names(self._workspace.paths.drift(user_id))
        return sum(name[: len(oldest)] > oldest for name in names)


def _check_route(route: Route) -> None:
    if route not in MATRIX:
        raise InvalidInput(f"route: there is none of that name; there are {', '.join(MATRIX)}")


def _fields(given: ContextFields | Mapping[str, Any] | None, name: str) -> ContextFields | None:
    if given is None or isinstance(given, ContextFields):
        return given
    try:
        return msgspec.convert(dict(given), ContextFields)
    except msgspec.ValidationError as problem:
        raise invalid_value(problem, f"{name}.") from None
