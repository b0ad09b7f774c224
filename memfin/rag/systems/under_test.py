"""The system under test as a run sees it: asked by several workers, whatever it does ends in an outcome."""

import time
from collections.abc import Callable
from contextlib import suppress
from typing import Any, Literal, cast

from memfin.agents.calls import FIRST_BACKOFF, LONGEST_BACKOFF, TransportError, UsageTotal, with_retries
from memfin.agents.masking import scrubber_of_replies
from memfin.contracts import ModelUsage, ParameterChange, Record
from memfin.contracts.rag import RagAnswer, RagQuestion
from memfin.errors import UsageError
from memfin.rag.systems.answers import masked
from memfin.rag.systems.calls import SystemCalls
from memfin.rag.systems.instances import Instances
from memfin.rag.systems.protocol import KnownSystem, RagReply
from memfin.sandbox.calls import CallFailed, CallTimedOut
from memfin.sandbox.references import describe, one_line
from memfin.secrets import Scrubber

Status = Literal["ok", "timeout", "error"]


class Asked(Record):
    """What came of a question: an answer, or one line that says why there is none.

    ``latency_ms`` is the time until then, pauses and retries included, the making of the system not.
    ``usage`` is what the answer says that a language model took.
    """

    status: Status
    latency_ms: float
    answer: RagAnswer | None = None
    error: str | None = None
    retries: int = 0
    usage: ModelUsage | None = None


class SystemUnderTest:
    """A system for one run: `open` it, `ask` it from any number of tasks, `close` it in the end.

    Attributes:
        reference: the reference as given, or the dotted name of a factory or class.
        version: version of the system's package where it has one.
        model_name: what the artifacts of a run call the system.
        inputs: what the answers depend on besides, for the fingerprint; holds no secret.
    """

    def __init__(
        self,
        reference: str,
        instances: Instances,
        *,
        version: str | None = None,
        known: KnownSystem | None = None,
        owned: bool = False,
        sees_truth: bool = False,
        timeout: float = 120.0,
        retries: int = 2,
    ) -> None:
        """Take the instances.

        Args:
            reference: what the system is called.
            instances: where the answers come from.
            version: of the system's package.
            known: the system itself, where it says more of itself.
            owned: whether ``known`` is closed with the run.
            sees_truth: whether the system gets the whole question, as only the oracle does.
            timeout: seconds for a question, retries included.
            retries: how often a question is asked again that failed on its way.
        """
        self.reference = reference if known is None else known.reference
        self.version = version if known is None else known.version
        self.model_name = reference if known is None else known.model
        self.inputs: dict[str, Any] = {} if known is None else dict(known.inputs)
        self._instances = instances
        self._known = known
        self._owned = owned
        self._sees_truth = sees_truth
        self._timeout = timeout
        self._retries = retries
        self._usage = UsageTotal()
        self._scrubber: Scrubber | None = None

    @property
    def abandoned(self) -> int:
        """Calls that ignored their cancellation and were left behind."""
        return self._instances.abandoned

    @property
    def usage(self) -> ModelUsage | None:
        """What the language models behind the system took so far; None where none is known of."""
        return self._usage.of_run() if self._known is None else self._known.total_usage

    def listen(self, on_notice: Callable[[str], None]) -> None:
        """Have the system tell what a user should know while it answers, if it has a way to."""
        listen = getattr(self._known, "listen", None)
        if callable(listen):
            listen(on_notice)

    @property
    def parameter_changes(self) -> list[ParameterChange]:
        """Return which parameters the model behind the system has refused so far, where that is known."""
        return [] if self._known is None else self._known.parameter_changes()

    async def open(self) -> None:
        """Make the system, so that one that cannot be made is told before a run begins.

        Raises:
            UsageError: it cannot be made.
        """
        try:
            self._instances.back(await self._instances.lend())
        except CallFailed as problem:
            raise UsageError(f"rag {self.reference}: {one_line(str(problem))}") from problem

    async def query(self, question: RagQuestion | str, limit: float) -> RagReply:
        """Ask once and return the answer as it is.

        Raises:
            CallFailed, CallTimedOut, TransportError, ConnectionError: as `SystemCalls.query`; a system that
                could not be made has failed.
        """
        calls = await self._instances.lend()
        try:
            return await calls.query(self._words(question), limit)
        finally:
            self._instances.back(calls)

    async def ask(self, question: RagQuestion | str) -> Asked:
        """Return what comes of a question; nothing that the system does is raised."""
        retries = 0

        def count() -> None:
            nonlocal retries
            retries += 1

        start = time.perf_counter()
        calls: SystemCalls | None = None
        reply: RagReply | None = None
        status: Status = "ok"
        error: str | None = None
        try:
            calls = lent = await self._instances.lend()
            start = time.perf_counter()
            try:
                reply = await with_retries(
                    lambda left: lent.query(self._words(question), left),
                    TransportError,
                    ConnectionError,
                    limit=self._timeout,
                    retries=self._retries,
                    first_pause=FIRST_BACKOFF,
                    longest_pause=LONGEST_BACKOFF,
                    on_retry=count,
                )
            finally:
                self._instances.back(lent)
            if lent.blocked > self._timeout:
                status, error = "timeout", f"answered after {lent.blocked:.1f} s, over {self._timeout:g} s"
        except CallTimedOut as problem:
            over = calls is not None and time.perf_counter() - start >= self._timeout
            status, error = "timeout", f"no answer within {self._timeout:g} s" if over else _text(problem)
        except (CallFailed, TransportError, ConnectionError) as problem:
            status, error = "error", _text(problem)
        elapsed = (time.perf_counter() - start) * 1000.0
        if reply is None or status != "ok":
            return Asked(status=status, latency_ms=elapsed, error=error, retries=retries)
        if self._scrubber is None:  # systems may load keys when they are made or first asked
            self._scrubber = scrubber_of_replies()
        reply = masked(reply, self._scrubber)
        usage = reply.usage
        if usage is not None:
            self._usage.add(usage)
        return Asked(status="ok", latency_ms=elapsed, answer=reply.answer, retries=retries, usage=usage)

    async def close(self, *, hasty: bool = False) -> None:
        """Let go of all that was made; ``hasty`` when the host cancels the run."""
        await self._instances.close(hasty=hasty)
        if self._owned:
            with suppress(Exception):
                await cast("Any", self._known).close()

    def _words(self, question: RagQuestion | str) -> Any:
        return question if self._sees_truth or isinstance(question, str) else question.question


def _text(problem: BaseException) -> str:
    # A failure already says what happened; a system may raise one too, with any text.
    return one_line(str(problem)) or "CallFailed" if isinstance(problem, CallFailed) else describe(problem)
