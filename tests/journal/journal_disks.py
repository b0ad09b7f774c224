"""Disks for tests of the journal: one in memory, and one that fails when it is told to."""

import errno
import os
from pathlib import Path

from memfin.journal.disk import Disk


class MemoryDisk(Disk):
    """Files in memory by name; as much of a disk as recovery needs."""

    def __init__(self, files: dict[str, bytes]) -> None:
        self.files = {name: bytearray(data) for name, data in files.items()}
        self._open: list[str] = []

    def open(self, path: Path, flags: int) -> int:
        if path.name not in self.files:
            if not flags & os.O_CREAT:
                raise FileNotFoundError(errno.ENOENT, "No such file or directory", str(path))
            self.files[path.name] = bytearray()
        self._open.append(path.name)
        return len(self._open) - 1

    def names(self, directory: Path) -> list[str]:
        return sorted(self.files)

    def close(self, descriptor: int) -> None:
        assert self._open[descriptor]

    def read(self, descriptor: int, length: int, offset: int) -> bytes:
        return bytes(self.files[self._open[descriptor]][offset : offset + length])

    def size(self, descriptor: int) -> int:
        return len(self.files[self._open[descriptor]])


class FaultyDisk(Disk):
    """A real disk whose ``fail_at``-th operation fails, counted from 1 over the kinds in ``kinds``.

    A write that fails may have written a half before. ``fail_for_good`` has all later ones fail, too.
    """

    def __init__(
        self,
        fail_at: int,
        code: int = errno.EIO,
        kinds: frozenset[str] = frozenset({"open", "write", "fsync", "replace"}),
        *,
        half: bool = False,
        fail_for_good: bool = False,
    ) -> None:
        self.called: list[str] = []
        self.failed = ""
        self.fail_at = fail_at
        self._code = code
        self._kinds = kinds
        self._half = half
        self._for_good = fail_for_good
        self.opened: set[int] = set()

    def _fails(self, kind: str) -> bool:
        if kind not in self._kinds:
            return False
        self.called.append(kind)
        calls = len(self.called)
        if calls == self.fail_at:
            self.failed = kind
        return calls == self.fail_at or (self._for_good and calls > self.fail_at)

    def _error(self, path: Path | None = None) -> OSError:
        return OSError(self._code, os.strerror(self._code), None if path is None else str(path))

    def open(self, path: Path, flags: int) -> int:
        if self._fails("open"):
            raise self._error(path)
        descriptor = super().open(path, flags)
        self.opened.add(descriptor)
        return descriptor

    def close(self, descriptor: int) -> None:
        super().close(descriptor)
        self.opened.discard(descriptor)

    def write(self, descriptor: int, data: bytes | memoryview) -> int:
        if self._fails("write"):
            if self._half:
                super().write(descriptor, data[: len(data) // 2])
            raise self._error()
        return super().write(descriptor, data)

    def fsync(self, descriptor: int) -> None:
        if self._fails("fsync"):
            raise self._error()
        super().fsync(descriptor)

    def truncate(self, descriptor: int, size: int) -> None:
        if self._fails("truncate"):
            raise self._error()
        super().truncate(descriptor, size)

    def unlink(self, path: Path | str) -> None:
        if self._fails("unlink"):
            raise self._error(Path(path))
        super().unlink(path)

    def mkdir(self, path: Path) -> None:
        if self._fails("mkdir"):
            raise self._error(path)
        super().mkdir(path)

    def rmdir(self, path: Path) -> None:
        if self._fails("rmdir"):
            raise self._error(path)
        super().rmdir(path)

    def replace(self, source: Path, target: Path) -> None:
        if self._fails("replace"):
            raise self._error(target)
        super().replace(source, target)
