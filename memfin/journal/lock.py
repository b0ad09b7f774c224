"""Lock of a run directory, for one run at a time across processes."""

import fcntl
import os
import time
from pathlib import Path
from typing import Final

from memfin.errors import UsageError
from memfin.journal.disk import Disk

LOCK: Final = ".lock"


_MOMENT: Final = 0.05
"""Seconds for a look of `is_locked` to pass."""


def is_locked(path: Path) -> bool:
    """Return True if a process holds the lock in a file; a look takes microseconds."""
    try:
        descriptor = os.open(path, os.O_RDONLY | os.O_NONBLOCK | os.O_NOFOLLOW)
    except OSError:
        return False
    try:
        fcntl.flock(descriptor, fcntl.LOCK_SH | fcntl.LOCK_NB)
    except BlockingIOError:
        return True
    finally:
        os.close(descriptor)
    return False


class RunLock:
    """Lock of a run directory, held from `acquire` to `release`.

    The operating system releases the lock at the end of the process; the file stays and has no meaning.
    Within one process a second lock of the directory is refused, too.
    """

    def __init__(self, directory: Path, disk: Disk) -> None:
        self._directory = directory
        self._disk = disk
        self._descriptor: int | None = None

    def acquire(self) -> None:
        """Take the lock.

        Raises:
            UsageError: another run has it.
            OSError: the directory is not there or cannot be written.
        """
        disk = self._disk
        descriptor = disk.open(self._directory / LOCK, os.O_RDWR | os.O_CREAT)
        try:
            if not self._locked(descriptor):
                holder = disk.read(descriptor, 20, 0).strip()
                process = f"process {int(holder)}" if holder.isdigit() else "another run"
                raise UsageError(  # noqa: TRY301 - one handler closes the file
                    f"run {self._directory}: is in use by {process}; wait for it to end, or stop it first"
                )
            disk.truncate(descriptor, 0)
            disk.write_all(descriptor, b"%d\n" % os.getpid())
        except BaseException:
            disk.close(descriptor)
            raise
        self._descriptor = descriptor

    def _locked(self, descriptor: int) -> bool:
        if self._disk.lock(descriptor):
            return True
        time.sleep(_MOMENT)
        return self._disk.lock(descriptor)

    def release(self) -> None:
        """Release the lock if it is held."""
        if self._descriptor is not None:
            descriptor, self._descriptor = self._descriptor, None
            self._disk.close(descriptor)
