"""The trace source: recorded traces in the place of replays, for scoring without an agent."""

from collections.abc import Iterator
from itertools import islice
from pathlib import Path
from typing import Final

from anyio.streams.memory import MemoryObjectSendStream

from memfin.actors.base import Actor
from memfin.actors.channels import send
from memfin.actors.messages import DialogReplayed, ToScorer, ToWriter
from memfin.contracts import Dialog, DialogTrace
from memfin.contracts.reading import iter_jsonl, open_input
from memfin.dataset import DatasetIndex
from memfin.errors import RunFault, UsageError
from memfin.sandbox.thread import CallThread

READ_AHEAD: Final = 8
"""Traces read in one visit to the worker thread."""


class TraceSource(Actor[None]):
    """Streams ``dialog_trace.jsonl``, each trace with its dialogue from the dataset."""

    def __init__(
        self,
        path: Path,
        dialogs: DatasetIndex,
        *,
        outbox: MemoryObjectSendStream[ToScorer],
        writer: MemoryObjectSendStream[ToWriter],
    ) -> None:
        super().__init__("trace_source", None, outbox, writer)
        self._path = path
        self._dialogs = dialogs
        self._outbox = outbox
        self._writer = writer

    async def run(self) -> None:
        """Send every trace.

        Raises:
            UsageError: a line is no trace, or its dialogue is not in the dataset.
            RunFault: the file cannot be read to its end.
        """
        thread = CallThread("memfin-trace-source")
        try:
            file = await thread.finish(open_input, self._path)
            try:
                traces = iter_jsonl(file, DialogTrace)
                while batch := await thread.finish(self._read, traces):
                    for replayed in batch:
                        self._count_received()
                        await send(self._writer, replayed)
                        await send(self._outbox, replayed)
                        self._done += 1
                        self._sent += 1
            finally:
                await thread.finish(file.close)
        except OSError as problem:
            raise RunFault(f"trace {self._path}: {problem.strerror or problem}") from problem
        finally:
            thread.stop()

    def drain(self) -> None:
        """Read no further."""
        self.halt()

    def _read(self, traces: Iterator[tuple[int, DialogTrace]]) -> list[DialogReplayed]:
        return [self._with_dialog(number, trace) for number, trace in islice(traces, READ_AHEAD)]

    def _with_dialog(self, number: int, trace: DialogTrace) -> DialogReplayed:
        return DialogReplayed(trace=trace, dialog=dialog_of(trace, self._dialogs, f"{self._path}:{number}"))


def dialog_of(trace: DialogTrace, dialogs: DatasetIndex, where: str) -> Dialog | None:
    """Return the dialogue that a trace was made from; None for a skipped line.

    Raises:
        UsageError: the dataset does not hold it, or holds another text under its id.
    """
    if not trace.valid_dialog:
        return None
    dialog = dialogs.get(trace.dialog_id)
    if dialog is None:
        raise UsageError(f"{where}: dialogue {trace.dialog_id!r} is not in the dataset {dialogs.path}")
    for position, turn in enumerate(trace.turns, 1):
        if turn.turn_pair_id != position:
            raise UsageError(
                f"{where}: dialogue {trace.dialog_id!r} has turn {turn.turn_pair_id} "
                f"in place of turn {position}"
            )
        place = turn.user_turn_abs_idx
        if not 0 <= place < len(dialog.turns) or dialog.turns[place].text != turn.user_text:
            raise UsageError(
                f"{where}: turn {turn.turn_pair_id} of dialogue {trace.dialog_id!r} has another text "
                f"in the dataset {dialogs.path}; name the dataset that was replayed"
            )
    return dialog
