"""Sources of dialogues: a dataset to replay, or recorded traces to score without an agent."""

from itertools import islice
from pathlib import Path
from typing import BinaryIO, Final

from memfin.actors.base import Actor
from memfin.actors.channels import Wires, send
from memfin.actors.messages import DialogJudged, DialogReplayed, DialogScored, DialogTask
from memfin.contracts import Dialog, DialogCheckpoint, DialogTrace, Judgement, RunConfig, TurnEvalRow
from memfin.contracts.reading import decode, iter_jsonl, open_input
from memfin.dataset import DatasetEntry, DatasetIndex, read_entries
from memfin.errors import RunFault, UsageError
from memfin.journal import CommittedDialog, CommittedLines
from memfin.sandbox.thread import CallThread

DialogWires = Wires[DialogTask, DialogReplayed, DialogScored, DialogJudged]

READ_AHEAD: Final = 4
"""Entries, or traces, read in one visit to the worker thread."""


class _Reader(Actor[None]):
    def drain(self) -> None:
        """Read no further."""
        self.halt()


class Source(_Reader):
    """Streams a dataset: valid dialogues to the replayers, skipped lines to the trace writer and the scorer.

    Of what an earlier process has committed, complete dialogues go to the aggregator, replays without a
    judgement to the scorer, and dialogues under way to the replayers with what is known of them.
    """

    def __init__(self, path: Path, config: RunConfig, wires: DialogWires) -> None:
        self._tasks, self._replayed = wires.tasks.sender(), wires.answered.sender()
        self._commits, self._committed = wires.commits.sender(), wires.committed.sender()
        ends = (self._tasks, self._replayed, self._commits, self._committed)
        super().__init__("source", None, *ends)
        self._path = path
        self._run_id = wires.run_id
        self._config = config
        self._directory = wires.directory
        self._met = 0
        self._thread = CallThread("memfin-source")

    async def run(self) -> None:
        """Send every entry of the dataset.

        Raises:
            RunFault: the dataset cannot be read to its end.
            UsageError: it is not the one whose replays the run directory holds.
        """
        try:
            await self._read()
        except OSError as problem:
            raise RunFault(f"dataset {self._path}: {problem.strerror or problem}") from problem
        finally:
            self._thread.stop()
        if self._met < len(self._directory.committed):
            lost = len(self._directory.committed) - self._met
            raise UsageError(
                f"dataset {self._path}: has become shorter: {lost} dialogues that the run has "
                "committed are not in it; start a new run"
            )

    async def _read(self) -> None:
        call = self._thread.finish
        file: BinaryIO = await call(lambda: self._path.open("rb"))
        try:
            entries = read_entries(file, self._config.limit)
            while batch := await call(lambda: list(islice(entries, READ_AHEAD))):
                for entry in batch:
                    self._count_received()
                    known = self._directory.committed.get(entry.dataset_index)
                    await (self._send(entry) if known is None else self._send_recorded(entry, known))
                    self._count_sent()
        finally:
            file.close()  # at once: a task that is cancelled again while it waits would leave it open

    async def _send(self, entry: DatasetEntry) -> None:
        if entry.dialog is not None:
            begun = await self._begun(entry.dataset_index, entry.dialog)
            task = DialogTask(dataset_index=entry.dataset_index, dialog=entry.dialog, begun=begun)
            await send(self._tasks, task)
        else:
            skipped = DialogReplayed(trace=self._skip_trace(entry), dialog=None)
            await send(self._commits, skipped.commit())
            await send(self._replayed, skipped)

    async def _begun(self, dataset_index: int, dialog: Dialog) -> DialogCheckpoint | None:
        """Return how far the dialogue came, if that was with the same questions."""
        begun = await self._directory.read_begun(dataset_index) if self._directory.begun else None
        if begun is None or begun.dialog_id != dialog.dialog_id:
            return None
        asked = [turn.user_text for turn in begun.turns]
        return begun if asked == [turn.text for turn in dialog.turns[::2]][: len(asked)] else None

    async def _send_recorded(self, entry: DatasetEntry, known: CommittedDialog) -> None:
        self._met += 1
        lines = await self._directory.read(known)
        message = await self._thread.finish(self._recorded, entry, known, lines)
        if isinstance(message, DialogReplayed):
            await send(self._replayed, message)
        else:
            await send(self._committed, message)

    def _recorded(
        self, entry: DatasetEntry, known: CommittedDialog, lines: CommittedLines
    ) -> DialogReplayed | DialogJudged:
        """Return the recorded dialogue, held against what the dataset has on its line now."""
        trace = decode(lines.trace, DialogTrace)
        dialog = entry.dialog
        asked = [turn.user_text for turn in trace.turns]
        there = [turn.text for turn in dialog.turns[::2]] if dialog is not None else []
        if entry.dialog_id != known.dialog_id or asked != there[: len(asked)]:
            raise UsageError(
                f"dataset {self._path}: line {entry.dataset_index} is not the dialogue "
                f"{known.dialog_id!r} that the run has committed for it; start a new run"
            )
        replayed = DialogReplayed(
            trace=trace,
            dialog=dialog,
            retries=known.retries,
            abandoned=known.abandoned,
            usage=known.usage,
            recorded=True,
        )
        if not known.judged:
            return replayed
        return DialogJudged(
            replayed=replayed,
            rows=[decode(row, TurnEvalRow) for row in lines.rows],
            judge_failures=known.judge_failures,
            judgements=[decode(line, Judgement) for line in lines.judgements],
        )

    def _skip_trace(self, entry: DatasetEntry) -> DialogTrace:
        return DialogTrace(
            trace_version=self._config.trace_version,
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


class TraceSource(_Reader):
    """Streams ``dialog_trace.jsonl``, each trace with its dialogue from the dataset."""

    def __init__(self, path: Path, dialogs: DatasetIndex, wires: DialogWires) -> None:
        self._outbox, self._commits = wires.answered.sender(), wires.commits.sender()
        super().__init__("trace_source", None, self._outbox, self._commits)
        self._path = path
        self._dialogs = dialogs

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
                replays = (self._with_dialog(*line) for line in iter_jsonl(file, DialogTrace))
                while batch := await thread.finish(lambda: list(islice(replays, READ_AHEAD))):
                    for replayed in batch:
                        self._count_received()
                        await send(self._commits, replayed.commit())
                        await send(self._outbox, replayed)
                        self._count_sent()
            finally:
                await thread.finish(file.close)
        except OSError as problem:
            raise RunFault(f"trace {self._path}: {problem.strerror or problem}") from problem
        finally:
            thread.stop()

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
