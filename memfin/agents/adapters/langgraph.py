"""LangGraph graphs as agents under test.

Three lines make an agent that ``memfin run --agent my_graph:agent`` evaluates::

    from memfin.agents.adapters.langgraph import graph_agent
    from my_project import graph
    agent = graph_agent(graph)

A graph with a checkpointer keeps the dialogue itself, as a thread with the session's id; for one
without, the adapter hands the history over at every turn. What nodes read from the graph's store,
LangGraph's long-term memory, is observed as recalled, and the client's items in it as the agent's memory.
"""

import json
from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Any, Final

from memfin.agents.adapters.langchain import (
    HistoryKeepingAgent,
    Inputs,
    Reading,
    RunnableAgent,
    TurnRecorder,
    as_messages,
    plain,
    reply_text,
    run_config,
    text_of,
)

try:
    from langchain_core.messages import AIMessage, BaseMessage, HumanMessage
    from langchain_core.runnables import RunnableConfig
    from langgraph.checkpoint.memory import InMemorySaver
    from langgraph.pregel import Pregel
    from langgraph.pregel.protocol import PregelProtocol
    from langgraph.store.base import BaseStore, GetOp, Item, Op, PutOp, Result, SearchOp
except ModuleNotFoundError as problem:
    raise ModuleNotFoundError(
        f"{problem}; the LangGraph adapter needs the extra: pip install 'memfin[langgraph]'"
    ) from problem

from memfin.agents.protocol import Observer, Session
from memfin.contracts import MemoryEntry

Graph = PregelProtocol[Any, Any, Any, Any]

MESSAGES: Final = "messages"  # of a graph's state
STORE: Final = "store"  # source of recalled items
PAGE: Final = 1000  # items of the store that are read at a time
_TEXT_KEYS: Final = ("content", "text", "memory", "data")


class ObservedStore(BaseStore):
    """Store of a graph that reports the items that are read to the turn's recorder, and what it holds."""

    def __init__(self, store: BaseStore, recorder: Callable[[], TurnRecorder], user_id: str) -> None:
        """Wrap a store for one client; ``recorder`` returns the recorder of the present turn."""
        self._store = store
        self._recorder = recorder
        self._user_id = user_id
        self._spaces: set[tuple[str, ...]] = set()
        self.supports_ttl = store.supports_ttl
        self.ttl_config = store.ttl_config

    def batch(self, ops: Iterable[Op]) -> list[Result]:
        """Carry out the operations on the store itself."""
        asked = list(ops)
        return self._observed(asked, self._store.batch(asked))

    async def abatch(self, ops: Iterable[Op]) -> list[Result]:
        """Carry out the operations on the store itself."""
        asked = list(ops)
        return self._observed(asked, await self._store.abatch(asked))

    async def held(self) -> list[MemoryEntry] | None:
        """Return the items below the namespaces used so far that have the client's id; None without one."""
        found: list[Item] = []
        for space in sorted(self._spaces):
            start = len(found)
            while page := await self._store.asearch(
                space, limit=PAGE, offset=len(found) - start, refresh_ttl=False
            ):
                found += page
        entries = [MemoryEntry(content=item_text(item), item_id=item.key) for item in found]
        return entries if self._spaces else None

    def _observed(self, ops: list[Op], results: list[Result]) -> list[Result]:
        for op, result in zip(ops, results, strict=True):
            if isinstance(op, PutOp | GetOp | SearchOp):
                space = op.namespace_prefix if isinstance(op, SearchOp) else op.namespace
                if self._user_id in space:
                    self._spaces.add(space[: space.index(self._user_id) + 1])
            if isinstance(op, GetOp | SearchOp):
                for item in result if isinstance(result, list) else [result]:
                    if isinstance(item, Item):
                        score = getattr(item, "score", None)
                        self._recorder().recalled(
                            item_text(item), item_id=item.key, score=score, source=STORE
                        )
        return results


class GraphAgent(HistoryKeepingAgent):
    """One dialogue with a graph that keeps nothing between calls: it gets the history at every turn."""

    async def _ask(self, user_text: str) -> Any:
        return finished(await super()._ask(user_text))


class ThreadAgent(RunnableAgent):
    """One dialogue with a graph that keeps its messages itself, as a thread with the session's id."""

    def __init__(
        self, graph: Graph, session: Session, observer: Observer, inputs: Inputs | None, reading: Reading
    ) -> None:
        super().__init__(graph, session, observer, inputs or self._as_state, reading)
        self._graph = graph
        self._turn = 0
        self._failed: str | None = None

    async def commit(self, assistant_text: str) -> None:
        """Make this the turn's reply in the thread; in free history it is already.

        Raises:
            RuntimeError: the graph does not replace messages, so no history can be forced on it.
        """
        messages = await self._messages()
        start = self._start(messages)
        user = messages[start] if start < len(messages) else self._user_message(self.pending or "")
        last = next((i for i in range(len(messages) - 1, start, -1) if messages[i].type == "ai"), None)
        if last is not None and text_of(messages[last]) == assistant_text:
            return
        # A failed turn may not even have kept the user's words, so they go with the reply.
        reply = AIMessage(assistant_text, id=messages[last].id if last is not None else None)
        await self._graph.aupdate_state(self._config(), {MESSAGES: [user, reply]})
        wanted = [text_of(each) for each in (*messages[:start], user, *messages[start + 1 :])]
        wanted[len(wanted) if last is None else last :] = [assistant_text]
        if [text_of(each) for each in await self._messages()] != wanted:
            raise RuntimeError(
                "history 'forced' needs a graph whose messages are replaced by id, as the reducer "
                "add_messages does; use --history free"
            )

    async def close(self) -> None:
        """Delete the thread from a checkpointer in memory; others keep it for inspection."""
        checkpointer = getattr(self._graph, "checkpointer", None)
        if isinstance(checkpointer, InMemorySaver):
            await checkpointer.adelete_thread(self.session.session_id)

    async def _ask(self, user_text: str) -> Any:
        """Send the user's words to the thread; continue an interrupted attempt."""
        resumed = self._failed == user_text
        if not resumed:
            self._turn += 1
        self._failed = user_text
        asked = self._inputs([], user_text)
        if resumed and (await self._graph.aget_state(self._config())).next:
            asked = None
        output = finished(await self._graph.ainvoke(asked, self._config()))
        self._failed = None
        return output

    def _as_state(self, history: Sequence[BaseMessage], user_text: str) -> dict[str, Any]:
        del history  # the thread has it
        return {MESSAGES: [self._user_message(user_text)]}

    def _user_message(self, user_text: str) -> HumanMessage:
        return HumanMessage(user_text, id=f"{self.session.session_id}:{self._turn}")

    def _config(self) -> RunnableConfig:
        return run_config(self.session, self.recorder)

    async def _messages(self) -> list[BaseMessage]:
        state = (await self._graph.aget_state(self._config())).values
        return list(state.get(MESSAGES, []))

    def _start(self, messages: list[BaseMessage]) -> int:
        """Return the index of the user's present words in the thread, its length if they are missing."""
        human = max((i for i, each in enumerate(messages) if each.type == "human"), default=None)
        if human is None or text_of(messages[human]) != self.pending:
            return len(messages)
        return human


def graph_agent(
    graph: Graph,
    *,
    inputs: Inputs | None = None,
    reply: Callable[[Any], str] | None = None,
    profile: Callable[[Any], Mapping[str, Any] | None] | None = None,
    recall: Callable[[Any], Mapping[str, Any] | None] | None = None,
    thread: bool | None = None,
) -> Callable[[Session, Observer], RunnableAgent]:
    """Return the factory of agents that call a compiled graph.

    Args:
        graph: a compiled graph; the dialogues share it, each has its thread and user id
            (``config["configurable"]["thread_id"]`` and ``["user_id"]``).
        inputs: makes the graph's input of the history (messages) and the user's words; by default it
            is ``{"messages": [...]}``. A thread keeps its history, so its `inputs` get an empty one.
        reply: takes the reply's text from the final state; by default the last message of the model.
        profile: takes the profile snapshot from the final state, for M2.
        recall: takes fields of the recall observation from the final state, such as
            ``profile_context``; they win over what callbacks and the store showed.
        thread: True if the graph keeps the dialogue by thread id; by default True if it was compiled
            with a checkpointer. Set it for a remote graph.
    """
    kept = bool(getattr(graph, "checkpointer", None)) if thread is None else thread
    reading = Reading(reply or reply_text, profile, recall)

    def create(session: Session, observer: Observer) -> RunnableAgent:
        agent: RunnableAgent
        store = getattr(graph, "store", None)
        own, held = graph, None
        if isinstance(graph, Pregel) and isinstance(store, BaseStore):
            observed = ObservedStore(store, lambda: agent.recorder, session.user_id)
            own, held = graph.copy({"store": observed}), observed.held
        if kept:
            agent = ThreadAgent(own, session, observer, inputs, reading)
        else:
            agent = GraphAgent(own, session, observer, inputs or _as_history, reading)
        agent.held = held
        return agent

    return create


def finished(state: Any) -> Any:
    """Return the final state of a graph; raise `RuntimeError` when it stopped to ask a human."""
    if isinstance(state, Mapping) and state.get("__interrupt__"):
        raise RuntimeError("the graph stopped at an interrupt: it waits for a human, whom a replay has not")
    return state


def item_text(item: Item) -> str:
    """Return the text of a store's item: its one text field where it has one, else the value as JSON."""
    texts = [item.value[key] for key in _TEXT_KEYS if isinstance(item.value.get(key), str)]
    return texts[0] if len(texts) == 1 else json.dumps(plain(item.value), ensure_ascii=False)


def _as_history(history: Sequence[BaseMessage], user_text: str) -> dict[str, Any]:
    return {MESSAGES: as_messages(history, user_text)}
