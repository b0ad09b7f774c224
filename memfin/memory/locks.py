"""One writer a user at a time, across threads and processes.

Lock files are shared by all users whose ids begin their hash alike, stay empty, and are never removed:
they tell nothing of who was there, also once an account is deleted. Readers take no locks.
"""

import hashlib
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Final

from filelock import FileLock

from memfin.memory.ids import folded

SHARDS: Final = 256
POLL: Final = 0.002
"""Seconds between two attempts to take a lock that another process holds."""


class Locks:
    """The locks of a data root; ids that differ only in case share one."""

    def __init__(self, directory: Path) -> None:
        self._directory = directory
        self._shards = [threading.Lock() for _ in range(SHARDS)]
        self._everyone = threading.Lock()

    def shard_of(self, user_id: str) -> int:
        """Return which lock a user's is."""
        return hashlib.sha256(folded(user_id).encode()).digest()[0]

    @contextmanager
    def of_user(self, user_id: str) -> Iterator[None]:
        """Hold the lock of a user; a thread may hold one at a time."""
        with self.of_shard(self.shard_of(user_id)):
            yield

    @contextmanager
    def of_shard(self, shard: int) -> Iterator[None]:
        """Hold the lock of all users who share it; a thread may hold one at a time."""
        with self._shards[shard], self._file(f"{shard:02x}"):
            yield

    @contextmanager
    def of_index(self) -> Iterator[None]:
        """Hold the lock of building the index."""
        with self._everyone, self._file("index"):
            yield

    def _file(self, name: str) -> FileLock:
        return FileLock(self._directory / f"{name}.lock", poll_interval=POLL, mode=0o600)
