"""The askers: each takes questions one after another and puts them to the system under test."""

from anyio.streams.memory import MemoryObjectReceiveStream, MemoryObjectSendStream

from memfin.actors.base import Actor, EventSender, utc_now
from memfin.actors.channels import messages, send
from memfin.actors.questions import QuestionAnswered, QuestionTask
from memfin.contracts.progress import QuestionStarted
from memfin.rag.systems.under_test import SystemUnderTest


class Asker(Actor[QuestionTask]):
    """One of ``workers_dialog`` askers; they share the inbox and the system."""

    def __init__(
        self,
        worker_id: int,
        system: SystemUnderTest,
        run_id: str,
        *,
        inbox: MemoryObjectReceiveStream[QuestionTask],
        outbox: MemoryObjectSendStream[QuestionAnswered],
        events: EventSender,
    ) -> None:
        super().__init__(f"asker-{worker_id}", inbox)
        self._worker_id = worker_id
        self._system = system
        self._run_id = run_id
        self._tasks = inbox
        self._outbox = outbox
        self._events = events
        self._draining = False

    async def run(self) -> None:
        """Ask until the source ends."""
        async with self._tasks, self._outbox, self._events:
            async for task in messages(self._tasks):
                self._count_received()
                if self._draining:
                    self.cut = True
                    return
                started = QuestionStarted(
                    ts=utc_now(),
                    run_id=self._run_id,
                    question_id=task.question.id,
                    question_index=task.question_index,
                    worker_id=self._worker_id,
                )
                await send(self._events, started)
                asked = await self._system.ask(task.question)
                answered = QuestionAnswered(
                    question_index=task.question_index, question=task.question, asked=asked
                )
                await send(self._outbox, answered)
                self._done += 1
                self._sent += 1

    def drain(self) -> None:
        """Ask nothing more; what is asked may be answered."""
        self._draining = True
