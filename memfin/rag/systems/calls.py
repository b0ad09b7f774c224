"""The calls into one system under test: create, query, close; each bounded in time."""

from collections.abc import Callable
from typing import Any, Self

from memfin.agents.calls import TransportError
from memfin.rag.systems.answers import as_reply
from memfin.rag.systems.protocol import RagReply
from memfin.sandbox.calls import CallFailed, FactoryCalls, is_async
from memfin.sandbox.references import kind_of


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
