"""Writing stages: rows to the run directory, and events to the progress log."""

from collections.abc import Callable, Sequence
from typing import Any, Final

import anyio

from memfin.actors.base import Stage
from memfin.actors.channels import INBOX, Wires, send, waiting
from memfin.actors.messages import Commit, encode, utc_now
from memfin.contracts import DialogScored, LiveEvent, ProgressEvent, RunConfig, RunFinished

SNAPSHOTS: Final = 16 << 20
"""Bytes of agents' snapshots with which a group is closed."""

BATCH: Final = 1024
"""Maximum number of events written at a time."""

LINGER: Final = 0.004
"""Seconds to collect events before they are written."""

OnEvent = Callable[[ProgressEvent], None]


class TraceWriter(Stage[Commit]):
    """Actor that commits answers and judgements in groups, and announces complete ones.

    A group is closed ``fsync_interval`` seconds after its first message, or once it holds ``fsync_turns``
    turns: synchronising the disk costs as much for one dialogue as for many. A slow disk makes the judges and
    the workers wait. Of a dialogue under way the newest checkpoint of a group is recorded, and none if the
    group holds its replay. A cancellation commits the open group and the inbox once, shielded.

    Attributes:
        answers: number of answers written to the journal.
    """

    def __init__(self, config: RunConfig, wires: Wires[Any, Any, Any]) -> None:
        self._outbox, self._events = wires.committed.sender(), wires.events.sender()
        super().__init__("trace_writer", wires.commits.receiver(), self._outbox, self._events)
        self._directory = wires.directory
        self._interval = config.fsync_interval
        self._size = config.fsync_turns
        self._wants = wires.wants
        self._group: list[Commit] = []
        self.answers = 0

    async def handle(self, message: Commit) -> None:
        """Commit a group that begins with the message, and announce its completed dialogues."""
        try:
            await self._gather(message)
            group = await self._write()
        except anyio.get_cancelled_exc_class():
            self._group += waiting(self._messages, INBOX)
            with anyio.CancelScope(shield=True):
                await self._write()
            raise
        self._done += len(group) - 1  # the first is counted by the loop
        for commit in group:
            if commit.event is not None:
                await send(self._events, commit.event.replace(ts=utc_now()))
                if commit.scored is not None and self._wants(DialogScored):
                    await send(self._events, commit.scored())
                await send(self._outbox, commit.completed)
                self._sent += 1

    async def _gather(self, message: Commit) -> None:
        """Fill the group with the message and those that arrive while it is open."""
        room, space = self._size, SNAPSHOTS
        with anyio.move_on_after(self._interval):
            while True:
                self._group.append(message)
                room -= message.turns
                if (begun := message.checkpoint) is not None:
                    space -= len(begun.snapshot) + len(begun.carried or b"")
                if room <= 0 or space <= 0:
                    break
                try:
                    message = self._messages.receive_nowait()
                except anyio.WouldBlock:
                    try:
                        message = await self._messages.receive()
                    except anyio.EndOfStream:
                        break
                except anyio.EndOfStream:
                    break
                self._count_received()

    async def _write(self) -> list[Commit]:
        """Commit the group and return it; the write is completed even when cancelled."""
        group, self._group = self._group, []
        self.answers += sum(commit.answers for commit in group)
        entries = [commit.entry for commit in group if commit.entry is not None]
        replayed = {entry.dataset_index for entry in entries if entry.kind == "replay"}
        checkpoints = [commit.checkpoint for commit in group if commit.checkpoint is not None]
        begun = {each.dataset_index: each for each in checkpoints if each.dataset_index not in replayed}
        await self._directory.commit(entries, list(begun.values()))
        return group


class ProgressLog(Stage[ProgressEvent]):
    """Actor that appends all but live events to the log in order, then calls ``on_event`` with each event.

    Warnings that come up meanwhile, such as that a listener has failed, are taken from the warning board each
    time; they stand before the end of the run, unless only the end has brought them about.
    """

    def __init__(self, wires: Wires[Any, Any, Any], on_event: OnEvent) -> None:
        super().__init__("progress_log", wires.events.receiver())
        self._directory = wires.directory
        self._on_event = on_event
        self._board = wires.board

    async def handle(self, message: ProgressEvent) -> None:
        """Log an event together with those that arrive right after it."""
        await anyio.sleep(LINGER)
        batch = [message, *waiting(self._messages, BATCH - 1)]
        if isinstance(batch[-1], RunFinished):
            await self._enter(batch[:-1])
            await self._enter(batch[-1:], ended=True)
        else:
            await self._enter(batch)
        self._received += len(batch) - 1  # the first is counted by the loop
        self._done += len(batch) - 1

    async def _enter(self, events: Sequence[ProgressEvent], *, ended: bool = False) -> None:
        """Log events and pass them to the listener; those after the end are only logged."""
        await self._log([event for event in events if not isinstance(event, LiveEvent)])
        for event in events:
            self._on_event(event)
        while late := self._board.take():
            await self._log(late)
            for event in () if ended else late:
                self._on_event(event)

    async def _log(self, events: Sequence[ProgressEvent]) -> None:
        if events:
            await self._directory.append_progress([*map(encode, events)])
