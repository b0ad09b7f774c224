"""What memory gives a task: slices, read under consent, advisors in order, a light hint (design §6 to §8)."""

from collections.abc import Mapping, Sequence
from contextlib import suppress
from datetime import datetime, timedelta
from typing import Any, Final

import msgspec

from memfin.contracts.base import Record
from memfin.contracts.memory import ContextFields, ProfileConsent, Route, ThreadHeader, UserContext
from memfin.memory.advisors import Advisor, advisors_for
from memfin.memory.errors import InvalidInput
from memfin.memory.hints import Hint, HintShown, hint_for
from memfin.memory.ids import check_id, stamp
from memfin.memory.onboarding import OnboardingState, onboarding_state
from memfin.memory.operations.tasks import TaskOperations
from memfin.memory.plans import Put
from memfin.memory.profile import preferences_of
from memfin.memory.records import RecordDamaged, load, load_sound
from memfin.memory.routes import MATRIX
from memfin.memory.slices import (
    DEFAULTS,
    DRIFT_DAYS,
    FIELDS,
    LoadedMemory,
    Material,
    ReadPlan,
    assemble,
    plan_reads,
)

_DRIFT_COUNTED: Final = timedelta(days=DRIFT_DAYS)
_SHAPING: Final = tuple(FIELDS[name] for name in DEFAULTS)
"""The preferences without which a hint says that there are some."""


class StartedTask(Record):
    """A task that has begun, with all that memory gives it.

    Attributes:
        context: the task context on file.
        memory: the block to inject and its attributes.
        advisor_order: the advisors of the route, in the order of the person's preference.
    """

    context: UserContext
    memory: LoadedMemory
    advisor_order: tuple[Advisor, ...]


class ReadingOperations(TaskOperations):
    """What memory gives a task. Reading takes no lock and writes nothing."""

    def load_memory_slices(
        self,
        user_id: str,
        route: Route,
        thread_id: str | None = None,
        overrides: ContextFields | Mapping[str, Any] | None = None,
        *,
        prompt: str = "",
    ) -> LoadedMemory:
        """Return what memory gives a task on a route: the block, and what was loaded and left out (§6).

        Consent is looked at first and again at the end; where none is in force, nothing that is stored
        is read, and the result is that of a person of whom nothing was ever known.

        Args:
            user_id: whose memory.
            route: one of the seven routes.
            thread_id: the thread that the task belongs to.
            overrides: what the task itself says; it wins over the thread, which wins over the profile.
            prompt: the person's words, which may ask for the titles of their threads.

        Raises:
            InvalidId, InvalidInput: no such route, or a value that does not fit.
            NotFound: the thread is not one of the user's; told where consent lets threads be read.
        """
        check_id(user_id)
        if thread_id is not None:
            check_id(thread_id, "thread id")
        if route not in MATRIX:
            raise InvalidInput(f"route: there is none of that name; there are {', '.join(MATRIX)}")
        said = _fields(overrides, "overrides")

        def read(consent: ProfileConsent | None) -> LoadedMemory:
            scopes = None if consent is None else consent.scopes
            plan = plan_reads(route, scopes, prompt=prompt, thread_id=thread_id)
            with self.faults():
                return assemble(plan, self._material(user_id, plan, consent), said)

        memory = self.consistently(user_id, read)
        if self.telemetry is not None:
            self.telemetry.context_built(memory.attributes)
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
        """Begin a task and return it with what memory gives it; see `begin_task` for what it raises."""
        if route not in MATRIX:
            raise InvalidInput(f"route: there is none of that name; there are {', '.join(MATRIX)}")
        said = _fields(fields, "fields")
        context = self.begin_task(user_id, route, fields=said, thread_id=thread_id)
        memory = self.load_memory_slices(user_id, route, thread_id, said, prompt=prompt)
        return StartedTask(context=context, memory=memory, advisor_order=advisors_for(memory))

    def onboarding_state(self, user_id: str, *, known: bool = True) -> OnboardingState:
        """Say where a user stands (memory design §8.1); `known` is whether an access token names them."""
        return onboarding_state(self.consent_on_file(user_id), known=known)

    def take_hint(self, user_id: str) -> Hint | None:
        """Return the hint that goes with a result now, and note that it was shown (memory design §8.3).

        At most one in 24 hours, to people who revoked or who set no preferences; None otherwise.
        """
        with self.writing(user_id):
            on_file = self.consent_on_file(user_id)
            state = onboarding_state(on_file)
            if state in {"brand_new", "incomplete"}:
                return None
            path = self.paths.hints(user_id) / "last.json"
            shown: HintShown | None = None
            with suppress(RecordDamaged):
                shown = load(self.files, path, HintShown)
            preferences = preferences_of(self.profile_of(on_file.in_force))
            preferred = any(preferences[name] is not None for name in _SHAPING)
            now = self.now()
            hint = hint_for(state, None if shown is None else shown.shown_at, now, preferred=preferred)
            if hint is not None:
                self.do(user_id, self.check([Put(path, HintShown(hint=hint, shown_at=now))]))
            return hint

    def _material(self, user_id: str, plan: ReadPlan, consent: ProfileConsent | None) -> Material:
        """Read what a plan leaves open, and nothing else; what cannot be read is as if it were not there."""
        header: ThreadHeader | None = None
        contexts: Sequence[UserContext] = ()
        forgotten = False
        if "thread" in plan.open and plan.thread_id is not None:
            with suppress(RecordDamaged):
                header = self.threads.header(user_id, plan.thread_id)
            forgotten = header is None or header.consent_blocked
            contexts = [] if forgotten else self._contexts(user_id, plan.thread_id)
        return Material(
            profile=self.profile_of(consent) if "profile" in plan.open else None,
            thread=contexts,
            threads=self._threads(user_id) if "threads" in plan.open else (),
            drift_signals=self._drift_signals(user_id, self.now()) if "drift" in plan.open else 0,
            thread_forgotten=forgotten,
        )

    def _contexts(self, user_id: str, thread_id: str) -> list[UserContext]:
        """Return the contexts of a thread, oldest first."""
        found = load_sound(self.files, self.paths.thread_contexts(user_id, thread_id), UserContext)
        own = (each for each in found if (each.user_id, each.thread_id) == (user_id, thread_id))
        return sorted(own, key=lambda each: (each.created_at, each.context_id))

    def _threads(self, user_id: str) -> list[ThreadHeader]:
        found = load_sound(self.files, self.paths.threads(user_id), ThreadHeader)
        return [each for each in found if each.user_id == user_id]

    def _drift_signals(self, user_id: str, now: datetime) -> int:
        """Return how many drift records are younger than 30 days, by their names alone."""
        oldest = f"drift_{stamp(now - _DRIFT_COUNTED)}"
        # Ids begin with their moment, in a form that sorts as time goes.
        return sum(name[: len(oldest)] > oldest for name in self.files.names(self.paths.drift(user_id)))


def _fields(said: ContextFields | Mapping[str, Any] | None, what: str) -> ContextFields | None:
    if said is None or isinstance(said, ContextFields):
        return said
    try:
        return msgspec.convert(dict(said), ContextFields)
    except msgspec.ValidationError as problem:
        reason, _, where = str(problem).partition(" - at `$.")
        raise InvalidInput(f"{what}.{where.removesuffix('`')}: {reason}") from None
