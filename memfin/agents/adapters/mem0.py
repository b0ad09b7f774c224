"""mem0 as the memory behind a plain model.

A module of three lines gives ``memfin run --agent openai:MODEL --agent-memory my_memory:memory``::

    from memfin.agents.adapters.mem0 import mem0_memory
    memory = mem0_memory(model="qwen3", embedding_model="bge-m3", dimensions=1024)

mem0 has the model extract facts from every exchange, embeds them, and finds those near to a question.
Model and embeddings are those of the agent's endpoint; facts are kept in a folder of the dialogue
that goes away with it.

mem0 sends telemetry unless ``MEM0_TELEMETRY`` is set otherwise; this module sets it to ``False`` where it is
unset.
"""

import os
import sys
import tempfile
from collections import deque
from collections.abc import Callable
from typing import Any, Final
from urllib.parse import quote

import anyio.to_thread

from memfin.agents.adapters.transport import translated_errors
from memfin.agents.history import prompt_fields
from memfin.agents.memory_context import MemoryContext
from memfin.agents.protocol import Session
from memfin.client.endpoint import Endpoint
from memfin.contracts import RecallItem, RecallTrace, ShortTermTurn
from memfin.errors import UsageError

TELEMETRY: Final = "MEM0_TELEMETRY"

if TELEMETRY not in os.environ:
    if "mem0" in sys.modules:
        raise UsageError(
            f"mem0 was imported with its telemetry on: set {TELEMETRY}=False, or import "
            "memfin.agents.adapters.mem0 before mem0"
        )
    os.environ[TELEMETRY] = "False"
try:
    from mem0 import AsyncMemory  # type: ignore[import-untyped]  # it ships no types
except ModuleNotFoundError as problem:
    raise ModuleNotFoundError(
        f"{problem}; the mem0 adapter needs the extra: pip install 'memfin[mem0]'"
    ) from problem

_HEADINGS: Final = {"zh": "关于客户的记忆", "en": "What you remember about the client"}

_OWNER: Final = "client"
"""The user id in a memory that one dialogue has for itself."""


class Mem0Memory:
    """mem0's memory of one dialogue, with the last exchanges word for word beside it."""

    def __init__(
        self, memory: AsyncMemory, user_id: str, language: str, *, top_k: int = 5, window: int = 3
    ) -> None:
        """Use mem0's object for one user, whose id has no white space; see `mem0_memory`."""
        self._memory = memory
        self._user_id = user_id
        self._heading = _HEADINGS.get(language, _HEADINGS["en"])
        self._top_k = top_k
        self._window: deque[ShortTermTurn] = deque(maxlen=2 * window)
        self._unsaved: tuple[str, str] | None = None

    async def recall(self, user_text: str) -> MemoryContext:
        """Return the facts nearest to the user's words, and the last exchanges.

        Raises:
            TransportError: the embedding model could not be reached.
        """
        items = await self._search(user_text) if user_text.strip() else []
        facts = "\n".join(f"- {item.content}" for item in items)
        context = f"[{self._heading}]\n{facts}" if items else ""
        turns = list(self._window)
        recall = RecallTrace(query=user_text, items=items, **prompt_fields(context, turns))
        return MemoryContext(context=context, turns=turns, recall=recall)

    async def record(self, user_text: str, assistant_text: str) -> None:
        """Have mem0 extract and store what is worth remembering of an exchange.

        Raises:
            TransportError: a model behind mem0 could not be reached.
        """
        exchange = [("user", user_text), ("assistant", assistant_text)]
        if self._unsaved != (user_text, assistant_text):  # else it is tried again
            self._window.extend(ShortTermTurn(role=role, content=text) for role, text in exchange)
        self._unsaved = (user_text, assistant_text)
        messages = [{"role": role, "content": text} for role, text in exchange]
        with translated_errors():
            await self._memory.add(messages, user_id=self._user_id)
        self._unsaved = None

    async def close(self) -> None:
        """Leave the memory to whoever made it."""

    async def _search(self, query: str) -> list[RecallItem]:
        with translated_errors():
            found = await self._memory.search(query, filters={"user_id": self._user_id}, top_k=self._top_k)
        return [
            RecallItem(
                content=each["memory"], rank=rank, item_id=each["id"], score=each["score"], source="mem0"
            )
            for rank, each in enumerate(found["results"], start=1)
        ]


class OwnMem0Memory(Mem0Memory):
    """A dialogue's memory with a store of its own, in a folder that `close` removes."""

    def __init__(self, config: dict[str, Any], session: Session, **sizes: int) -> None:
        """Make the store; ``config`` is mem0's, without the store."""
        self._folder = tempfile.TemporaryDirectory(prefix="memfin-mem0-", ignore_cleanup_errors=True)
        store = {"provider": "qdrant", "config": {**config["vector_store"], "path": self._folder.name}}
        memory = AsyncMemory.from_config({**config, "vector_store": store, "history_db_path": ":memory:"})
        super().__init__(memory, _OWNER, session.language, **sizes)

    async def close(self) -> None:
        """Close the store and its connections, and remove its folder."""
        await anyio.to_thread.run_sync(self._close)

    def _close(self) -> None:
        memory: Any = self._memory
        memory.close()
        for part in (memory.llm, memory.embedding_model, memory.vector_store):
            part.client.close()
        self._folder.cleanup()


def mem0_memory(
    *, model: str, embedding_model: str, dimensions: int, top_k: int = 5, window: int = 3
) -> Callable[[Session], Mem0Memory]:
    """Return the factory of memories that each have a store of their own.

    Args:
        model: the model that extracts facts.
        embedding_model: the model that embeds them; both are models of the agent's endpoint.
        dimensions: length of the embedding model's vectors.
        top_k: maximum number of recalled facts.
        window: number of exchanges that the model gets word for word.

    Raises:
        UsageError: (the factory) there is no endpoint, or mem0 would not use it.
    """

    def create(session: Session) -> Mem0Memory:
        reached = _reached(Endpoint.from_environment("agent"))
        config = {
            "llm": {"provider": "openai", "config": {"model": model, "temperature": 0.0, **reached}},
            "embedder": {"provider": "openai", "config": {"model": embedding_model, **reached}},
            "vector_store": {"collection_name": "facts", "embedding_model_dims": dimensions},
        }
        return OwnMem0Memory(config, session, top_k=top_k, window=window)

    return create


def shared_mem0(memory: AsyncMemory, *, top_k: int = 5, window: int = 3) -> Callable[[Session], Mem0Memory]:
    """Return the factory of memories that share a mem0 of the user's own making.

    Each client is a user of its own in it; what was stored stays there when a run is over.
    """

    def create(session: Session) -> Mem0Memory:
        user_id = quote(session.user_id, safe="")  # mem0 takes no white space
        return Mem0Memory(memory, user_id, session.language, top_k=top_k, window=window)

    return create


def _reached(endpoint: Endpoint) -> dict[str, str]:
    """Return the settings of mem0's clients for the endpoint; raise `UsageError` if it is unusable."""
    if os.environ.get("OPENROUTER_API_KEY"):
        raise UsageError(
            "mem0 sends everything to OpenRouter while OPENROUTER_API_KEY is set, whatever the agent's "
            "endpoint is: unset it, or pass your own mem0 to shared_mem0"
        )
    scheme, _, key = endpoint.headers().get("Authorization", "").partition(" ")
    if scheme == "Basic":
        raise UsageError("mem0 takes no user and password in the base URL: use a key")
    return {"openai_base_url": str(endpoint.url("")), "api_key": key or "none"}
