"""Save-as-thread, refresh, forgetting and closing a thread (memory design §5.3, §5.4, §11.2)."""

from collections.abc import Iterable, Mapping
from typing import Any

from msgspec import structs

from memfin.contracts.memory import (
    ChangeSummary,
    ContextFields,
    ProfileConsent,
    ThreadHeader,
    ThreadRefresh,
    ThreadStatus,
    UserContext,
    WatchQuestionUpdate,
)
from memfin.memory import consent as rules
from memfin.memory import threads
from memfin.memory.candidates import candidate
from memfin.memory.errors import InvalidInput
from memfin.memory.operations.drift import DriftOperations
from memfin.memory.plans import Put, Step
from memfin.memory.revocation import blocked


class ThreadOperations(DriftOperations):
    """What happens to threads. A thread's context never makes its way into the profile."""

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

        Without ``save_user_context`` the thread is saved without a context, whatever ``context`` says.

        Raises:
            ConsentRequired: there is no consent in force; a context needs ``save_to_thread``.
            ConsentNotInForce: ``consent_id`` is given, or needed for a context, and is another one.
            InvalidId, InvalidInput, SensitiveInput: nothing was written.
        """
        said = {"snapshot_id": snapshot_id, "title": title, "cognition_object": cognition_object}
        with self.writing(user_id, said | _fields(context if save_user_context else None)):
            on_file = self.consent_on_file(user_id)
            if save_user_context or on_file.in_force is None:
                consent = rules.require(on_file, "save_to_thread")
            else:
                consent = rules.require(on_file)
            if save_user_context or consent_id is not None:
                rules.acknowledged(consent, consent_id)
            now = self.now()
            thread_id = self.id_for("thread", user_id, self.paths.threads(user_id), now)
            header = threads.saved(user_id, thread_id, snapshot_id, title, cognition_object, now)
            plan: list[Step] = [Put(self.paths.thread(user_id, thread_id), header)]
            if save_user_context and context is not None and not threads.said_nothing(context):
                plan.append(self._context(header, context, consent))
            plan += self._candidate(consent, f"snapshot:{snapshot_id}")
            self.do(user_id, self.check(plan))
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

        Raises:
            NotFound: the user has no such thread.
            ThreadClosed: it is closed.
            ConsentRequired: threads are read-only without ``save_to_thread``, and a thread whose
                preferences were forgotten takes no others.
            InvalidInput, SensitiveInput: nothing was written.
        """
        updates = list(watch_question_updates)
        texts = {
            "main_thesis": main_thesis,
            "change_summary": change_summary,
            "watch_question_updates": updates,
        }
        with self.writing(user_id, texts | _fields(user_supplied_context)):
            header = self.threads.header(user_id, thread_id)
            consent = rules.require(self.consent_on_file(user_id), "save_to_thread")
            said = user_supplied_context if user_supplied_context != ContextFields() else None
            threads.refreshable(header, with_context=said is not None)
            before = self.threads.refreshes(user_id, thread_id)
            now = threads.later(rules.not_before(consent, self.now()), [header, *before])
            context = None if said is None else self._context(header, said, consent)
            refreshed = threads.refresh(
                header,
                self.id_for("refresh", user_id, self.paths.refreshes(user_id, thread_id), now),
                now,
                main_thesis=main_thesis,
                change_summary=change_summary,
                watch_question_updates=updates,
                context_id=None if context is None else context.path.stem,
            )
            plan: list[Step] = [] if context is None else [context]
            plan.append(Put(self.paths.refresh(user_id, thread_id, refreshed.refresh_id), refreshed))
            plan.append(Put(self.paths.thread(user_id, thread_id), header.replace(updated_at=now)))
            plan += self._candidate(consent, f"thread:{thread_id}")
            checked = self.check(plan)
            checked += self.refresh_drift(consent, header, [*before, refreshed], now)
            self.do(user_id, checked)
            return refreshed

    def patch_thread(
        self,
        user_id: str,
        thread_id: str,
        *,
        consent_blocked: bool = False,
        status: ThreadStatus | None = None,
    ) -> ThreadHeader:
        """Forget a thread's preferences, or close it (memory design §11.2); neither can be undone.

        Both are a person's right with and without consent in force.

        Raises:
            NotFound: the user has no such thread.
            InvalidInput: the thread is closed and ``status`` would open it.
        """
        with self.writing(user_id):
            header = self.threads.header(user_id, thread_id)
            if status == "active" and header.status == "closed":
                raise InvalidInput("status: a closed thread stays closed")
            changed = header.replace(
                status=status or header.status, consent_blocked=consent_blocked or header.consent_blocked
            )
            plan: list[Step] = []
            if changed != header:
                now = threads.later(self.now(), [header])
                changed = changed.replace(updated_at=now)
                plan.append(Put(self.paths.thread(user_id, thread_id), changed))
            if consent_blocked:
                plan += blocked(self.files, self.paths.thread_contexts(user_id, thread_id))
            self.do(user_id, self.check(plan))
            return changed

    def list_threads(self, user_id: str) -> list[ThreadHeader]:
        """Return the threads of a user for their owner to see, the one touched last first."""
        with self.faults():
            return self.threads.headers(user_id)

    def thread_contexts(self, user_id: str, thread_id: str) -> list[UserContext]:
        """Return the contexts of a thread for its owner to see, blocked ones too, oldest first."""
        with self.faults():
            return self.threads.contexts(user_id, thread_id)

    def add_candidate(self, user_id: str, source_object_ref: str) -> str | None:
        """Note that an object may be asked for as training material one day (memory design §3.4).

        Returns the candidate's id; None, and nothing is written, when training use is not allowed.
        """
        with self.writing(user_id):
            consent = self.consent_on_file(user_id).in_force
            if consent is None or not (plan := self._candidate(consent, source_object_ref)):
                return None
            self.do(user_id, self.check(plan))
            return plan[0].path.stem

    def _context(self, header: ThreadHeader, fields: ContextFields, consent: ProfileConsent) -> Put:
        user_id, thread_id = header.user_id, header.thread_id
        now = threads.later(self.now(), [header, *self.threads.contexts(user_id, thread_id)])
        directory = self.paths.thread_contexts(user_id, thread_id)
        context_id = self.id_for("ctx", user_id, directory, now)
        record = threads.context(header, context_id, fields, consent.version, now)
        return Put(self.paths.thread_context(user_id, thread_id, context_id), record)

    def _candidate(self, consent: ProfileConsent, source_object_ref: str) -> list[Put]:
        if not rules.allows(consent, "training_use_allowed"):
            return []
        user_id, now = consent.user_id, self.now()
        candidate_id = self.id_for("cand", user_id, self.paths.candidates(user_id), now)
        record = candidate(candidate_id, source_object_ref, consent, now)
        return [Put(self.paths.candidate(user_id, candidate_id), record)]


def _fields(context: ContextFields | None) -> dict[str, Any]:
    return {} if context is None else structs.asdict(context)
