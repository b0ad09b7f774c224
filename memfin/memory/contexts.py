"""Services of threads and tasks and of their contexts (memory design §3.4, §5.3 to §5.6, §10.1, §11.2)."""

import logging
from collections.abc import Iterable, Iterator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from datetime import datetime, timedelta
from itertools import chain, zip_longest
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final, Literal, NamedTuple

from msgspec import structs

from memfin.contracts.memory import (
    ChangeSummary,
    ContextFields,
    Feedback,
    MemoryItem,
    ProfileConsent,
    Route,
    ThreadHeader,
    ThreadRefresh,
    ThreadStatus,
    TrainingAssetCandidate,
    UserContext,
    WatchQuestionUpdate,
)
from memfin.memory import consent as rules
from memfin.memory.errors import ConsentNotInForce, ConsentRequired, InvalidInput, NotFound, ThreadClosed
from memfin.memory.files import Files, Locks
from memfin.memory.paths import with_prefix
from memfin.memory.records import (
    Put,
    Step,
    by_age,
    context_fields,
    given_fields,
    given_object,
    load,
    load_all,
)
from memfin.memory.workspace import Sweep, Workspace, after, allows

if TYPE_CHECKING:
    from memfin.memory.drift import DriftLog
    from memfin.memory.telemetry import MemoryTelemetry

_LOG: Final = logging.getLogger("memfin.memory")
# Time for which a task context is kept after the task's end, and after its begin when it never ends
KEPT: Final = timedelta(hours=24)
WORKERS: Final = 8  # threads that remove files; they mostly wait, and more of them get into each other's way
FEW: Final = 256  # contexts that one thread removes by itself
AT_A_TIME: Final = 64  # contexts after which a lock is given back, a user's last one included


class ThreadFiles:
    """Reader of the stored threads; unknown ones and those of other users are not told apart."""

    def __init__(self, workspace: Workspace) -> None:
        self._workspace = workspace
        self._paths = workspace.paths

    def header(self, user_id: str, thread_id: str) -> ThreadHeader:
        """Return a thread; raise `NotFound` when the user has none with that id."""
        found = load(self._workspace.files, self._paths.thread(user_id, thread_id), ThreadHeader)
        if found is None or (found.user_id, found.thread_id) != (user_id, thread_id):
            raise NotFound("thread: there is none with that id")
        return found

    def headers(self, user_id: str) -> list[ThreadHeader]:
        """Return the threads of a user, the most recently used first."""
        found = load_all(self._workspace.files, self._paths.threads(user_id), ThreadHeader)
        return sorted(found, key=lambda each: (each.updated_at, each.thread_id), reverse=True)

    def contexts(self, user_id: str, thread_id: str) -> list[UserContext]:
        """Return the contexts of a thread, blocked ones too, oldest first."""
        directory = self._paths.thread_contexts(user_id, thread_id)
        return by_age(load_all(self._workspace.files, directory, UserContext))

    def refreshes(self, user_id: str, thread_id: str) -> list[ThreadRefresh]:
        """Return the refreshes of a thread, oldest first."""
        directory = self._paths.refreshes(user_id, thread_id)
        return by_age(load_all(self._workspace.files, directory, ThreadRefresh))


class Threads(ThreadFiles):
    """Service of threads. A thread's context is never copied into the profile."""

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
        save_user_context: bool | None = None,
        consent_id: str | None = None,
        context: ContextFields | Mapping[str, Any] | None = None,
    ) -> ThreadHeader:
        """Save a snapshot as a thread, with the context that the user gives (memory design §5.3).

        A context needs ``save_user_context``, ``save_to_thread`` and the id of the consent in force; it is
        left out with ``save_user_context=False``.
        """
        about = given_object(cognition_object, "cognition_object")
        texts = {"snapshot_id": snapshot_id, "title": title, "cognition_object": about}
        workspace = self._workspace
        fields = context_fields(context, "context")
        if save_user_context is None and fields not in (None, ContextFields()):
            raise InvalidInput("save_user_context: set it to save the context, or to false to leave it out")
        with workspace.writing(user_id, texts | _fields(fields if save_user_context else None)):
            on_file = workspace.consent_on_file(user_id)
            if save_user_context or on_file.in_force is None:
                consent = rules.require(on_file, "save_to_thread")
            else:
                consent = rules.require(on_file)
            named = save_user_context or consent_id is not None
            if named and consent_id != consent.consent_id:
                given = "not that of" if consent_id else "missing; give that of"
                raise ConsentNotInForce(f"consent_id: is {given} the consent in force; read the current one")
            now = workspace.now()
            thread_id = workspace.id_for("thread", user_id, self._paths.threads(user_id), now)
            header = ThreadHeader(
                thread_id=thread_id,
                user_id=user_id,
                snapshot_id=snapshot_id,
                title=title,
                cognition_object=about,
                created_at=now,
                updated_at=now,
            )
            plan: list[Step] = [Put(self._paths.thread(user_id, thread_id), header)]
            if save_user_context and fields is not None and fields != ContextFields():
                plan.append(self._context(header, fields, consent))
            plan += self._candidate(consent, f"snapshot:{snapshot_id}")
            workspace.do(user_id, workspace.check(plan))
            return header

    def refresh_thread(
        self,
        user_id: str,
        thread_id: str,
        *,
        user_supplied_context: ContextFields | Mapping[str, Any] | None = None,
        main_thesis: str | None = None,
        change_summary: ChangeSummary | Mapping[str, Any] | None = None,
        watch_question_updates: Iterable[WatchQuestionUpdate | Mapping[str, Any]] = (),
    ) -> ThreadRefresh:
        """Record a refresh; a context that the user gives is added to the earlier ones (memory design §5.4).

        A thread whose preferences are no longer used takes no context.
        """
        numbered = enumerate(watch_question_updates)
        updates = [
            given_fields(each, WatchQuestionUpdate, f"watch_question_updates[{at}]") for at, each in numbered
        ]
        summary = given_fields(change_summary or {}, ChangeSummary, "change_summary")
        texts = {
            "main_thesis": main_thesis,
            "change_summary": summary,
            "watch_question_updates": updates,
        }
        workspace = self._workspace
        supplied = context_fields(user_supplied_context, "user_supplied_context")
        with workspace.writing(user_id, texts | _fields(supplied)):
            header = self.header(user_id, thread_id)
            consent = rules.require(workspace.consent_on_file(user_id), "save_to_thread")
            given = supplied if supplied != ContextFields() else None
            if header.status == "closed":
                raise ThreadClosed("thread: is closed; it can be read, not changed")
            if given is not None and header.consent_blocked:
                raise ConsentRequired(
                    "thread: its preferences are no longer used, so no others are saved; "
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
                change_summary=summary,
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
        """End the use of a thread's preferences for good, or close it, with or without consent (§11.2)."""
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
                plan += workspace.block_thread_steps(user_id, thread_id)
            workspace.do(user_id, workspace.check(plan))
            return changed

    def list_threads(self, user_id: str) -> list[ThreadHeader]:
        """Return the threads of a user for their owner, the most recently used first."""
        with self._workspace.faults():
            return self.headers(user_id)

    def thread_contexts(self, user_id: str, thread_id: str) -> list[UserContext]:
        """Return the contexts of a thread for its owner, blocked ones too, oldest first."""
        with self._workspace.faults():
            return self.contexts(user_id, thread_id)

    def add_candidate(self, user_id: str, source_object_ref: str) -> str | None:
        """Record an object as possible training data (§3.4); return None where that is not allowed."""
        workspace = self._workspace
        with workspace.writing(user_id):
            consent = workspace.consent_on_file(user_id).in_force
            if consent is None or not (plan := self._candidate(consent, source_object_ref)):
                return None
            workspace.do(user_id, workspace.check(plan))
            return plan[0].path.stem

    def _context(self, header: ThreadHeader, fields: ContextFields, consent: ProfileConsent) -> Put:
        """Return the step that adds a context to a thread and keeps the earlier ones."""
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
        """Return the step that records a pending training candidate; nothing trains on it."""
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


def later(
    now: datetime, others: Iterable[ThreadRefresh | UserContext | MemoryItem | ThreadHeader | Feedback]
) -> datetime:
    """Return the time, or the moment after the last of the others if the clock is behind them."""
    return max([now, *(after(other.created_at) for other in others)])


def _fields(context: ContextFields | None) -> dict[str, Any]:
    return {} if context is None else structs.asdict(context)


class Tasks:
    """Service of tasks: contexts that expire 24 hours after their task."""

    def __init__(self, workspace: Workspace, telemetry: "MemoryTelemetry | None" = None) -> None:
        self._workspace = workspace
        self._telemetry = telemetry

    def begin_task(
        self,
        user_id: str,
        route: Route,
        *,
        fields: ContextFields | Mapping[str, Any] | None = None,
        thread_id: str | None = None,
    ) -> UserContext:
        """Write the context of a new task for 24 hours; it may hold fields that are not stored elsewhere.

        A user with revoked consent may start tasks; one who never consented to them may not.
        """
        workspace = self._workspace
        given = _fields(context_fields(fields, "fields"))
        with workspace.writing(user_id, given):
            consent = rules.readable(workspace.consent_on_file(user_id))
            if not rules.may_create_task(consent):
                raise ConsentRequired("tasks need the person's consent; ask for it first", ["create_task"])
            if thread_id is not None:
                ThreadFiles(workspace).header(user_id, thread_id)
            now = workspace.now()
            context_id = workspace.id_for("ctx", user_id, workspace.paths.tasks(user_id), now)
            context = UserContext(
                context_id=context_id,
                user_id=user_id,
                scope="task",
                created_at=now,
                updated_at=now,
                expires_at=now + KEPT,
                consent_version=consent.version if consent and consent.revoked_at is None else None,
                thread_id=thread_id,
                task_id=with_prefix("task", context_id),
                route=route,
                task_status="running",
                **given,
            )
            self._write(context)
            return context

    def end_task(
        self, user_id: str, task_id: str, status: Literal["finished", "failed"] = "finished"
    ) -> UserContext:
        """Record the end of a task; its context expires 24 hours from now."""
        with self._workspace.writing(user_id):
            now = self._workspace.now()
            context = self.task_context(user_id, task_id)
            context = context.replace(task_status=status, updated_at=now, expires_at=now + KEPT)
            self._write(context)
            return context

    def task_context(self, user_id: str, task_id: str) -> UserContext:
        """Return the context of a task; raise `NotFound` if it has expired or is another user's."""
        workspace = self._workspace
        with workspace.faults():
            path = workspace.paths.task(user_id, with_prefix("ctx", task_id))
            found = load(workspace.files, path, UserContext)
        if found is None or found.user_id != user_id or is_expired(found.expires_at, workspace.now()):
            raise NotFound("task: there is none with that id")
        return found

    def expire(self) -> Sweep:
        """Remove expired task contexts and finish interrupted operations."""
        workspace = self._workspace
        now = workspace.now()
        with workspace.faults():
            done = workspace.finish_marked(now)
            removed, refused = sweep_tasks(workspace, now)
            workspace.reserve.keep()
        if self._telemetry is not None:
            self._telemetry.expired(removed)
        return done.replace(task_contexts=removed, refused=refused)

    def _write(self, context: UserContext) -> None:
        """Write a context and its expiry; the index never has a later expiry than the file."""
        workspace, user_id = self._workspace, context.user_id
        checked = workspace.check([Put(workspace.paths.task(user_id, context.context_id), context)])
        expires_at = context.expires_at or context.created_at
        if context.task_status == "running":
            workspace.index.expect(user_id, context.context_id, expires_at)
            workspace.do(user_id, checked)
        else:
            workspace.do(user_id, checked)
            workspace.index.expect(user_id, context.context_id, expires_at)


def is_expired(expires_at: datetime | None, now: datetime) -> bool:
    """Return True from the moment of expiry on; an expired record is never read."""
    return expires_at is not None and now >= expires_at


def sweep_tasks(workspace: Workspace, now: datetime) -> tuple[int, int]:
    """Remove expired task contexts; return how many were removed, and how many stay for the next sweep.

    All removals share one synchronisation, after which the index forgets them. Many are removed by several
    threads, as each one may wait for the medium.
    """
    files, index, directory = workspace.files, workspace.index, workspace.paths.tasks

    def remove(batch: Batch) -> list[tuple[str, str, bool | OSError]]:
        with workspace.locks.of_shard(batch.shard):
            return [
                (user_id, context_id, outcome)
                for user_id, context_ids in batch.due
                for context_id, outcome in _discard(
                    files, directory(user_id), index.still_expired(user_id, context_ids, now)
                )
            ]

    expired = index.expired(now)
    batches = batches_of(expired, workspace.locks)
    if sum(map(len, expired.values())) <= FEW:
        done = list(chain.from_iterable(map(remove, batches)))
    else:
        with ThreadPoolExecutor(WORKERS, "memory-sweep") as pool:
            done = list(chain.from_iterable(pool.map(remove, batches)))
    refused = [outcome for *_, outcome in done if isinstance(outcome, OSError)]
    if gone := sorted((user, context) for user, context, outcome in done if isinstance(outcome, bool)):
        files.sync()
        index.forget(gone, now)
    if refused:
        # The reason without the path, which names the person.
        reason = refused[0].strerror or type(refused[0]).__name__
        _LOG.error("memory: %d expired task contexts cannot be removed: %s", len(refused), reason)
    return sum(outcome is True for *_, outcome in done), len(refused)


class Batch(NamedTuple):
    """Contexts by user that one thread removes under one lock."""

    shard: int
    due: list[tuple[str, list[str]]]


def batches_of(due: Mapping[str, list[str]], locks: Locks) -> list[Batch]:
    """Batch due contexts per lock; batches of one lock are spread out so that other writers can take it."""
    by_shard: dict[int, list[Batch]] = {}
    for user_id, context_ids in due.items():
        shard = locks.shard_of(user_id)
        batches = by_shard.setdefault(shard, [Batch(shard, [])])
        if sum(len(each) for _, each in batches[-1].due) >= AT_A_TIME:
            batches.append(Batch(shard, []))
        batches[-1].due.append((user_id, context_ids))
    turns = zip_longest(*(by_shard[shard] for shard in sorted(by_shard)))
    return [batch for turn in turns for batch in turn if batch is not None]


def _discard(
    files: Files, directory: Path, context_ids: Sequence[str]
) -> Iterator[tuple[str, bool | OSError]]:
    """Remove contexts and their temporary files; yield for each True if it existed, or its error."""
    try:
        there = set(files.entries(directory))
    except OSError as problem:
        yield from ((context_id, problem) for context_id in context_ids)
        return
    for context_id in context_ids:
        name = f"{context_id}.json"
        try:
            for each in there.intersection((f".{name}.tmp", name)):
                files.unlink(f"{directory}/{each}")
        except OSError as problem:
            yield context_id, problem
        else:
            yield context_id, name in there
