"""The judge pool: ``workers_judge`` workers share one judge and hand on whole dialogues."""

from collections.abc import Callable, Sequence

import anyio
import anyio.lowlevel
import msgspec
from anyio.streams.memory import MemoryObjectReceiveStream, MemoryObjectSendStream

from memfin.actors.base import Actor, EventSender, utc_now
from memfin.actors.channels import messages, send
from memfin.actors.messages import DialogJudged, DialogScored, ToWriter
from memfin.contracts import (
    JudgeControl,
    JudgeControls,
    JudgeDone,
    JudgeFailure,
    Judgement,
    JudgeRequest,
    JudgeScope,
    JudgeStats,
    Verdict,
    Vote,
    Warned,
)
from memfin.judges.controls import Control, control_result, control_warnings
from memfin.judges.notices import Notices
from memfin.judges.protocol import CacheCounts, EndpointDown, Judge, RecordingJudge, Ruling, ruling
from memfin.judges.tally import JudgeTally
from memfin.scoring.verdicts import is_judged, judge_request, with_verdict


class _Docket:
    """A dialogue under judgement; it is complete when no turn is open."""

    def __init__(self, scored: DialogScored) -> None:
        self.scored = scored
        self.rows = list(scored.rows)
        self.checked = {turn.turn_pair_id: turn.compliance for turn in scored.replayed.trace.turns}
        self.judgements: list[Judgement] = []
        self.failures = 0
        self.judged = 0
        self.open = 0


class _Job:
    """Some turns of one dialogue, judged one after another by one worker."""

    def __init__(self, docket: _Docket, requests: Sequence[tuple[int, JudgeRequest]]) -> None:
        self.docket = docket
        self.requests = requests


class JudgePool(Actor[DialogScored]):
    """Judges the turns that have a rubric; in the scope ``all`` every turn that was answered.

    A judge that waits for a network gets its turns one a job, so that a few long dialogues keep
    all workers busy; a local one takes a dialogue at once. Dialogues leave complete, in the order
    in which they are finished; only as many are open as the workers and the channel hold. What the
    judge has to say meanwhile (``notices``) goes to the progress log as warnings.

    When the judge's endpoint is given up as down, the pool halts: dialogues whose judgement is complete
    have left, of all others only the replays do, so that they are judged when the run is resumed.

    Attributes:
        on_given_up: called with the reason when that happens, if set.
        controls: what the judge made of the ``controls`` given, once it has judged them all.
    """

    def __init__(  # noqa: PLR0913 - each of them stands alone
        self,
        judge: Judge | None,
        workers: int,
        run_id: str,
        *,
        scope: JudgeScope,
        notices: Notices,
        controls: Sequence[Control],
        inbox: MemoryObjectReceiveStream[DialogScored],
        outbox: MemoryObjectSendStream[ToWriter],
        events: EventSender,
    ) -> None:
        super().__init__("judge_pool", inbox)
        self.controls: JudgeControls | None = None
        self.on_given_up: Callable[[str], None] | None = None
        self._judge = judge
        self._name = judge.name if judge is not None else None
        self._workers = workers
        self._run_id = run_id
        self._scope: JudgeScope = scope
        self._notices = notices
        self._control_votes: list[Vote] = []
        self._controls = controls
        self._scored = inbox
        self._outbox = outbox
        self._events = events
        self._judging: list[anyio.CancelScope] = []

    def judge_statistics(self, tally: JudgeTally) -> JudgeStats | None:
        """Return what a language model has done in the run; None with any other judge.

        ``tally`` has the votes on the run's replies, whichever process has had them made; those on the
        controls are added to it. What no vote tells is that of this process.
        """
        judge = self._judge
        if not isinstance(judge, RecordingJudge):
            return None
        tally.add_votes(self._control_votes)
        here = judge.cache_counts()
        cache = tally.look_ups if judge.has_cache() else CacheCounts()
        warnings = self.controls.warnings if self.controls is not None else []
        return tally.statistics(cache._replace(damaged=here.damaged), warnings, judge.parameter_changes())

    async def run(self) -> None:
        """Judge the controls, and dialogues until the scorer ends and every open one is handed on."""
        async with self._scored, self._outbox, self._events:
            async with anyio.create_task_group() as speaking:
                speaking.start_soon(self._speak, name="judge-notices")
                async with anyio.create_task_group() as judging:
                    judging.start_soon(self._judge_controls, name="judge-controls")
                    await self._judge_dialogs()
                speaking.cancel_scope.cancel()
            for line in self._notices.waiting():
                await self._warn(line)
        self.cut = self._received > self._done or (bool(self._controls) and self.controls is None)

    def _until_halted(self) -> anyio.CancelScope:
        scope = anyio.CancelScope()
        self._judging.append(scope)
        return scope

    async def _judge_dialogs(self) -> None:
        jobs, work = anyio.create_memory_object_stream[_Job](self._workers)
        async with anyio.create_task_group() as workers:
            for number in range(self._workers):
                workers.start_soon(self._work, work.clone(), name=f"judge-{number}")
            work.close()
            async with jobs:
                async for scored in messages(self._scored):
                    self._count_received()
                    if not scored.replayed.recorded:  # safe on disk whatever becomes of the judge
                        await send(self._outbox, scored.replayed)
                    try:
                        if not self._halted:
                            await self._open(scored, jobs)
                    except anyio.BrokenResourceError:
                        if not self._halted:  # the workers have gone
                            raise

    def halt(self) -> None:
        """Judge nothing more; replays still go to the writer until the inbox ends."""
        self._halted = True
        for scope in self._judging:
            scope.cancel()

    def _give_up(self, problem: EndpointDown) -> None:
        """Halt, and tell why the first time."""
        if not self._halted and self.on_given_up is not None:
            self.on_given_up(str(problem))
        self.halt()

    async def _open(self, scored: DialogScored, jobs: MemoryObjectSendStream[_Job]) -> None:
        docket = _Docket(scored)
        requests = self._requests(docket)
        if not requests or self._judge is None:
            await self._hand_on(docket)
            return
        size = 1 if self._judge.per_turn else len(requests)
        batches = [requests[start : start + size] for start in range(0, len(requests), size)]
        docket.open = len(batches)
        for batch in batches:
            await send(jobs, _Job(docket, batch))

    def _requests(self, docket: _Docket) -> list[tuple[int, JudgeRequest]]:
        replayed = docket.scored.replayed
        dialog = replayed.dialog
        if dialog is None:
            return []
        if self._judge is None:
            docket.rows = [with_verdict(row, None) for row in docket.rows]
            return []
        if replayed.trace.dialog_status == "failed":
            return []  # its rows are in no denominator
        turns = {turn.turn_pair_id: turn for turn in replayed.trace.turns}
        return [
            (index, judge_request(dialog, turns[row.turn_pair_id], row, self._scope))
            for index, row in enumerate(docket.rows)
            if is_judged(row, self._scope)
        ]

    async def _work(self, work: MemoryObjectReceiveStream[_Job]) -> None:
        async with work:
            with self._until_halted():
                try:
                    await self._work_off(work)
                except EndpointDown as problem:
                    self._give_up(problem)

    async def _work_off(self, work: MemoryObjectReceiveStream[_Job]) -> None:
        async for job in messages(work):
            docket = job.docket
            for index, request in job.requests:
                ruled = await self._ask(request)
                docket.rows[index] = with_verdict(
                    docket.rows[index],
                    ruled.outcome,
                    judge=self._name,
                    scope=self._scope,
                    checked=docket.checked[request.turn_pair_id],
                )
                docket.judgements += self._records(request, ruled)
                docket.judged += isinstance(ruled.outcome, Verdict)
                docket.failures += isinstance(ruled.outcome, JudgeFailure)
            docket.open -= 1
            if docket.open == 0:
                await self._hand_on(docket)

    async def _ask(self, request: JudgeRequest) -> Ruling:
        if self._judge is None:
            return Ruling(JudgeFailure(reason="no judge"))
        return await ruling(self._judge, request)

    def _records(self, request: JudgeRequest, ruled: Ruling) -> list[Judgement]:
        return [
            Judgement(
                **msgspec.structs.asdict(vote),
                run_id=self._run_id,
                dialog_id=request.dialog_id,
                turn_pair_id=request.turn_pair_id,
                judge=self._name or "",
            )
            for vote in ruled.votes
        ]

    async def _judge_controls(self) -> None:
        """Judge the controls, as many at a time as there are workers, and say what is wrong with them."""
        if not self._controls:
            return
        with self._until_halted():
            await self._judge_all_controls()

    async def _judge_all_controls(self) -> None:
        results: list[JudgeControl | None] = [None] * len(self._controls)
        places = anyio.CapacityLimiter(self._workers)

        async def judge_one(place: int, control: Control) -> None:
            async with places:
                try:
                    ruled = await self._ask(control.request)
                except EndpointDown as problem:
                    self._give_up(problem)
                    return
            self._control_votes += ruled.votes
            results[place] = control_result(control, ruled)

        async with anyio.create_task_group() as group:
            for place, control in enumerate(self._controls):
                group.start_soon(judge_one, place, control)
        await anyio.lowlevel.checkpoint()  # where the judge was given up, it ends here
        judged = [result for result in results if result is not None]
        warnings = control_warnings(judged)
        self.controls = JudgeControls(
            run_id=self._run_id, judge=self._name or "", controls=judged, warnings=warnings
        )
        for line in warnings:
            await self._warn(f"judge control: {line}")

    async def _speak(self) -> None:
        """Pass the judge's notices on while it works."""
        async for line in self._notices.each():
            await self._warn(line)

    async def _warn(self, line: str) -> None:
        await send(self._events, Warned(ts=utc_now(), run_id=self._run_id, message=line))

    async def _hand_on(self, docket: _Docket) -> None:
        replayed = docket.scored.replayed
        if docket.judged or docket.failures:
            await send(
                self._events,
                JudgeDone(
                    ts=utc_now(),
                    run_id=self._run_id,
                    dialog_id=replayed.trace.dialog_id,
                    judged=docket.judged,
                    failed=docket.failures,
                ),
            )
        await send(
            self._outbox,
            DialogJudged(
                replayed=replayed,
                rows=docket.rows,
                judge_failures=docket.failures,
                judgements=sorted(docket.judgements, key=lambda each: (each.turn_pair_id, each.vote)),
            ),
        )
        self._done += 1
        self._sent += 1
