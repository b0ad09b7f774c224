"""Durable files, writers' locks, disk space reserved for revocations, and staged imports.

A file is written beside its place, synchronised, renamed, and its directory synchronised. The primitives
are those of `memfin.journal.disk.Disk`; a test that overrides them sees, fails or kills every step.
"""

import errno
import hashlib
import logging
import os
import sqlite3
import threading
from collections.abc import Iterator, Mapping
from contextlib import AbstractContextManager, contextmanager, suppress
from pathlib import Path
from typing import ClassVar, Final

from filelock import FileLock

from memfin.journal.disk import Disk
from memfin.memory.paths import Paths, folded

_PRIVATE_FILE: Final = 0o600
SHARDS: Final = 256
POLL: Final = 0.002  # seconds between two attempts to take a lock that another process holds
# Bytes; a revocation or a deletion needs a few blocks at a time, however much it changes in all
RESERVED: Final = 64 * 1024
_FULL: Final = (errno.ENOSPC, errno.EDQUOT)
_LOG: Final = logging.getLogger("memfin.memory")
_STAGED: Final = "staged"
_MISSING: Final = (FileNotFoundError, NotADirectoryError)


def temporary(path: Path) -> Path:
    """Return the fixed path under which a file is written first, so that an erasure finds it."""
    return path.with_name(f".{path.name}.tmp")


class Files(Disk):
    """File operations with private permissions; every method raises `OSError` of the system."""

    reserves: ClassVar[tuple[int, ...]] = tuple(RESERVED >> halvings for halvings in range(4))
    """Sizes of the reserve: all of it or, on a disk that is still nearly full, as much as there is."""

    def open(self, path: Path, flags: int) -> int:
        """Open a file, with the flags of `os.open`; temporary files of killed writers are overwritten."""
        if flags & os.O_EXCL:
            flags = flags & ~os.O_EXCL | os.O_TRUNC
        return os.open(path, flags, _PRIVATE_FILE)

    def temporary(self, path: Path) -> Path:
        """Return the fixed path under which a file is written first."""
        return temporary(path)

    def commit(self, connection: sqlite3.Connection) -> None:
        """Commit the transaction of an index."""
        connection.execute("COMMIT")

    def exclusive(self, path: Path) -> AbstractContextManager[object]:
        """Return the lock of a file, which one process holds at a time."""
        return FileLock(path, poll_interval=POLL, mode=_PRIVATE_FILE)

    def database(self, path: Path) -> str:
        """Return the path of a database for SQLite, whose file is created private."""
        self.touch(path)
        return str(path)

    def touch(self, path: Path) -> None:
        """Create an empty file where there is none."""
        self.close(self.open(path, os.O_RDWR | os.O_CREAT))

    def sync(self) -> None:
        """Synchronise all files written so far to the medium."""
        os.sync()

    def exists(self, path: Path) -> bool:
        """Return True if there is a file or a directory of that name."""
        return path.exists()

    def load(self, path: Path) -> bytes | None:
        """Return the content of a file; None when there is none."""
        try:
            descriptor = os.open(path, os.O_RDONLY)
        except _MISSING:
            return None
        try:
            return self.read(descriptor, self.size(descriptor), 0)
        finally:
            os.close(descriptor)

    def loaded(self, directory: Path) -> Iterator[tuple[str, bytes]]:
        """Yield the JSON files in a directory, name and content, sorted; no temporary ones."""
        for name in self.names(directory):
            if (data := self.load(directory / f"{name}.json")) is not None:
                yield f"{name}.json", data

    def entries(self, directory: Path) -> list[str]:
        """Return all names in a directory, sorted; none where there is no such directory."""
        try:
            with os.scandir(directory) as found:
                return sorted(entry.name for entry in found)
        except _MISSING:
            return []

    def names(self, directory: Path, suffix: str = ".json") -> list[str]:
        """Return the names in a directory with a suffix, sorted and without it; no temporary files."""
        found = self.entries(directory)
        return [name.removesuffix(suffix) for name in found if name.endswith(suffix) and name[0] != "."]

    def strays(self, directory: Path) -> Iterator[Path]:
        """Yield, at any depth, the temporary files that killed writers left behind."""
        for top, directories, names in os.walk(directory, onerror=_unless_missing):
            directories.sort()
            found = (name for name in sorted(names) if name.startswith(".") and name.endswith(".tmp"))
            yield from (Path(top, name) for name in found)

    def save(self, path: Path, data: bytes) -> None:
        """Write a whole file durably, with its missing parent directories."""
        self.make(path.parent)
        self.write_whole(path, data)
        self.fsync_directory(path.parent)

    def make(self, directory: Path) -> None:
        """Create a directory durably, with its missing parents."""
        if directory.is_dir():
            return
        self.make(directory.parent)
        with suppress(FileExistsError):
            self.mkdir(directory)
        self.fsync_directory(directory.parent)

    def remove(self, path: Path) -> None:
        """Remove a file and its temporary file durably, if they exist."""
        if path.parent.is_dir():
            self.unlink(path)
            self.unlink(temporary(path))
            self.fsync_directory(path.parent)

    def remove_tree(self, directory: Path) -> None:
        """Remove a directory with its content durably, if it exists; links are not followed."""
        if directory.is_symlink():
            self.unlink(directory)
        elif directory.is_dir():
            self._empty(directory)
        else:
            return
        self.fsync_directory(directory.parent)

    def _empty(self, directory: Path) -> None:
        for path in sorted(directory.iterdir()):
            if path.is_dir() and not path.is_symlink():
                self._empty(path)
            else:
                self.unlink(path)
        self.rmdir(directory)


def _unless_missing(problem: OSError) -> None:
    if not isinstance(problem, _MISSING):
        raise problem


class Locks:
    """The locks of a data root: one writer per user at a time, across threads and processes.

    Ids that differ only in case share one. Lock files are shared by users, stay empty and are never removed.
    """

    def __init__(self, files: Files, directory: Path) -> None:
        self._files = files
        self._directory = directory
        self._shards = [threading.Lock() for _ in range(SHARDS)]
        self._everyone = threading.Lock()

    def shard_of(self, user_id: str) -> int:
        """Return the number of a user's lock."""
        return hashlib.sha256(folded(user_id).encode()).digest()[0]

    def of_user(self, user_id: str) -> AbstractContextManager[None]:
        """Hold the lock of a user; a thread may hold one at a time."""
        return self.of_shard(self.shard_of(user_id))

    def of_shard(self, shard: int) -> AbstractContextManager[None]:
        """Hold the lock of all users who share it; a thread may hold one at a time."""
        return self._held(self._shards[shard], f"{shard:02x}")

    def of_index(self) -> AbstractContextManager[None]:
        """Hold the lock of building the index."""
        return self._held(self._everyone, "index")

    @contextmanager
    def _held(self, among_threads: threading.Lock, name: str) -> Iterator[None]:
        path = self._directory / f"{name}.lock"
        with among_threads, self._files.exclusive(path):
            yield


class Reserve:
    """A file whose space is released on a full disk, so that consent can still be revoked.

    A revocation writes before it removes, in this space, which is then taken again from the removed files.
    """

    def __init__(self, files: Files, path: Path) -> None:
        self._files = files
        self._path = path

    def keep(self) -> None:
        """Reserve the space, as far as there is any; log a failure."""
        taken = self._files.load(self._path) or b""
        refused = ""
        for size in self._files.reserves:
            if len(taken) >= size:
                return
            try:
                # Bytes that no file system can store in less space than they have.
                self._files.save(self._path, hashlib.shake_256(b"reserve").digest(size))
            except OSError as problem:
                refused = problem.strerror or str(problem)
            else:
                return
        _LOG.warning("memory: no space can be kept for revocations: %s", refused)

    def give_up(self) -> None:
        """Release the space."""
        self._files.remove(self._path)


def is_full(problem: BaseException | None) -> bool:
    """Return True if an error means a full disk or an exhausted quota."""
    if isinstance(problem, sqlite3.Error):
        return getattr(problem, "sqlite_errorcode", None) == sqlite3.SQLITE_FULL
    return isinstance(problem, OSError) and problem.errno in _FULL


def stage(files: Files, paths: Paths, user_id: str, contents: Mapping[Path, bytes]) -> None:
    """Stage the files of an import beside their final paths; the last one commits it.

    Call it and `move_in` under the user's lock and with the user marked, so that the next one finishes it.
    """
    staging = paths.tree("imports", user_id)
    files.remove_tree(staging)
    for path, data in sorted(contents.items()):
        files.save(staging / path.relative_to(paths.root), data)
    files.save(staging / _STAGED, b"")


def move_in(files: Files, paths: Paths, user_id: str) -> None:
    """Finish a committed import, the consent last, or remove the parts of an uncommitted one."""
    staging = paths.tree("imports", user_id)
    if files.exists(staging / _STAGED):
        for place in (*paths.trees(user_id), paths.history(user_id), paths.consent(user_id)):
            staged = staging / place.relative_to(paths.root)
            if files.exists(staged):
                files.make(place.parent)
                files.replace(staged, place)
                files.fsync_directory(place.parent)
        files.remove(staging / _STAGED)
    files.remove_tree(staging)
