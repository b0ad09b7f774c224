"""Asynchronous memory store: the operations of `MemoryStore` as coroutines that run in worker threads."""

import threading
from collections.abc import Callable, Coroutine
from contextlib import suppress
from functools import partial
from importlib import import_module
from operator import attrgetter
from pathlib import Path
from typing import TYPE_CHECKING, Any, Concatenate, Final, Generic, ParamSpec, Self, TypeVar, cast

import anyio
import anyio.to_thread
from anyio.lowlevel import RunVar

from memfin.errors import RunFault
from memfin.memory.consent import Consents
from memfin.memory.contexts import Tasks, Threads
from memfin.memory.drift import DriftLog, Thresholds
from memfin.memory.files import Files
from memfin.memory.items import Items
from memfin.memory.owned import Owned
from memfin.memory.package import Packages
from memfin.memory.reading import Reading
from memfin.memory.records import Gate
from memfin.memory.sensitive import refuse_sensitive
from memfin.memory.store import MemoryStore, utc_now
from memfin.memory.workspace import Clock, Workspace

if TYPE_CHECKING:
    from memfin.memory.telemetry import MemoryTelemetry

# anyio loads this with its first call otherwise, for 30 ms in the thread of the loop.
import_module("anyio._backends._asyncio")

# Operations of a loop at a time; others wait without a thread. Several threads would take the interpreter
# from the loop in turn, and are a fifth faster.
MAX_THREADS: Final = 1
P = ParamSpec("P")
R = TypeVar("R")


def _closed() -> MemoryStore:
    raise RunFault("memory: this store is closed; open another one")


async def run_whole(work: Callable[[], R], limiter: anyio.CapacityLimiter | None = None) -> R:
    """Run a function in a worker thread; cancelled, do not begin it, or wait for its end.

    Cancel scopes wait for a thread; the ``Task.cancel`` of asyncio, as of ``asyncio.wait_for``, does not.
    """
    begun, ended = threading.Lock(), threading.Event()

    def working() -> R:
        if not begun.acquire(blocking=False):
            raise RuntimeError("cancelled")  # to nobody
        try:
            return work()
        finally:
            ended.set()

    try:
        return await anyio.to_thread.run_sync(working, limiter=limiter)
    except anyio.get_cancelled_exc_class():
        while not begun.acquire(blocking=False) and not ended.is_set():
            with suppress(anyio.get_cancelled_exc_class()), anyio.CancelScope(shield=True):
                await anyio.to_thread.run_sync(ended.wait, limiter=anyio.CapacityLimiter(1))
        raise


class _Async(Generic[P, R]):
    """A method of a service as a coroutine function of the same parameters and result."""

    def __init__(self, method: Callable[Concatenate[Any, P], R]) -> None:
        self._name = method.__name__
        self.__doc__ = method.__doc__
        self.__wrapped__ = method

    def __get__(
        self, instance: "AsyncMemoryStore | AsyncItems | None", owner: type
    ) -> Callable[P, Coroutine[Any, Any, R]]:
        found: Any = self if instance is None else partial(instance.call, self._name)
        return cast("Callable[P, Coroutine[Any, Any, R]]", found)


class AsyncItems:
    """Service of items of an `AsyncMemoryStore`; see `memfin.memory.items.Items` for its methods."""

    def __init__(self, store: "AsyncMemoryStore") -> None:
        self._store = store

    async def call(self, name: str, *args: Any, **kwargs: Any) -> Any:
        """Run an operation by its name in a worker thread."""
        return await self._store.call(f"items.{name}", *args, **kwargs)

    add = _Async(Items.add)
    add_all = _Async(Items.add_all)
    get = _Async(Items.get)
    all = _Async(Items.all)
    everything = _Async(Items.everything)
    update = _Async(Items.update)
    history = _Async(Items.history)
    forget = _Async(Items.forget)
    search = _Async(Items.search)


class AsyncMemoryStore:
    """Memory store whose methods are coroutine functions, for any host with an event loop.

    The store is opened in a worker thread by ``async with`` or the first call. Each call runs in a worker
    thread too, at most `MAX_THREADS` of a loop at a time; several loops may share a store. A cancelled call
    that waits for its turn has no effect; one that runs is waited for, so a write is never torn and never
    goes on unseen.

    Args:
        root: the directory of the data; the other arguments are those of `MemoryStore` as well.
    """

    def __init__(
        self,
        root: str | Path,
        *,
        clock: Clock = utc_now,
        gate: Gate = refuse_sensitive,
        files: Files | None = None,
        telemetry: "MemoryTelemetry | None" = None,
        thresholds: Thresholds | None = None,
    ) -> None:
        opening = partial(MemoryStore, root, clock=clock, gate=gate, files=files, telemetry=telemetry)
        self._start(partial(opening, thresholds=thresholds))

    @classmethod
    def of(cls, store: MemoryStore) -> Self:
        """Return the asynchronous form of an open store, which its owner closes."""
        self = cls.__new__(cls)
        self._start(None, store)
        return self

    def _start(self, opening: Callable[[], MemoryStore] | None, store: MemoryStore | None = None) -> None:
        self._opening = opening
        self._store = store
        self._once = threading.Lock()
        self._limiters: RunVar[anyio.CapacityLimiter] = RunVar(f"memfin.memory {id(self)}")
        self.items = AsyncItems(self)

    def _limiter(self) -> anyio.CapacityLimiter:
        """Return the limiter of the running loop."""
        limiter = self._limiters.get(None)
        if limiter is None:
            self._limiters.set(limiter := anyio.CapacityLimiter(MAX_THREADS))
        return limiter

    def _opened(self) -> MemoryStore:
        with self._once:
            if self._store is None and self._opening is not None:
                self._store = self._opening()
                # The tables of the gate are loaded once, here, and not by several threads at the same time.
                self._store.workspace.gate({"text": "-"}, "")
            assert self._store is not None  # noqa: S101 - given, or just opened
            return self._store

    async def call(self, name: str, *args: Any, **kwargs: Any) -> Any:
        """Run an operation of the store, by its name, in a worker thread."""

        def work() -> Any:
            return attrgetter(name)(self._opened())(*args, **kwargs)

        return await run_whole(work, self._limiter())

    async def aclose(self) -> None:
        """Close the store, unless it was given, after the calls of the loop; it cannot be used afterwards."""
        if self._opening is None:
            return
        limiter = self._limiter()
        turns = [object() for _ in range(MAX_THREADS)]
        try:
            for turn in turns:
                await limiter.acquire_on_behalf_of(turn)
            await run_whole(self._close)
        finally:
            for turn in turns:
                with suppress(RuntimeError):  # not acquired
                    limiter.release_on_behalf_of(turn)

    def _close(self) -> None:
        with self._once:
            if self._opening is not None:
                if self._store is not None:
                    self._store.close()
                self._store, self._opening = None, _closed

    async def __aenter__(self) -> Self:
        try:
            await run_whole(self._opened, self._limiter())
        except anyio.get_cancelled_exc_class():
            self._close()
            raise
        return self

    async def __aexit__(self, *_: object) -> None:
        with anyio.CancelScope(shield=True):
            await self.aclose()

    consent_on_file = _Async(Workspace.consent_on_file)
    rebuild_index = _Async(Workspace.rebuild_index)
    consent_state = _Async(Consents.consent_state)
    onboarding_state = _Async(Consents.onboarding_state)
    grant_consent = _Async(Consents.grant_consent)
    revoke_consent = _Async(Consents.revoke_consent)
    on_consent_revoked = _Async(Consents.on_consent_revoked)
    read_profile = _Async(Consents.read_profile)
    review_profile = _Async(Consents.review_profile)
    delete_user = _Async(Consents.delete_user)
    save_thread = _Async(Threads.save_thread)
    refresh_thread = _Async(Threads.refresh_thread)
    patch_thread = _Async(Threads.patch_thread)
    list_threads = _Async(Threads.list_threads)
    thread_contexts = _Async(Threads.thread_contexts)
    add_candidate = _Async(Threads.add_candidate)
    record_feedback = _Async(DriftLog.record_feedback)
    drift_log = _Async(DriftLog.drift_log)
    scan_drift = _Async(DriftLog.scan_drift)
    begin_task = _Async(Tasks.begin_task)
    end_task = _Async(Tasks.end_task)
    task_context = _Async(Tasks.task_context)
    expire = _Async(Tasks.expire)
    load_memory_slices = _Async(Reading.load_memory_slices)
    start_task = _Async(Reading.start_task)
    take_hint = _Async(Reading.take_hint)
    suggestions = _Async(Reading.suggestions)
    show_thread = _Async(Owned.show_thread)
    delete_thread = _Async(Owned.delete_thread)
    delete_context = _Async(Owned.delete_context)
    list_tasks = _Async(Owned.list_tasks)
    delete_task = _Async(Owned.delete_task)
    list_feedback = _Async(Owned.list_feedback)
    delete_feedback = _Async(Owned.delete_feedback)
    delete_drift = _Async(Owned.delete_drift)
    export_user = _Async(Packages.export_user)
    export_to = _Async(Packages.export_to)
    import_package = _Async(Packages.import_package)
