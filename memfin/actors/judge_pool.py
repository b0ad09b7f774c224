"""The judge pool: ``workers_judge`` workers share one judge and hand on whole messages, of any suite."""

from collections.abc import Callable, Sequence
from typing import Any, Generic

import anyio
import anyio.lowlevel
from anyio.streams.memory import MemoryObjectReceiveStream, MemoryObjectSendStream

from memfin.actors.base import Stage, EventSender, utc_now
from memfin.actors.channels import messages, send
from memfin.actors.judging import Case, Judging, M, R, V, W
from memfin.contracts import Controls, JudgeDone, JudgeFailure, JudgeStats, Vote, Warned
from memfin.errors import MemfinError
from memfin.sandbox.references import describe
from memfin.judges.notices import Notices
from memfin.judges.protocol import CacheCounts, EndpointDown, Judge, RecordingJudge, JudgeResult, judge_result
from memfin.judges.stats import VoteStats


class _OpenCase(Generic[R, V, W]):
    """A case under judgement; it is complete when no request is open."""

    def __init__(self, case: Case[R, V, W]) -> None:
        self.case = case
        self.failures = 0
        self.judged = 0
        self.open = 0


class _Job(Generic[R, V, W]):
    """Some requests of one case, by their places, judged one after another by one worker."""

    def __init__(self, docket: _OpenCase[R, V, W], places: Sequence[int]) -> None:
        self.docket = docket
        self.places = places


class JudgePool(Stage[M], Generic[M, R, V, W]):
    """Judges what the suite's ``judging`` makes of each message: the turns of a dialogue, or an answer.

    A judge that waits for a network gets its requests one a job, so that a few long dialogues keep
    all workers busy; a local one takes a case at once. Cases leave complete, in the order
    in which they are finished; only as many are open as the workers and the channel hold. What the
    judge has to say meanwhile (``notices``) goes to the progress log as warnings.

    When the judge's endpoint is given up as down, the pool halts: cases whose judgement is complete
    have left, all others are judged when the run is resumed.

    Attributes:
        on_given_up: called with the reason when that happens, if set.
        controls: what the judge made of the controls, once it has judged them all.
    """

    def __init__(  # noqa: PLR0913 - each of them stands alone
        self,
        judge: Judge[R, V] | None,
        judging: Judging[M, R, V, W],
        workers: int,
        run_id: str,
        *,
        notices: Notices,
        inbox: MemoryObjectReceiveStream[M],
        outbox: MemoryObjectSendStream[W],
        events: EventSender,
    ) -> None:
        super().__init__("judge_pool", inbox, outbox, events)
        self.controls: Controls[Any] | None = None
        self.on_given_up: Callable[[str], None] | None = None
        self._judge = judge
        self._judging = judging
        self._workers = workers
        self._run_id = run_id
        self._notices = notices
        self._control_votes: list[Vote[V]] = []
        self._outbox = outbox
        self._events = events
        self._scopes: list[anyio.CancelScope] = []
        self._jobs, self._work = anyio.create_memory_object_stream[_Job[R, V, W]](workers)
        self._ends += [self._jobs, self._work]

    def judge_statistics(self, tally: VoteStats) -> JudgeStats | None:
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
        """Judge the controls, and cases until the scorer ends and every open one is handed on."""
        async with anyio.create_task_group() as speaking:
            speaking.start_soon(self._speak, name="judge-notices")
            async with anyio.create_task_group() as judging:
                judging.start_soon(self._judge_controls, name="judge-controls")
                for number in range(self._workers):
                    judging.start_soon(self._judge_jobs, self._work.clone(), name=f"judge-{number}")
                self._work.close()
                async with self._jobs:
                    await super().run()
            speaking.cancel_scope.cancel()
        for line in self._notices.waiting():
            await self._warn(line)
        self.cut = self._received > self._done or (bool(self._judging.controls) and self.controls is None)

    async def quarantine(self, message: M, problem: Exception) -> None:
        """Hand a message on whose judgement cannot begin, with every judgement failed."""
        reason = f"could not be judged, please report this: {describe(problem)}"
        await self._warn(f"{self._judging.name(message)} {reason}")
        await send(self._outbox, self._judging.failed(message, reason))
        self._done += 1
        self._sent += 1

    def _until_halted(self) -> anyio.CancelScope:
        scope = anyio.CancelScope()
        self._scopes.append(scope)
        return scope

    async def handle(self, message: M) -> None:
        """Open the case of a message; its last worker hands it on."""
        self._done -= 1  # the loop counts the message; it is done when it is handed on
        if self._halted:
            return
        try:
            await self._open(self._judging.case(message))
        except anyio.BrokenResourceError:
            if not self._halted:  # the workers have gone
                raise

    def halt(self) -> None:
        """Judge nothing more; messages are taken until the inbox ends, so that nobody waits for room."""
        self._halted = True
        for scope in self._scopes:
            scope.cancel()

    def _give_up(self, problem: EndpointDown) -> None:
        """Halt, and tell why the first time."""
        if not self._halted and self.on_given_up is not None:
            self.on_given_up(str(problem))
        self.halt()

    async def _open(self, case: Case[R, V, W]) -> None:
        docket = _OpenCase(case)
        places = range(len(case.requests))
        if not places or self._judge is None:
            await self._hand_on(docket)
            return
        size = 1 if self._judge.per_turn else len(places)
        batches = [places[start : start + size] for start in range(0, len(places), size)]
        docket.open = len(batches)
        for batch in batches:
            await send(self._jobs, _Job(docket, batch))

    async def _judge_jobs(self, work: MemoryObjectReceiveStream[_Job[R, V, W]]) -> None:
        async with work:
            with self._until_halted():
                try:
                    await self._work_off(work)
                except EndpointDown as problem:
                    self._give_up(problem)

    async def _work_off(self, work: MemoryObjectReceiveStream[_Job[R, V, W]]) -> None:
        async for job in messages(work):
            docket = job.docket
            for place in job.places:
                ruled = await self._ask(docket.case.requests[place])
                docket.case.enter(place, ruled)
                failed = isinstance(ruled.outcome, JudgeFailure)
                docket.failures += failed
                docket.judged += not failed
            docket.open -= 1
            if docket.open == 0:
                await self._hand_on(docket)

    async def _ask(self, request: R) -> JudgeResult[V]:
        """Return the result on a request; an unexpected exception is a failed judgement."""
        if self._judge is None:
            return JudgeResult(JudgeFailure(reason="no judge"))
        try:
            return await judge_result(self._judge, request)
        except (EndpointDown, MemfinError):
            raise
        except Exception as problem:  # noqa: BLE001 - costs a judgement and not the run
            return JudgeResult(JudgeFailure(reason=f"judging failed, please report this: {describe(problem)}"))

    async def _judge_controls(self) -> None:
        """Judge the controls, as many at a time as there are workers, and say what is wrong with them."""
        if not self._judging.controls:
            return
        with self._until_halted():
            await self._judge_all_controls()

    async def _judge_all_controls(self) -> None:
        results: dict[int, JudgeResult[V]] = {}
        places = anyio.CapacityLimiter(self._workers)

        async def judge_one(place: int, request: R) -> None:
            async with places:
                try:
                    ruled = await self._ask(request)
                except EndpointDown as problem:
                    self._give_up(problem)
                    return
            self._control_votes += ruled.votes
            results[place] = ruled

        async with anyio.create_task_group() as group:
            for place, request in enumerate(self._judging.controls):
                group.start_soon(judge_one, place, request)
        await anyio.lowlevel.checkpoint()  # where the judge was given up, it ends here
        self.controls = artifact = self._judging.control_report(sorted(results.items()))
        for line in artifact.warnings:
            await self._warn(f"judge control: {line}")

    async def _speak(self) -> None:
        """Pass the judge's notices on while it works."""
        async for line in self._notices.each():
            await self._warn(line)

    async def _warn(self, line: str) -> None:
        await send(self._events, Warned(ts=utc_now(), run_id=self._run_id, message=line))

    async def _hand_on(self, docket: _OpenCase[R, V, W]) -> None:
        if docket.judged or docket.failures:
            done = JudgeDone(
                ts=utc_now(),
                run_id=self._run_id,
                dialog_id=docket.case.name,
                judged=docket.judged,
                failed=docket.failures,
            )
            await send(self._events, done)
        await send(self._outbox, docket.case.closed(docket.failures))
        self._done += 1
        self._sent += 1
