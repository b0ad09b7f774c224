"""Task contexts: there for 24 hours, and not a second longer."""

import errno
import os
import threading
from datetime import datetime, timedelta
from pathlib import Path

import pytest
from filelock import FileLock, Timeout

from memfin.contracts.memory import ContextFields
from memfin.memory import MemoryStore, contexts
from memfin.memory.contexts import KEPT, sweep_tasks
from memfin.memory.errors import ConsentRequired, InvalidId, NotFound
from memfin.memory.files import Files, Locks
from tests.memory.memory_disks import CountedFiles, DyingFiles, Killed, UnsyncedFiles, tree
from tests.memory.memory_world import (
    EVERYTHING,
    NOTHING_KEPT,
    SECOND,
    START,
    Clock,
    everything_said,
    open_store,
)


def files_of_tasks(store: MemoryStore, user_id: str = "u1") -> list[str]:
    return store.workspace.files.entries(store.workspace.paths.tasks(user_id))


def begin(store: MemoryStore, mark: str = "mark", user_id: str = "u1") -> str:
    """Begin a task of a user who lets nothing be kept; return its id."""
    if store.consent_state(user_id) == "none":
        store.grant_consent(user_id, NOTHING_KEPT)
    return str(store.begin_task(user_id, "pre_execution", fields=everything_said(mark)).task_id)


def test_24_hours_are_24_hours() -> None:
    assert timedelta(hours=24) == KEPT


@pytest.mark.parametrize(
    ("after", "there"),
    [(KEPT - SECOND, True), (KEPT, False), (KEPT + SECOND, False)],
    ids=["a-second-before", "at-24-hours", "a-second-after"],
)
@pytest.mark.parametrize("ended", [False, True], ids=["running", "ended"])
def test_a_task_context_is_there_until_24_hours_are_over(
    ended: bool, after: timedelta, there: bool, tmp_path: Path
) -> None:
    clock = Clock()
    with open_store(tmp_path, clock) as store:
        task_id = begin(store)
        if ended:
            clock.now = START + timedelta(hours=5)
            assert store.end_task("u1", task_id, "failed").task_status == "failed"
        clock.now += after
        if there:
            assert store.task_context("u1", task_id).constraints == ["mark-5", "mark-6"]
        else:
            with pytest.raises(NotFound):
                store.task_context("u1", task_id)
            with pytest.raises(NotFound):
                store.end_task("u1", task_id)
        sweep = store.expire()
        assert sweep.task_contexts == int(not there)
        assert len(files_of_tasks(store)) == int(there)
        assert any(b"mark" in data for data in tree(tmp_path, state=True).values()) is there


def test_a_sweep_takes_what_is_due_and_leaves_the_rest(tmp_path: Path) -> None:
    clock = Clock()
    with open_store(tmp_path, clock) as store:
        for number in range(30):
            clock.now = START + timedelta(hours=number)
            begin(store, user_id=f"u{number % 3}")
        assert store.expire().task_contexts == 6
        assert sum(len(files_of_tasks(store, f"u{number}")) for number in range(3)) == 24
        assert store.expire().task_contexts == 0


def test_the_context_of_a_task_says_what_its_person_did_not_consent_to_keep(tmp_path: Path) -> None:
    with open_store(tmp_path) as store:
        store.grant_consent("u1", NOTHING_KEPT)
        context = store.begin_task("u1", "snapshot", fields=ContextFields(time_horizon="a year"))
        assert (context.scope, context.task_status, context.route) == ("task", "running", "snapshot")
        assert (context.time_horizon, context.consent_version) == ("a year", 1)
        assert context.expires_at == START + KEPT
        ended = store.end_task("u1", str(context.task_id))
        assert ended == store.task_context("u1", str(context.task_id))
        assert (ended.task_status, ended.time_horizon) == ("finished", "a year")


def test_tasks_need_consent_and_go_on_after_it_was_revoked(tmp_path: Path) -> None:
    with open_store(tmp_path) as store:
        with pytest.raises(ConsentRequired) as refused:
            store.begin_task("u1", "snapshot")
        assert refused.value.details["required_scopes"] == ["create_task"]
        store.grant_consent("u1", EVERYTHING)
        store.revoke_consent("u1")
        assert store.begin_task("u1", "snapshot").consent_version is None
        store.grant_consent("u1", EVERYTHING)
        store.revoke_consent("u1", scope="create_task")
        with pytest.raises(ConsentRequired):
            store.begin_task("u1", "snapshot")
        assert len(files_of_tasks(store)) == 1


def test_tasks_of_others_and_tasks_that_are_not_look_the_same(tmp_path: Path) -> None:
    with open_store(tmp_path) as store:
        task_id = begin(store)
        begin(store, user_id="u2")
        told = set()
        for unknown in (task_id, "task_none", "x", "task_20261122T093000Z_000000"):
            with pytest.raises(NotFound) as refused:
                store.end_task("u3", unknown) if unknown == "x" else store.task_context("u3", unknown)
            told.add(str(refused.value))
        assert len(told) == 1
        with pytest.raises(InvalidId):
            store.task_context("u2", "task_../x")


def test_a_context_that_was_written_anew_is_not_swept_by_what_was_known_before(tmp_path: Path) -> None:
    clock = Clock()
    with open_store(tmp_path, clock) as store:
        task_id = begin(store)
        clock.now += KEPT - SECOND
        stale = store.workspace.index.expired(clock.now + SECOND)
        store.end_task("u1", task_id)
        clock.now += SECOND
        assert stale == {"u1": [f"ctx_{task_id.removeprefix('task_')}"]}
        assert store.workspace.index.still_expired("u1", stale["u1"], clock.now) == []
        store.workspace.index.forget([("u1", stale["u1"][0])], clock.now)
        assert store.expire().task_contexts == 0
        clock.now += KEPT - SECOND
        assert store.expire().task_contexts == 1


@pytest.mark.parametrize("at", [1, 2, 3, 4, 5, 6, 7])
def test_whatever_a_killed_writer_leaves_of_a_task_is_gone_after_24_hours(at: int, tmp_path: Path) -> None:
    clock = Clock()
    with open_store(tmp_path, clock) as store:
        store.grant_consent("u1", NOTHING_KEPT)
    disk = CountedFiles()
    store = open_store(tmp_path, clock, disk)
    opened = len(disk.steps)
    store.close()
    dying = open_store(tmp_path, clock, DyingFiles(opened + at))
    with pytest.raises(Killed), dying:
        dying.begin_task("u1", "snapshot", fields=everything_said("mark"))
    clock.now += KEPT
    with open_store(tmp_path, clock) as store:
        store.expire()
        assert not any(b"mark" in data for data in tree(tmp_path, state=True).values())
        assert files_of_tasks(store) == []


def test_the_sweep_of_many_users_synchronises_once(tmp_path: Path) -> None:
    clock = Clock()
    with open_store(tmp_path, clock) as store:
        for number in range(20):
            begin(store, user_id=f"u{number}")
        files = CountedFiles()
        removed, _ = swept(store, files)
        kinds = [kind for kind, _ in files.steps]
        assert (removed, kinds.count("unlink"), kinds.count("sync"), kinds.count("fsync")) == (20, 20, 1, 0)
        assert kinds[-1] == "sync"


class WatchedFiles(UnsyncedFiles):
    """Knows which threads removed files, and checks that each held the lock of whose files they are."""

    def __init__(self, store: MemoryStore, refused: str = "") -> None:
        self.store = store
        self.refused = refused
        self.threads: set[str] = set()

    def unlink(self, path: Path | str) -> None:
        user_id = Path(path).parent.parent.name
        if user_id == self.refused:
            raise OSError(errno.EIO, os.strerror(errno.EIO), str(path))
        self.threads.add(threading.current_thread().name)
        lock = self.store.workspace.paths.locks / f"{self.store.workspace.locks.shard_of(user_id):02x}.lock"
        with pytest.raises(Timeout), FileLock(lock, timeout=0):
            pass
        super().unlink(path)


def swept(store: MemoryStore, files: Files) -> tuple[int, int]:
    store.workspace.files = files
    return sweep_tasks(store.workspace, START + KEPT)


def test_many_contexts_are_removed_by_many_threads_each_under_its_users_lock(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    monkeypatch.setattr(contexts, "FEW", 11)
    with open_store(tmp_path, Clock()) as store:
        for number in range(12):
            begin(store, user_id=f"u{number}")
        refusing = WatchedFiles(store, refused="u7")
        assert swept(store, refusing) == (11, 1)
        assert list(store.workspace.index.expired(START + KEPT)) == ["u7"]
        assert refusing.threads
        assert all(name.startswith("memory-sweep") for name in refusing.threads)
        assert "u7" not in caplog.text
        assert "1 expired task contexts cannot be removed: Input/output error" in caplog.text
        assert swept(store, WatchedFiles(store)) == (1, 0)
        assert store.workspace.index.expired(START + KEPT) == {}
        assert [files_of_tasks(store, f"u{number}") for number in range(12)] == [[]] * 12


@pytest.mark.parametrize(("few", "elsewhere"), [(3, False), (2, True)], ids=["few", "many"])
def test_few_contexts_are_removed_without_threads(
    few: int, elsewhere: bool, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(contexts, "FEW", few)
    with open_store(tmp_path, Clock()) as store:
        for number in range(3):
            begin(store, user_id=f"u{number}")
        files = WatchedFiles(store)
        assert swept(store, files) == (3, 0)
        assert (threading.current_thread().name not in files.threads) is elsewhere


def test_what_is_due_is_divided_by_locks_and_no_lock_is_held_for_long(tmp_path: Path) -> None:
    locks = Locks(Files(), tmp_path)
    due = {f"user-{number}": [f"ctx_{each}" for each in range(number % 30)] for number in range(2000)}
    batches = contexts.batches_of(due, locks)
    assert sorted(each for batch in batches for each in batch.due) == sorted(due.items())
    for batch in batches:
        assert {locks.shard_of(user_id) for user_id, _ in batch.due} == {batch.shard}
        assert sum(len(context_ids) for _, context_ids in batch.due[:-1]) < contexts.AT_A_TIME
    assert len(batches) < sum(map(len, due.values())) / 40
    first = [batch.shard for batch in batches[:200]]
    assert len(set(first)) == len(first)


def test_a_sweep_that_is_killed_before_it_is_synchronised_is_done_again(tmp_path: Path) -> None:
    clock = Clock()
    with open_store(tmp_path, clock) as store:
        begin(store)
        with pytest.raises(Killed):
            swept(store, DyingFiles(2))
        assert store.workspace.index.expired(START + KEPT).keys() == {"u1"}


def test_expiry_does_not_depend_on_the_zone_of_the_clock(tmp_path: Path) -> None:
    moment = datetime.fromisoformat("2026-11-22T17:30:00+08:00")
    with open_store(tmp_path, Clock(moment)) as store:
        context = store.task_context("u1", begin(store))
        assert context.created_at == START
        assert context.context_id.startswith("ctx_20261122T093000Z_")
