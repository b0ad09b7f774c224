"""The instances of a system under test, and who may ask which of them at what time."""

from collections.abc import Callable
from contextlib import suppress
from typing import Any, Final

import anyio

from memfin.agents.calls import TransportError
from memfin.rag.systems.calls import SystemCalls
from memfin.sandbox.calls import CallFailed, CallTimedOut
from memfin.sandbox.references import describe

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
                    await calls.close(HASTY_CLOSE_LIMIT if hasty else CLOSE_LIMIT, short_grace=hasty)
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
                await calls.close(HASTY_CLOSE_LIMIT, short_grace=True)
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
