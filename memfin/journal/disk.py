"""File operations of the journal, the interface to the operating system."""

import errno
import fcntl
import os
import re
import secrets
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Final

from memfin.errors import UsageError

APPEND: Final = os.O_RDWR | os.O_CREAT | os.O_APPEND
CREATE: Final = os.O_WRONLY | os.O_CREAT | os.O_EXCL
_PIECE: Final = 1 << 20
_STEP: Final = 1 << 16
_READ_AND_WRITE: Final = 0o666
_TEMPORARY: Final = re.compile(r"\.(?P<name>.+?)(?:\.[0-9a-f]{16})?\.tmp")

LINK: Final = "is a symbolic link, which is not followed in a run directory"

PRIVATE: Final = 0o700
"""Mode of a new directory, private to the user."""

Artifact = bytes | Iterator[bytes]
"""Content of a whole file, at once or in pieces."""


class Disk:
    """File system of the journal; every method raises `OSError` of the system.

    Descriptors are plain numbers that child processes do not inherit through ``exec``. A test of
    what happens under faults overrides single methods.
    """

    def open(self, path: Path, flags: int) -> int:
        """Open a file with the flags of `os.open` and return its descriptor.

        A symbolic link is refused, unless a directory is asked for, which the user has named. A new file is
        open to those to whom its directory is.
        """
        if not flags & os.O_DIRECTORY:
            flags |= os.O_NOFOLLOW
        try:
            mode = path.parent.stat().st_mode & _READ_AND_WRITE if flags & os.O_CREAT else 0
            return os.open(path, flags, mode)
        except OSError as problem:
            if problem.errno == errno.ELOOP and path.is_symlink():
                raise OSError(errno.ELOOP, LINK, str(path)) from problem
            raise

    @contextmanager
    def opening(self, path: Path, flags: int) -> Iterator[int]:
        """Open a file for a ``with`` block as `open` does."""
        descriptor = self.open(path, flags)
        try:
            yield descriptor
        finally:
            self.close(descriptor)

    def close(self, descriptor: int) -> None:
        """Close a descriptor."""
        os.close(descriptor)

    def write(self, descriptor: int, data: bytes | memoryview) -> int:
        """Write data and return the number of bytes written, which may be fewer."""
        return os.write(descriptor, data)

    def read(self, descriptor: int, length: int, offset: int) -> bytes:
        """Return up to ``length`` bytes from ``offset``; fewer only at the end of the file."""
        pieces: list[bytes] = []
        while length and (piece := os.pread(descriptor, min(length, _PIECE), offset)):
            pieces.append(piece)
            offset += len(piece)
            length -= len(piece)
        return b"".join(pieces)

    def size(self, descriptor: int) -> int:
        """Return the size of an open file in bytes."""
        return os.fstat(descriptor).st_size

    def fsync(self, descriptor: int) -> None:
        """Synchronise an open file to the medium."""
        os.fsync(descriptor)

    def truncate(self, descriptor: int, size: int) -> None:
        """Cut a file."""
        os.ftruncate(descriptor, size)

    def names(self, directory: Path) -> list[str]:
        """Return the names in a directory, in order."""
        return sorted(os.listdir(directory))  # noqa: PTH208 - names alone

    def replace(self, source: Path, target: Path) -> None:
        """Rename a file, replacing an existing one."""
        source.replace(target)

    def mkdir(self, path: Path) -> None:
        """Create a new private directory."""
        path.mkdir(PRIVATE)

    def unlink(self, path: Path | str) -> None:
        """Remove a file if it exists; strings as paths are faster for many files."""
        with suppress(FileNotFoundError):
            os.unlink(path)  # noqa: PTH108 - the same

    def rmdir(self, path: Path) -> None:
        """Remove an empty directory."""
        path.rmdir()

    def lock(self, descriptor: int) -> bool:
        """Lock an open file exclusively; return False if another descriptor holds the lock.

        The lock belongs to the open file, so a second one within the same process is refused, too,
        and ends with the last descriptor, so that no process that died can hold it.
        """
        try:
            fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            return False
        return True

    def free(self, path: Path) -> int:
        """Return the free bytes for this user on the file system of a path."""
        state = os.statvfs(path)
        return state.f_bavail * state.f_frsize

    def is_at(self, descriptor: int, path: Path) -> bool:
        """Return True if the open file is still the one with that name."""
        try:
            there = path.lstat()
        except FileNotFoundError:
            return False
        here = os.fstat(descriptor)
        return (here.st_dev, here.st_ino) == (there.st_dev, there.st_ino)

    def write_all(self, descriptor: int, data: bytes) -> None:
        """Write all of the data, in as many writes as needed."""
        rest = memoryview(data)
        while rest:
            written = self.write(descriptor, rest)
            if not written:
                raise OSError(5, "the file system takes no more bytes")
            rest = rest[written:]

    def append(self, descriptor: int, data: bytes, path: Path, *, sync: bool = False) -> None:
        """Append all of the data to a file, or truncate it to its former size."""
        size = self.size(descriptor)
        try:
            self.write_all(descriptor, data)
            if sync:
                self.fsync(descriptor)
        except OSError as problem:
            with suppress(OSError):
                self.truncate(descriptor, size)
            raise OSError(problem.errno, problem.strerror, str(path)) from problem

    def cut_torn_line(self, descriptor: int) -> None:
        """Cut an incomplete last line, left by a crash."""
        size = end = self.size(descriptor)
        found = -1
        while end and found < 0:
            start = max(0, end - _STEP)
            found = self.read(descriptor, end - start, start).rfind(b"\n")
            end = start + found + 1
        if end < size:
            self.truncate(descriptor, end)

    def fsync_directory(self, path: Path) -> None:
        """Synchronise the names in a directory to the medium."""
        with self.opening(path, os.O_RDONLY | os.O_DIRECTORY) as descriptor:
            self.fsync(descriptor)

    def temporary(self, path: Path) -> Path:
        """Return the path for writing a file before it is renamed."""
        return temporary_path(path)

    def write_whole(self, path: Path, data: Artifact) -> None:
        """Write a whole file atomically: readers see the old or the new content.

        The content, which may come in pieces, is on the medium then; the name is once its directory is
        synchronised.
        """
        temporary = self.temporary(path)
        try:
            with self.opening(temporary, CREATE) as descriptor:
                for piece in (data,) if isinstance(data, bytes) else data:
                    self.write_all(descriptor, piece)
                self.fsync(descriptor)
            self.replace(temporary, path)
        except BaseException as problem:  # what yields the pieces may fail, too
            with suppress(OSError):
                self.unlink(temporary)
            if isinstance(problem, OSError):
                raise OSError(problem.errno, problem.strerror, str(path)) from problem
            raise


def temporary_path(path: Path) -> Path:
    """Return a new random path beside a file, for its replacement."""
    return path.with_name(f".{path.name}.{secrets.token_hex(8)}.tmp")


def file_of_temporary(name: str) -> str | None:
    """Return the name of the file that a temporary one replaces; None for any other name."""
    found = _TEMPORARY.fullmatch(name)
    return None if found is None else found["name"]


def refuse_links(directory: Path) -> None:
    """Refuse a directory with anything but regular files and directories.

    MemFin creates no links there, and in a directory from somebody else one could lead anywhere.

    Raises:
        UsageError: there is one; the message names it.
        OSError: the directory cannot be read.
    """
    with os.scandir(directory) as entries:
        for entry in entries:
            if entry.is_symlink():
                raise UsageError(f"{entry.path}: {LINK}; put the file itself there")
            if not entry.is_file() and not entry.is_dir():
                raise UsageError(f"{entry.path}: is no regular file; remove it")


def file_in_the_way(problem: OSError) -> Path | None:
    """Return the file that stands where a directory is needed, None if the error has another cause."""
    if not isinstance(problem, FileExistsError | NotADirectoryError) or problem.filename is None:
        return None
    path = Path(problem.filename)
    return next((each for each in (path, *path.parents) if each.exists() and not each.is_dir()), None)


def remove_temporaries(disk: Disk, directory: Path) -> None:
    """Remove temporary files left by a crash.

    Raises:
        OSError: the file system refuses.
    """
    for name in disk.names(directory):
        if file_of_temporary(name) is not None:
            disk.unlink(directory / name)
