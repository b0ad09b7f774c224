"""Directory of one run: locked, written by one thread, committed in groups."""

import asyncio
import errno
from collections.abc import Callable, Iterable, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack, suppress
from pathlib import Path
from types import TracebackType
from typing import Any, Final, ParamSpec, Self, TypeVar

import aiofiles.os
import anyio

from memfin.contracts import DialogCheckpoint, DialogStatus
from memfin.errors import RunFault, UsageError
from memfin.journal.artifacts import FIRST_ARTIFACTS, artifact_checks, artifacts_on_disk
from memfin.journal.checkpoints import TURNS, CheckpointLog
from memfin.journal.commits import COMMITS, Entry
from memfin.journal.disk import (
    APPEND,
    PRIVATE,
    Artifact,
    Disk,
    file_in_the_way,
    file_of_temporary,
    remove_temporaries,
)
from memfin.journal.index import CommitIndex, CommittedDialog, CommittedLines, Piece
from memfin.journal.journal import Journal
from memfin.journal.layout import DATASET, DIALOGUES, Layout
from memfin.journal.lock import LOCK, RunLock
from memfin.journal.recovery import Cut, examine, is_row_file
from memfin.journal.rewrite import drop_commits, finish_rewrite

P = ParamSpec("P")
T = TypeVar("T")

LOGS: Final = "logs"
START_AGAIN: Final = "fix the cause and run the command again"

MIN_FREE: Final = 16 << 20
"""Bytes that must be free on the disk before a run starts."""

_STARTING: Final = (DATASET, *FIRST_ARTIFACTS)
"""Whole files that a run writes before its first row."""

_MISNAMED: Final = frozenset(
    {errno.EEXIST, errno.ENOTDIR, errno.EISDIR, errno.ENAMETOOLONG, errno.ELOOP, errno.EINVAL, errno.ENOENT}
)
"""Errors of the path given by the user, not of the machine."""


def progress_path(runs_dir: Path, run_id: str) -> Path:
    """Return the path of a run's progress log."""
    return runs_dir / LOGS / f"progress_{run_id}.jsonl"


class DirectoryWriter:
    """Writer of the files of one directory, in its own thread, in the order of the calls.

    ``title`` and ``advice`` begin and end the message of a fault; until the first whole file is written the
    advice is to start again, unless the directory is an ``existing`` one. All methods raise `RunFault` where
    the file system refuses.
    """

    def __init__(self, path: Path, title: str, advice: str, disk: Disk | None, *, existing: bool) -> None:
        self.path = path
        self._title = title
        self._advice = advice
        self.existing = existing
        self._begun = existing
        self._disk = disk or Disk()
        self._lock = RunLock(path, self._disk)
        self._writer = ThreadPoolExecutor(max_workers=1, thread_name_prefix="memfin-writer")

    async def write(self, artifacts: Mapping[str, Artifact | None]) -> None:
        """Write whole files by name, one after another, each atomically.

        A content may come in pieces; None in its place removes the file.
        """

        def replace() -> None:
            for name, data in artifacts.items():
                if data is None:
                    self._disk.unlink(self.path / name)
                else:
                    self._disk.write_whole(self.path / name, data)
            self._disk.fsync_directory(self.path)

        await self._finish(replace)
        self._begun = True

    async def _finish(self, operation: Callable[P, T], *args: P.args, **kwargs: P.kwargs) -> T:
        """Run an operation in the writer's thread to its end, even when cancelled."""
        call: Any = aiofiles.os.wrap(operation)
        running: asyncio.Future[T] = asyncio.ensure_future(call(*args, executor=self._writer, **kwargs))
        cancelled: asyncio.CancelledError | None = None
        with anyio.CancelScope(shield=True):
            while not running.done():
                try:
                    await asyncio.wait([running])
                except asyncio.CancelledError as problem:  # of the host's task itself: no scope shields it
                    cancelled = problem
        try:
            result = running.result()
        except OSError as problem:
            raise cancelled or RunFault(self._fault(problem)) from problem
        if cancelled is not None:
            raise cancelled
        return result

    def _fault(self, problem: OSError) -> str:
        name = Path(problem.filename).name if problem.filename else ""
        where = f"{name}: " if name and name != self.path.name else ""
        advice = self._advice if self._begun else START_AGAIN
        return f"{self._title}: {where}{problem.strerror or problem}; {advice}"


class RunDirectory(DirectoryWriter):
    """Commits and whole files of one run; use as an async context manager.

    One thread does all the writing. A write that a cancellation interrupts is finished before
    the cancellation continues: lines are never torn by it, and nothing is written afterwards.

    Attributes:
        path: the directory.
        progress: the progress log.
        committed: the commits of earlier processes; empty for a new run.
        cuts: the bytes cut by recovery.
        begun: number of dialogues that an earlier process left in progress.
        warnings: defects found by recovery that do not prevent the run from continuing.
    """

    def __init__(  # noqa: PLR0913 - each of them stands alone
        self,
        path: Path,
        progress: Path,
        *,
        layout: Layout = DIALOGUES,
        existing: bool = False,
        drop: frozenset[DialogStatus] = frozenset(),
        rejudge: bool = False,
        forget_turns: bool = False,
        artifacts: Mapping[str, bytes] = {},
        advice: str = START_AGAIN,
        disk: Disk | None = None,
    ) -> None:
        """Prepare to create the directory, or to continue an ``existing`` one.

        Dialogues whose status is among ``drop`` are taken out of it first; with ``rejudge`` also the
        judgements of dialogues in which one failed, while their replays stay. With ``forget_turns``
        dialogues that were under way start again from the beginning. ``layout`` names the files of the
        run's suite. ``artifacts`` are the settings and the manifest that the run is about to write, whose
        checksums go into the log, and those on disk where they are left out. ``advice`` ends the message of
        every fault after the run's first artifacts are written.
        """
        super().__init__(path, f"run {path}", advice, disk, existing=existing)
        self.progress = progress
        self.committed = CommitIndex()
        self.cuts: tuple[Cut, ...] = ()
        self.begun = 0
        self.warnings: tuple[str, ...] = ()
        self._layout = layout
        self._drop = drop
        self._rejudge = rejudge
        self._forget_turns = forget_turns
        self._artifacts = artifacts
        self._journal = Journal(path, self._disk, layout.rows, layout.files)
        self._log: int | None = None

    async def __aenter__(self) -> Self:
        """Take the directory's lock; create the directory, or recover its commits.

        Raises:
            UsageError: a run of that name exists, or none where one must be, or another process
                has it, or the place cannot hold a directory.
            JournalDamaged: committed data is missing or changed.
            RunFault: the machine refuses: no space, no permission, an I/O error.
        """
        try:
            await self._finish(self._recover if self.existing else self._create)
        except BaseException:
            with suppress(RunFault):
                if not self.existing and self._log is not None:  # it is made, and the host was cancelled
                    await self.discard()
            with suppress(RunFault):
                await self._close()
            raise
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        """Close all files and release the lock."""
        await self._close()

    def _create(self) -> None:
        try:
            self.path.parent.mkdir(parents=True, exist_ok=True)
            self._check_space(self.path.parent)
            self._disk.mkdir(self.path)
        except FileExistsError as problem:
            if problem.filename != str(self.path):
                raise self._misnamed(problem) from problem
            if not _is_abandoned_start(self._disk, self.path):
                raise self._exists() from None
        except OSError as problem:
            if problem.errno in _MISNAMED:
                raise self._misnamed(problem) from problem
            raise
        try:
            self._take_name()
            self._open_log()
            self._journal.create(artifact_checks(self._artifacts))
        except OSError as problem:
            self._take_back()  # the name stays free
            if problem.errno in _MISNAMED:
                raise self._misnamed(problem) from problem
            raise

    def _open_log(self) -> None:
        """Open the progress log, without an incomplete line of an earlier run with that name."""
        self.progress.parent.mkdir(PRIVATE, parents=True, exist_ok=True)
        self._log = self._disk.open(self.progress, APPEND)
        self._disk.cut_torn_line(self._log)

    def _take_name(self) -> None:
        """Lock the directory, which is new or left by a run that failed to start."""
        try:
            self._lock.acquire()
        except UsageError:
            raise self._exists() from None  # another run was faster
        if not _is_abandoned_start(self._disk, self.path):
            raise self._exists()
        _clear(self._disk, self.path)

    def _exists(self) -> UsageError:
        return UsageError(f"run {self.path}: exists already; choose another name")

    def _take_back(self) -> None:
        """Remove the files of a failed creation, as far as the disk allows."""
        names = (*self._layout.files, COMMITS, TURNS, LOCK)
        for path in (*([] if self._log is None else [self.progress]), *(self.path / name for name in names)):
            with suppress(OSError):
                self._disk.unlink(path)
        with suppress(OSError):
            self._disk.rmdir(self.path)

    def _misnamed(self, problem: OSError) -> UsageError:
        file = file_in_the_way(problem)
        why = f"{file} is no directory" if file else f"{problem.filename}: {problem.strerror or problem}"
        return UsageError(f"run {self.path}: cannot be created: {why}")

    def _check_space(self, path: Path) -> None:
        free = self._disk.free(path)
        if free < MIN_FREE:
            raise OSError(
                errno.ENOSPC,
                f"only {free / (1 << 20):.1f} MiB are free, a run needs {MIN_FREE >> 20} MiB to begin with",
                str(path),
            )

    def _recover(self) -> None:
        if not self.path.is_dir():
            raise UsageError(f"run {self.path}: no such directory")
        if not (self.path / COMMITS).exists():
            raise UsageError(f"run {self.path}: has no {COMMITS}, so its progress is unknown")
        self._lock.acquire()
        self._check_space(self.path)
        remove_temporaries(self._disk, self.path)
        finish_rewrite(self._disk, self.path)
        if self._drop or self._rejudge:
            self._take_out()
        artifacts = artifact_checks({**artifacts_on_disk(self._disk, self.path), **self._artifacts})
        self.committed, self.cuts = self._journal.reopen(artifacts, forget_turns=self._forget_turns)
        self.begun = len(self._journal.turns)
        self.warnings = tuple(
            f"{TURNS}: {damage}; its dialogue continues from an earlier turn"
            for damage in self._journal.turns.damage
        )
        self._open_log()

    def _take_out(self) -> None:
        """Remove the commits to be repeated."""
        found = examine(self._disk, self.path, self._layout.files).committed
        dropped = {dialog.dataset_index for dialog in found if dialog.status in self._drop}
        failed = {dialog.dataset_index for dialog in found if self._rejudge and dialog.judge_failures}
        if dropped:
            self._drop_turns(found)
        if dropped or failed:
            drop_commits(
                self._disk,
                self.path,
                self._layout.files,
                lambda record: (
                    record.dataset_index in dropped
                    or (record.kind == "judged" and record.dataset_index in failed)
                ),
            )

    def _drop_turns(self, found: CommitIndex) -> None:
        """Remove the turns of complete dialogues, which later could be taken for those of dropped ones."""
        turns = CheckpointLog(self.path, self._disk)
        try:
            turns.recover({dialog.dataset_index for dialog in found})
        finally:
            turns.close()

    async def _close(self) -> None:
        try:
            await self._finish(self._close_files)
        finally:
            self._writer.shutdown()  # its thread has nothing left to do and ends at once

    def _close_files(self) -> None:
        with ExitStack() as stack:
            stack.callback(self._lock.release)
            if self._log is not None:
                log, self._log = self._log, None
                stack.callback(self._disk.close, log)
            self._journal.close()

    async def commit(self, entries: Sequence[Entry], begun: Sequence[DialogCheckpoint] = ()) -> None:
        """Commit a group: its rows and their records are on the medium on return.

        ``begun`` are checkpoints of dialogues without an entry, one per dialogue.
        """
        if entries or begun:
            await self._finish(self._journal.commit, entries, begun)

    async def read_checkpoint(self, dataset_index: int) -> DialogCheckpoint | None:
        """Return the checkpoint of a dialogue from an earlier process; None to start from the beginning."""
        if not self.begun:
            return None
        return await self._finish(self._journal.turns.read, dataset_index)

    async def read(self, dialog: CommittedDialog) -> CommittedLines:
        """Return the committed lines of a dialogue."""

        def lines(pieces: Iterable[Piece]) -> list[bytes]:
            found = (self._journal.read(piece).removesuffix(b"\n").split(b"\n") for piece in pieces)
            return [line for lines in found for line in lines]

        rows = [piece for piece in dialog.rows if piece.file in self._layout.rows]
        votes = [piece for piece in dialog.rows if piece.file not in self._layout.rows]
        return await self._finish(lambda: CommittedLines(lines([dialog.trace])[0], lines(rows), lines(votes)))

    async def append_progress(self, lines: Sequence[bytes]) -> None:
        """Append lines, given without line ends, to the progress log in one write.

        Raises:
            RunFault: the file system refused; the run cannot continue.
        """
        if lines:
            await self._finish(self._append_progress, b"\n".join(lines) + b"\n")

    def note(self, lines: Sequence[bytes], limit: float) -> None:
        """Append lines to the progress log from any thread, while the event loop is stuck.

        Waits ``limit`` seconds for it at most. What the writer is busy with comes first; that the
        disk refuses, or the directory is closed, is not reported.
        """
        with suppress(OSError, RuntimeError):  # a time-out is an OSError
            self._writer.submit(self._append_progress, b"\n".join(lines) + b"\n").result(limit)

    def _append_progress(self, data: bytes) -> None:
        if self._log is None:
            raise OSError(errno.EBADF, "the run directory is closed", str(self.progress))
        self._disk.append(self._log, data, self.progress)

    async def discard(self) -> None:
        """Remove the files of this run, which could not start."""
        await self._finish(self._remove)

    def _remove(self) -> None:
        self._disk.unlink(self.progress)
        for name in (*self._layout.artifacts, *self._layout.files, COMMITS, TURNS, LOCK):
            self._disk.unlink(self.path / name)
        self._disk.rmdir(self.path)


def _is_abandoned_start(disk: Disk, directory: Path) -> bool:
    """Return True for a directory that is empty or holds only the first files of a run.

    Without its lock that may change at any moment.

    Raises:
        OSError: the file system refuses.
    """
    if directory.is_symlink() or not directory.is_dir():
        return False
    names = {path.name for path in directory.iterdir()} - {LOCK}
    found = {name for name in names if file_of_temporary(name) not in _STARTING}
    rows = {name for name in found if is_row_file(name)}
    if not found <= {COMMITS, *rows, *_STARTING} or found.issuperset(FIRST_ARTIFACTS):
        return False
    if DATASET in found and COMMITS not in found:  # a run writes the log first: it is someone's own file
        return False
    if any((directory / name).stat().st_size for name in rows):
        return False
    try:
        return COMMITS not in found or not len(examine(disk, directory).committed)
    except UsageError:  # a log that nobody can read is for its owner to judge
        return False


def _clear(disk: Disk, directory: Path) -> None:
    """Remove the files of such a run, except the lock held by the caller.

    Raises:
        OSError: the file system refuses.
    """
    for name in disk.names(directory):
        if name in (COMMITS, *_STARTING) or is_row_file(name):
            disk.unlink(directory / name)
    remove_temporaries(disk, directory)
