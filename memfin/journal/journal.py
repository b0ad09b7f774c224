"""Journal of a run: groups of commits written durably, rows first, then their records."""

import errno
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from functools import partial
from pathlib import Path

from memfin.contracts import DialogCheckpoint
from memfin.journal.checkpoints import TURNS, CheckpointLog
from memfin.journal.commits import COMMITS, Entry, Group, encode_group
from memfin.journal.disk import APPEND, Disk
from memfin.journal.index import CommitIndex, Piece
from memfin.journal.recovery import Cut, examine


class Journal:
    """Writer of commits to a locked run directory; all methods run in one thread.

    They raise `OSError` where the file system refuses.

    When a write or an fsync has failed, the journal takes back what it can of that group and refuses every
    later one: a second fsync may claim success for data that the first has lost.

    Attributes:
        turns: the recorded turns of dialogues in progress.
    """

    def __init__(self, directory: Path, disk: Disk, rows: Sequence[str], files: Sequence[str] = ()) -> None:
        """Prepare; ``rows`` exist from the beginning, ``files`` are all possible files of rows."""
        self._rows = rows
        self._row_files = files
        self._directory = directory
        self._disk = disk
        self._files: dict[str, int] = {}
        self._ends: dict[str, int] = {}
        self._seq = 0
        self._failure: OSError | None = None
        self.turns = CheckpointLog(directory, disk)

    def create(self, artifacts: Mapping[str, str]) -> None:
        """Create the journal of a new run with the checksums of its artifacts; durable on return."""
        for name in (COMMITS, *self._rows):
            self._file(name)
        self.commit([Entry("opened", artifacts=dict(artifacts))])

    def reopen(
        self, artifacts: Mapping[str, str], *, forget_turns: bool = False
    ) -> tuple[CommitIndex, tuple[Cut, ...]]:
        """Continue the journal of an earlier process: cut what was never committed, then append.

        Checksums of ``artifacts`` that it does not hold yet are added to it.
        With ``forget_turns`` dialogues that were under way start again from the beginning.

        Raises:
            JournalDamaged: committed data is missing or changed; nothing was touched.
            UsageError: there is no journal.
            OSError: the file system refuses.
        """
        index, cuts = examine(self._disk, self._directory, self._row_files)
        for cut in cuts:
            file = self._file(cut.file)
            self._disk.truncate(file, cut.keep)
            self._disk.fsync(file)
        self._seq = index.seq
        self._ends = dict(index.ends)
        for name in (COMMITS, *self._rows):
            self._file(name)
        self._ends[COMMITS] = self._disk.size(self._files[COMMITS])
        new = {name: check for name, check in artifacts.items() if check not in index.artifacts.get(name, ())}
        if new or not self._seq:
            self.commit([Entry("opened", artifacts=new)])
        if forget_turns:
            self.turns.forget()
        self.turns.recover({dialog.dataset_index for dialog in index})
        return index, cuts

    def commit(self, entries: Sequence[Entry], begun: Sequence[DialogCheckpoint] = ()) -> None:
        """Write a group of commits; all of them are on the medium on return.

        ``begun`` are checkpoints of dialogues without an entry, one per dialogue.
        """
        if self._failure is not None:
            raise OSError(self._failure.errno, self._failure.strerror, self._failure.filename)
        group = encode_group(entries, self._seq + 1, self._ends)
        written: list[str] = []
        try:
            self._write(group, written, begun)
        except OSError as problem:
            self._failure = problem
            self._take_back(written)
            raise
        for name, data in (*group.data.items(), (COMMITS, group.log)):
            self._ends[name] = self._ends.get(name, 0) + len(data)
        self._seq += len(group.records)
        if self.turns:
            self.turns.release(entry.dataset_index for entry in entries if entry.kind == "replay")

    def _write(self, group: Group, written: list[str], begun: Sequence[DialogCheckpoint]) -> None:
        """Write rows before records, so that a record on the medium proves that its rows are, too."""
        if not self._disk.is_at(self._file(COMMITS), self._directory / COMMITS):
            path = str(self._directory / COMMITS)
            raise OSError(errno.ENOENT, "was removed or replaced during the run", path)
        if begun:
            with self._naming(TURNS):
                self.turns.append(begun)
        if not group.records:
            return
        for files in (group.data, {COMMITS: group.log}):
            for name, data in files.items():
                written.append(name)
                file = self._file(name)
                with self._naming(name):
                    self._disk.write_all(file, data)
            for name in files:
                with self._naming(name):
                    self._disk.fsync(self._files[name])
        if not self._seq:
            self._disk.fsync_directory(self._directory)

    @contextmanager
    def _naming(self, name: str) -> Iterator[None]:
        """Add the name of the file to every `OSError`."""
        try:
            yield
        except OSError as problem:
            raise OSError(problem.errno, problem.strerror, str(self._directory / name)) from problem

    def _take_back(self, written: Sequence[str]) -> None:
        """Cut this group's records and incomplete lines, as far as the disk allows.

        Rows are cut only while there is no record of them: should cutting the log fail, what it
        says must stay true.
        """
        for name in [COMMITS] if COMMITS in written else written:
            if name in self._files:
                with suppress(OSError):
                    self._disk.truncate(self._files[name], self._ends.get(name, 0))

    def _file(self, name: str) -> int:
        """Return the open file; the name of a new one is synchronised to the medium first."""
        if name not in self._files:
            self._files[name] = self._disk.open(self._directory / name, APPEND)
            if self._seq:
                self._disk.fsync_directory(self._directory)
        return self._files[name]

    def read(self, piece: Piece) -> bytes:
        """Return committed rows.

        Raises:
            OSError: the file cannot be read, or has shrunk since it was examined.
        """
        name, offset, length = piece
        data = self._disk.read(self._file(name), length, offset)
        if len(data) < length:
            raise OSError(errno.EIO, "has shrunk during the run", str(self._directory / name))
        return data

    def close(self) -> None:
        """Close all files.

        Raises:
            OSError: the first that was refused; the others are closed nevertheless.
        """
        closing: dict[str, Callable[[], None]] = {
            name: partial(self._disk.close, file) for name, file in self._files.items()
        }
        self._files.clear()
        failure: OSError | None = None
        for name, close in {**closing, TURNS: self.turns.close}.items():
            try:
                with self._naming(name):
                    close()
            except OSError as problem:
                failure = failure or problem
        if failure is not None:
            raise failure
