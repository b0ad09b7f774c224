"""The judge pool: ``workers_judge`` workers share one judge and send complete messages of any suite."""

from abc import ABC, abstractmethod
from collections.abc import Sequence
from typing import Any, Generic, TypeVar

import anyio
import anyio.lowlevel
from anyio.streams.memory import MemoryObjectReceiveStream

from memfin.actors.base import Stage
from memfin.actors.channels import Wires, messages, send
from memfin.actors.messages import Commit, utc_now
from memfin.client.errors import EndpointDown
from memfin.contracts import Controls, JudgeDone, JudgeFailure, JudgeStats, Record, Vote
from memfin.errors import MemfinError
from memfin.judges.protocol import CacheCounts, Judge, JudgeResult, RecordingJudge, judge_result
from memfin.judges.stats import VoteStats
from memfin.sandbox.references import describe

M = TypeVar("M")
R = TypeVar("R", bound=Record)
V = TypeVar("V", bound=Record)


class Judging(ABC, Generic[M, R, V]):
    """Interface of a suite's judging: requests for a message, and commits of the results.

    Attributes:
        controls: requests whose right verdict is known beforehand, judged beside the messages; none for a
            judge that is no model.
    """

    controls: Sequence[R] = ()

    @abstractmethod
    def requests(self, message: M) -> Sequence[R]:
        """Return the requests for a message; none if there is nothing to judge."""

    @abstractmethod
    def judged(self, message: M, requests: Sequence[R], results: Sequence[JudgeResult[V]]) -> Commit:
        """Return a message with the results of its requests, in their order."""

    @abstractmethod
    def failed(self, message: M, reason: str) -> Commit:
        """Return a message with every judgement failed for the same reason."""

    @abstractmethod
    def name(self, message: M) -> str:
        """Return the id of the dialogue or question of a message."""

    @abstractmethod
    def control_report(self, results: Sequence[tuple[int, JudgeResult[V]]]) -> Controls[Any]:
        """Return the report on controls; results come with the position of their control."""


class _Case(Generic[M, R, V]):
    """A message under judgement, complete when no batch of its requests is open."""

    def __init__(self, message: M, requests: Sequence[R]) -> None:
        self.message = message
        self.requests = requests
        self.results: dict[int, JudgeResult[V]] = {}
        self.open = 0


_Job = tuple[_Case[M, R, V], Sequence[int]]
"""Requests of one case by position, judged one after another by one worker."""


class JudgePool(Stage[M], Generic[M, R, V]):
    """Actor that judges the requests of each message: the turns of a dialogue, or an answer.

    A judge that waits for a network gets one request per job, so that a few long dialogues keep
    all workers busy; a local one takes a case at once. Cases leave complete, in the order
    in which they are finished. When the judge's endpoint is given up as down, the pool halts: cases that are
    not complete are judged when the run is resumed.

    Attributes:
        controls: the report on the controls, once all are judged.
    """

    def __init__(
        self,
        judge: Judge[R, V] | None,
        judging: Judging[M, R, V],
        workers: int,
        wires: Wires[Any, Any, M],
    ) -> None:
        self._outbox, self._events = wires.commits.sender(), wires.events.sender()
        self._jobs, self._work = anyio.create_memory_object_stream[_Job[M, R, V]](workers)
        ends = (self._outbox, self._events, self._jobs, self._work)
        super().__init__("judge_pool", wires.scored.receiver(), *ends)
        self.controls: Controls[Any] | None = None
        self._judge = judge
        self._judging = judging
        self._workers = workers
        self._run_id = wires.run_id
        self._warn = wires.board.warn
        self._control_votes: list[Vote[V]] = []
        self._scopes: list[anyio.CancelScope] = []

    def judge_statistics(self, stats: VoteStats) -> JudgeStats | None:
        """Return the statistics of a language model in the run; None for any other judge.

        ``stats`` has the votes on the run's replies; those on the controls are added to it.
        """
        judge = self._judge
        if not isinstance(judge, RecordingJudge):
            return None
        stats.add_votes(self._control_votes)
        here = judge.cache_counts()
        cache = stats.look_ups if judge.cache.reads else CacheCounts()
        warnings = self.controls.warnings if self.controls is not None else []
        return stats.statistics(cache._replace(damaged=here.damaged), warnings, judge.parameter_changes())

    async def run(self) -> None:
        """Judge the controls, and cases until the scorer ends and every open one is sent."""
        async with anyio.create_task_group() as judging:
            judging.start_soon(self._judge_controls, name="judge-controls")
            for number in range(self._workers):
                judging.start_soon(self._judge_jobs, self._work.clone(), name=f"judge-{number}")
            self._work.close()
            async with self._jobs:
                await super().run()
        self.cut = self._received > self._done or (bool(self._judging.controls) and self.controls is None)

    async def handle(self, message: M) -> None:
        """Open the case of a message; the worker of its last batch sends it."""
        self._done -= 1  # the loop counts the message; it is done when it is sent
        if self._judge is not None and self._halted:
            return
        requests = self._judging.requests(message)
        case = _Case[M, R, V](message, requests if self._judge is not None else ())
        places = range(len(case.requests))
        if not places or self._judge is None:
            await self._send_case(case)
            return
        size = 1 if self._judge.per_turn else len(places)
        batches = [places[start : start + size] for start in range(0, len(places), size)]
        case.open = len(batches)
        try:
            for batch in batches:
                await send(self._jobs, (case, batch))
        except anyio.BrokenResourceError:
            if not self._halted:  # the workers have gone
                raise

    async def quarantine(self, message: M, problem: Exception) -> None:
        """Send a message whose judgement cannot start, with every judgement failed."""
        reason = f"could not be judged, please report this: {describe(problem)}"
        self._warn(f"{self._judging.name(message)} {reason}")
        await send(self._outbox, self._judging.failed(message, reason))
        self._count_sent()

    def halt(self) -> None:
        """Judge nothing more, but receive messages until the inbox ends, so that senders do not block."""
        self._halted = True
        for scope in self._scopes:
            scope.cancel()

    def _give_up(self, problem: EndpointDown) -> None:
        """Halt, and report the reason the first time."""
        if not self._halted:
            self.report_down(problem)
        self.halt()

    def _until_halted(self) -> anyio.CancelScope:
        scope = anyio.CancelScope()
        self._scopes.append(scope)
        return scope

    async def _judge_jobs(self, work: MemoryObjectReceiveStream[_Job[M, R, V]]) -> None:
        async with work:
            with self._until_halted():
                try:
                    async for case, places in messages(work):
                        for place in places:
                            case.results[place] = await self._ask(case.requests[place])
                        case.open -= 1
                        if case.open == 0:
                            await self._send_or_quarantine(case)
                except EndpointDown as problem:
                    self._give_up(problem)

    async def _send_or_quarantine(self, case: _Case[M, R, V]) -> None:
        try:
            await self._send_case(case)
        except (MemfinError, anyio.BrokenResourceError):
            raise
        except Exception as problem:  # noqa: BLE001 - costs the judgements of a message and not the run
            await self.quarantine(case.message, problem)

    async def _ask(self, request: R) -> JudgeResult[V]:
        """Return the result on a request; an unexpected exception is a failed judgement."""
        if self._judge is None:
            return JudgeResult(JudgeFailure(reason="no judge"))
        try:
            return await judge_result(self._judge, request)
        except (EndpointDown, MemfinError):
            raise
        except Exception as problem:  # noqa: BLE001 - costs a judgement and not the run
            return JudgeResult(
                JudgeFailure(reason=f"judging failed, please report this: {describe(problem)}")
            )

    async def _judge_controls(self) -> None:
        """Judge the controls, as many at a time as there are workers, and warn about bad results."""
        if not self._judging.controls:
            return
        results: dict[int, JudgeResult[V]] = {}
        places = anyio.CapacityLimiter(self._workers)

        async def judge_one(place: int, request: R) -> None:
            async with places:
                try:
                    result = await self._ask(request)
                except EndpointDown as problem:
                    self._give_up(problem)
                    return
            self._control_votes += result.votes
            results[place] = result

        with self._until_halted():
            async with anyio.create_task_group() as group:
                for place, request in enumerate(self._judging.controls):
                    group.start_soon(judge_one, place, request)
            await anyio.lowlevel.checkpoint()  # where the judge was given up, it ends here
            self.controls = report = self._judging.control_report(sorted(results.items()))
            for line in report.warnings:
                self._warn(f"judge control: {line}")

    async def _send_case(self, case: _Case[M, R, V]) -> None:
        results = [case.results[place] for place in sorted(case.results)]
        if results:
            failed = sum(isinstance(result.outcome, JudgeFailure) for result in results)
            done = JudgeDone(
                ts=utc_now(),
                run_id=self._run_id,
                dialog_id=self._judging.name(case.message),
                judged=len(results) - failed,
                failed=failed,
            )
            await send(self._events, done)
        await send(self._outbox, self._judging.judged(case.message, case.requests, results))
        self._count_sent()
