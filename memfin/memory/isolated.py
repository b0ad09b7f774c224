"""Memory store in this process's memory, for agents whose memory ends with their dialogue.

It is the same store with the same bytes under the same names. Only the file layer below keeps them in
dictionaries, so nothing has to be synchronised, locked against other processes, or removed.
"""

import os
import weakref
from collections.abc import Iterator, Mapping
from contextlib import AbstractContextManager, nullcontext
from pathlib import Path
from typing import Any, Final

from memfin.memory.files import Files
from memfin.memory.sensitive import refuse_sensitive
from memfin.memory.store import MemoryStore
from memfin.memory.workspace import Clock

ROOT: Final = Path("isolated")
"""The first part of the names of an isolated store's files; there is no such directory."""

_NO_DESCRIPTOR: Final = -1


class _InMemoryFiles(Files):
    """Files that are dictionaries: a directory maps names to contents, None for directories in it."""

    reserves = (0,)

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

    def exclusive(self, path: Path) -> AbstractContextManager[object]:  # noqa: ARG002 - no other process
        return nullcontext()

    def database(self, path: Path) -> str:  # noqa: ARG002 - there is none
        return ":memory:"

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


class IsolatedStore(MemoryStore):
    """A memory store of its own, gone with the object; may begin with the `contents` of another one."""

    def __init__(self, clock: Clock, contents: Mapping[str, bytes] | None = None) -> None:
        self._in_memory = _InMemoryFiles(contents or {})
        super().__init__(ROOT, clock=clock, gate=_refuse_values, files=self._in_memory)
        weakref.finalize(self, self.workspace.close)

    def contents(self) -> dict[str, bytes]:
        """Return every file by its name, sorted."""
        return self._in_memory.contents()


def _refuse_values(texts: Mapping[str, Any], _: str) -> None:
    """Refuse sensitive text in a record; the names of its fields are the layer's own."""
    for name, value in texts.items():
        refuse_sensitive(value, name)
