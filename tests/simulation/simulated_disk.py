"""A disk that fails, and a machine that goes off, when they are told to.

Files are real, so that everything reads them as it always does; what a power cut may take is kept in
mind: bytes after the last fsync, names since their directory was synchronised.
"""

import errno
import os
import random
from collections.abc import Callable
from pathlib import Path

from memfin.journal.disk import Disk

FAULTS = (errno.EIO, errno.ENOSPC, errno.EMFILE)


class SimulatedDisk(Disk):
    """Counts operations; the one numbered ``fail_at`` fails, at ``off_at`` the machine goes off.

    Attributes:
        off: the machine is off: nothing reaches the files any more.
        failed: an operation has failed.
        opened: paths by open descriptor.
    """

    def __init__(
        self,
        draw: random.Random,
        *,
        fail_at: int = 0,
        off_at: int = 0,
        go_off: Callable[[], None] = lambda: None,
    ) -> None:
        self.off = False
        self.failed = False
        self.opened: dict[int, Path] = {}
        self._draw = draw
        self._operations = 0
        self._fail_at = fail_at
        self._off_at = off_at
        self._go_off = go_off
        self._synchronised: dict[Path, int] = {}
        self._names: list[tuple[Path, bytes | None]] = []

    def _operation(self, path: Path | None = None) -> bool:
        """Count; return whether the machine goes off within this operation."""
        if self.off:
            raise OSError(errno.EIO, "off", None if path is None else str(path))
        self._operations += 1
        if self._operations == self._fail_at:
            self.failed = True
            code = self._draw.choice(FAULTS)
            raise OSError(code, os.strerror(code), None if path is None else str(path))
        return self._operations == self._off_at

    def _end(self, *, off: bool) -> None:
        if off:
            self.off = True
            self._go_off()
            raise OSError(errno.EIO, "off")

    def open(self, path: Path, flags: int) -> int:
        off = self._operation(path)
        there = path.exists()
        if flags & os.O_CREAT and not there:
            self._names.append((path, None))
        descriptor = super().open(path, flags)
        self.opened[descriptor] = path
        size = os.fstat(descriptor).st_size
        self._synchronised[path] = min(self._synchronised.get(path, size), size)
        if off:
            self.close(descriptor)
        self._end(off=off)
        return descriptor

    def close(self, descriptor: int) -> None:
        del self.opened[descriptor]
        super().close(descriptor)

    def write(self, descriptor: int, data: bytes | memoryview) -> int:
        off = self._operation()
        if off or self._draw.random() < 0.1:
            data = data[: self._draw.randint(1, len(data))]
        written = super().write(descriptor, data)
        self._end(off=off)
        return written

    def fsync(self, descriptor: int) -> None:
        off = self._operation()
        if not off or self._draw.random() < 0.5:
            path = self.opened[descriptor]
            if path.is_dir():
                self._names = [name for name in self._names if name[0].parent != path]
            else:
                self._synchronised[path] = os.fstat(descriptor).st_size
        self._end(off=off)

    def truncate(self, descriptor: int, size: int) -> None:
        off = self._operation()
        super().truncate(descriptor, size)
        path = self.opened[descriptor]
        self._synchronised[path] = min(self._synchronised[path], size)
        self._end(off=off)

    def replace(self, source: Path, target: Path) -> None:
        off = self._operation(target)
        self._names.append((target, target.read_bytes() if target.exists() else None))
        super().replace(source, target)
        self._synchronised[target] = self._synchronised.pop(source)
        self._end(off=off)

    def mkdir(self, path: Path) -> None:
        off = self._operation(path)
        super().mkdir(path)
        self._end(off=off)

    def unlink(self, path: Path | str) -> None:
        off = self._operation(Path(path))
        super().unlink(path)
        self._end(off=off)

    def rmdir(self, path: Path) -> None:
        off = self._operation(path)
        super().rmdir(path)
        self._end(off=off)

    def cut_power(self) -> None:
        """Take away, of what was never synchronised, as much as is drawn."""
        kept = self._draw.randint(0, len(self._names))
        for path, before in reversed(self._names[kept:]):
            if before is None:
                path.unlink(missing_ok=True)
            else:
                path.write_bytes(before)
                self._synchronised[path] = len(before)
        for path, synchronised in self._synchronised.items():
            if not path.is_file():
                continue
            size = path.stat().st_size
            if size <= synchronised:
                continue
            with path.open("r+b") as file:
                file.truncate(self._draw.randint(synchronised, size))
                start = self._draw.randint(synchronised, size)
                if self._draw.random() < 0.3 and start < file.seek(0, os.SEEK_END):
                    file.seek(start)
                    file.write(bytes(min(64, file.seek(0, os.SEEK_END) - start)))
