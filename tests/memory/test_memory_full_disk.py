"""A disk that is full, or fails for one person: consent is taken back, and nobody waits for anybody."""

import errno
import logging
import os
import sqlite3
from pathlib import Path

import pytest

from memfin.errors import RunFault
from memfin.memory import MemoryStore
from memfin.memory.files import RESERVED, is_full
from memfin.memory.paths import STATE
from tests.memory.memory_disks import UnsyncedFiles, laid_out, tree
from tests.memory.memory_endings import CHANGES, EXPORTS, LATER, OTHER, USER, begun, changed
from tests.memory.memory_world import EVERYTHING, Clock, open_store, preferences

BLOCK = 4096


class CrowdedFiles(UnsyncedFiles):
    """A file system of whole blocks with room for so many of them."""

    def __init__(self, blocks: int = 0, code: int = errno.ENOSPC) -> None:
        self.blocks = blocks
        self.code = code
        self.full = False

    def write(self, descriptor: int, data: bytes | memoryview) -> int:
        self._take(-(-len(data) // BLOCK))
        return super().write(descriptor, data)

    def mkdir(self, path: Path) -> None:
        self._take(1)
        super().mkdir(path)

    def replace(self, source: Path, target: Path) -> None:
        self._give(target)
        super().replace(source, target)

    def unlink(self, path: Path | str) -> None:
        self._give(Path(path))
        super().unlink(path)

    def rmdir(self, path: Path) -> None:
        self.blocks += 1
        super().rmdir(path)

    def _take(self, blocks: int) -> None:
        if self.full and blocks > self.blocks:
            raise OSError(self.code, os.strerror(self.code))
        self.blocks -= blocks

    def _give(self, path: Path) -> None:
        if path.exists():
            self.blocks += -(-path.stat().st_size // BLOCK)


@pytest.fixture
def root(tmp_path: Path) -> Path:
    return laid_out(tmp_path / "root", begun(tmp_path / "begun"))


def full(root: Path, code: int = errno.ENOSPC) -> tuple[MemoryStore, CrowdedFiles]:
    """Open a store on a disk that has become full since it was opened last."""
    files = CrowdedFiles(code=code)
    store = open_store(root, Clock(LATER), files)
    files.blocks, files.full = 0, True
    return store, files


@pytest.mark.parametrize("code", [errno.ENOSPC, errno.EDQUOT], ids=errno.errorcode.get)
@pytest.mark.parametrize(
    "name", [name for name in CHANGES if name.startswith(("revoke", "delete", "forget"))]
)
def test_consent_is_taken_back_and_accounts_are_deleted_on_a_full_disk(
    name: str, code: int, root: Path, tmp_path: Path
) -> None:
    elsewhere = laid_out(tmp_path / "elsewhere", tree(root, state=True))
    changed(elsewhere, CHANGES[name])
    store, files = full(root, code)
    with store:
        CHANGES[name](store)
        assert tree(root) == tree(elsewhere)
        assert files.blocks >= 0
        assert RESERVED >= (root / STATE / "reserve").stat().st_size >= RESERVED // 2
        store.revoke_consent(OTHER)  # the next one has its space, too
        assert store.read_profile(OTHER) is None
        files.full = False
        store.expire()
        assert (root / STATE / "reserve").stat().st_size == RESERVED


@pytest.mark.parametrize("name", ["first-grant", "grant-anew", "add-item", "update-item", "export"])
def test_the_reserve_is_for_nothing_else(name: str, root: Path) -> None:
    before = tree(root)
    store, files = full(root)
    with store:
        with pytest.raises(RunFault, match="No space left on device"):
            (EXPORTS if name in EXPORTS else CHANGES)[name](store)
        assert (root / STATE / "reserve").exists()
        files.full = False
        store.revoke_consent(OTHER)
    with open_store(root, Clock(LATER)) as healed:
        assert healed.read_profile(USER) is not None
        assert {path: data for path, data in tree(root).items() if USER in path and "out/" not in path} == {
            path: data for path, data in before.items() if USER in path
        }


def test_without_a_reserve_it_is_refused_and_nothing_is_acknowledged(
    root: Path, caplog: pytest.LogCaptureFixture
) -> None:
    (root / STATE / "reserve").unlink()
    files = CrowdedFiles()
    files.full = True
    before = tree(root)
    with caplog.at_level(logging.WARNING), open_store(root, Clock(LATER), files) as store:
        assert "no space can be kept for revocations: No space left on device" in caplog.text
        with pytest.raises(RunFault, match="No space left on device"):
            store.revoke_consent(USER)
        assert tree(root) == before
        files.full = False
        store.expire()
        assert (root / STATE / "reserve").stat().st_size == RESERVED
        store.revoke_consent(USER)
        assert store.read_profile(USER) is None


def test_another_error_is_not_taken_for_a_full_disk(root: Path) -> None:
    store, _ = full(root, errno.EIO)
    with store, pytest.raises(RunFault, match="Input/output error"):
        store.revoke_consent(USER)
    assert (root / STATE / "reserve").exists()


def test_a_full_database_is_a_full_disk(tmp_path: Path) -> None:
    connection = sqlite3.connect(tmp_path / "index.sqlite")
    connection.executescript("PRAGMA max_page_count = 2; CREATE TABLE x (y)")
    with pytest.raises(sqlite3.Error) as refused:
        connection.execute("INSERT INTO x VALUES (zeroblob(1000000))")
    connection.close()
    assert is_full(refused.value)
    assert not is_full(sqlite3.OperationalError("database is locked"))
    assert not is_full(None)


class BrokenFor(UnsyncedFiles):
    """Refuses to remove contexts of some people."""

    def __init__(self, *users: str) -> None:
        self._users = users

    def unlink(self, path: Path | str) -> None:
        parts = Path(path).parts
        if "user_contexts" in parts and any(user in parts for user in self._users):
            raise OSError(errno.EIO, os.strerror(errno.EIO), str(path))
        super().unlink(path)


def test_what_cannot_be_finished_for_one_is_told_and_stops_nobody_else(
    root: Path, caplog: pytest.LogCaptureFixture
) -> None:
    pending = root / STATE / "pending"
    with open_store(root, Clock(LATER), BrokenFor(USER, OTHER)) as store:
        for user_id in (USER, OTHER):
            with pytest.raises(RunFault, match="Input/output error"):
                store.revoke_consent(user_id)
    assert sorted(each.name for each in pending.iterdir()) == [USER, OTHER]
    with caplog.at_level(logging.ERROR), open_store(root, Clock(LATER), BrokenFor(USER)) as store:
        assert caplog.messages == ["memory: an interrupted operation cannot be finished: Input/output error"]
        assert [each.name for each in pending.iterdir()] == [USER]
        assert not (root / "user_contexts" / OTHER / "_profile").exists()
        assert (store.read_profile(USER), store.read_profile(OTHER)) == (None, None)
        store.grant_consent("u3", EVERYTHING, preferences("three"))
        sweep = store.expire()
        assert (sweep.failed, sweep.finished) == (1, 0)
        with pytest.raises(RunFault, match="Input/output error"):
            store.grant_consent(USER, EVERYTHING)
    with open_store(root, Clock(LATER)):
        assert list(pending.iterdir()) == []
        assert not (root / "user_contexts" / USER / "_profile").exists()
