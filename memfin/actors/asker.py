"""The askers: each takes questions one after another and puts them to the system under test."""

from anyio.streams.memory import MemoryObjectReceiveStream, MemoryObjectSendStream

from memfin.actors.base import EventSender, Stage, utc_now
from memfin.actors.channels import send
from memfin.actors.questions import QuestionAnswered, QuestionTask
from memfin.contracts.progress import QuestionStarted
from memfin.rag.systems.under_test import SystemUnderTest


class Asker(Stage[QuestionTask]):
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
        super().__init__(f"asker-{worker_id}", inbox, outbox, events)
        self._worker_id = worker_id
        self._system = system
        self._run_id = run_id
        self._outbox = outbox
        self._events = events
        self._draining = False

    async def handle(self, message: QuestionTask) -> None:
        """Ask one question."""
        if self._draining:
            self.leave()
            return
        question, number = message.question, message.question_index
        started = QuestionStarted(
            ts=utc_now(),
            run_id=self._run_id,
            question_id=question.id,
            question_index=number,
            worker_id=self._worker_id,
        )
        await send(self._events, started)
        asked = await self._system.ask(question)
        await send(self._outbox, QuestionAnswered(question_index=number, question=question, asked=asked))
        self._sent += 1

    def drain(self) -> None:
        """Ask nothing more; a question that is being asked may be answered."""
        self._draining = True
