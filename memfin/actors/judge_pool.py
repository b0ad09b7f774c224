"""The judge pool: ``workers_judge`` workers share one judge and hand on whole dialogues."""

from collections.abc import Sequence

import anyio
from aiolimiter import AsyncLimiter
from anyio.streams.memory import MemoryObjectReceiveStream, MemoryObjectSendStream

from memfin.actors.base import Actor, EventSender, utc_now
from memfin.actors.channels import messages, send
from memfin.actors.messages import DialogJudged, DialogScored, ToWriter
from memfin.contracts import JudgeDone, JudgeFailure, JudgeRequest, Verdict
from memfin.judges.protocol import Judge, JudgeError
from memfin.scoring.verdicts import judge_request, with_verdict


class _Docket:
    """A dialogue under judgement; it is complete when no turn is open."""

    def __init__(self, scored: DialogScored) -> None:
        self.scored = scored
        self.rows = list(scored.rows)
        self.failures = 0
        self.judged = 0
        self.open = 0


class _Job:
    """Some turns of one dialogue, judged one after another by one worker."""

    def __init__(self, docket: _Docket, requests: Sequence[tuple[int, JudgeRequest]]) -> None:
        self.docket = docket
        self.requests = requests


class JudgePool(Actor[DialogScored]):
    """Judges the turns that have a rubric; hands every replay to the writer before it is judged.

    A judge that waits for a network gets its turns one a job, so that a few long dialogues keep
    all workers busy; a local one takes a dialogue at once. ``rpm`` bounds the judgements a minute,
    in every sliding window, for judges of the first kind. Dialogues leave complete, in the order
    in which they are finished; only as many are open as the workers and the channel hold.
    """

    def __init__(
        self,
        judge: Judge | None,
        workers: int,
        run_id: str,
        *,
        rpm: float | None,
        inbox: MemoryObjectReceiveStream[DialogScored],
        outbox: MemoryObjectSendStream[ToWriter],
        events: EventSender,
    ) -> None:
        super().__init__("judge_pool", inbox)
        self._judge = judge
        self._name = judge.name if judge is not None else None
        self._workers = workers
        self._run_id = run_id
        # One permit at a time: a larger bucket would let a burst through that breaks the limit.
        self._limiter = AsyncLimiter(1, 60.0 / rpm) if rpm is not None else None
        self._scored = inbox
        self._outbox = outbox
        self._events = events

    async def run(self) -> None:
        """Judge dialogues until the scorer ends and every open dialogue is handed on."""
        jobs, work = anyio.create_memory_object_stream[_Job](self._workers)
        async with self._scored, self._outbox, self._events, anyio.create_task_group() as workers:
            for number in range(self._workers):
                workers.start_soon(self._work, work.clone(), name=f"judge-{number}")
            work.close()
            async with jobs:
                async for scored in messages(self._scored):
                    self._count_received()
                    if not scored.replayed.recorded:  # safe on disk whatever becomes of the judge
                        await send(self._outbox, scored.replayed)
                    await self._open(scored, jobs)

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
        dialog = docket.scored.replayed.dialog
        if dialog is None:
            return []
        turns = {turn.turn_pair_id: turn for turn in docket.scored.replayed.trace.turns}
        if self._judge is None:
            docket.rows = [with_verdict(row, None) for row in docket.rows]
            return []
        return [
            (index, judge_request(dialog, turns[row.turn_pair_id], row))
            for index, row in enumerate(docket.rows)
            if row.eligible_m5
        ]

    async def _work(self, work: MemoryObjectReceiveStream[_Job]) -> None:
        async with work:
            async for job in messages(work):
                docket = job.docket
                for index, request in job.requests:
                    outcome = await self._ask(request)
                    docket.rows[index] = with_verdict(docket.rows[index], outcome, judge=self._name)
                    docket.judged += isinstance(outcome, Verdict)
                    docket.failures += isinstance(outcome, JudgeFailure)
                docket.open -= 1
                if docket.open == 0:
                    await self._hand_on(docket)

    async def _ask(self, request: JudgeRequest) -> Verdict | JudgeFailure:
        if self._judge is None:
            return JudgeFailure(reason="no judge")
        try:
            if self._limiter is not None and self._judge.per_turn:
                await self._limiter.acquire()
            return await self._judge.judge(request)
        except JudgeError as problem:
            return JudgeFailure(reason=str(problem))

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
            DialogJudged(replayed=replayed, rows=docket.rows, judge_failures=docket.failures),
        )
        self._done += 1
        self._sent += 1
