"""Threads: headers, contexts, refreshes, and training candidates (memory design §3.4, §5.3, §5.4, §11.2)."""

from collections.abc import Iterable, Mapping
from datetime import datetime, timedelta
from typing import TYPE_CHECKING, Any, Final

from msgspec import structs

from memfin.contracts.memory import (
    ChangeSummary,
    ContextFields,
    Feedback,
    ProfileConsent,
    ThreadHeader,
    ThreadRefresh,
    ThreadStatus,
    TrainingAssetCandidate,
    UserContext,
    WatchQuestionUpdate,
)
from memfin.memory import consent as rules
from memfin.memory.errors import ConsentRequired, InvalidInput, NotFound, ThreadClosed
from memfin.memory.records import Put, Step, load, load_all
from memfin.memory.workspace import Workspace, allows

if TYPE_CHECKING:
    from memfin.memory.drift import DriftLog

_TICK: Final = timedelta(microseconds=1)


class ThreadFiles:
    """The threads on file, for reading; unknown ones and those of others look the same."""

    def __init__(self, workspace: Workspace) -> None:
        self._workspace = workspace
        self._paths = workspace.paths

    def header(self, user_id: str, thread_id: str) -> ThreadHeader:
        """Return a thread; raise `NotFound` when the user has none of that id."""
        found = load(self._workspace.files, self._paths.thread(user_id, thread_id), ThreadHeader)
        if found is None or (found.user_id, found.thread_id) != (user_id, thread_id):
            raise NotFound("thread: there is none of that id")
        return found

    def headers(self, user_id: str) -> list[ThreadHeader]:
        """Return the threads of a user, the one touched last first."""
        found = load_all(self._workspace.files, self._paths.threads(user_id), ThreadHeader)
        return sorted(found, key=lambda each: (each.updated_at, each.thread_id), reverse=True)

    def contexts(self, user_id: str, thread_id: str) -> list[UserContext]:
        """Return the contexts of a thread, blocked ones too, oldest first."""
        directory = self._paths.thread_contexts(user_id, thread_id)
        found = load_all(self._workspace.files, directory, UserContext)
        return sorted(found, key=lambda each: (each.created_at, each.context_id))

    def refreshes(self, user_id: str, thread_id: str) -> list[ThreadRefresh]:
        """Return the refreshes of a thread, oldest first."""
        directory = self._paths.refreshes(user_id, thread_id)
        found = load_all(self._workspace.files, directory, ThreadRefresh)
        return sorted(found, key=lambda each: (each.created_at, each.refresh_id))


class Threads(ThreadFiles):
    """The service of threads. A thread's context never makes its way into the profile."""

    def __init__(self, workspace: Workspace, drift: "DriftLog") -> None:
        super().__init__(workspace)
        self._drift = drift

    def save_thread(
        self,
        user_id: str,
        snapshot_id: str,
        title: str,
        cognition_object: Mapping[str, Any],
        *,
        save_user_context: bool = False,
        consent_id: str | None = None,
        context: ContextFields | None = None,
    ) -> ThreadHeader:
        """Save a snapshot as a thread, with the context that its person gives (memory design §5.3).

        A context needs ``save_user_context``, ``save_to_thread`` and the id of the consent in force.
        """
        texts = {"snapshot_id": snapshot_id, "title": title, "cognition_object": cognition_object}
        workspace = self._workspace
        with workspace.writing(user_id, texts | _fields(context if save_user_context else None)):
            on_file = workspace.consent_on_file(user_id)
            if save_user_context or on_file.in_force is None:
                consent = rules.require(on_file, "save_to_thread")
            else:
                consent = rules.require(on_file)
            if save_user_context or consent_id is not None:
                rules.acknowledged(consent, consent_id)
            now = workspace.now()
            thread_id = workspace.id_for("thread", user_id, self._paths.threads(user_id), now)
            header = ThreadHeader(
                thread_id=thread_id,
                user_id=user_id,
                snapshot_id=snapshot_id,
                title=title,
                cognition_object=dict(cognition_object),
                created_at=now,
                updated_at=now,
            )
            plan: list[Step] = [Put(self._paths.thread(user_id, thread_id), header)]
            if save_user_context and context is not None and context != ContextFields():
                plan.append(self._context(header, context, consent))
            plan += self._candidate(consent, f"snapshot:{snapshot_id}")
            workspace.do(user_id, workspace.check(plan))
            return header

    def refresh_thread(
        self,
        user_id: str,
        thread_id: str,
        *,
        user_supplied_context: ContextFields | None = None,
        main_thesis: str | None = None,
        change_summary: ChangeSummary | None = None,
        watch_question_updates: Iterable[WatchQuestionUpdate] = (),
    ) -> ThreadRefresh:
        """Record a refresh; a context that its person gives is added to those before (memory design §5.4).

        A thread whose preferences were forgotten takes no context.
        """
        updates = list(watch_question_updates)
        texts = {
            "main_thesis": main_thesis,
            "change_summary": change_summary,
            "watch_question_updates": updates,
        }
        workspace = self._workspace
        with workspace.writing(user_id, texts | _fields(user_supplied_context)):
            header = self.header(user_id, thread_id)
            consent = rules.require(workspace.consent_on_file(user_id), "save_to_thread")
            given = user_supplied_context if user_supplied_context != ContextFields() else None
            if header.status == "closed":
                raise ThreadClosed("thread: is closed; it can be read, not changed")
            if given is not None and header.consent_blocked:
                raise ConsentRequired(
                    "thread: its preferences were forgotten, so no others are saved; "
                    "save a new thread for them",
                    ["save_to_thread"],
                )
            before = self.refreshes(user_id, thread_id)
            now = later(rules.not_before(consent, workspace.now()), [header, *before])
            context = None if given is None else self._context(header, given, consent)
            directory = self._paths.refreshes(user_id, thread_id)
            refreshed = ThreadRefresh(
                refresh_id=workspace.id_for("refresh", user_id, directory, now),
                thread_id=thread_id,
                created_at=now,
                main_thesis=main_thesis,
                change_summary=change_summary or ChangeSummary(),
                watch_question_updates=updates,
                context_id=None if context is None else context.path.stem,
            )
            plan: list[Step] = [] if context is None else [context]
            plan.append(Put(self._paths.refresh(user_id, thread_id, refreshed.refresh_id), refreshed))
            plan.append(Put(self._paths.thread(user_id, thread_id), header.replace(updated_at=now)))
            plan += self._candidate(consent, f"thread:{thread_id}")
            checked = workspace.check(plan)
            checked += self._drift.refresh_steps(consent, header, [*before, refreshed], now)
            workspace.do(user_id, checked)
            return refreshed

    def patch_thread(
        self,
        user_id: str,
        thread_id: str,
        *,
        consent_blocked: bool = False,
        status: ThreadStatus | None = None,
    ) -> ThreadHeader:
        """Forget a thread's preferences, or close it, for good, with or without consent (§11.2)."""
        workspace = self._workspace
        with workspace.writing(user_id):
            header = self.header(user_id, thread_id)
            if status == "active" and header.status == "closed":
                raise InvalidInput("status: a closed thread stays closed")
            changed = header.replace(
                status=status or header.status, consent_blocked=consent_blocked or header.consent_blocked
            )
            plan: list[Step] = []
            if changed != header:
                changed = changed.replace(updated_at=later(workspace.now(), [header]))
                plan.append(Put(self._paths.thread(user_id, thread_id), changed))
            if consent_blocked:
                directory = self._paths.thread_contexts(user_id, thread_id)
                plan += workspace.block_steps(directory, UserContext)
            workspace.do(user_id, workspace.check(plan))
            return changed

    def list_threads(self, user_id: str) -> list[ThreadHeader]:
        """Return the threads of a user for their owner to see, the one touched last first."""
        with self._workspace.faults():
            return self.headers(user_id)

    def thread_contexts(self, user_id: str, thread_id: str) -> list[UserContext]:
        """Return the contexts of a thread for its owner to see, blocked ones too, oldest first."""
        with self._workspace.faults():
            return self.contexts(user_id, thread_id)

    def add_candidate(self, user_id: str, source_object_ref: str) -> str | None:
        """Note an object as possible training material (§3.4); return None where that is not allowed."""
        workspace = self._workspace
        with workspace.writing(user_id):
            consent = workspace.consent_on_file(user_id).in_force
            if consent is None or not (plan := self._candidate(consent, source_object_ref)):
                return None
            workspace.do(user_id, workspace.check(plan))
            return plan[0].path.stem

    def _context(self, header: ThreadHeader, fields: ContextFields, consent: ProfileConsent) -> Put:
        """Return the step that adds a context to a thread; those before it stay as they are."""
        user_id, thread_id = header.user_id, header.thread_id
        now = later(self._workspace.now(), [header, *self.contexts(user_id, thread_id)])
        directory = self._paths.thread_contexts(user_id, thread_id)
        context_id = self._workspace.id_for("ctx", user_id, directory, now)
        record = UserContext(
            context_id=context_id,
            user_id=user_id,
            scope="thread",
            created_at=now,
            updated_at=now,
            consent_version=consent.version,
            thread_id=thread_id,
            **structs.asdict(fields),
        )
        return Put(self._paths.thread_context(user_id, thread_id, context_id), record)

    def _candidate(self, consent: ProfileConsent, source_object_ref: str) -> list[Put]:
        """Return the step that records a candidate; it is pending, and nothing trains on it."""
        if not allows(consent, "training_use_allowed"):
            return []
        user_id, now = consent.user_id, self._workspace.now()
        directory = self._paths.candidates(user_id)
        record = TrainingAssetCandidate(
            candidate_id=self._workspace.id_for("cand", user_id, directory, now),
            source_object_ref=source_object_ref,
            consent_id=consent.consent_id,
            consent_version=consent.version,
            created_at=now,
        )
        return [Put(self._paths.candidate(user_id, record.candidate_id), record)]


def later(now: datetime, others: Iterable[ThreadRefresh | UserContext | ThreadHeader | Feedback]) -> datetime:
    """Return now, or the moment after the last of the others where the clock has not come so far."""
    return max([now, *(other.created_at + _TICK for other in others)])


def _fields(context: ContextFields | None) -> dict[str, Any]:
    return {} if context is None else structs.asdict(context)
