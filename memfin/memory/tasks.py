"""Task contexts: begin, end, and the sweep 24 hours later (memory design §5.6, §8.4, §10.1)."""

import logging
from collections.abc import Iterator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from datetime import datetime, timedelta
from pathlib import Path
from typing import TYPE_CHECKING, Final, Literal, NamedTuple

from msgspec import structs

from memfin.contracts.memory import ContextFields, Route, UserContext
from memfin.memory import consent as rules
from memfin.memory.errors import ConsentRequired, NotFound
from memfin.memory.files import Files, Locks
from memfin.memory.paths import with_prefix
from memfin.memory.records import Put, load
from memfin.memory.threads import ThreadFiles
from memfin.memory.workspace import Sweep, Workspace

if TYPE_CHECKING:
    from memfin.memory.telemetry import MemoryTelemetry

_LOG: Final = logging.getLogger("memfin.memory")

KEPT: Final = timedelta(hours=24)
"""Time for which a task context is kept after the task's end, and after its begin when it never ends."""

WORKERS: Final = 8  # threads that remove files; they mostly wait, and more of them get into each other's way
FEW: Final = 256  # contexts that one thread removes by itself
AT_A_TIME: Final = 64  # contexts after which a lock is given back, a user's last one included


class Tasks:
    """The service of tasks: records that are known for the time of one task."""

    def __init__(self, workspace: Workspace, telemetry: "MemoryTelemetry | None" = None) -> None:
        self._workspace = workspace
        self._telemetry = telemetry

    def begin_task(
        self,
        user_id: str,
        route: Route,
        *,
        fields: ContextFields | None = None,
        thread_id: str | None = None,
    ) -> UserContext:
        """Write the context of a task that begins, for 24 hours; it may hold fields that are not kept.

        A person whose consent is revoked may ask for tasks; one who never consented to them may not.
        """
        workspace = self._workspace
        given = {} if fields is None else structs.asdict(fields)
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
        """Note the end of a task; its context expires 24 hours from now."""
        with self._workspace.writing(user_id):
            now = self._workspace.now()
            context = self.task_context(user_id, task_id)
            context = context.replace(task_status=status, updated_at=now, expires_at=now + KEPT)
            self._write(context)
            return context

    def task_context(self, user_id: str, task_id: str) -> UserContext:
        """Return the context of a task; raise `NotFound` when its 24 hours are over, as for a stranger's."""
        workspace = self._workspace
        with workspace.faults():
            path = workspace.paths.task(user_id, with_prefix("ctx", task_id))
            found = load(workspace.files, path, UserContext)
        if found is None or found.user_id != user_id or is_expired(found.expires_at, workspace.now()):
            raise NotFound("task: there is none of that id")
        return found

    def expire(self) -> Sweep:
        """Remove task contexts of more than 24 hours ago, and finish interrupted operations."""
        workspace = self._workspace
        now = workspace.now()
        with workspace.faults():
            done = workspace.finish_marked(now)
            removed = sweep_tasks(workspace, now)
            workspace.reserve.keep()
        if self._telemetry is not None:
            self._telemetry.expired(removed.contexts)
        return done.replace(task_contexts=removed.contexts, refused=len(removed.refused))

    def _write(self, context: UserContext) -> None:
        """Write a context, and its expiry where the index never has a later one than the file."""
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
    """Return whether a moment of expiry has come; nothing is read any more from that very moment on."""
    return expires_at is not None and now >= expires_at


class Removed(NamedTuple):
    """Task contexts that were removed: their number, those the index can forget, and reasons of refusals."""

    contexts: int
    gone: list[tuple[str, str]]
    refused: list[str]


class Batch(NamedTuple):
    """Contexts that one thread removes while it holds one lock, and their number; ``due`` is by user."""

    shard: int
    contexts: int
    due: list[tuple[str, list[str]]]


def sweep_tasks(workspace: Workspace, now: datetime) -> Removed:
    """Remove the task contexts whose 24 hours are over; a refused one stays for the next sweep.

    All removals share one synchronisation, after which the index forgets them. Many are removed by several
    threads, as each one may wait for the medium.
    """
    files, locks, index = workspace.files, workspace.locks, workspace.index

    def remove(batch: Batch) -> Removed:
        count, gone, refused = 0, list[tuple[str, str]](), list[str]()
        with locks.of_shard(batch.shard):
            for user_id, context_ids in batch.due:
                due = index.still_expired(user_id, context_ids, now)
                for context_id, outcome in _discard(files, workspace.paths.tasks(user_id), due):
                    if isinstance(outcome, OSError):
                        # The reason without the path, which names the person.
                        refused.append(outcome.strerror or type(outcome).__name__)
                    else:
                        count += outcome
                        gone.append((user_id, context_id))
        return Removed(count, gone, refused)

    batches = batches_of(index.expired(now), locks)
    if sum(each.contexts for each in batches) <= FEW:
        done = list(map(remove, batches))
    else:
        with ThreadPoolExecutor(WORKERS, "memory-sweep") as pool:
            done = list(pool.map(remove, batches))
    if gone := sorted(context for each in done for context in each.gone):
        files.sync()
        index.forget(gone, now)
    if refused := [reason for each in done for reason in each.refused]:
        _LOG.error("memory: %d expired task contexts cannot be removed: %s", len(refused), refused[0])
    return Removed(sum(each.contexts for each in done), gone, refused)


def batches_of(due: Mapping[str, list[str]], locks: Locks) -> list[Batch]:
    """Return due contexts in batches per lock, those of one lock apart, so that other writers have a turn."""
    batches: dict[tuple[int, int], Batch] = {}
    turns: dict[int, int] = {}
    for user_id, context_ids in due.items():
        shard = locks.shard_of(user_id)
        turn = turns.get(shard, 0)
        batch = batches.get((turn, shard), Batch(shard, 0, []))
        batch = batch._replace(contexts=batch.contexts + len(context_ids))
        batch.due.append((user_id, context_ids))
        batches[turn, shard] = batch
        turns[shard] = turn + (batch.contexts >= AT_A_TIME)
    return [batches[key] for key in sorted(batches)]


def _discard(
    files: Files, directory: Path, context_ids: Sequence[str]
) -> Iterator[tuple[str, bool | OSError]]:
    """Remove contexts and their temporary files; yield for each whether there was one, or the refusal."""
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
