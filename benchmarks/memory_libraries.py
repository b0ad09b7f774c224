"""mem0 and LangMem as the memory of an agent whose model is that of `memory_model`; `leaderboard` runs them.

All dialogues share one store, in which the client's id keeps clients apart.
"""

import os
from functools import cache
from typing import Any, Final

from benchmarks.memory_model import DIMENSIONS
from memfin.agents.memory_context import MemoryContext
from memfin.agents.protocol import Session
from memfin.contracts import RecallItem, RecallTrace

MODEL: Final = "rules"
TOP: Final = 5


def _reached(name: str) -> dict[str, Any]:
    return {"model": MODEL, "api_key": "none", name: os.environ["MEMFIN_AGENT_BASE_URL"]}


@cache
def _shared_mem0() -> Any:
    from mem0 import AsyncMemory  # type: ignore[import-untyped]  # noqa: PLC0415 - an extra

    from memfin.agents.adapters.mem0 import shared_mem0  # noqa: PLC0415

    model = {"provider": "openai", "config": _reached("openai_base_url")}
    path = os.environ["MEM0_DIR"] + "/store"
    store = {"collection_name": "facts", "embedding_model_dims": DIMENSIONS, "path": path}
    config = {
        "llm": model,
        "embedder": model,
        "vector_store": {"provider": "qdrant", "config": store},
        "history_db_path": ":memory:",
    }
    return shared_mem0(AsyncMemory.from_config(config), top_k=TOP, window=0)


@cache
def _shared_langmem() -> Any:
    from langchain_openai import ChatOpenAI, OpenAIEmbeddings  # noqa: PLC0415
    from langgraph.store.memory import InMemoryStore  # noqa: PLC0415
    from langmem import (  # type: ignore[import-not-found]  # noqa: PLC0415 - no package of the project's
        create_memory_store_manager,
    )

    embed = OpenAIEmbeddings(**_reached("base_url"), check_embedding_ctx_length=False)
    store = InMemoryStore(index={"dims": DIMENSIONS, "embed": embed, "fields": ["content.content"]})
    manager = create_memory_store_manager(ChatOpenAI(**_reached("base_url")), store=store)
    return store, manager


def mem0(session: Session) -> Any:
    """Return mem0's memory of the client."""
    return _shared_mem0()(session)


class LangMem:
    """LangMem's memory of one client: its manager extracts, its store finds."""

    def __init__(self, session: Session) -> None:
        self._user_id = session.user_id
        self._store, self._manager = _shared_langmem()

    async def recall(self, user_text: str) -> MemoryContext:
        """Return the entries nearest to the client's words."""
        found = await self._store.asearch(("memories", self._user_id), query=user_text, limit=TOP)
        items = [
            RecallItem(
                content=each.value["content"]["content"], rank=rank, item_id=each.key, source="langmem"
            )
            for rank, each in enumerate(found, 1)
        ]
        context = "\n".join(f"- {item.content}" for item in items)
        return MemoryContext(
            context=context,
            turns=[],
            recall=RecallTrace(query=user_text, packed_context=context, items=items),
        )

    async def record(self, user_text: str, assistant_text: str) -> None:
        """Have the manager extract what is worth remembering."""
        said = [{"role": "user", "content": user_text}, {"role": "assistant", "content": assistant_text}]
        config = {"configurable": {"langgraph_user_id": self._user_id}}
        await self._manager.ainvoke({"messages": said}, config=config)
