"""Space that is kept for the day when the disk is full: taking consent back must not wait for it.

A revocation writes before it removes: the version that it supersedes, the new one, marks on threads. So
does a deletion. Where the disk refuses that, the reserve is given up, they are done in its space, and it
is taken again from what they removed.
"""

import errno
import hashlib
import logging
import sqlite3
from pathlib import Path
from typing import Final

from memfin.memory.files import Files

RESERVED: Final = 64 * 1024
"""Bytes; a revocation or a deletion needs a few blocks at a time, however much it changes in all."""

_SIZES: Final = tuple(RESERVED >> halvings for halvings in range(4))
"""What is taken: all of it or, on a disk that is still nearly full, as much as there is."""

_FULL: Final = (errno.ENOSPC, errno.EDQUOT)
_LOG: Final = logging.getLogger("memfin.memory")


class Reserve:
    """The file of a data root whose space can be given up."""

    def __init__(self, files: Files, path: Path) -> None:
        self._files = files
        self._path = path

    def keep(self) -> None:
        """Take the space, or some more of it; where there is none, say so in the log and go on."""
        taken = self._files.load(self._path) or b""
        refused = ""
        for size in _SIZES:
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
        """Give the space back to the file system."""
        self._files.remove(self._path)


def is_full(problem: BaseException | None) -> bool:
    """Say whether it is for want of space, or of a user's share of it, that the system refused something."""
    if isinstance(problem, sqlite3.Error):
        return getattr(problem, "sqlite_errorcode", None) == sqlite3.SQLITE_FULL
    return isinstance(problem, OSError) and problem.errno in _FULL
