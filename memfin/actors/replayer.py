"""The replayers: each takes dialogues one after another and replays them against a fresh agent."""

from collections.abc import Callable, Sequence

from memfin.actors.base import Stage
from memfin.actors.channels import send
from memfin.actors.messages import Commit, DialogReplayed, DialogTask, utc_now
from memfin.actors.source import DialogWires
from memfin.agents.observer import TurnObserver
from memfin.agents.registry import AgentSource
from memfin.agents.replay import DialogLeftError, ReplayOptions, failed_trace, replay_dialog
from memfin.contracts import Dialog, DialogCheckpoint, DialogStarted, TurnDone, TurnTrace
from memfin.sandbox.references import describe


class Replayer(Stage[DialogTask]):
    """One of ``workers_dialog`` replayers; they share the inbox, so a free one takes the next task.

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
    ) -> None:
        self._outbox = wires.answered.sender()
        self._commits, self._events = wires.commits.sender(), wires.events.sender()
        ends = (self._outbox, self._commits, self._events)
        super().__init__(f"replayer-{worker_id}", wires.tasks.receiver(), *ends)
        self._worker_id = worker_id
        self._agents = agents
        self._options = options
        self._board = wires.board
        self._observer_factory = observer_factory

    async def handle(self, message: DialogTask) -> None:
        """Replay one dialogue."""
        if self._draining:
            self.leave()
            return
        try:
            replayed = await self._replay(message)
        except DialogLeftError:
            self.leave()
            return
        await self._hand_on(replayed)

    async def quarantine(self, message: DialogTask, problem: Exception) -> None:
        """Send the dialogue on as failed in every turn."""
        reason = f"could not be replayed, please report this: {describe(problem)}"
        self._warn(message.dialog, reason)
        trace = failed_trace(
            message.dialog, message.dataset_index, self._options, reason, worker_id=self._worker_id
        )
        await self._hand_on(DialogReplayed(trace=trace, dialog=message.dialog))

    async def _hand_on(self, replayed: DialogReplayed) -> None:
        await send(self._commits, replayed.commit())
        await send(self._outbox, replayed)
        self._sent += 1

    def drain(self) -> None:
        """Begin no further turn; the present one may be answered."""
        self._draining = True

    async def _replay(self, task: DialogTask) -> DialogReplayed:
        dialog, run_id = task.dialog, self._options.run_id

        async def report(turn: TurnTrace) -> None:
            done = TurnDone(
                ts=utc_now(),
                run_id=run_id,
                dialog_id=dialog.dialog_id,
                turn_pair_id=turn.turn_pair_id,
                turn_status=turn.turn_status,
                latency_ms=turn.latency_ms,
                error=turn.error,
            )
            await send(self._events, done)

        async def keep(begun: DialogCheckpoint) -> None:
            await send(self._commits, Commit(checkpoint=begun))

        async def go_on(turns: Sequence[TurnTrace], refused: str | None) -> None:
            if refused is not None:
                problem = f"could not go on from its snapshot, the dialogue starts again: {refused}"
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
            on_turn=report,
            on_begun=keep,
            begun=task.begun,
            on_resume=go_on if task.begun is not None else None,
            leaving=lambda: self._draining,
            observer_factory=self._observer_factory,
        )
        for problem, count in (
            ("calls ignored their cancellation and were left behind", replay.abandoned),
            ("observations came after their turn had ended and were dropped", replay.late_observations),
        ):
            if count:
                self._warn(dialog, f"{count} {problem}")
        if (why := replay.snapshot_error) is not None:
            self._warn(dialog, f"no snapshot, an interruption would have lost turns: {why}")
        return DialogReplayed(
            trace=replay.trace,
            dialog=dialog,
            retries=replay.retries,
            abandoned=replay.abandoned,
            usage=replay.usage,
        )

    async def _announce(self, task: DialogTask, first_turn: int) -> None:
        started = DialogStarted(
            ts=utc_now(),
            run_id=self._options.run_id,
            dialog_id=task.dialog.dialog_id,
            dataset_index=task.dataset_index,
            worker_id=self._worker_id,
            turns=len(task.dialog.turns) // 2,
            first_turn=first_turn,
        )
        await send(self._events, started)

    def _warn(self, dialog: Dialog, problem: str) -> None:
        self._board.warn(f"agent {self._agents.reference}: {problem}", dialog.dialog_id)
