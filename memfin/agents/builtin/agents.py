"""Built-in agents for the clients of a memory store: each knows what its client has saved."""

import hashlib
from typing import Any, Final

import anyio

from memfin.agents.builtin.agent import BuiltinAgent
from memfin.agents.protocol import Observer, Session
from memfin.contracts.memory import Route
from memfin.errors import UsageError
from memfin.memory.paths import check_id
from memfin.memory.slices import LoadedMemory
from memfin.memory.store import MemoryStore
from memfin.version import __version__

_ROUTE: Final[Route] = "pre_execution"  # the one that may read positions, horizons and constraints


class BuiltinAgents:
    """Factory of built-in agents that begin with the memory of a user, as every task of theirs does.

    Consent is checked at the begin of each dialogue: without one, the agent knows nothing. Answers keep to
    the saved constraints and follow the research depth and the order of risks. Nothing is written.

    Args:
        store: the store of the memory; it stays the caller's to close.
        user_id: the user; by default the one of each dialogue's session.
        thread_id: a thread whose context is read, too.
    """

    reference = "memfin.agents.builtin:BuiltinAgents"
    model = "builtin"
    version: str | None = __version__
    total_usage = None

    def __init__(
        self, store: MemoryStore, user_id: str | None = None, *, thread_id: str | None = None
    ) -> None:
        if not isinstance(store, MemoryStore):
            raise UsageError("store: must be an open MemoryStore")
        self._store = store
        self._user_id = None if user_id is None else check_id(user_id)
        self._thread_id = thread_id

    @property
    def inputs(self) -> dict[str, Any]:
        """Digest of the user's memory, so that a run is resumed with the same memory only."""
        if self._user_id is None:
            return {}
        block = self._load(self._user_id).block.text
        return {"memory_sha256": hashlib.sha256(block.encode()).hexdigest()}

    async def __call__(self, session: Session, observer: Observer) -> BuiltinAgent:
        """Return the agent of a dialogue."""
        saved = await anyio.to_thread.run_sync(self._load, self._user_id or session.user_id)
        return BuiltinAgent(session, observer, saved)

    async def close(self) -> None:
        """Do nothing: the store is the caller's."""

    def _load(self, user_id: str) -> LoadedMemory:
        return self._store.load_memory_slices(user_id, _ROUTE, self._thread_id)
