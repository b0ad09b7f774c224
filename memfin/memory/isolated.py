"""A store that lives in this process's memory, for agents whose memory ends with their dialogue.

It is the same store: the same operations, consent, gate and records, and the same bytes under the same
names. Only the file layer below keeps them in dictionaries, so nothing is ever on a disk and nothing
has to be synchronised, locked against other processes, or removed. One thread at a time may use it.
"""

import os
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import AbstractContextManager, nullcontext
from datetime import datetime
from pathlib import Path
from typing import Any, ClassVar, Final

from memfin.memory.files import Files, Locks, Reserve
from memfin.memory.index import Index, TaskRow
from memfin.memory.paths import folded
from memfin.memory.sensitive import refuse_sensitive
from memfin.memory.store import MemoryStore
from memfin.memory.workspace import Clock, Workspace

ROOT: Final = Path("isolated")
"""The first part of the names of an isolated store's files; there is no such directory."""

_NO_DESCRIPTOR: Final = -1


class _InMemoryFiles(Files):
    """Files that are dictionaries: a directory maps names to contents, None for directories in it."""

    def __init__(self, contents: Mapping[str, bytes]) -> None:
        self._directories: dict[str, dict[str, bytes | None]] = {}
        for name, data in contents.items():
            self.save(Path(name), data)

    def contents(self) -> dict[str, bytes]:
        return {
            str(Path(directory, name)): data
            for directory, names in sorted(self._directories.items())
            for name, data in sorted(names.items())
            if data is not None
        }

    def exists(self, path: Path) -> bool:
        return path.name in self._directories.get(str(path.parent), ()) or str(path) in self._directories

    def open(self, path: Path, flags: int) -> int:
        """Create a file when the flags say so; the descriptor is good for nothing but closing."""
        if flags & os.O_CREAT and not self.exists(path):
            self.save(path, b"")
        return _NO_DESCRIPTOR

    def close(self, descriptor: int) -> None:
        pass

    def unlink(self, path: Path | str) -> None:
        path = Path(path)
        self._directories.get(str(path.parent), {}).pop(path.name, None)

    def sync(self) -> None:
        pass

    def fsync_directory(self, path: Path) -> None:
        pass

    def load(self, path: Path) -> bytes | None:
        return self._directories.get(str(path.parent), {}).get(path.name)

    def entries(self, directory: Path) -> list[str]:
        return sorted(self._directories.get(str(directory), ()))

    def strays(self, directory: Path) -> Iterator[Path]:  # noqa: ARG002 - there are none anywhere
        return iter(())

    def save(self, path: Path, data: bytes) -> None:
        self.make(path.parent)
        self._directories[str(path.parent)][path.name] = data

    def make(self, directory: Path) -> None:
        if str(directory) in self._directories:
            return
        self._directories[str(directory)] = {}
        if directory.parent != directory:
            self.make(directory.parent)
            self._directories[str(directory.parent)][directory.name] = None

    def remove(self, path: Path) -> None:
        self.unlink(path)

    def remove_tree(self, directory: Path) -> None:
        for name in self._directories.pop(str(directory), {}):
            self.remove_tree(directory / name)
        self.unlink(directory)


class _NoLocks(Locks):
    """Locks that always are free."""

    def of_shard(self, shard: int) -> AbstractContextManager[None]:  # noqa: ARG002 - all are free
        return nullcontext()

    def of_index(self) -> AbstractContextManager[None]:
        return nullcontext()


class _NoReserve(Reserve):
    """A reserve that takes no space: there is no disk that could be full."""

    def keep(self) -> None:
        pass


class _InMemoryIndex(Index):
    """An index that has nothing to be rebuilt from: the files are as new as it is."""

    def __init__(self, users: Iterable[str]) -> None:
        self.build(users, ())

    def close(self) -> None:
        pass

    def is_built(self) -> bool:
        return True

    def build(self, users: Iterable[str], tasks: Iterable[TaskRow]) -> None:
        self._users = {folded(user_id): user_id for user_id in users}
        self._tasks = {(user_id, context_id): expires_at for user_id, context_id, expires_at in tasks}

    def namesake(self, user_id: str) -> str | None:
        return self._users.get(folded(user_id))

    def claim(self, user_id: str) -> None:
        self._users[folded(user_id)] = user_id

    def users(self) -> list[str]:
        return sorted(self._users.values())

    def expect(self, user_id: str, context_id: str, expires_at: datetime) -> None:
        self._tasks[user_id, context_id] = expires_at

    def expired(self, now: datetime) -> dict[str, list[str]]:
        found: dict[str, list[str]] = {}
        for (user_id, context_id), expires_at in sorted(self._tasks.items()):
            if expires_at <= now:
                found.setdefault(user_id, []).append(context_id)
        return found

    def still_expired(self, user_id: str, context_ids: Sequence[str], now: datetime) -> list[str]:
        due = self.expired(now).get(user_id, ())
        return [context_id for context_id in context_ids if context_id in due]

    def forget(self, contexts: Iterable[tuple[str, str]], now: datetime) -> None:
        for each in contexts:
            if (moment := self._tasks.get(each)) and moment <= now:
                del self._tasks[each]

    def forget_user(self, user_id: str) -> None:
        self._tasks = {each: moment for each, moment in self._tasks.items() if each[0] != user_id}


class _InMemoryWorkspace(Workspace):
    """A workspace without a disk."""

    def open_locks(self) -> Locks:
        return _NoLocks(self.paths.locks)

    def open_reserve(self) -> Reserve:
        return _NoReserve(self.files, self.paths.reserve)

    def open_index(self) -> Index:
        return _InMemoryIndex(self.files.names(self.paths.consents, ".yaml"))


class IsolatedStore(MemoryStore):
    """A memory store of its own, gone with the object; it needs no closing.

    Args:
        clock: gives the time, with its zone.
        contents: the files to begin with, as `contents` of another isolated store returned them.
    """

    workspace_type: ClassVar[type[Workspace]] = _InMemoryWorkspace

    def __init__(self, clock: Clock, contents: Mapping[str, bytes] | None = None) -> None:
        self._in_memory = _InMemoryFiles(contents or {})
        super().__init__(ROOT, clock=clock, gate=_refuse_values, files=self._in_memory)

    def contents(self) -> dict[str, bytes]:
        """Return every file by its name, sorted."""
        return self._in_memory.contents()


def _refuse_values(texts: Mapping[str, Any], _: str) -> None:
    """Refuse sensitive text in a record; the names of its fields are the layer's own."""
    for name, value in texts.items():
        refuse_sensitive(value, name)
