"""What a run leaves that was killed before it began: a directory in which nothing counts."""

from pathlib import Path
from typing import Final

from memfin.errors import UsageError
from memfin.journal.artifacts import PAPERS
from memfin.journal.commits import COMMITS, ROW_FILES
from memfin.journal.disk import Disk, file_of_temporary
from memfin.journal.entries import remove_temporaries
from memfin.journal.lock import LOCK
from memfin.journal.recovery import examine

_LEFT: Final = frozenset({COMMITS, *ROW_FILES, *PAPERS})


def is_stillborn(disk: Disk, directory: Path) -> bool:
    """Say whether a directory holds nothing but the beginnings of a run, or nothing at all.

    Without its lock that may change at any moment.

    Raises:
        OSError: the file system refuses.
    """
    if directory.is_symlink() or not directory.is_dir():
        return False
    names = {path.name for path in directory.iterdir()} - {LOCK}
    found = {name for name in names if file_of_temporary(name) not in PAPERS}
    if not found <= _LEFT or found.issuperset(PAPERS):
        return False
    if any((directory / name).stat().st_size for name in found.intersection(ROW_FILES)):
        return False
    try:
        return COMMITS not in found or not len(examine(disk, directory).committed)
    except UsageError:  # a log that nobody can read is for its owner to judge
        return False


def clear(disk: Disk, directory: Path) -> None:
    """Remove what a stillborn run has left, all but its lock, which the caller holds.

    Raises:
        OSError: the file system refuses.
    """
    for name in sorted(_LEFT):
        disk.unlink(directory / name)
    remove_temporaries(disk, directory)
