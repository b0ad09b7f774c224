"""Subscriptions to the events of a run: a bounded buffer for every reader."""

import asyncio
import weakref
from collections.abc import Callable, Iterable
from types import TracebackType
from typing import Any, Final, Generic, Self, TypeVar, get_args

from memfin.contracts import AnyProgressEvent, LiveEvent, ProgressEvent
from memfin.errors import UsageError

E = TypeVar("E", bound=ProgressEvent)

BUFFERED: Final = 1024
"""Maximum number of events that wait for a reader, unless the host sets another bound."""

LOGGED: Final[frozenset[type[ProgressEvent]]] = frozenset(get_args(AnyProgressEvent))
KINDS: Final = LOGGED.union(LiveEvent.__subclasses__())


class Subscription(Generic[E]):
    """An asynchronous iterator of a run's events, and a context manager that ends it.

    It drops the oldest events of a full buffer, never makes the run wait, and ends with the run, whatever
    ended it. It also ends when it is closed or garbage collected.

    Attributes:
        dropped: number of events that were not read in time.
    """

    def __init__(self, kinds: frozenset[type[E]], buffer: int, close: Callable[[Any], None]) -> None:
        if buffer < 1:
            raise ValueError("an event buffer holds one event at least")
        self.kinds = kinds
        self.dropped = 0
        self._size = buffer
        self._close = close
        self._events: asyncio.Queue[E | None] = asyncio.Queue()

    def put(self, event: E) -> None:
        """Add an event."""
        if self._events.qsize() == self._size:
            self._events.get_nowait()
            self.dropped += 1
        self._events.put_nowait(event)

    def end(self) -> None:
        """End the iteration after the events of the buffer."""
        self._events.put_nowait(None)

    async def get(self) -> E | None:
        """Wait for the next event and return it; None at the end. A cancellation loses no event."""
        event = await self._events.get()
        if event is None:
            self.end()  # for the next reader
        return event

    def __aiter__(self) -> Self:
        """Iterate over the events; several readers of one subscription share them."""
        return self

    async def __anext__(self) -> E:
        """Return the next event."""
        event = await self.get()
        if event is None:
            raise StopAsyncIteration
        return event

    async def __aenter__(self) -> Self:
        """Return the subscription."""
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        """Unsubscribe."""
        self._close(self)


class Subscribers:
    """The open subscriptions to one run; it keeps none of them alive."""

    def __init__(self) -> None:
        self._open: weakref.WeakSet[Subscription[ProgressEvent]] = weakref.WeakSet()
        self._ended = False

    def add(self, kinds: Iterable[type[E]] | type[E] | None, buffer: int) -> Subscription[E]:
        """Return a new subscription to events of the kinds, those of the progress log if None.

        Raises:
            UsageError: one of them is not a class of events.
        """
        wanted = LOGGED if kinds is None else frozenset(kinds if isinstance(kinds, Iterable) else [kinds])
        if unknown := sorted(map(repr, wanted - KINDS)):
            known = ", ".join(sorted(kind.__name__ for kind in KINDS))
            raise UsageError(f"kinds: {unknown[0]} is no event; give classes of memfin.contracts: {known}")
        made = Subscription[ProgressEvent](wanted, buffer, self._remove)
        self._open.add(made)
        if self._ended:
            made.end()
        return made  # type: ignore[return-value]

    def wants(self, kind: type[ProgressEvent]) -> bool:
        """Return True if anyone has subscribed to a kind of event."""
        return any(kind in each.kinds for each in self._open)

    def put(self, event: ProgressEvent) -> None:
        """Pass an event to those that have subscribed to its kind."""
        for each in self._open:
            if type(event) in each.kinds:
                each.put(event)

    def end(self) -> None:
        """End all subscriptions, and at once those that are still to come."""
        self._ended = True
        for each in self._open:
            each.end()

    def _remove(self, subscription: Subscription[ProgressEvent]) -> None:
        self._open.discard(subscription)
        subscription.end()
