"""The source of the RAG suite: hands out the questions of a benchmark as fast as they are taken."""

from collections.abc import Awaitable, Callable, Collection

from anyio.streams.memory import MemoryObjectSendStream

from memfin.actors.base import Actor
from memfin.actors.channels import send
from memfin.actors.questions import QuestionScored, QuestionTask
from memfin.contracts.rag import RagJudgement, RagQuestion, RagResult
from memfin.contracts.reading import decode
from memfin.errors import UsageError
from memfin.journal import CommittedDialog, RunDirectory


class QuestionSource(Actor[None]):
    """Sends questions to the askers, and results that an earlier process has committed to the aggregator.

    ``questions`` are pairs of the place in the benchmark, from 1, and the question. ``ready`` is awaited
    before the first question goes out, and not at all when every one is answered. Answers that an earlier
    process has committed and that no judge has read go to ``unjudged``.
    """

    def __init__(
        self,
        source: str,
        questions: Collection[tuple[int, RagQuestion]],
        *,
        ready: Callable[[], Awaitable[None]],
        directory: RunDirectory,
        tasks: MemoryObjectSendStream[QuestionTask],
        committed: MemoryObjectSendStream[QuestionScored],
        unjudged: MemoryObjectSendStream[QuestionScored],
    ) -> None:
        super().__init__("source", None, tasks, committed, unjudged)
        self._source = source
        self._questions = questions
        self._ready = ready
        self._directory = directory
        self._tasks = tasks
        self._committed = committed
        self._unjudged = unjudged

    async def run(self) -> None:
        """Send every question.

        Raises:
            UsageError: the system cannot be made, or these are not the questions that the run has asked.
        """
        done = self._directory.committed
        lost = len(done)
        if lost:
            lost -= sum(done.get(number) is not None for number, _ in self._questions)
        if lost:
            raise UsageError(
                f"{self._source}: {lost} questions that the run has asked are not among these; "
                "start a new run"
            )
        if len(done) < len(self._questions):
            await self._ready()
        for number, question in self._questions:
            self._count_received()
            known = done.get(number)
            if known is None:
                await send(self._tasks, QuestionTask(question_index=number, question=question))
            else:
                channel = self._committed if known.judged else self._unjudged
                await send(channel, await self._recorded(question, known))
            self._done += 1
            self._sent += 1

    def drain(self) -> None:
        """Hand out no more."""
        self.halt()

    async def _recorded(self, question: RagQuestion, known: CommittedDialog) -> QuestionScored:
        """Return the recorded result, held against the question that stands in its place now."""
        lines = await self._directory.read(known)
        result = decode(lines.rows[0] if lines.rows else lines.trace, RagResult)
        if (result.id, result.question) != (question.id, question.question):
            raise UsageError(
                f"{self._source}: question {known.dataset_index} is not {known.dialog_id!r}, which the run "
                "has asked in its place; start a new run"
            )
        return QuestionScored(
            question=question,
            result=result,
            retries=known.retries,
            usage=known.usage,
            recorded=True,
            judgements=[decode(line, RagJudgement) for line in lines.judgements],
        )
