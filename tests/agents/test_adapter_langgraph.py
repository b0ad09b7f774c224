"""LangGraph graphs as agents: the real package, a model on loopback."""

import operator
from collections.abc import Iterable
from typing import Annotated, Any, TypedDict

import pytest

pytest.importorskip("langgraph", reason="the extra memfin[langgraph] is not installed")
pytest.importorskip("langchain_openai", reason="the package langchain-openai is not installed")

from langchain_core.messages import AIMessage, AnyMessage, BaseMessage, SystemMessage
from langchain_core.runnables import RunnableConfig
from langchain_core.tools import tool
from langchain_openai import ChatOpenAI
from langgraph.checkpoint.memory import InMemorySaver
from langgraph.graph import END, START, MessagesState, StateGraph
from langgraph.prebuilt import ToolNode, tools_condition
from langgraph.store.base import BaseStore, Op, Result, SearchOp
from langgraph.store.memory import InMemoryStore
from langgraph.types import interrupt
from msgspec import UNSET, UnsetType

from memfin.agents.adapters import langgraph as langgraph_adapter
from memfin.agents.adapters.langchain import TurnRecorder
from memfin.agents.adapters.langgraph import ObservedStore, graph_agent
from memfin.contracts import ModelUsage
from tests.agents.adapter_replay import QUESTIONS, REFERENCES, replayed, stay_on_loopback
from tests.agents.loopback_model import LoopbackModel, loopback_model


@pytest.fixture(autouse=True)
def attempts(monkeypatch: pytest.MonkeyPatch) -> list[str]:
    return stay_on_loopback(monkeypatch)


TOOL_RUNS: list[str] = []
"""Funds that the tool was asked for, in order; emptied by the fixture below."""


@pytest.fixture(autouse=True)
def no_tool_runs() -> None:
    TOOL_RUNS.clear()


@tool
def fee_of(fund: str) -> str:
    """Return the yearly fee of a fund."""
    TOOL_RUNS.append(fund)
    if fund == "none":
        raise LookupError("no such fund")
    return "0.15%"


def chat_model(model: LoopbackModel) -> ChatOpenAI:
    return ChatOpenAI(model="m1", base_url=model.base_url, api_key="k", max_retries=0)  # type: ignore[arg-type]


def talking_graph(model: LoopbackModel) -> StateGraph[Any, Any, Any, Any]:
    """Return a graph that hands its messages to the model."""
    chat = chat_model(model)

    async def talk(state: MessagesState) -> dict[str, list[BaseMessage]]:
        return {"messages": [await chat.ainvoke([SystemMessage("Advise."), *state["messages"]])]}

    graph = StateGraph(MessagesState)
    graph.add_node("talk", talk)
    graph.add_edge(START, "talk")
    graph.add_edge("talk", END)
    return graph


def tool_graph(model: LoopbackModel) -> StateGraph[Any, Any, Any, Any]:
    """Return the usual loop of a model and its tools."""
    chat = chat_model(model).bind_tools([fee_of])

    async def talk(state: MessagesState) -> dict[str, list[BaseMessage]]:
        return {"messages": [await chat.ainvoke(state["messages"])]}

    graph = StateGraph(MessagesState)
    graph.add_node("talk", talk)
    graph.add_node("tools", ToolNode([fee_of], handle_tool_errors=True))
    graph.add_edge(START, "talk")
    graph.add_conditional_edges("talk", tools_condition)
    graph.add_edge("tools", "talk")
    return graph


def numbered(request: dict[str, Any]) -> str:
    return f"answer {sum(message['role'] == 'user' for message in request['messages'])}"


def with_tool(request: dict[str, Any]) -> str | dict[str, Any]:
    """Ask for the tool at every turn, then answer with what it gave."""
    last = request["messages"][-1]
    if last["role"] == "tool":
        return f"the fee is {last['content']}"
    number = sum(message["role"] == "user" for message in request["messages"])
    fund = "none" if number == 2 else "510300"
    function = {"name": "fee_of", "arguments": f'{{"fund": "{fund}"}}'}
    call = {"id": f"call{number}", "type": "function", "function": function}
    return {"role": "assistant", "content": None, "tool_calls": [call]}


def spoken(messages: list[dict[str, Any]]) -> list[str]:
    return [message["content"] for message in messages if message["role"] in ("user", "assistant")]


@pytest.mark.parametrize("kept", [True, False], ids=["thread", "no checkpointer"])
async def test_a_graph_has_the_dialogue_so_far(
    kept: bool, monkeypatch: pytest.MonkeyPatch, attempts: list[str]
) -> None:
    async with loopback_model(numbered) as model:
        graph = talking_graph(model).compile(checkpointer=InMemorySaver() if kept else None)
        result = await replayed(graph_agent(graph), monkeypatch)
    assert [turn.pred_assistant_text for turn in result.trace.turns] == ["answer 1", "answer 2", "answer 3"]
    assert spoken(model.asked[2]) == [QUESTIONS[0], "answer 1", QUESTIONS[1], "answer 2", QUESTIONS[2]]
    recall = result.trace.turns[2].recall
    assert recall is not None
    assert [turn.content for turn in recall.short_term_turns] == spoken(model.asked[2])[:-1]
    assert attempts == []


@pytest.mark.parametrize("kept", [True, False], ids=["thread", "no checkpointer"])
async def test_forced_history_replaces_the_replies_of_a_graph(
    kept: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    async with loopback_model(numbered) as model:
        graph = talking_graph(model).compile(checkpointer=InMemorySaver() if kept else None)
        result = await replayed(graph_agent(graph), monkeypatch, history="forced")
    assert [turn.error for turn in result.trace.turns] == [None] * 3
    assert spoken(model.asked[2]) == [
        QUESTIONS[0],
        REFERENCES[0],
        QUESTIONS[1],
        REFERENCES[1],
        QUESTIONS[2],
    ]


async def test_forced_history_holds_where_a_turn_of_the_thread_failed(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    refusals = iter([400])
    async with loopback_model(lambda request: next(refusals, 0) or numbered(request)) as model:
        graph = talking_graph(model).compile(checkpointer=InMemorySaver())
        result = await replayed(graph_agent(graph), monkeypatch, turns=2, history="forced")
    assert [turn.turn_status for turn in result.trace.turns] == ["error", "ok"]
    assert spoken(model.asked[-1]) == [QUESTIONS[0], REFERENCES[0], QUESTIONS[1]]


class AppendedState(TypedDict):
    messages: Annotated[list[AnyMessage], operator.add]


async def test_a_thread_whose_messages_cannot_be_replaced_refuses_forced_history(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    async def talk(state: AppendedState) -> dict[str, list[BaseMessage]]:
        return {"messages": [AIMessage("reply")]}

    builder = StateGraph(AppendedState)
    builder.add_node("talk", talk)
    builder.add_edge(START, "talk")
    graph = builder.compile(checkpointer=InMemorySaver())
    forced = await replayed(graph_agent(graph), monkeypatch, turns=1, history="forced")
    assert "add_messages does; use --history free" in (forced.trace.turns[0].error or "")
    free = await replayed(graph_agent(graph), monkeypatch, turns=2)
    assert [turn.turn_status for turn in free.trace.turns] == ["ok", "ok"]


@pytest.mark.parametrize("kept", [True, False], ids=["thread", "no checkpointer"])
async def test_tool_calls_are_recorded_with_arguments_result_and_error(
    kept: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    async with loopback_model(with_tool) as model:
        graph = tool_graph(model).compile(checkpointer=InMemorySaver() if kept else None)
        result = await replayed(graph_agent(graph), monkeypatch)
    first, second, third = (turn.tools for turn in result.trace.turns)
    assert [(call.tool_name, call.args, call.result_excerpt, call.error) for call in first] == [
        ("fee_of", {"fund": "510300"}, "0.15%", None)
    ]
    assert first[0].latency_ms is not None
    assert len(second) == len(third) == 1  # those of the turn, not those of the thread
    assert "no such fund" in (second[0].error or "")
    assert result.trace.turns[0].pred_assistant_text == "the fee is 0.15%"
    usage = result.trace.turns[0].usage
    assert isinstance(usage, ModelUsage)
    assert usage.calls == 2


async def test_tools_that_only_messages_tell_of_are_recorded(monkeypatch: pytest.MonkeyPatch) -> None:
    async def remote(state: MessagesState) -> dict[str, list[Any]]:
        call = {"name": "quote", "args": {"code": "510300"}, "id": "c1", "type": "tool_call"}
        result = {"role": "tool", "content": "3.9", "tool_call_id": "c1", "name": "quote"}
        return {"messages": [AIMessage("", tool_calls=[call]), result, AIMessage("it is 3.9")]}

    builder = StateGraph(MessagesState)
    builder.add_node("remote", remote)
    builder.add_edge(START, "remote")
    result = await replayed(graph_agent(builder.compile()), monkeypatch, turns=1)
    turn = result.trace.turns[0]
    assert [(call.tool_name, call.args, call.result_excerpt) for call in turn.tools] == [
        ("quote", {"code": "510300"}, "3.9")
    ]
    assert turn.pred_assistant_text == "it is 3.9"


async def test_a_retried_turn_takes_its_thread_up_where_it_broke_off(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    answers: list[Any] = [None, 503, None]  # the tool has run when the server is busy

    def flaky(request: dict[str, Any]) -> Any:
        return (answers.pop(0) if answers else None) or with_tool(request)

    async with loopback_model(flaky) as model:
        graph = tool_graph(model).compile(checkpointer=InMemorySaver())
        result = await replayed(graph_agent(graph), monkeypatch, turns=1)
    turn = result.trace.turns[0]
    assert (turn.pred_assistant_text, result.retries) == ("the fee is 0.15%", 1)
    assert TOOL_RUNS == ["510300"]
    roles = [message["role"] for message in model.asked[-1]]
    assert roles == ["user", "assistant", "tool"]


async def test_a_retried_turn_of_a_graph_without_thread_is_asked_again(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    refusals = iter([503])
    async with loopback_model(lambda request: next(refusals, 0) or numbered(request)) as model:
        graph = talking_graph(model).compile()
        result = await replayed(graph_agent(graph), monkeypatch, turns=2)
    assert [turn.pred_assistant_text for turn in result.trace.turns] == ["answer 1", "answer 2"]
    assert result.retries == 1


def note_graph(name: str = "user_id") -> StateGraph[Any, Any, Any, Any]:
    """Return a graph that keeps notes in the store, by an id of its config, and reads them at every turn."""

    async def talk(
        state: MessagesState, *, config: RunnableConfig, store: BaseStore
    ) -> dict[str, list[BaseMessage]]:
        space = ("notes", config.get("configurable", {}).get(name, name))
        found = await store.asearch(space, limit=5)
        text = str(state["messages"][-1].text)
        await store.aput(space, f"note{len(found)}", {"text": text})
        return {"messages": [AIMessage(f"{len(found)} notes")]}

    graph = StateGraph(MessagesState)
    graph.add_node("talk", talk)
    graph.add_edge(START, "talk")
    return graph


async def test_what_nodes_read_from_the_store_is_recorded_as_recalled(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    store = InMemoryStore()
    graph = note_graph().compile(store=store, checkpointer=InMemorySaver())
    result = await replayed(graph_agent(graph), monkeypatch)
    recalled = [turn.recall.items if turn.recall else None for turn in result.trace.turns]
    assert recalled[0] == []
    assert [(item.content, item.item_id, item.source) for item in recalled[1] or []] == [
        (QUESTIONS[0], "note0", "store")
    ]
    assert sorted(item.content for item in recalled[2] or []) == QUESTIONS[:2]
    assert graph.store is store  # the graph itself is left as it was


async def test_the_clients_items_in_the_store_are_the_agents_memory(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(langgraph_adapter, "PAGE", 2)
    store = InMemoryStore()
    for space in (("notes", "another client"), ("products",)):
        store.put(space, "k", {"text": "nothing of the client"})
    graph = note_graph().compile(store=store)
    turns = (await replayed(graph_agent(graph), monkeypatch)).trace.turns
    held = [[item.content for item in turn.memory.items] if turn.memory else None for turn in turns]
    assert held == [QUESTIONS[:1], QUESTIONS[:2], QUESTIONS[:3]]
    assert turns[0].memory
    assert turns[0].memory.items[0].item_id == "note0"


class UnreadableStore(InMemoryStore):
    async def abatch(self, ops: Iterable[Op]) -> list[Result]:
        asked = list(ops)
        if any(isinstance(op, SearchOp) and op.limit == langgraph_adapter.PAGE for op in asked):
            raise OSError("the disk is gone")
        return await super().abatch(asked)


@pytest.mark.parametrize(
    ("name", "store", "error"),
    [
        ("another", InMemoryStore(), UNSET),
        ("user_id", UnreadableStore(), "memory: the store is unreadable: OSError: the disk is gone"),
    ],
)
async def test_a_store_that_tells_nothing_of_the_client_is_not_reported(
    name: str, store: BaseStore, error: str | UnsetType, monkeypatch: pytest.MonkeyPatch
) -> None:
    agent = graph_agent(note_graph(name).compile(store=store))
    turn = (await replayed(agent, monkeypatch, turns=1)).trace.turns[0]
    assert (turn.pred_assistant_text, turn.memory, turn.observation_error) == ("0 notes", UNSET, error)


async def test_dialogues_of_one_graph_keep_apart(monkeypatch: pytest.MonkeyPatch) -> None:
    graph = note_graph().compile(store=InMemoryStore(), checkpointer=InMemorySaver())
    agent = graph_agent(graph)
    for run in ("r1", "r2"):
        result = await replayed(agent, monkeypatch, turns=1, run_id=run)
        assert result.trace.turns[0].pred_assistant_text == "0 notes"


async def test_a_thread_in_memory_goes_with_its_dialogue(monkeypatch: pytest.MonkeyPatch) -> None:
    saver = InMemorySaver()
    async with loopback_model(numbered) as model:
        graph = talking_graph(model).compile(checkpointer=saver)
        await replayed(graph_agent(graph), monkeypatch, turns=2)
    assert len(model.requests) == 2
    assert dict(saver.storage) == {}


def test_an_observed_store_reads_and_writes_like_its_own() -> None:
    recorder = TurnRecorder()
    store: BaseStore = ObservedStore(InMemoryStore(), lambda: recorder, "u")
    store.put(("a",), "k", {"risk": "低", "horizon": "长"})
    assert store.get(("a",), "missing") is None
    found = store.get(("a",), "k")
    assert found is not None
    assert found.value == {"risk": "低", "horizon": "长"}
    items = recorder.recall("q", None).items
    assert [(item.content, item.item_id) for item in items] == [('{"risk": "低", "horizon": "长"}', "k")]


async def test_state_that_is_no_message_reaches_recall_and_profile(monkeypatch: pytest.MonkeyPatch) -> None:
    class ClientState(MessagesState):
        client: dict[str, str]

    async def talk(state: ClientState) -> dict[str, Any]:
        return {"messages": [AIMessage("reply")], "client": {"risk_level": "medium"}}

    builder = StateGraph(ClientState)
    builder.add_node("talk", talk)
    builder.add_edge(START, "talk")
    agent = graph_agent(
        builder.compile(checkpointer=InMemorySaver()),
        profile=lambda state: state["client"],
        recall=lambda state: {"profile_context": state["client"]["risk_level"]},
    )
    turn = (await replayed(agent, monkeypatch, turns=1)).trace.turns[0]
    assert turn.profile_snapshot == {"risk_level": "medium"}
    assert turn.recall is not None
    assert turn.recall.profile_context == "medium"


async def test_a_graph_that_waits_for_a_human_is_an_error_that_says_so(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    async def ask(state: MessagesState) -> dict[str, list[BaseMessage]]:
        return {"messages": [AIMessage(interrupt("may I?"))]}

    builder = StateGraph(MessagesState)
    builder.add_node("ask", ask)
    builder.add_edge(START, "ask")
    graph = builder.compile(checkpointer=InMemorySaver())
    turn = (await replayed(graph_agent(graph), monkeypatch, turns=1)).trace.turns[0]
    assert turn.turn_status == "error"
    assert "interrupt" in (turn.error or "")
