"""Sources and replayers of dialogues, and their messages in the pipeline."""

import re
import secrets
from abc import abstractmethod
from collections.abc import Callable, Iterator, Sequence
from functools import partial
from itertools import islice
from pathlib import Path
from typing import Any, BinaryIO, Final, Generic, TypeVar

import msgspec

from memfin.actors.base import Source, Stage
from memfin.actors.channels import Wires, send
from memfin.actors.messages import Commit, encode, utc_now
from memfin.agents.observer import TurnObserver
from memfin.agents.registry import AgentSource
from memfin.agents.replay import Client, DialogLeftError, ReplayOptions, failed_trace, replay_dialog
from memfin.client.errors import EndpointDown
from memfin.client.limiter import StartLimiter
from memfin.contracts import (
    Dialog,
    DialogCheckpoint,
    DialogDone,
    DialogScored,
    DialogStarted,
    DialogTrace,
    Judgement,
    ModelUsage,
    Record,
    RunConfig,
    TurnDone,
    TurnEvalRow,
    TurnReplayed,
    TurnTrace,
)
from memfin.contracts.reading import decode, iter_jsonl
from memfin.dataset import (
    ClientSessions,
    DatasetEntry,
    DatasetIndex,
    align_turn_pairs,
    read_entries,
    unscored_pairs,
)
from memfin.errors import RunFault, UsageError
from memfin.journal import DIALOG_TRACE, JUDGEMENTS, TURN_EVAL, CommittedDialog, CommittedLines, Entry
from memfin.ledger.scoring import stored_facts
from memfin.sandbox.references import describe, one_line
from memfin.sandbox.thread import CallThread
from memfin.scoring.profile import SNAPSHOT_FIELDS, has_known_field
from memfin.scoring.rows import held_dialog, recorded_dialog
from memfin.shards import Shard

E = TypeVar("E")

_OBSERVATION: Final = re.compile(r"(malformed|unknown field of) observation \w+")

_REFERENCE: Final = ("user_turn_abs_idx", "gt_assistant_abs_idx", "gt_assistant_text", "gt_turn_tags")

READ_AHEAD: Final = 4
"""Entries, or traces, read in one visit to the worker thread."""
MAX_UNSCORED: Final = 20
"""Dialogues with unscored turn pairs that a run names, at most."""


class DialogTask(Record):
    """A valid dialogue to replay; ``begun`` is its checkpoint from an earlier process.

    Of a client's session ``done`` is the trace that an earlier process has committed.
    """

    dataset_index: int
    dialog: Dialog
    begun: DialogCheckpoint | None = None
    done: DialogTrace | None = None


class ClientTask(Record):
    """All sessions of a client, in order; at least one is to be replayed."""

    sessions: list[DialogTask]


class DialogResult(Record):
    """A dialogue's trace, with its rows after scoring and an LLM judge's votes after judging.

    ``dialog`` is None for a skipped line of the dataset; that of a simulated client is as it was held.
    ``usage`` is what a language model took, as the replies report it. ``recorded`` is True if the run
    directory has the trace already. ``keys_known`` is False where nothing says what the client's memory keys
    stand for.
    """

    trace: DialogTrace
    dialog: Dialog | None
    retries: int = 0
    abandoned: int = 0
    usage: ModelUsage | None = None
    recorded: bool = False
    rows: list[TurnEvalRow] = []
    judge_failures: int = 0
    judgements: list[Judgement] = []
    keys_known: bool = True

    def commit_trace(self) -> Commit:
        """Return the commit of the trace."""
        entry = Entry(
            "replay",
            self.trace.dataset_index,
            self.trace.dialog_id,
            {DIALOG_TRACE: [encode(self.trace)]},
            status=self.trace.dialog_status,
            retries=self.retries,
            abandoned=self.abandoned,
            usage=self.usage,
        )
        turns = len(self.trace.turns)
        return Commit(entry, turns=max(1, turns), answers=turns)

    def commit_rows(self) -> Commit:
        """Return the commit of the rows and votes."""
        trace = self.trace
        rows = {TURN_EVAL: [*map(encode, self.rows)], JUDGEMENTS: [*map(encode, self.judgements)]}
        index, failures = trace.dataset_index, self.judge_failures
        done = DialogDone(
            ts="",
            run_id=trace.run_id,
            dialog_id=trace.dialog_id,
            status=trace.dialog_status,
            turns=len(trace.turns),
            dataset_index=index,
            skip_reason=trace.skip_reason,
            error=trace.dialog_error,
        )
        entry = Entry("judged", index, trace.dialog_id, rows, judge_failures=failures)
        return Commit(entry, turns=max(1, len(trace.turns)), event=done, completed=self, scored=self.scored)

    def scored(self) -> DialogScored:
        """Return the live event of the committed rows."""
        trace = self.trace
        return DialogScored(ts=utc_now(), run_id=trace.run_id, dialog_id=trace.dialog_id, rows=self.rows)


DialogWires = Wires[DialogTask | ClientTask, DialogResult, DialogResult]


class _FileSource(Source, Generic[E]):
    """Base class of sources that read a file of lines in a thread, a few at a time."""

    def __init__(self, name: str, title: str, path: Path, *outboxes: Any) -> None:
        super().__init__(name, *outboxes)
        self._path = path
        self._title = title
        self._thread = CallThread("memfin-source")

    @abstractmethod
    def _entries(self, file: BinaryIO) -> Iterator[E]:
        """Yield the entries of the file, in the thread."""

    @abstractmethod
    async def _send_entry(self, entry: E) -> None:
        """Send the message of an entry."""

    async def run(self) -> None:
        """Send every entry of the file.

        Raises:
            RunFault: the file cannot be read to its end.
            UsageError: it does not belong to the run.
        """
        call = self._thread.finish
        try:
            file: BinaryIO = await call(lambda: self._path.open("rb"))
            try:
                entries = self._entries(file)
                while batch := await call(lambda: list(islice(entries, READ_AHEAD))):
                    for entry in batch:
                        self._count_received()
                        await self._send_entry(entry)
                        self._count_sent()
            finally:
                file.close()  # at once: a task that is cancelled again while it waits would leave it open
        except OSError as problem:
            raise RunFault(f"{self._title} {self._path}: {problem.strerror or problem}") from problem
        finally:
            self._thread.stop()


class DialogSource(_FileSource[list[DatasetEntry]]):
    """Source of a dataset: valid dialogues to replayers, skipped lines to trace writer and scorer.

    The sessions of a client go together, where the first of their lines stands.

    Of what an earlier process has committed, complete dialogues go to the aggregator, replays without a
    judgement to the scorer, and dialogues under way to the replayers with what is known of them.
    """

    def __init__(self, path: Path, config: RunConfig, wires: DialogWires) -> None:
        self._tasks, self._answered = wires.tasks.sender(), wires.answered.sender()
        self._commits, self._committed = wires.commits.sender(), wires.committed.sender()
        ends = (self._tasks, self._answered, self._commits, self._committed)
        super().__init__("source", "dataset", path, *ends)
        self._run_id = wires.run_id
        self._config = config
        self._shard = None if config.shard is None else Shard.parse(config.shard)
        self._directory = wires.directory
        self._warn = wires.board.warn
        self._met = 0
        self._unscored = 0

    async def run(self) -> None:
        """Send every dialogue; raise `UsageError` if one that the run has committed is missing."""
        await super().run()
        if lost := len(self._directory.committed) - self._met:
            raise UsageError(
                f"dataset {self._path}: has become shorter: {lost} dialogues that the run has "
                "committed are not in it; start a new run"
            )

    def _entries(self, file: BinaryIO) -> Iterator[list[DatasetEntry]]:
        sessions = ClientSessions(file, self._config.limit)
        entries, shard = read_entries(file, self._config.limit), self._shard
        if shard is not None:
            entries = (entry for entry in entries if shard.holds(entry.dataset_index, _user_of(entry)))
        return sessions.batches(entries, file)

    async def _send_entry(self, entry: list[DatasetEntry]) -> None:
        tasks = [task for each in entry if (task := await self._task(each)) is not None]
        if all(task.done is not None for task in tasks):
            return
        alone = tasks[0].dialog.user_id is None
        await send(self._tasks, tasks[0] if alone else ClientTask(sessions=tasks))

    async def _task(self, entry: DatasetEntry) -> DialogTask | None:
        """Return the task of a valid dialogue; send on what needs none, or is done already."""
        index = entry.dataset_index
        if entry.dialog is not None and self._config.client == "simulated":
            entry = entry.replace(dialog=entry.dialog.replace(turns=[]))
        known = self._directory.committed.get(entry.dataset_index)
        if known is not None:
            self._met += 1
            lines = await self._directory.read(known)
            result = await self._thread.finish(recorded_result, entry, known, lines, self._path)
            await send(self._committed if known.judged else self._answered, result)
            if result.dialog is None or result.dialog.user_id is None:
                return None
            return DialogTask(dataset_index=index, dialog=result.dialog, done=result.trace)
        if entry.dialog is not None:
            begun = await self._checkpoint(index, entry.dialog)
            self._warn_unscored(index, entry.dialog)
            return DialogTask(dataset_index=index, dialog=entry.dialog, begun=begun)
        skipped = DialogResult(trace=self._skip_trace(entry), dialog=None)
        await send(self._commits, skipped.commit_trace())
        await send(self._answered, skipped)
        return None

    def _warn_unscored(self, line: int, dialog: Dialog) -> None:
        """Warn of turn pairs without ground truth; of the first dialogues by name."""
        lost = unscored_pairs(dialog)
        self._unscored += lost > 0
        if lost and self._unscored <= MAX_UNSCORED:
            message = f"turn pairs not scored, for want of a reply or of usable turn_tags: {lost}"
            where = f"memfin validate {self._path} says where"
            self._warn(f"{self._path}:{line}: {message}; {where}", dialog.dialog_id)
        elif lost and self._unscored == MAX_UNSCORED + 1:
            self._warn("more dialogues have turn pairs that are not scored; unscored_turn_pairs counts them")

    async def _checkpoint(self, dataset_index: int, dialog: Dialog) -> DialogCheckpoint | None:
        """Return the checkpoint of a dialogue, if it has the same questions; a simulated one has none yet."""
        begun = await self._directory.read_checkpoint(dataset_index) if self._directory.begun else None
        if begun is None or begun.dialog_id != dialog.dialog_id:
            return None
        return begun if not dialog.turns or _is_of(begun.turns, dialog) else None

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


def recorded_result(
    entry: DatasetEntry,
    known: CommittedDialog,
    lines: CommittedLines,
    dataset: Path,
    trace_type: type[DialogTrace] = DialogTrace,
    row_type: type[TurnEvalRow] = TurnEvalRow,
) -> DialogResult:
    """Return a recorded dialogue, checked against its line of the dataset; the types are what is decoded.

    Raises:
        UsageError: the line is another dialogue than the recorded one, or a record is broken.
    """
    trace = decode(lines.trace, trace_type)
    dialog = None if entry.dialog is None else held_dialog(entry.dialog, trace)
    if entry.dialog_id != known.dialog_id or not _is_of(trace.turns, dialog):
        raise UsageError(
            f"dataset {dataset}: line {entry.dataset_index} is not the dialogue "
            f"{known.dialog_id!r} that the run has committed for it; start a new run"
        )
    return DialogResult(
        trace=trace,
        dialog=dialog,
        retries=known.retries,
        abandoned=known.abandoned,
        usage=known.usage,
        recorded=True,
        rows=[decode(row, row_type) for row in lines.rows],
        judge_failures=known.judge_failures,
        judgements=[decode(line, Judgement) for line in lines.judgements],
    )


def _user_of(entry: DatasetEntry) -> str | None:
    return entry.dialog.user_id if entry.dialog is not None else None


def _is_of(turns: Sequence[TurnTrace], dialog: Dialog | None) -> bool:
    """Return True if the turns match the first questions of a dialogue."""
    asked = [turn.user_text for turn in turns]
    there = [pair.user_text for pair in align_turn_pairs(dialog)] if dialog is not None else []
    return asked == there[: len(asked)]


class TraceSource(_FileSource[DialogResult]):
    """Source of recorded traces (``dialog_trace.jsonl``), each with its dialogue; see `with_dialog`."""

    def __init__(self, path: Path, dialogs: DatasetIndex | None, wires: DialogWires) -> None:
        self._outbox, self._commits = wires.answered.sender(), wires.commits.sender()
        super().__init__("trace_source", "trace", path, self._outbox, self._commits)
        self._dialogs = dialogs

    def _entries(self, file: BinaryIO) -> Iterator[DialogResult]:
        for number, trace in iter_jsonl(file, DialogTrace):
            paired, dialog = with_dialog(trace, self._dialogs, f"{self._path}:{number}")
            known = self._dialogs is not None or trace.profile_gt is not msgspec.UNSET
            yield DialogResult(trace=paired, dialog=dialog, keys_known=known)

    async def _send_entry(self, entry: DialogResult) -> None:
        await send(self._commits, entry.commit_trace())
        await send(self._outbox, entry)


def traces_of_run(path: Path, dialogs: DatasetIndex | None) -> Iterator[tuple[DialogTrace, Dialog | None]]:
    """Yield the traces of one run, each with its dialogue; see `with_dialog`.

    Raises:
        UsageError: a trace is broken, of another run than the first, or a dialogue's second one.
    """
    run_id: str | None = None
    seen: set[str] = set()
    for number, trace in iter_jsonl(path, DialogTrace):
        where = f"{path}:{number}"
        run_id = trace.run_id if run_id is None else run_id
        if trace.run_id != run_id:
            raise UsageError(f"{where}: is of run {trace.run_id!r}, the first trace of {run_id!r}")
        if trace.valid_dialog and trace.dialog_id in seen:
            raise UsageError(f"{where}: a second trace of dialogue {trace.dialog_id!r}")
        seen.add(trace.dialog_id if trace.valid_dialog else "")
        yield with_dialog(trace, dialogs, where)


def with_dialog(
    trace: DialogTrace, dialogs: DatasetIndex | None, where: str
) -> tuple[DialogTrace, Dialog | None]:
    """Return a trace and its dialogue, None for a skipped line; without a dataset the trace's own.

    Turns without a reference, as imported ones are, get that of the dataset.

    Raises:
        UsageError: the dataset does not hold the dialogue, or holds another text under its id.
    """
    if not trace.valid_dialog:
        return trace, None
    source = "" if dialogs is None else dialogs.path
    dialog = recorded_dialog(trace) if dialogs is None else dialogs.get(trace.dialog_id)
    if dialog is None:
        raise UsageError(f"{where}: dialogue {trace.dialog_id!r} is not in the dataset {source}")
    dialog = held_dialog(dialog, trace)
    if dialogs is not None and not any(turn.gt_assistant_text for turn in trace.turns):
        pairs = align_turn_pairs(dialog)[: len(trace.turns)]
        known = [
            turn.replace(**{name: getattr(pair, name) for name in _REFERENCE})
            for turn, pair in zip(trace.turns, pairs, strict=False)
        ]
        trace = trace.replace(turns=known + trace.turns[len(known) :])
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
                f"in the dataset {source}; name the dataset that was replayed"
            )
    return trace, dialog


class _Client:
    """State that a client's sessions so far leave to the next one.

    Attributes:
        carried: what the agent of the last session keeps.
        attempt: the ending of the ids of sessions that are held again.
        stored: ids of the facts that the agent's store has held, None where it reports none.
        again: the sessions whose words the agent is to hear again before the next one.
        next: the session after the one under way.
        earlier: the sessions before it.
    """

    def __init__(self) -> None:
        self.carried: bytes | None = None
        self.attempt = ""
        self.stored: list[str] | None = None
        self.again: list[DialogTask] = []
        self.next: DialogTask | None = None
        self.earlier: list[Dialog] = []

    def count(self, dialog: Dialog, trace: DialogTrace) -> None:
        """Add the facts that the store was reported to hold in a session."""
        before = [] if trace.stored_before is msgspec.UNSET else trace.stored_before
        if before or any(turn.memory is not msgspec.UNSET for turn in trace.turns):
            self.stored = sorted({*before, *(self.stored or ()), *stored_facts(dialog, trace)})

    def checkpoint(self) -> DialogCheckpoint | None:
        """Return what the next session begins with, if the agent keeps anything."""
        if self.next is None or self.carried is None:
            return None
        return DialogCheckpoint(
            dataset_index=self.next.dataset_index,
            dialog_id=self.next.dialog.dialog_id,
            turns=[],
            snapshot=b"",
            carried=self.carried,
            attempt=self.attempt,
        )


class Replayer(Stage[DialogTask | ClientTask]):
    """Actor that replays dialogues; ``workers_dialog`` of them share one inbox.

    It holds the sessions of a client one after another. What the agent keeps for the next one is recorded
    before the trace of the session: a session that is done always has left what it had to leave.

    Checkpoints and traces go to the trace writer before anything waits for the scorer or the judge: an
    answered dialogue is durable however slow those are.
    """

    def __init__(
        self,
        worker_id: int,
        agents: AgentSource,
        options: ReplayOptions,
        wires: DialogWires,
        observer_factory: Callable[[], TurnObserver] | None = None,
        starts: StartLimiter | None = None,
        clients: Callable[[Dialog], Client | None] = lambda _: None,
    ) -> None:
        """Prepare; ``clients`` returns the client of a dialogue, None for one that the dataset scripts."""
        self._outbox = wires.answered.sender()
        self._commits, self._events = wires.commits.sender(), wires.events.sender()
        ends = (self._outbox, self._commits, self._events)
        super().__init__(f"replayer-{worker_id}", wires.tasks.receiver(), *ends)
        self._worker_id = worker_id
        self._agents = agents
        self._options = options
        self._board = wires.board
        self._wants = wires.wants
        self._observer_factory = observer_factory
        self._starts = starts
        self._clients = clients
        self._client = _Client()

    async def handle(self, message: DialogTask | ClientTask) -> None:
        """Replay one dialogue, or the sessions of a client."""
        if isinstance(message, ClientTask):
            await self._hold(message.sessions)
            return
        try:
            await self._hear_again()
            replayed = await self._replay(message)
        except DialogLeftError:
            self.leave()
        except EndpointDown as problem:
            self.report_down(problem)
            self.leave()
        else:
            await self._send_entry(replayed)

    async def _hold(self, sessions: Sequence[DialogTask]) -> None:
        """Replay the sessions of a client that are not done, in order."""
        client = self._client = _Client()
        before: DialogTask | None = None
        for place, task in enumerate(sessions):
            begun = None
            if task.done is not None:
                client.count(task.dialog, task.done)
                client.earlier.append(task.dialog)
            else:
                if self.draining:
                    self.leave()
                    return
                client.next = next(iter(sessions[place + 1 :]), None)
                if before is None or before.done is not None:  # else the one before was held just now
                    begun = task.begun
                    if begun is not None:
                        client.carried, client.attempt = begun.carried, begun.attempt
                    elif before is not None:
                        held = zip(sessions[:place], client.earlier, strict=True)
                        client.again = [each.replace(dialog=dialog) for each, dialog in held]
                        client.carried = None
                        client.attempt = f"_again_{secrets.token_hex(4)}"
                begun = begun if begun is not None and begun.turns else None
                await self._handle_or_quarantine(task.replace(begun=begun))
                if self._leaving:
                    return
            before = task
        self._client = _Client()

    async def _hear_again(self) -> None:
        """Hold the client's sessions that are done again, as their agents' memory did not outlive them."""
        again, self._client.again = self._client.again, []
        if not again:
            return
        client, failed = self._client, 0
        self._warn(
            again[-1].dialog,
            f"kept nothing for the next session that would have outlived the interruption, so the client's "
            f"{len(again)} sessions so far are held again for its memory, as user {client.attempt[1:]}; "
            "their traces stay",
        )
        for task in again:
            replay = await replay_dialog(
                task.dialog,
                task.dataset_index,
                self._agents.factory_for(task.dialog),
                self._options.replace(probes="none"),
                carried=client.carried,
                attempt=client.attempt,
                hand_over=True,
                leaving=lambda: self.draining,
                observer_factory=self._observer_factory,
                starts=self._starts,
            )
            failed += sum(turn.turn_status != "ok" for turn in replay.trace.turns)
            client.carried = client.carried if replay.carried is None else replay.carried
        if failed:
            self._warn(again[-1].dialog, f"{failed} turns failed while earlier sessions were held again")

    async def quarantine(self, message: DialogTask | ClientTask, problem: Exception) -> None:
        """Send the dialogue as failed in every turn."""
        if isinstance(message, ClientTask):
            raise problem
        reason = f"could not be replayed, please report this: {describe(problem)}"
        self._warn(message.dialog, reason)
        trace = await failed_trace(
            message.dialog,
            message.dataset_index,
            self._options,
            reason,
            worker_id=self._worker_id,
            client=self._clients(message.dialog),
        )
        await self._send_entry(DialogResult(trace=trace, dialog=held_dialog(message.dialog, trace)))

    async def _send_entry(self, replayed: DialogResult) -> None:
        if (dialog := replayed.dialog) is not None and dialog.user_id is not None:
            client = self._client
            if client.stored is not None:
                replayed = replayed.replace(trace=replayed.trace.replace(stored_before=client.stored))
            client.count(dialog, replayed.trace)
            client.earlier.append(dialog)
            if (begun := client.checkpoint()) is not None:
                await send(self._commits, Commit(checkpoint=begun))
        await send(self._commits, replayed.commit_trace())
        await send(self._outbox, replayed)
        self._sent += 1

    def drain(self) -> None:
        """Start no further turn; the current one may be answered."""
        self.draining = True

    async def _replay(self, task: DialogTask) -> DialogResult:
        dialog = task.dialog

        async def keep(begun: DialogCheckpoint) -> None:
            await send(self._commits, Commit(checkpoint=begun))

        async def go_on(turns: Sequence[TurnTrace], refused: str | None) -> None:
            if refused is not None:
                problem = f"could not continue from its snapshot, so the dialogue restarts: {refused}"
                self._warn(dialog, problem)
            await self._announce(task, len(turns) + 1)

        if task.begun is None:
            await self._announce(task, 1)
        replay = await replay_dialog(
            dialog,
            task.dataset_index,
            self._agents.factory_for(dialog),
            self._options,
            worker_id=self._worker_id,
            on_turn=partial(self._report, dialog.dialog_id),
            on_begun=keep,
            begun=task.begun,
            carried=self._client.carried,
            attempt=self._client.attempt,
            hand_over=self._client.next is not None,
            on_resume=go_on if task.begun is not None else None,
            leaving=lambda: self.draining,
            observer_factory=self._observer_factory,
            starts=self._starts,
            earlier=[(each, self._agents.factory_for(each)) for each in self._client.earlier],
            client=self._clients(dialog),
        )
        for problem, what in (
            ("calls ignored their cancellation and were abandoned", replay.abandoned),
            ("observations came after their turn had ended and were dropped", replay.late_observations),
            ("no snapshot, so an interruption loses turns: ", replay.snapshot_error),
            ("the next session begins with what this one began with: ", replay.carry_error),
        ):
            if what:
                self._warn(dialog, f"{problem}{what}" if isinstance(what, str) else f"{what} {problem}")
        if replay.carried is not None:
            self._client.carried = replay.carried
        for turn in replay.trace.turns:
            self._warn_of_observations(dialog, turn)
        return DialogResult(
            trace=replay.trace,
            dialog=held_dialog(dialog, replay.trace),
            retries=replay.retries,
            abandoned=replay.abandoned,
            usage=replay.usage,
        )

    async def _report(self, dialog_id: str, turn: TurnTrace) -> None:
        done = TurnDone(
            ts=utc_now(),
            run_id=self._options.run_id,
            dialog_id=dialog_id,
            turn_pair_id=turn.turn_pair_id,
            turn_status=turn.turn_status,
            latency_ms=turn.latency_ms,
            error=turn.error,
        )
        await send(self._events, done)
        if self._wants(TurnReplayed):
            replayed = TurnReplayed(
                ts=done.ts,
                run_id=done.run_id,
                dialog_id=dialog_id,
                turn_pair_id=turn.turn_pair_id,
                user_text=turn.user_text,
                reply=turn.pred_assistant_text,
                turn=turn,
            )
            await send(self._events, replayed)

    async def _announce(self, task: DialogTask, first_turn: int) -> None:
        started = DialogStarted(
            ts=utc_now(),
            run_id=self._options.run_id,
            dialog_id=task.dialog.dialog_id,
            dataset_index=task.dataset_index,
            worker_id=self._worker_id,
            turns=len(align_turn_pairs(task.dialog)) or None,
            first_turn=first_turn,
        )
        await send(self._events, started)

    def _warn_of_observations(self, dialog: Dialog, turn: TurnTrace) -> None:
        """Warn, once per kind, of observations left out and of profiles of which M2 reads no field."""
        where = f"agent {self._agents.reference}: turn {turn.turn_pair_id}"
        if turn.observation_error is not msgspec.UNSET:
            kind = _OBSERVATION.match(turn.observation_error)
            self._board.warn_once(
                kind[0] if kind else "observation_error",
                f"{where}: {turn.observation_error}; it is left out and the reply scored, "
                "observation_error in dialog_trace.jsonl has further ones",
                dialog.dialog_id,
            )
        if turn.profile_snapshot and not has_known_field(turn.profile_snapshot):
            self._board.warn_once(
                "profile",
                f"{where}: M2 reads no field of the profile ({one_line(', '.join(turn.profile_snapshot))}); "
                f"it knows {', '.join(SNAPSHOT_FIELDS)}",
                dialog.dialog_id,
            )

    def _warn(self, dialog: Dialog, problem: str) -> None:
        self._board.warn(f"agent {self._agents.reference}: {problem}", dialog.dialog_id)
