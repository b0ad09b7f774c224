"""The directory of one run: its files, written by one thread, complete lines only."""

import os
from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import AsyncExitStack, suppress
from pathlib import Path
from types import TracebackType
from typing import Final, ParamSpec, Self, TypeVar

import aiofiles
import aiofiles.os
import anyio
from aiofiles.threadpool.binary import AsyncFileIO

from memfin.errors import RunFault, UsageError

P = ParamSpec("P")
T = TypeVar("T")

DIALOG_TRACE: Final = "dialog_trace.jsonl"
TURN_EVAL: Final = "turn_eval.jsonl"
LOGS: Final = "logs"
OWN_PAPERS: Final = ("config.json", "metrics_summary.json", "run_manifest.json", "run_stats.json")
"""The whole files that a run writes besides its rows."""


def progress_path(runs_dir: Path, run_id: str) -> Path:
    """Return where the progress log of a run stands."""
    return runs_dir / LOGS / f"progress_{run_id}.jsonl"


class RunDirectory:
    """Appends rows and writes whole files of one run; use as an async context manager.

    One thread does all the writing. A write that a cancellation interrupts is finished before
    the cancellation goes on: lines are never torn by it, and nothing is written afterwards.
    """

    def __init__(self, path: Path, progress: Path) -> None:
        self.path = path
        self.progress = progress
        self._writer = ThreadPoolExecutor(max_workers=1, thread_name_prefix="memfin-writer")
        self._files: dict[str, AsyncFileIO] = {}

    async def __aenter__(self) -> Self:
        """Create the directory and open its row files.

        Raises:
            UsageError: a run of that name exists, or the place cannot be written.
        """
        try:
            await self._create()
        except BaseException as problem:
            with suppress(RunFault):
                await self._close()
            if isinstance(problem, OSError):
                raise UsageError(
                    f"run {self.path}: cannot be created: {problem.filename}: {problem.strerror or problem}"
                ) from problem
            raise
        return self

    async def _create(self) -> None:
        await aiofiles.os.makedirs(self.path.parent, exist_ok=True, executor=self._writer)
        try:
            await aiofiles.os.mkdir(self.path, executor=self._writer)
        except FileExistsError:
            raise UsageError(f"run {self.path}: exists already; choose another name") from None
        try:
            await aiofiles.os.makedirs(self.progress.parent, exist_ok=True, executor=self._writer)
        except OSError:
            await aiofiles.os.rmdir(self.path, executor=self._writer)  # the name stays free
            raise
        for name, path in (
            (DIALOG_TRACE, self.path / DIALOG_TRACE),
            (TURN_EVAL, self.path / TURN_EVAL),
            ("progress", self.progress),
        ):
            self._files[name] = await aiofiles.open(path, "ab", buffering=0, executor=self._writer)

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        """Close the row files."""
        await self._close()

    async def _close(self) -> None:
        async with AsyncExitStack() as closing:  # every file, although the first may fail to close
            closing.callback(self._writer.shutdown, wait=False)
            for file in self._files.values():
                closing.push_async_callback(self._finish, file.close)

    async def append(self, name: str, lines: Sequence[bytes]) -> None:
        """Append complete lines to a row file in one write; each gets its line end here.

        Raises:
            RunFault: the file system refused; the run cannot go on.
        """
        if lines:
            await self._finish(self._append_all, self._files[name], b"\n".join(lines) + b"\n")

    async def _append_all(self, file: AsyncFileIO, data: bytes) -> None:
        """Write to an unbuffered file until everything is written: one thread visit as a rule.

        Lines that did not fit are taken back, so that the file ends with a complete one.
        """
        rest = memoryview(data)
        try:
            while rest:
                rest = rest[await file.write(rest) :]
        except OSError:
            if written := len(data) - len(rest):
                await file.truncate(await file.tell() - written)
            raise

    async def append_progress(self, lines: Sequence[bytes]) -> None:
        """Append complete lines to the progress log; raises as `append` does."""
        await self.append("progress", lines)

    async def write(self, name: str, data: bytes) -> None:
        """Write a whole file so that readers see the old or the new content, nothing between.

        Raises:
            RunFault: the file system refused.
        """

        async def replace() -> None:
            temporary = self.path / f".{name}.tmp"
            async with aiofiles.open(temporary, "wb", executor=self._writer) as file:
                await file.write(data)
                await file.flush()
                await aiofiles.os.wrap(os.fsync)(file.fileno(), executor=self._writer)
            await aiofiles.os.replace(temporary, self.path / name, executor=self._writer)

        await self._finish(replace)

    async def discard(self) -> None:
        """Remove what this run has written: it turned out that it could not start."""

        def remove() -> None:
            self.progress.unlink(missing_ok=True)
            for name in (DIALOG_TRACE, TURN_EVAL, *OWN_PAPERS):
                (self.path / name).unlink(missing_ok=True)
            self.path.rmdir()

        await self._finish(aiofiles.os.wrap(remove), executor=self._writer)

    async def _finish(self, operation: Callable[P, "object"], *args: P.args, **kwargs: P.kwargs) -> None:
        """Run one file operation to its end, cancelled or not."""
        try:
            with anyio.CancelScope(shield=True):
                await operation(*args, **kwargs)  # type: ignore[misc] # every operation here is awaitable
        except OSError as problem:
            raise RunFault(
                f"run {self.path}: {problem.strerror or problem}; free the cause and start the run again"
            ) from problem
