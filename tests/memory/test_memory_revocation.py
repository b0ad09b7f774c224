"""Revocation: what goes and what stays, at once for every reader, whatever they are in the middle of."""

import itertools
import subprocess
import sys
from collections import Counter
from datetime import timedelta
from pathlib import Path

import msgspec
import pytest

from memfin.contracts.memory import Route
from memfin.memory import MemoryStore
from memfin.memory.files import Files
from memfin.memory.slices import MATRIX
from memfin.memory.workspace import PURGED_WITHIN, is_overdue
from tests.memory.memory_disks import (
    CountedFiles,
    DyingFiles,
    Killed,
    UnsyncedFiles,
    laid_out,
    steps_of,
    tree,
)
from tests.memory.memory_endings import LATER, USER, begun, changed
from tests.memory.memory_race import READERS, Stats
from tests.memory.memory_world import EVERYTHING, SECOND, START, Clock, open_store, preferences, settle_in
from tests.support import length

ROUNDS = length(100, 10_000)
"""How often consent is given and revoked while a hundred readers read."""


def given(store: MemoryStore, user_id: str, route: Route = "thread_refresh") -> bytes:
    """Return all that memory gives a task, as bytes."""
    return msgspec.json.encode(store.load_memory_slices(user_id, route))


def test_a_revocation_removes_blocks_and_withdraws_in_one_go(tmp_path: Path) -> None:
    with open_store(tmp_path, Clock(pace=SECOND)) as store:
        settle_in(store, "u1", "mark")
        (tmp_path / "persona_drift" / "u1").mkdir()
        for name in ("drift_20261122T093000Z_abcdef.json", "_index.jsonl"):
            (tmp_path / "persona_drift" / "u1" / name).write_bytes(b"mark")
        before = tree(tmp_path)
        done = store.revoke_consent("u1")
        after = tree(tmp_path)
    assert done.whole
    gone = before.keys() - after.keys()
    assert {name.split("/")[0] for name in gone} == {"user_contexts", "persona_drift"}
    gone_contexts = {name.split("/")[2] for name in gone if name.startswith("user_contexts")}
    assert gone_contexts == {"_profile", "_items"}
    assert after["consents/_history/u1/1.yaml"] == before["consents/u1.yaml"]
    for name, data in after.items():
        if "/_thread/" in name or (name.startswith("threads/") and name.count("/") == 2):
            assert data == before[name].replace(b'"consent_blocked":false', b'"consent_blocked":true'), name
            assert data != before[name]
        elif name.startswith("training_candidates/"):
            assert b'"withdrawal_status":"revoked"' in data
        elif not name.startswith("consents/"):
            assert data == before[name], name


def test_nobody_elses_files_change(tmp_path: Path) -> None:
    with open_store(tmp_path, Clock(pace=SECOND)) as store:
        settle_in(store, "u1", "mark")
        settle_in(store, "u2", "other")
        before = {name: data for name, data in tree(tmp_path).items() if "u2" in name}
        store.revoke_consent("u1")
        store.delete_user("u1")
        assert {name: data for name, data in tree(tmp_path).items() if "u2" in name} == before


@pytest.mark.parametrize("route", MATRIX)
def test_what_memory_gives_is_then_what_it_gives_a_stranger(route: Route, tmp_path: Path) -> None:
    with open_store(tmp_path) as store:
        stranger = given(store, "stranger", route)
        settle_in(store, "u1", "mark")
        known = given(store, "u1", route)
        store.revoke_consent("u1")
        assert given(store, "u1", route) == stranger != known


class Replayed(Files):
    """Shows a reader one state of the files after another: at each look the next one in a sequence."""

    def __init__(self, states: list[dict[str, bytes]], looks: tuple[int, ...], root: Path) -> None:
        self.states = states
        self.looks = list(looks)
        self.seen: list[int] = []
        self._root = root

    def load(self, path: Path) -> bytes | None:
        self.seen.append(self.looks.pop(0) if len(self.looks) > 1 else self.looks[0])
        return self.states[self.seen[-1]].get(path.relative_to(self._root).as_posix())


class Snapshots(CountedFiles):
    """Keeps the files as they are before each step."""

    def __init__(self, root: Path) -> None:
        super().__init__()
        self._root = root
        self.states: list[dict[str, bytes]] = []

    def before(self, kind: str, name: str) -> None:
        super().before(kind, name)
        state = tree(self._root)
        if not self.states or self.states[-1] != state:
            self.states.append(state)


def test_a_reader_that_meets_a_revocation_at_any_of_its_steps_gets_all_or_nothing(tmp_path: Path) -> None:
    """Every way in which the looks of a reader and the steps of a revocation can follow each other."""
    with open_store(tmp_path) as store:
        store.grant_consent("u1", EVERYTHING, preferences("mark"))
        granted = store.read_profile("u1")
        disk = Snapshots(tmp_path)
        store.workspace.files = store.workspace._writer._files = disk
        store.revoke_consent("u1")
        states = [*disk.states, tree(tmp_path)]
        committed = next(
            number
            for number, state in enumerate(states)
            if b"revoked_at: null" not in state["consents/u1.yaml"]
        )
        assert 0 < committed < len(states) - 1
        outcomes: Counter[bool] = Counter()
        for looks in itertools.combinations_with_replacement(range(len(states)), 4):
            files = Replayed(states, looks, tmp_path)
            store.workspace.files = files
            profile = store.read_profile("u1")
            assert profile in (None, granted)
            assert (profile == granted) == (files.seen[-1] < committed), (looks, files.seen)
            outcomes[profile is None] += 1
    assert min(outcomes.values()) > 10


def test_a_hundred_readers_race_each_of_many_revocations(tmp_path: Path) -> None:
    """Each revocation comes in the middle of a read of everyone; each read gives what was in force in it."""
    command = [sys.executable, "-m", "tests.memory.memory_race", str(tmp_path), str(ROUNDS)]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    assert (done.returncode, done.stderr) == (0, "")
    stats = msgspec.json.decode(done.stdout, type=Stats)
    assert stats.wrong == 0
    assert stats.min_met >= READERS - 1
    assert len(stats.reads) == READERS
    assert sum(stats.reads) >= ROUNDS
    assert 0 < stats.known < sum(stats.reads)


@pytest.mark.parametrize(("seconds", "late"), [(-1, False), (0, False), (1, True)])
def test_a_purge_is_late_from_48_hours_on(seconds: int, late: bool, tmp_path: Path) -> None:
    start = begun(tmp_path / "begun")
    root = laid_out(tmp_path / "root", start)

    def revoke(store: MemoryStore) -> None:
        store.revoke_consent(USER)

    steps = steps_of(lambda files: changed(laid_out(tmp_path / "counted", start), revoke, files)).steps
    clock = Clock(LATER + PURGED_WITHIN + timedelta(seconds=seconds))
    with open_store(root, clock) as other:
        with pytest.raises(Killed):
            changed(root, revoke, DyingFiles(steps - 4))
        sweep = other.expire()
        assert (sweep.finished, sweep.overdue) == (1, int(late))
        assert other.expire().finished == 0


def test_only_what_is_revoked_can_be_late(tmp_path: Path) -> None:
    with open_store(tmp_path, files=UnsyncedFiles()) as store:
        consent = store.grant_consent("u1", EVERYTHING)
    assert not is_overdue(None, START)
    assert not is_overdue(consent, START + timedelta(days=400))
    assert timedelta(hours=48) == PURGED_WITHIN
