"""The source: reads the dataset and hands out dialogues as fast as they are taken."""

from itertools import islice
from pathlib import Path
from typing import BinaryIO, Final

import anyio.to_thread
from anyio.streams.memory import MemoryObjectSendStream

from memfin.actors.base import Actor
from memfin.actors.channels import send
from memfin.actors.messages import DialogReplayed, DialogTask, ToScorer
from memfin.contracts import DialogTrace, TraceVersion
from memfin.dataset import DatasetEntry, read_entries
from memfin.errors import RunFault

READ_AHEAD: Final = 4
"""Entries read in one visit to the worker thread."""


class Source(Actor[None]):
    """Streams a dataset: valid dialogues to the replayers, skipped lines straight to the scorer.

    Memory does not grow with the file: at most `READ_AHEAD` entries wait here.
    """

    def __init__(
        self,
        path: Path,
        *,
        run_id: str,
        trace_version: TraceVersion,
        limit: int | None,
        tasks: MemoryObjectSendStream[DialogTask],
        skipped: MemoryObjectSendStream[ToScorer],
    ) -> None:
        super().__init__("source", None)
        self._path = path
        self._run_id = run_id
        self._trace_version = trace_version
        self._limit = limit
        self._tasks = tasks
        self._skipped = skipped

    async def run(self) -> None:
        """Send every entry of the dataset, then close both channels.

        Raises:
            RunFault: the dataset cannot be read to its end.
        """
        async with self._tasks, self._skipped:
            try:
                file: BinaryIO = await anyio.to_thread.run_sync(lambda: self._path.open("rb"))
                try:
                    entries = read_entries(file, self._limit)
                    while batch := await anyio.to_thread.run_sync(lambda: list(islice(entries, READ_AHEAD))):
                        for entry in batch:
                            await self._send(entry)
                finally:
                    file.close()
            except OSError as problem:
                raise RunFault(f"dataset {self._path}: {problem.strerror or problem}") from problem

    async def _send(self, entry: DatasetEntry) -> None:
        self._count_received()
        if entry.dialog is not None:
            await send(self._tasks, DialogTask(dataset_index=entry.dataset_index, dialog=entry.dialog))
        else:
            await send(self._skipped, DialogReplayed(trace=self._skip_trace(entry), dialog=None))
        self._done += 1
        self._sent += 1

    def _skip_trace(self, entry: DatasetEntry) -> DialogTrace:
        return DialogTrace(
            trace_version=self._trace_version,
            run_id=self._run_id,
            dialog_id=entry.dialog_id,
            dataset_index=entry.dataset_index,
            scenario_type=entry.scenario_type,
            difficulty=entry.difficulty,
            dialog_status="skipped",
            valid_dialog=False,
            skip_reason=entry.skip_reason,
            dialog_error=entry.detail,
        )
