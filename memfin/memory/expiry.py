"""The sweep: task contexts that have expired are physically removed (memory design §10.1)."""

from collections.abc import Iterable
from datetime import datetime

from memfin.contracts.base import Count, Record
from memfin.memory.files import Files
from memfin.memory.index import Index
from memfin.memory.locks import Locks
from memfin.memory.paths import Paths


class Sweep(Record):
    """What a sweep did.

    Attributes:
        task_contexts: how many task contexts it removed.
        finished: how many users it found with an interrupted operation, which it finished.
        overdue: how many of those were revocations of more than 48 hours ago.
        failed: how many users' interrupted operation the system refuses to finish.
    """

    task_contexts: Count = 0
    finished: Count = 0
    overdue: Count = 0
    failed: Count = 0


def sweep_tasks(files: Files, paths: Paths, locks: Locks, index: Index, now: datetime) -> int:
    """Remove the task contexts whose 24 hours are over; return how many.

    All removals share one synchronisation, and the index forgets them only after it.
    """
    gone: list[tuple[str, str]] = []
    removed = 0
    for user_id, context_ids in index.expired(now).items():
        with locks.of_user(user_id):
            due = index.still_expired(user_id, context_ids, now)
            removed += _discard(files, paths, user_id, due)
        gone.extend((user_id, context_id) for context_id in due)
    if gone:
        files.sync()
        index.forget(gone, now)
    return removed


def _discard(files: Files, paths: Paths, user_id: str, context_ids: Iterable[str]) -> int:
    """Remove contexts, and what killed writers left beside them; return how many there were."""
    directory = paths.tasks(user_id)
    there = set(files.entries(directory))
    due = {name for context_id in context_ids for name in (f"{context_id}.json", f".{context_id}.json.tmp")}
    found = sorted(there & due)
    for name in found:
        files.unlink(directory / name)
    return sum(not name.startswith(".") for name in found)
