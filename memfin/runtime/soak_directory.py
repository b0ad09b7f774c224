"""Directory of a soak: a lock, one line per epoch, a summary that is renewed, and the epochs below it."""

import shutil
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path
from types import TracebackType
from typing import Any, Final, Self

import msgspec

from memfin.contracts.reading import InvalidRecord, decode, read_json
from memfin.contracts.soak import SoakEpoch, SoakSummary
from memfin.errors import UsageError
from memfin.journal import COMMITS, DATASET, DIALOGUES, Layout, progress_path
from memfin.journal.disk import APPEND, file_in_the_way, remove_temporaries
from memfin.journal.lock import LOCK
from memfin.journal.run_directory import LOGS, DirectoryWriter

SUMMARY: Final = "soak_summary.json"
LINES: Final = "soak.jsonl"
CONFIG: Final = "config.json"
EPOCHS: Final = "epochs"


def epoch_name(epoch: int) -> str:
    """Return the name of an epoch's directory."""
    return f"{epoch:06}"


def epoch_run_id(run_id: str, epoch: int) -> str:
    """Return the run id of an epoch: unlike its directory's name it is one among all runs."""
    return f"{run_id}.{epoch_name(epoch)}"


def is_soak(path: Path) -> bool:
    """Return True if a directory is that of a soak."""
    return (path / SUMMARY).is_file()


class SoakDirectory(DirectoryWriter):
    """Writes the artifacts of a soak; use as an async context manager, which holds the directory's lock.

    All methods raise `RunFault` where the file system refuses. The directories of ``epochs`` are below it.
    """

    def __init__(
        self,
        path: Path,
        run_id: str,
        *,
        layout: Layout = DIALOGUES,
        existing: bool = False,
    ) -> None:
        """Prepare to create the directory, or to continue an ``existing`` one; epochs have a ``layout``."""
        advice = f"fix the cause, then memfin resume {path} goes on"
        super().__init__(path.absolute(), f"soak {path}", advice, None, existing=existing)
        self.epochs = self.path / EPOCHS
        self._run_id = run_id
        self._layout = layout

    def epoch(self, number: int) -> Path:
        """Return the run directory of an epoch."""
        return self.epochs / epoch_name(number)

    async def __aenter__(self) -> Self:
        """Take the lock; create the directory when it is a new one, else cut a line that a crash has torn.

        Raises:
            UsageError: there is one of that name already, or another process has it.
            RunFault: the file system refuses.
        """
        try:
            await self._finish(self._open)
        except BaseException:
            self._lock.release()
            self._writer.shutdown(wait=False)
            raise
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        """Give the lock up; a soak that never wrote its artifacts leaves no directory."""
        try:
            await self._finish(self._close)
        finally:
            self._writer.shutdown(wait=False)

    def _open(self) -> None:
        if self.existing:
            self._lock.acquire()
            remove_temporaries(self._disk, self.path)
            if (lines := self.path / LINES).exists():
                with self._disk.opening(lines, APPEND) as file:
                    self._disk.cut_torn_line(file)
                    self._disk.fsync(file)
            return
        try:
            self.path.parent.mkdir(parents=True, exist_ok=True)
            self._disk.mkdir(self.path)
        except (FileExistsError, NotADirectoryError) as problem:
            in_the_way = file_in_the_way(problem)
            if in_the_way is None or in_the_way == self.path:
                raise UsageError(f"{self._title}: exists already; choose another name") from None
            raise UsageError(f"{self._title}: {in_the_way} is no directory") from None
        try:
            self._lock.acquire()
            self._disk.mkdir(self.epochs)
        except OSError:
            self._discard()
            raise

    def _close(self) -> None:
        if not self._begun:
            self._discard()
        self._lock.release()

    async def discard(self) -> None:
        """Remove the directory: it turned out that the soak could not start."""
        await self._finish(self._discard)

    def _discard(self) -> None:
        for name in (SUMMARY, CONFIG, DATASET, LOCK):
            with suppress(OSError):
                self._disk.unlink(self.path / name)
        for path in (self.epochs / LOGS, self.epochs, self.path):
            with suppress(OSError):
                self._disk.rmdir(path)

    async def append(self, line: SoakEpoch) -> None:
        """Add the line of a complete epoch, short of counts that are 0; it is on the medium on return.

        Raises:
            RunFault: the file system refuses; what was written of the line is taken back.
        """
        path = self.path / LINES
        plain = msgspec.to_builtins(line)
        plain["errors"] = {kind: count for kind, count in plain["errors"].items() if count}
        if not line.resumed:
            del plain["resumed"]

        def append() -> None:
            with self._disk.opening(path, APPEND) as file:
                self._disk.append(file, msgspec.json.encode(plain) + b"\n", path, sync=True)

        await self._finish(append)

    async def prune(self, number: int, *, newest: bool = False) -> None:
        """Remove the directory and the progress log of an epoch, as far as they are there.

        Its line in ``soak.jsonl`` has all that reports and statistics need. The ``newest`` epoch keeps its
        artifacts, which gates read.
        """
        directory = self.epoch(number)

        def remove() -> None:
            if newest:
                for path in directory.iterdir():
                    if path.name not in self._layout.artifacts:
                        self._disk.unlink(path)
            elif directory.exists():
                shutil.rmtree(directory)
            self._disk.unlink(progress_path(self.epochs, epoch_run_id(self._run_id, number)))

        await self._finish(remove)

    def begun(self, number: int) -> bool:
        """Return True if an epoch has a directory with rows or with all of its first artifacts."""
        directory = self.epoch(number)
        artifacts = all((directory / name).is_file() for name in (CONFIG, "run_manifest.json", COMMITS))
        first = directory / self._layout.rows[0]
        return artifacts or (first.is_file() and first.stat().st_size > 0)


def read_epochs(path: Path) -> Iterator[SoakEpoch]:
    """Yield the epochs of a soak's directory in their order, a line at a time.

    Raises:
        UsageError: a line is no epoch, or not the next one.
    """
    lines = path / LINES
    if not lines.exists():
        return
    with lines.open("rb") as file:
        for number, line in enumerate(file, 1):
            try:
                epoch: Any = decode(line, SoakEpoch)
            except InvalidRecord as problem:
                raise UsageError(f"{lines}:{number}: {problem}; the soak cannot go on") from None
            if epoch.epoch != number:
                raise UsageError(
                    f"{lines}:{number}: is epoch {epoch.epoch}, where {number} belongs; the soak cannot go on"
                )
            yield epoch


def read_summary(path: Path) -> SoakSummary:
    """Return the summary of a soak's directory.

    Raises:
        UsageError: it is missing or none.
    """
    return read_json(path / SUMMARY, SoakSummary)
