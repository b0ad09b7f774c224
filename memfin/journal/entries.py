"""Foreign entries of a run directory: links that somebody has planted, files that a crash has left."""

import os
from pathlib import Path

from memfin.errors import UsageError
from memfin.journal.disk import LINK, Disk, file_of_temporary


def refuse_links(directory: Path) -> None:
    """Refuse a directory that holds anything but regular files and directories.

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


def remove_temporaries(disk: Disk, directory: Path) -> None:
    """Remove what a crash has left of files that were to take the place of others.

    Raises:
        OSError: the file system refuses.
    """
    for name in sorted(os.listdir(directory)):  # noqa: PTH208 - names alone
        if file_of_temporary(name) is not None:
            disk.unlink(directory / name)
