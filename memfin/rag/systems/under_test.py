"""System under test in a run: bounded calls into its instances, each of which ends in an outcome."""

import time
from collections.abc import Callable
from contextlib import suppress
from typing import Any, Final, Literal, Self, cast

import anyio

from memfin.agents.calls import TransportError
from memfin.agents.masking import scrubber_of_replies
from memfin.agents.retrying import FIRST_BACKOFF, LONGEST_BACKOFF, with_retries
from memfin.agents.usage import UsageTotal
from memfin.contracts import ModelUsage, ParameterChange, Record
from memfin.contracts.rag import RagAnswer, RagQuestion
from memfin.errors import UsageError
from memfin.rag.systems.protocol import KnownSystem, RagReply, as_reply, masked
from memfin.sandbox.calls import CallFailed, CallTimedOut, is_async
from memfin.sandbox.factories import FactoryCalls
from memfin.sandbox.references import describe, kind_of, one_line
from memfin.secrets import Scrubber


class SystemCalls(FactoryCalls):
    """One system, asked one question after another; `open` it first, `close` it in the end.

    Attributes:
        system: the system, once there is one.
        overlaps: whether it answers asynchronously, so that others may ask it meanwhile.
    """

    def __init__(self, name: str) -> None:
        super().__init__("system", name, passing=(TransportError, ConnectionError))
        self.system: Any = None
        self.overlaps = False

    @classmethod
    def over(cls, system: Any, name: str) -> Self:
        """Return calls into a system that somebody else made, and closes."""
        calls = cls(name)
        calls.system = system
        calls.overlaps = is_async(system.query)
        return calls

    async def open(self, factory: Callable[..., Any], document: Any, limit: float) -> None:
        """Create the system within ``limit`` seconds.

        Raises:
            CallFailed: that failed.
            TransportError, ConnectionError: something on its way did.
        """
        await self.bounded(lambda: self._create(factory, document), limit)

    async def query(self, question: Any, limit: float) -> RagReply:
        """Return the answer within ``limit`` seconds.

        Raises:
            CallFailed: the system raised, or what it returned is no answer.
            CallTimedOut: it did not answer in time.
            TransportError, ConnectionError: something on its way failed; it may be asked again.
        """
        return await self.bounded(lambda: self._query(question), limit)

    async def _create(self, factory: Callable[..., Any], document: Any) -> None:
        on_loop = isinstance(factory, type) and is_async(getattr(factory, "query", None))
        system = await self.make(factory, document, on_loop=on_loop)
        if not callable(getattr(system, "query", None)):
            raise CallFailed(
                f"the factory returned {kind_of(system)}; expected an object with a query method"
            )
        self.overlaps = is_async(system.query)
        self.system = system

    async def _query(self, question: Any) -> RagReply:
        return as_reply(await self.invoke(self.system.query, question, on_loop=self.overlaps))


OPEN_LIMIT: Final = 600.0
CLOSE_LIMIT: Final = 10.0
HASTY_CLOSE_LIMIT: Final = 0.2
"""Seconds: what it may take to make a system, such as to index the document; what its ``close`` may
take, and when the host cancels the run."""

MOST_STUCK: Final = 16
"""Questions that hang in threads of their own before no more are asked."""


class Instances:
    """Lends out calls into a system, which come `back` after each question; `close` it in the end.

    An asynchronous system is made once and lent to as many as like. A plain one is lent to one at a time,
    and made again when all there are have been lent out; each lives in its own thread. One that hangs
    past its time is left behind, and made anew for the next question. A plain system that was ``given``
    cannot be made again: those who wait for it queue.
    """

    def __init__(
        self,
        name: str,
        make: Callable[[Any], Any] | None = None,
        *,
        given: Any = None,
        document: Any = None,
    ) -> None:
        self._name = name
        self._make = make
        self._document = document
        self._idle: list[SystemCalls] = []
        self._all: list[SystemCalls] = []
        self._owners: list[SystemCalls] = []
        self._shared: Any = given
        self._plain = False
        self._first = anyio.Lock()
        self._queue: anyio.Semaphore | None = None
        if given is not None and not self._over(given).overlaps:
            self._queue = anyio.Semaphore(1)

    @property
    def abandoned(self) -> int:
        """Calls that ignored their cancellation and were left behind."""
        return sum(calls.abandoned for calls in self._all)

    async def lend(self) -> SystemCalls:
        """Return calls into an instance; give them `back`.

        Raises:
            CallFailed: there is none and none can be made, or too many have got stuck.
        """
        if sum(calls.stuck for calls in self._all) >= MOST_STUCK:
            raise CallFailed(f"{MOST_STUCK} earlier questions still hang in their threads; no more are asked")
        if self._queue is not None:
            await self._queue.acquire()
        if self._idle:
            return self._idle.pop()
        if self._shared is not None:
            return self._over(self._shared)
        if self._plain:
            return await self._made()
        async with self._first:
            if self._idle or self._shared is not None:
                return self._idle.pop() if self._idle else self._over(self._shared)
            return await self._made()

    def back(self, calls: SystemCalls) -> None:
        """Take back what was lent."""
        if self._queue is not None:
            self._queue.release()
        if not calls.stuck:
            self._idle.append(calls)
            return
        calls.stop()
        if calls in self._owners:
            self._owners.remove(calls)

    async def close(self, *, hasty: bool = False) -> None:
        """Close every instance that was made; what goes wrong there is nobody's loss any more."""
        owners, self._owners = self._owners, []
        closed: set[int] = set()  # a factory may return the same object every time
        for calls in owners:
            if id(calls.system) not in closed:
                closed.add(id(calls.system))
                with suppress(CallFailed, TransportError, ConnectionError):
                    await calls.close(HASTY_CLOSE_LIMIT if hasty else CLOSE_LIMIT, hasty=hasty)
        for calls in self._idle:
            calls.stop()
        self._idle = []

    async def _made(self) -> SystemCalls:
        if self._make is None:
            raise CallFailed("the system is closed")
        calls = SystemCalls(self._name)
        self._all.append(calls)
        try:
            await calls.open(self._make, self._document, OPEN_LIMIT)
        except BaseException as problem:
            with anyio.CancelScope(shield=True), suppress(CallFailed, TransportError, ConnectionError):
                await calls.close(HASTY_CLOSE_LIMIT, hasty=True)
            if isinstance(problem, CallFailed | TransportError | ConnectionError):
                said = str(problem) if isinstance(problem, CallFailed) else describe(problem)
                kind = CallTimedOut if isinstance(problem, CallTimedOut) else CallFailed
                raise kind(f"the system could not be created: {said}") from problem
            raise
        self._owners.append(calls)
        self._plain = not calls.overlaps
        if calls.overlaps:
            self._shared = calls.system
        return calls

    def _over(self, system: Any) -> SystemCalls:
        calls = SystemCalls.over(system, self._name)
        self._all.append(calls)
        return calls


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
