"""Copies of a journal without some commits, and replacement of the original by such a copy."""

from collections.abc import Callable, Iterable
from itertools import chain, islice
from pathlib import Path
from typing import Final

from memfin.journal.commits import COMMITS, CommitRecord, entry_of, sound_records
from memfin.journal.disk import Disk, remove_temporaries
from memfin.journal.journal import Journal
from memfin.journal.recovery import OpenFiles, is_row_file

WORKSHOP: Final = ".rewrite"
_COMPLETE: Final = "complete"
_GROUP: Final = 64
"""Commits copied at a time."""


def copy_journal(disk: Disk, source: OpenFiles, records: Iterable[CommitRecord], target: Path) -> None:
    """Write a new journal of the given records with their rows from the source.

    Every file that the source has stands in the target, too, so that none of it can be taken for
    one that belongs to the copy. Checksums of artifacts are copied. ``target`` exists and holds no journal.

    Raises:
        OSError: the file system refuses.
    """
    journal = Journal(target, disk, [name for name in source.rows if source.get(name) is not None])
    try:
        records = iter(records)
        first = next(records, None)
        opened = first is not None and first.kind == "opened"
        journal.create(first.artifacts if first is not None and opened else {})
        rest = records if first is None or opened else chain([first], records)
        entries = (
            entry_of(record, source.read) for record in rest if record.kind != "opened" or record.artifacts
        )
        while group := list(islice(entries, _GROUP)):
            journal.commit(group)
    finally:
        journal.close()


def drop_commits(
    disk: Disk, directory: Path, rows: Iterable[str], dropped: Callable[[CommitRecord], bool]
) -> None:
    """Remove commits from an intact journal with the row files ``rows``.

    Where a replay goes, its judgement has to go with it.
    The journal changes all at once: the copy is complete on the medium before the first file is
    replaced, and `finish_rewrite` completes the replacing after a crash.

    Raises:
        OSError: the file system refuses; `finish_rewrite` completes the work.
    """
    workshop = directory / WORKSHOP
    disk.mkdir(workshop)
    with OpenFiles(disk, directory, rows) as source:
        located = sound_records(source.log_lines(), str(directory / COMMITS))
        records = (each.record for each in located)
        copy_journal(disk, source, (record for record in records if not dropped(record)), workshop)
    disk.write_whole(workshop / _COMPLETE, b"")
    disk.fsync_directory(workshop)
    disk.fsync_directory(directory)
    finish_rewrite(disk, directory)


def finish_rewrite(disk: Disk, directory: Path) -> None:
    """Complete an interrupted replacement, or remove an incomplete copy.

    Raises:
        OSError: the file system refuses; calling this again continues.
    """
    workshop = directory / WORKSHOP
    if not workshop.is_dir():
        return
    complete = (workshop / _COMPLETE).exists()
    rows = [name for name in disk.names(workshop) if is_row_file(name)]
    for name in (*rows, COMMITS):
        if complete and (workshop / name).exists():
            disk.replace(workshop / name, directory / name)
        else:
            disk.unlink(workshop / name)
    disk.fsync_directory(directory)  # before the mark that would have the replacing done again goes
    disk.unlink(workshop / _COMPLETE)
    remove_temporaries(disk, workshop)
    disk.rmdir(workshop)
    disk.fsync_directory(directory)
