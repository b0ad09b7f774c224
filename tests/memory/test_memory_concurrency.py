"""Many writers of one user, in threads and processes: each is heard, none twice, none in pieces."""

import subprocess
import sys
import threading
from contextlib import suppress
from pathlib import Path

from memfin.contracts.memory import ProfileConsent
from memfin.memory.errors import InvalidId
from memfin.memory.files import Files, Locks
from memfin.memory.index import Index
from memfin.memory.records import decode
from tests.memory.memory_crowd import REFRESHERS
from tests.memory.memory_disks import UnsyncedFiles, tree
from tests.memory.memory_world import EVERYTHING, Clock, open_store, preferences
from tests.support import length

PROCESSES = 8
WRITERS = length(25, 200)


def test_eight_processes_of_many_writers_lose_no_update_and_leave_no_gap(tmp_path: Path) -> None:
    with open_store(tmp_path, Clock()) as store:
        store.grant_consent("u1", EVERYTHING)
        thread = store.save_thread("u1", "snap_1", "gold", {})
    command = [sys.executable, "-m", "tests.memory.memory_crowd", str(tmp_path), str(PROCESSES), str(WRITERS)]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    assert (done.returncode, done.stderr) == (0, "")
    total = PROCESSES * WRITERS
    assert sorted(map(int, done.stdout.split())) == list(range(2, total + 2))
    with open_store(tmp_path, Clock()) as store:
        assert store.workspace.consent_versions("u1") == list(range(1, total + 1))
        numbers = []
        for number in range(1, total + 1):
            path = store.workspace.paths.version("u1", number)
            numbers.append(decode(path.read_bytes(), path, ProfileConsent).version)
        assert numbers == list(range(1, total + 1))
        profile = store.read_profile("u1")
        assert profile is not None
        written = {f"{process}-{writer}" for process in range(PROCESSES) for writer in range(WRITERS)}
        assert profile.user_focus_reason in written
        assert store.workspace.files.names(store.workspace.paths.profiles("u1")) == [profile.context_id]
        refreshed = {f"{process}-{writer}" for process in range(PROCESSES) for writer in range(REFRESHERS)}
        refreshes = store.threads.refreshes("u1", thread.thread_id)
        assert {each.main_thesis for each in refreshes} == refreshed
        assert len({each.created_at for each in refreshes}) == len(refreshes) == len(refreshed)
        assert len(store.workspace.files.names(store.workspace.paths.candidates("u1"))) == len(refreshed) + 1
    assert [name for name in tree(tmp_path, state=True) if "pending" in name or name.endswith(".tmp")] == []


def test_ids_that_differ_only_in_case_are_given_to_one_of_many_who_ask_at_once(tmp_path: Path) -> None:
    names = ["".join(letters) for letters in zip("bB" * 8, "oooOOOOO" * 2, "bbBB" * 4, strict=True)]
    with open_store(tmp_path) as store:
        granted: list[str] = []
        barrier = threading.Barrier(len(names))

        def ask(name: str) -> None:
            barrier.wait()
            with suppress(InvalidId):
                store.grant_consent(name, EVERYTHING, preferences(name))
                granted.append(name)

        threads = [threading.Thread(target=ask, args=(name,)) for name in names]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
        assert len(granted) > 1
        assert len(set(granted)) == 1
        assert store.workspace.files.names(tmp_path / "consents", ".yaml") == granted[:1]


def test_ids_that_differ_only_in_case_share_a_lock(tmp_path: Path) -> None:
    locks = Locks(Files(), tmp_path)
    for name in ("bob", "BOB", "Bob"):
        with locks.of_user(name):
            pass
    assert len(list(tmp_path.iterdir())) == 1


def test_stores_opened_at_once_build_one_index(tmp_path: Path) -> None:
    with open_store(tmp_path) as store:
        for number in range(20):
            store.grant_consent(f"u{number}", EVERYTHING)
    (tmp_path / ".memfin" / "index.sqlite").unlink()
    found: list[list[str]] = []
    barrier = threading.Barrier(6)

    def look() -> None:
        barrier.wait()
        with open_store(tmp_path) as store:
            found.append(store.workspace.index.users())

    threads = [threading.Thread(target=look) for _ in range(6)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert len(found) == 6
    assert all(len(each) == 20 for each in found)
    index = Index(tmp_path / ".memfin" / "index.sqlite", UnsyncedFiles())
    assert index.is_built()
    index.close()
