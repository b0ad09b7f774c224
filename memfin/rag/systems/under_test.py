"""System under test in a run: calls with a time limit into its instances, each with an outcome."""

import re
import time
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager, nullcontext, suppress
from functools import partial
from typing import Any, Final, Literal, get_args

import anyio

from memfin.agents.calls import FIRST_BACKOFF, TransportError, UsageTotal, with_retries
from memfin.agents.observer import scrubber_of_replies
from memfin.agents.protocol import AgentSettings
from memfin.client.limiter import StartLimiter
from memfin.contracts import ModelUsage, ParameterChange, Record
from memfin.contracts.rag import RagAnswer, RagBaselineName, RagQuestion
from memfin.errors import UsageError
from memfin.rag.document import Document
from memfin.rag.systems.protocol import KnownSystem, RagReply, as_reply, masked
from memfin.sandbox.calls import CallFailed, CallTimedOut, FactoryCalls, is_async
from memfin.sandbox.references import (
    check_signature,
    describe,
    import_reference,
    kind_of,
    one_line,
    package_version,
    reference_of,
)
from memfin.secrets import Scrubber

OPEN_LIMIT: Final = 600.0  # seconds to make a system, such as to index the document
CLOSE_LIMIT: Final = 10.0  # seconds for its ``close``
SHORT_CLOSE_LIMIT: Final = 0.2  # the same in a cancelled run
MAX_STUCK: Final = 16  # questions that hang in threads of their own before no more are asked
Status = Literal["ok", "timeout", "error"]

_PASSING: Final = (CallFailed, TransportError, ConnectionError)


class Asked(Record):
    """Outcome of a question: an answer, or one line with the reason of the failure.

    ``latency_ms`` is the time until then, pauses and retries included, the making of the system not.
    ``usage`` is the usage of a language model reported by the answer.
    """

    status: Status
    latency_ms: float
    answer: RagAnswer | None = None
    error: str | None = None
    retries: int = 0
    usage: ModelUsage | None = None


class SystemUnderTest:
    """A system for one run: `open` it, `ask` it from any number of tasks, and `close` it.

    Args:
        reference: the name of the system.
        make: the factory of the system, which is called with the document.
        given: the system itself, if there is no factory.
        document: the document.
        owned: True to close the given system with the run.
        timeout: seconds for a question, retries included.
        retries: number of retries of a question that failed on its way.
        starts: limit of the attempts; what they wait for it counts neither as latency nor as time out.

    Attributes:
        reference: the reference as given, or the dotted name of a factory or class.
        version: version of the system's package where it has one.
        model_name: the name of the system in the artifacts of a run.
        inputs: settings that the answers depend on, for the fingerprint; no secrets.
    """

    def __init__(
        self,
        reference: str,
        make: Callable[[Any], Any] | None = None,
        *,
        given: Any = None,
        document: Any = None,
        owned: bool = False,
        timeout: float = 120.0,
        retries: int = 2,
        starts: StartLimiter | None = None,
    ) -> None:
        known = self._known = given if isinstance(given, KnownSystem) else None
        self.reference = self.model_name = reference
        self.version = package_version(reference.partition(":")[0])
        self.inputs: dict[str, Any] = {}
        if known is not None:
            self.reference, self.model_name, self.version = known.reference, known.model, known.version
            self.inputs = dict(known.inputs)
        self._instances = _Instances(reference, make, given, document)
        self._owned = owned
        self._timeout = timeout
        self._retries = retries
        self._starts = starts
        self._usage = UsageTotal()
        self._scrubber: Scrubber | None = None

    @property
    def abandoned(self) -> int:
        """Number of calls that ignored their cancellation and were abandoned."""
        return sum(calls.abandoned for calls in self._instances.all)

    @property
    def usage(self) -> ModelUsage | None:
        """Usage of the language models behind the system so far; None if unknown."""
        return self._usage.of_run() if self._known is None else self._known.total_usage

    def listen(self, on_warning: Callable[[str], None]) -> None:
        """Pass a receiver of warnings to the system, if it has a ``listen``."""
        if callable(listen := getattr(self._known, "listen", None)):
            listen(on_warning)

    @property
    def parameter_changes(self) -> list[ParameterChange]:
        """The parameters that the model behind the system has refused so far, as far as known."""
        return [] if self._known is None else self._known.parameter_changes()

    async def open(self) -> None:
        """Make the system before a run begins; raise `UsageError` if that fails."""
        try:
            async with self._instances.acquire():
                pass
        except CallFailed as problem:
            raise UsageError(f"rag {self.reference}: {one_line(str(problem))}") from problem

    async def query(self, question: RagQuestion | str, limit: float) -> RagReply:
        """Ask once and return the answer as it is.

        Raises:
            CallFailed: the system raised or could not be made, or its answer is invalid.
            CallTimedOut: it did not answer in time.
            TransportError, ConnectionError: the question failed on its way and may be asked again.
        """
        async with self._instances.acquire() as calls:
            return await calls.query(self._words(question), limit)

    async def ask(self, question: RagQuestion | str) -> Asked:
        """Return the outcome of a question; failures of the system are outcomes too.

        Raises:
            EndpointDown: the endpoint that all questions go to is given up.
        """
        retries: list[None] = []
        start, made, held = time.perf_counter(), False, 0.0

        async def admit() -> float:
            nonlocal held
            waited = await self._starts.admit() if self._starts is not None else 0.0
            held += waited
            return waited

        def outcome(status: Status, error: str | None = None) -> Asked:
            elapsed = (time.perf_counter() - start - held) * 1000.0
            return Asked(status=status, latency_ms=elapsed, error=error, retries=len(retries))

        try:
            async with self._instances.acquire() as calls:
                start, made = time.perf_counter(), True
                reply = await with_retries(
                    lambda left: calls.query(self._words(question), left),
                    TransportError,
                    ConnectionError,
                    limit=self._timeout,
                    retries=self._retries,
                    first_pause=FIRST_BACKOFF,
                    on_retry=lambda: retries.append(None),
                    admit=admit,
                )
        except CallTimedOut as problem:
            over = made and time.perf_counter() - start - held >= self._timeout
            return outcome("timeout", f"no answer within {self._timeout:g} s" if over else _text(problem))
        except _PASSING as problem:
            return outcome("error", _text(problem))
        if calls.blocked > self._timeout:
            return outcome("timeout", f"answered after {calls.blocked:.1f} s, over {self._timeout:g} s")
        found = outcome("ok")
        if self._scrubber is None:  # systems may load keys when they are made or first asked
            self._scrubber = scrubber_of_replies()
        reply = masked(reply, self._scrubber)
        if reply.usage is not None:
            self._usage.add(reply.usage)
        return found.replace(answer=reply.answer, usage=reply.usage)

    async def close(self, *, short_grace: bool = False) -> None:
        """Close all instances; ``short_grace`` when the host cancels the run."""
        await self._instances.close(short_grace=short_grace)
        if self._owned and (close := getattr(self._known, "close", None)) is not None:
            with suppress(Exception):
                await close()

    def _words(self, question: RagQuestion | str) -> Any:
        sees_truth = self._owned and getattr(self._known, "sees_truth", False)  # the oracle
        return question if sees_truth or isinstance(question, str) else question.question


class _Calls(FactoryCalls):
    """Calls into one system, one question after another; asynchronous ones may overlap (``overlaps``)."""

    def __init__(self, name: str, system: Any = None) -> None:
        super().__init__("system", name, passing=(TransportError, ConnectionError))
        self.system: Any = system
        self.overlaps = system is not None and is_async(system.query)

    async def query(self, question: Any, limit: float) -> RagReply:
        return await self.bounded(lambda: self._query(question), limit)

    async def create(self, factory: Callable[..., Any], document: Any) -> None:
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


class _Instances:
    """Pool of calls into a system, to `acquire` for each question.

    1. An asynchronous system is made once and shared by all callers.
    2. A plain one has one caller at a time, in its own thread, and is made again when all are in use. One
       that hangs past its time is abandoned.
    3. A plain system that was ``given`` cannot be made again: its callers queue.
    """

    def __init__(self, name: str, make: Callable[[Any], Any] | None, given: Any, document: Any) -> None:
        self._name = name
        self._make = make
        self._document = document
        self._idle: list[_Calls] = []
        self.all: list[_Calls] = []
        self._owners: list[_Calls] = []
        self._shared: Any = given
        self._plain = False
        self._first = anyio.Lock()
        queued = given is not None and not is_async(given.query)
        self._queue = anyio.Semaphore(1) if queued else None

    @asynccontextmanager
    async def acquire(self) -> AsyncIterator[_Calls]:
        """Acquire calls into an instance; raise `CallFailed` without one, or if too many are stuck."""
        if sum(calls.stuck for calls in self.all) >= MAX_STUCK:
            raise CallFailed(f"{MAX_STUCK} earlier questions still hang in their threads; no more are asked")
        async with self._queue or nullcontext():
            calls = await self._lend()
            try:
                yield calls
            finally:
                self._back(calls)

    async def _lend(self) -> _Calls:
        if self._plain or self._idle or self._shared is not None:
            return self._known() or await self._made()
        async with self._first:
            return self._known() or await self._made()

    def _back(self, calls: _Calls) -> None:
        if not calls.stuck:
            self._idle.append(calls)
            return
        calls.stop()
        if calls in self._owners:
            self._owners.remove(calls)

    async def close(self, *, short_grace: bool = False) -> None:
        """Close every instance that was made; failures are ignored."""
        limit = SHORT_CLOSE_LIMIT if short_grace else CLOSE_LIMIT
        # A factory may return the same object every time.
        owners = {id(calls.system): calls for calls in reversed(self._owners)}
        self._owners = []
        for calls in reversed(owners.values()):
            with suppress(*_PASSING):
                await calls.close(limit, short_grace=short_grace)
        for calls in self._idle:
            calls.stop()
        self._idle = []

    def _known(self) -> _Calls | None:
        if self._idle:
            return self._idle.pop()
        if self._shared is None:
            return None
        self.all.append(_Calls(self._name, self._shared))
        return self.all[-1]

    async def _made(self) -> _Calls:
        if self._make is None:
            raise CallFailed("the system is closed")
        calls = _Calls(self._name)
        self.all.append(calls)
        try:
            await calls.bounded(partial(calls.create, self._make, self._document), OPEN_LIMIT)
        except BaseException as problem:
            with anyio.CancelScope(shield=True), suppress(*_PASSING):
                await calls.close(SHORT_CLOSE_LIMIT, short_grace=True)
            if isinstance(problem, _PASSING):
                reason = str(problem) if isinstance(problem, CallFailed) else describe(problem)
                kind = CallTimedOut if isinstance(problem, CallTimedOut) else CallFailed
                raise kind(f"the system could not be created: {reason}") from problem
            raise
        self._owners.append(calls)
        self._plain = not calls.overlaps
        if calls.overlaps:
            self._shared = calls.system
        return calls


def _text(problem: BaseException) -> str:
    # A failure already says what happened; a system may raise one too, with any text.
    return one_line(str(problem)) or "CallFailed" if isinstance(problem, CallFailed) else describe(problem)


FORMS: Final = "builtin, bm25s, oracle, http(s)://..., openai:MODEL or pkg.module:factory"

EXPECTED: Final = (
    "a class, or a factory function (document), that gives an object with a method query(question); "
    "docs/rag-systems.md shows one"
)

OPENAI: Final = "openai:"

_ADDRESS: Final = re.compile(r"(?:[\w.-]+|\[[0-9a-f:.]+\]):\d+(?:/[^@?#]*)?\Z", re.IGNORECASE)
"""A host with a port; no factory has a name of digits."""


def load_system(
    system: str | Callable[..., Any] | object,
    *,
    document: Document | None = None,
    settings: AgentSettings | None = None,
    retries: int = 2,
    starts: StartLimiter | None = None,
) -> SystemUnderTest:
    """Return the system of a reference, of a factory, or around a system itself.

    ``system`` is a reference as for ``--rag``, a factory or class, which is called with ``document``, or
    an object with a ``query`` method. ``settings`` are those of a run: the seconds for a question and, for
    ``openai:MODEL``, the model's. ``retries`` limits the retries of a question that failed on its way, and
    ``starts`` the rate of all attempts.

    Raises:
        UsageError: the reference, an endpoint or a setting is unusable, or the system needs a document.
    """
    settings = settings or AgentSettings()
    limits: dict[str, Any] = {"timeout": settings.turn_timeout, "retries": retries, "starts": starts}
    factory: Callable[..., Any]
    if not isinstance(system, str):
        settings.refuse_model_settings("a Python system")
        if callable(getattr(system, "query", None)) and not isinstance(system, type):
            return SystemUnderTest(reference_of(type(system)), given=system, **limits)
        if not callable(system):
            kind = type(system).__name__
            raise UsageError(
                f"rag: expected a reference, a factory or an object with a query method, got {kind}"
            )
        reference, factory = reference_of(system), system
    elif (known := _known_system(system, document, settings)) is not None:
        return SystemUnderTest(known.reference, given=known, owned=True, **limits)
    else:
        reference, factory = system, import_reference("rag", system, FORMS)
    check_signature(f"rag {reference!r}", factory, ("document",), EXPECTED)
    return SystemUnderTest(reference, factory, document=document, **limits)


def _known_system(reference: str, document: Document | None, settings: AgentSettings) -> KnownSystem | None:
    """Return the system of a reference, None for one that names a factory."""
    if not reference.startswith(OPENAI):
        settings.refuse_model_settings(reference)
        if reference == "oracle":
            from memfin.rag.systems.oracle import Oracle  # noqa: PLC0415 - loads its rules only when used

            return Oracle()
        if reference.lower().startswith(("http://", "https://")):
            from memfin.rag.systems.http import HttpRag  # noqa: PLC0415 - aiohttp loads slowly

            return HttpRag(reference, timeout=settings.turn_timeout)
        if _ADDRESS.match(reference):
            raise UsageError(f"rag {reference!r}: an address needs its scheme, as in http://{reference}")
        if reference not in get_args(RagBaselineName):
            return None
    if document is None:
        raise UsageError(
            f"rag {reference!r}: reads the document itself, and there is none; name it with --document"
        )
    if not reference.startswith(OPENAI):
        return baseline_system(reference, document)
    from memfin.rag.systems.openai import OpenAIRag  # noqa: PLC0415 - aiohttp loads slowly

    return OpenAIRag.from_settings(reference.removeprefix(OPENAI), document, settings)


def baseline_system(name: str, document: Document) -> KnownSystem:
    """Return a baseline, which answers from the document alone, without a pause.

    Raises:
        UsageError: the package of an extra is missing.
    """
    if name == "bm25s":
        from memfin.rag.systems.bm25s import Bm25sRag  # noqa: PLC0415 - an extra

        return Bm25sRag(document)
    from memfin.rag.systems.builtin import BuiltinRag  # noqa: PLC0415 - loads its rules only when used

    return BuiltinRag(document)
