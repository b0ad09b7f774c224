"""File systems for tests of the memory layer: they count, fail, die, are killed, or lose their power.

A step is one change of the file system, or one commit of the index. Every operation of the store is a
sequence of steps, and a test can go through all of them: count once, then end it at each.
"""

import errno
import os
import signal
import sqlite3
import sys
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path
from typing import NamedTuple

from memfin.memory.files import Files
from memfin.memory.paths import STATE, Paths


class Killed(BaseException):
    """The process is gone, as far as its file system can tell."""


class UnsyncedFiles(Files):
    """Does without synchronising: tests that lose no power have no use for it."""

    def fsync(self, descriptor: int) -> None:
        pass

    def sync(self) -> None:
        pass


class CountedFiles(UnsyncedFiles):
    """Counts the steps and keeps their kinds and names."""

    def __init__(self) -> None:
        self.steps: list[tuple[str, str]] = []

    def before(self, kind: str, name: str) -> None:
        self.steps.append((kind, name))

    def open(self, path: Path, flags: int) -> int:
        if flags & os.O_CREAT:
            self.before("open", str(path))
        return super().open(path, flags)

    def write(self, descriptor: int, data: bytes | memoryview) -> int:
        self.before("write", str(descriptor))
        return super().write(descriptor, data)

    def fsync(self, descriptor: int) -> None:
        self.before("fsync", str(descriptor))
        super().fsync(descriptor)

    def replace(self, source: Path, target: Path) -> None:
        self.before("replace", str(target))
        super().replace(source, target)

    def mkdir(self, path: Path) -> None:
        self.before("mkdir", str(path))
        super().mkdir(path)

    def unlink(self, path: Path | str) -> None:
        self.before("unlink", str(path))
        super().unlink(path)

    def rmdir(self, path: Path) -> None:
        self.before("rmdir", str(path))
        super().rmdir(path)

    def commit(self, connection: sqlite3.Connection) -> None:
        self.before("commit", "index")
        super().commit(connection)

    def sync(self) -> None:
        self.before("sync", "all")
        super().sync()


class FailingFiles(CountedFiles):
    """Refuses one step, counted from 1, with an error of the system; all later ones, too, if it is told."""

    def __init__(self, fail_at: int, code: int = errno.EIO, *, for_good: bool = False) -> None:
        super().__init__()
        self.fail_at = fail_at
        self._code = code
        self._for_good = for_good

    def before(self, kind: str, name: str) -> None:
        super().before(kind, name)
        if len(self.steps) == self.fail_at or (self._for_good and len(self.steps) > self.fail_at):
            if kind == "commit":
                raise sqlite3.OperationalError(os.strerror(self._code))
            raise OSError(self._code, os.strerror(self._code), name)


class DyingFiles(CountedFiles):
    """Lets nothing happen from one step on; a write at that step gets half way.

    What the process would still do while it unwinds, it cannot: every step raises.
    """

    def __init__(self, die_at: int) -> None:
        super().__init__()
        self._die_at = die_at

    def before(self, kind: str, name: str) -> None:
        super().before(kind, name)
        if len(self.steps) >= self._die_at:
            raise Killed

    def write(self, descriptor: int, data: bytes | memoryview) -> int:
        if len(self.steps) + 1 == self._die_at:
            os.write(descriptor, data[: len(data) // 2])
        return super().write(descriptor, data)


class SuicidalFiles(CountedFiles):
    """Kills the process, for real, before one step, counted from 1."""

    def __init__(self, kill_at: int) -> None:
        super().__init__()
        self._kill_at = kill_at

    def before(self, kind: str, name: str) -> None:
        super().before(kind, name)
        if len(self.steps) == self._kill_at:
            os.kill(os.getpid(), signal.SIGKILL)


class _Node:
    """A file: what was written to it, and what of that is on the medium."""

    def __init__(self) -> None:
        self.content = b""
        self.durable = b""


class PoweredFiles(CountedFiles):
    """A real disk that knows what would be left of it if the power failed.

    A file keeps what was synchronised; a name is kept, or gone, as its directory was when that was
    synchronised last. `survivors` gives the files of that moment.
    """

    def __init__(self, root: Path, fail_at: int = sys.maxsize) -> None:
        super().__init__()
        self._root = root
        self._fail_at = fail_at
        self._names: dict[str, _Node | None] = {}  # None: a directory
        self._durable: dict[str, _Node | None] = {}
        self._open: dict[int, str] = {}

    def adopt(self, directory: Path) -> None:
        """Take what lies under a directory as it was before, on the medium."""
        for path in (directory, *directory.rglob("*")):
            node = None
            if path.is_file():
                node = _Node()
                node.content = node.durable = path.read_bytes()
            self._names[str(path)] = self._durable[str(path)] = node

    def before(self, kind: str, name: str) -> None:
        super().before(kind, name)
        if len(self.steps) >= self._fail_at:
            raise Killed

    def open(self, path: Path, flags: int) -> int:
        descriptor = super().open(path, flags)
        self._open[descriptor] = str(path)
        if flags & os.O_CREAT and not isinstance(self._names.get(str(path)), _Node):
            self._names[str(path)] = _Node()
        if flags & os.O_TRUNC:
            self._node(str(path)).content = b""
        return descriptor

    def close(self, descriptor: int) -> None:
        super().close(descriptor)
        self._open.pop(descriptor)

    def write(self, descriptor: int, data: bytes | memoryview) -> int:
        written = super().write(descriptor, data)
        self._node(self._open[descriptor]).content += bytes(data[:written])
        return written

    def fsync(self, descriptor: int) -> None:
        super().fsync(descriptor)
        name = self._open[descriptor]
        if isinstance(node := self._names.get(name), _Node):
            node.durable = node.content
            return
        for known in [*self._names, *self._durable]:
            if os.path.dirname(known) == name:  # noqa: PTH120 - plain strings
                if known in self._names:
                    self._durable[known] = self._names[known]
                else:
                    self._durable.pop(known, None)

    def replace(self, source: Path, target: Path) -> None:
        super().replace(source, target)
        self._names[str(target)] = self._names.pop(str(source))

    def mkdir(self, path: Path) -> None:
        super().mkdir(path)
        self._names[str(path)] = None

    def unlink(self, path: Path | str) -> None:
        super().unlink(path)
        self._names.pop(str(path), None)

    def rmdir(self, path: Path) -> None:
        super().rmdir(path)
        self._names.pop(str(path), None)

    def sync(self) -> None:
        super().sync()
        for node in self._names.values():
            if node is not None:
                node.durable = node.content
        self._durable = dict(self._names)

    def survivors(self) -> dict[str, bytes]:
        """Return the files that would be there after the power failed, by path from the root."""
        kept: dict[str, bytes] = {}
        for name, node in self._durable.items():
            path = Path(name)
            above = [str(parent) for parent in path.parents if parent.is_relative_to(self._root)][:-1]
            if node is not None and all(parent in self._durable for parent in above):
                kept[path.relative_to(self._root).as_posix()] = node.durable
        return kept

    def _node(self, name: str) -> _Node:
        node = self._names[name]
        assert node is not None
        return node


class Ending(NamedTuple):
    """How many steps an operation has, and the kinds of them."""

    steps: int
    kinds: list[str]


def steps_of(operation: Callable[[Files], object]) -> Ending:
    """Run an operation on a counting file system."""
    files = CountedFiles()
    operation(files)
    return Ending(len(files.steps), [kind for kind, _ in files.steps])


def tree(root: Path, *, state: bool = False) -> dict[str, bytes]:
    """Return the files under a root by path; those of ``.memfin`` only when asked for."""
    found: dict[str, bytes] = {}
    top = str(root)
    for parent, directories, names in os.walk(top):
        if parent == top and not state and STATE in directories:
            directories.remove(STATE)
        for name in names:
            path = os.path.join(parent, name)  # noqa: PTH118 - called thousands of times
            with suppress(FileNotFoundError):
                found[path[len(top) + 1 :]] = Path(path).read_bytes()
    return dict(sorted(found.items()))


def laid_out(root: Path, files: dict[str, bytes]) -> Path:
    """Write files under a root, with the directories that every root has, and return it."""
    for directory in Paths(root).shared():
        directory.mkdir(parents=True, exist_ok=True)
    for name, data in files.items():
        (root / name).parent.mkdir(parents=True, exist_ok=True)
        (root / name).write_bytes(data)
    return root
