"""The sweep: task contexts that have expired are physically removed (memory design §10.1)."""

import logging
from collections.abc import Iterator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from datetime import datetime
from pathlib import Path
from typing import Final, NamedTuple

from memfin.contracts.base import Count, Record
from memfin.memory.files import Files
from memfin.memory.index import Index
from memfin.memory.locks import Locks
from memfin.memory.paths import Paths

_LOG: Final = logging.getLogger("memfin.memory")

WORKERS: Final = 8
"""Threads that remove files; they mostly wait, and more of them get into each other's way."""

FEW: Final = 256
"""Contexts that one thread removes by itself."""

AT_A_TIME: Final = 64
"""Contexts after which a lock is given back, a user's last one included."""


class Sweep(Record):
    """What a sweep did.

    Attributes:
        task_contexts: how many task contexts it removed.
        finished: how many users it found with an interrupted operation, which it finished.
        overdue: how many of those were revocations of more than 48 hours ago.
        failed: how many users' interrupted operation the system refuses to finish.
        refused: how many task contexts the system refuses to remove; a later sweep tries again.
    """

    task_contexts: Count = 0
    finished: Count = 0
    overdue: Count = 0
    failed: Count = 0
    refused: Count = 0


class Removed(NamedTuple):
    """Task contexts that were removed.

    Attributes:
        contexts: how many.
        gone: users and contexts that the index can forget.
        refused: why the system refuses to remove others, once for each of them.
    """

    contexts: int
    gone: list[tuple[str, str]]
    refused: list[str]


def sweep_tasks(files: Files, paths: Paths, locks: Locks, index: Index, now: datetime) -> Removed:
    """Remove the task contexts whose 24 hours are over, each by itself.

    One that the system refuses to remove stops no other, and stays in the index for the next sweep.

    All removals share one synchronisation, and the index forgets them only after it. Many of them are
    removed by several threads: a file system may wait for its medium at each one, and one wait does not
    have to wait for another.
    """

    def remove(batch: Batch) -> Removed:
        count, gone, refused = 0, list[tuple[str, str]](), list[str]()
        with locks.of_shard(batch.shard):
            for user_id, context_ids in batch.due:
                due = index.still_expired(user_id, context_ids, now)
                for context_id, outcome in _discard(files, paths.tasks(user_id), due):
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


class Batch(NamedTuple):
    """What one thread removes while it holds one lock.

    Attributes:
        shard: the lock.
        contexts: how many contexts are due.
        due: the contexts by user; the users share the lock.
    """

    shard: int
    contexts: int
    due: list[tuple[str, list[str]]]


def batches_of(due: Mapping[str, list[str]], locks: Locks) -> list[Batch]:
    """Return what is due by lock, in batches after which others have their turn.

    Batches of one lock stand apart, so that threads seldom wait for each other.
    """
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
    """Remove contexts, and what killed writers left beside them.

    Yield for each of them whether there was one, or why the system refuses to remove it.
    """
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
