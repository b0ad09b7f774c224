"""LangChain runnables as agents: the real package, a model on loopback."""

import subprocess
import sys
from collections.abc import Sequence
from typing import Any

import msgspec
import pytest

pytest.importorskip("langchain_core", reason="the extra memfin[langchain] is not installed")
pytest.importorskip("langchain_openai", reason="the package langchain-openai is not installed")

from langchain_core.callbacks import CallbackManagerForRetrieverRun
from langchain_core.chat_history import BaseChatMessageHistory
from langchain_core.documents import Document
from langchain_core.messages import AIMessage, BaseMessage, HumanMessage, SystemMessage, ToolMessage
from langchain_core.output_parsers import StrOutputParser
from langchain_core.prompts import ChatPromptTemplate, MessagesPlaceholder
from langchain_core.retrievers import BaseRetriever
from langchain_core.runnables import RunnableLambda, RunnablePassthrough
from langchain_core.runnables.history import RunnableWithMessageHistory
from langchain_core.tools import tool
from langchain_openai import ChatOpenAI

from memfin.agents.adapters.langchain import reply_text, runnable_agent, shown_history
from memfin.agents.replay import HistoryUnsupportedError
from memfin.contracts import ModelUsage
from tests.agents.adapter_replay import QUESTIONS, REFERENCES, replayed, stay_on_loopback
from tests.agents.loopback_model import LoopbackModel, loopback_model


@pytest.fixture(autouse=True)
def attempts(monkeypatch: pytest.MonkeyPatch) -> list[str]:
    return stay_on_loopback(monkeypatch)


def chat_model(model: LoopbackModel, **options: Any) -> ChatOpenAI:
    return ChatOpenAI(model="m1", base_url=model.base_url, api_key="k", max_retries=0, **options)  # type: ignore[arg-type]


def numbered(request: dict[str, Any]) -> str:
    """Answer with the number of the question, to tell replies apart."""
    return f"answer {sum(message['role'] == 'user' for message in request['messages'])}"


def spoken(messages: Sequence[dict[str, Any]]) -> list[str]:
    return [message["content"] for message in messages if message["role"] in ("user", "assistant")]


async def test_a_chat_model_gets_the_dialogue_so_far(
    monkeypatch: pytest.MonkeyPatch, attempts: list[str]
) -> None:
    async with loopback_model(numbered) as model:
        result = await replayed(runnable_agent(chat_model(model)), monkeypatch)
    assert [turn.pred_assistant_text for turn in result.trace.turns] == ["answer 1", "answer 2", "answer 3"]
    assert spoken(model.asked[2]) == [QUESTIONS[0], "answer 1", QUESTIONS[1], "answer 2", QUESTIONS[2]]
    assert attempts == []


async def test_what_stood_before_the_model_is_recorded_as_short_term_memory(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    async with loopback_model(numbered) as model:
        result = await replayed(runnable_agent(chat_model(model)), monkeypatch)
    first, _, third = (turn.recall for turn in result.trace.turns)
    assert first is not None
    assert third is not None
    assert first.short_term_context == ""
    assert [(turn.role, turn.content) for turn in third.short_term_turns] == [
        ("user", QUESTIONS[0]),
        ("assistant", "answer 1"),
        ("user", QUESTIONS[1]),
        ("assistant", "answer 2"),
    ]
    assert third.query == QUESTIONS[2]
    assert QUESTIONS[0] in third.short_term_context
    assert QUESTIONS[2] not in third.short_term_context
    assert third.token_count == 11


async def test_what_a_chain_cuts_from_the_history_is_not_recorded_as_remembered(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    async with loopback_model(numbered) as model:
        cut = RunnableLambda[list[BaseMessage], list[BaseMessage]](lambda messages: messages[-1:])
        chain = cut | chat_model(model)
        result = await replayed(runnable_agent(chain), monkeypatch)
    assert [turn.recall.short_term_turns for turn in result.trace.turns if turn.recall] == [[], [], []]


async def test_the_tokens_of_all_model_calls_of_a_turn_are_counted(monkeypatch: pytest.MonkeyPatch) -> None:
    async with loopback_model(numbered) as model:
        chat = chat_model(model)
        check = RunnableLambda[BaseMessage, list[BaseMessage]](
            lambda draft: [HumanMessage(f"check: {draft.text}")]
        )
        chain = chat | check | chat
        result = await replayed(runnable_agent(chain), monkeypatch, turns=1)
    usage = result.trace.turns[0].usage
    assert isinstance(usage, ModelUsage)
    assert (usage.calls, usage.prompt_tokens, usage.completion_tokens) == (2, 22, 14)
    assert (usage.model, usage.unmetered_calls) == ("m1", 0)
    assert usage.latency_ms > 0


async def test_forced_history_puts_the_reference_replies_before_the_model(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    async with loopback_model(numbered) as model:
        await replayed(runnable_agent(chat_model(model)), monkeypatch, history="forced")
    assert spoken(model.asked[2]) == [
        QUESTIONS[0],
        REFERENCES[0],
        QUESTIONS[1],
        REFERENCES[1],
        QUESTIONS[2],
    ]


class Shelf(BaseRetriever):
    """Finds the same two documents for everything."""

    def _get_relevant_documents(
        self, query: str, *, run_manager: CallbackManagerForRetrieverRun
    ) -> list[Document]:
        return [
            Document("客户不使用杠杆", id="note-1", metadata={"source": "notes", "score": 0.9}),
            Document("客户偏好宽基指数基金"),
        ]


async def test_documents_that_a_chain_retrieves_are_recorded_as_recalled(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    prompt = ChatPromptTemplate.from_messages(
        [("system", "Context: {context}"), MessagesPlaceholder("history"), ("human", "{question}")]
    )
    async with loopback_model(numbered) as model:
        question = RunnableLambda[dict[str, Any], str](lambda asked: asked["question"])
        chain = (
            RunnablePassthrough.assign(context=question | Shelf())
            | prompt
            | chat_model(model)
            | StrOutputParser()
        )
        agent = runnable_agent(chain, inputs=lambda history, text: {"history": history, "question": text})
        result = await replayed(agent, monkeypatch, turns=2)
    recall = result.trace.turns[1].recall
    assert recall is not None
    assert [(item.content, item.rank, item.item_id, item.score, item.source) for item in recall.items] == [
        ("客户不使用杠杆", 1, "note-1", 0.9, "notes"),
        ("客户偏好宽基指数基金", 2, None, None, "retriever"),
    ]
    assert recall.short_term_context == f"user: {QUESTIONS[0]}\nassistant: answer 1"
    assert "客户不使用杠杆" in recall.packed_context


async def test_tools_that_a_chain_runs_are_recorded(monkeypatch: pytest.MonkeyPatch) -> None:
    @tool
    def fee_of(fund: str) -> dict[str, float]:
        """Return the yearly fee of a fund in percent."""
        if fund == "none":
            raise LookupError("no such fund")
        return {"percent": 0.15}

    def answer(messages: list[BaseMessage]) -> str:
        percent = fee_of.invoke({"fund": "510300"})["percent"]
        if len(messages) > 1:
            fee_of.invoke({"fund": "none"})
        return f"{percent}"

    result = await replayed(runnable_agent(RunnableLambda(answer)), monkeypatch, turns=2)
    first, second = result.trace.turns
    assert [(call.tool_name, call.args, call.result_excerpt, call.error) for call in first.tools] == [
        ("fee_of", {"fund": "510300"}, '{"percent": 0.15}', None)
    ]
    assert [call.latency_ms is not None for call in second.tools] == [True, True]
    assert second.tools[1].error == "LookupError: no such fund"
    assert (second.turn_status, second.error) == ("error", "LookupError: no such fund")


class ListHistory(BaseChatMessageHistory):
    """Keeps a session's messages in a list."""

    def __init__(self) -> None:
        self.messages = []

    def add_messages(self, messages: Sequence[BaseMessage]) -> None:
        self.messages = [*self.messages, *messages]

    def clear(self) -> None:
        self.messages = []


@pytest.mark.filterwarnings("ignore:RunnableWithMessageHistory is deprecated")  # but in use
async def test_a_runnable_with_a_history_of_its_own_keeps_it_by_session(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    kept: dict[str, ListHistory] = {}

    def history_of(session_id: str) -> BaseChatMessageHistory:
        return kept.setdefault(session_id, ListHistory())

    async with loopback_model(numbered) as model:
        remembering = RunnableWithMessageHistory(chat_model(model), history_of)
        agent = runnable_agent(remembering, own_history=True)
        result = await replayed(agent, monkeypatch, turns=2)
        assert [turn.error for turn in result.trace.turns] == [None, None]
        assert spoken(model.asked[1]) == [QUESTIONS[0], "answer 1", QUESTIONS[1]]
        assert list(kept) == ["session_r_d1"]
        with pytest.raises(HistoryUnsupportedError):
            await replayed(agent, monkeypatch, history="forced")


async def test_a_turn_is_retried_after_a_transient_status(monkeypatch: pytest.MonkeyPatch) -> None:
    refusals = iter([503, 429])
    async with loopback_model(lambda request: next(refusals, 0) or numbered(request)) as model:
        result = await replayed(runnable_agent(chat_model(model)), monkeypatch, turns=2)
    assert [turn.pred_assistant_text for turn in result.trace.turns] == ["answer 1", "answer 2"]
    assert result.retries == 2
    assert spoken(model.asked[-1]) == [QUESTIONS[0], "answer 1", QUESTIONS[1]]


async def test_a_request_that_is_wrong_is_not_retried_and_the_dialogue_goes_on(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    refusals = iter([400])
    async with loopback_model(lambda request: next(refusals, 0) or numbered(request)) as model:
        result = await replayed(runnable_agent(chat_model(model)), monkeypatch, turns=2)
    assert [turn.turn_status for turn in result.trace.turns] == ["error", "ok"]
    assert result.retries == 0
    assert "400" in (result.trace.turns[0].error or "")
    assert spoken(model.asked[1]) == [QUESTIONS[1]]  # what got no reply is no history


async def test_a_server_that_is_not_there_is_a_transport_error(monkeypatch: pytest.MonkeyPatch) -> None:
    async with loopback_model(numbered) as model:
        chat = chat_model(model)
    result = await replayed(runnable_agent(chat), monkeypatch, turns=1, turn_retries=1)
    assert result.retries == 1
    assert result.trace.turns[0].turn_status == "error"


async def test_no_key_of_the_environment_gets_into_the_trace(monkeypatch: pytest.MonkeyPatch) -> None:
    key = "sk-canary-0123456789"
    monkeypatch.setenv("OPENAI_API_KEY", key)

    @tool
    def look_up(name: str) -> str:
        """Return what there is."""
        return f"{name} with {key}"

    answers: list[Any] = [400, 429, f"reply with {key}"]
    async with loopback_model(lambda request: answers.pop(0), error=f"wrong key {key}") as model:
        found = RunnableLambda[list[BaseMessage], list[BaseMessage]](
            lambda messages: [SystemMessage(look_up.invoke({"name": key})), *messages]
        )
        result = await replayed(runnable_agent(found | chat_model(model)), monkeypatch, turns=2)
    first, second = result.trace.turns
    assert "wrong key ***" in (first.error or "")
    assert second.pred_assistant_text == "reply with ***"
    assert second.tools[-1].result_excerpt == "*** with ***"
    assert key.encode() not in msgspec.json.encode(result.trace)


async def test_the_history_that_counts_is_that_of_the_call_which_gave_the_reply(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    def answer(request: dict[str, Any]) -> str:
        return "fine" if "check" in str(request["messages"]) else numbered(request)

    async with loopback_model(answer) as model:
        chat = chat_model(model)

        async def checked(messages: list[BaseMessage]) -> BaseMessage:
            draft = await chat.ainvoke(messages[-3:])
            await chat.ainvoke([*messages, HumanMessage(f"check: {draft.text}")])
            return draft

        result = await replayed(runnable_agent(RunnableLambda(checked)), monkeypatch)
    recall = result.trace.turns[2].recall
    assert recall is not None
    assert [turn.content for turn in recall.short_term_turns] == [QUESTIONS[1], "answer 2"]


@pytest.mark.parametrize(
    "output",
    [
        "reply",
        AIMessage("reply"),
        {"output": "reply"},
        {"answer": AIMessage("reply")},
        {"messages": [HumanMessage("asked"), AIMessage("reply"), ToolMessage("x", tool_call_id="1")]},
    ],
)
def test_the_reply_is_found_in_every_usual_output(output: Any) -> None:
    assert reply_text(output) == "reply"


@pytest.mark.parametrize("output", [None, 7, {"text": "reply"}, {"messages": [HumanMessage("asked")]}])
def test_an_output_without_a_reply_is_an_error_with_a_hint(output: Any) -> None:
    with pytest.raises(TypeError, match="pass reply="):
        reply_text(output)


async def test_functions_of_the_user_take_reply_profile_and_recall_from_the_output(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    output = {"text": "reply", "client": {"risk_level": "low"}, "notes": "不使用杠杆"}
    agent = runnable_agent(
        RunnableLambda(lambda messages: output),
        reply=lambda found: found["text"],
        profile=lambda found: found["client"],
        recall=lambda found: {"profile_context": found["notes"]},
    )
    turn = (await replayed(agent, monkeypatch, turns=1)).trace.turns[0]
    assert (turn.pred_assistant_text, turn.profile_snapshot) == ("reply", {"risk_level": "low"})
    assert turn.recall is not None
    assert turn.recall.profile_context == "不使用杠杆"


def test_the_history_shown_to_a_model_ends_before_the_present_words() -> None:
    earlier = [SystemMessage("be brief"), HumanMessage("one"), AIMessage("two")]
    history = [("user", "one"), ("assistant", "two")]
    for present in ([HumanMessage("three")], [HumanMessage("three, rewritten")]):
        turns = shown_history([*earlier, *present, AIMessage("thinking")], "three")
        assert [(turn.role, turn.content) for turn in turns] == history


def test_a_missing_package_is_named_with_its_extra() -> None:
    source = (
        "import sys; sys.modules['langchain_core'] = None\n"
        "try:\n    import memfin.agents.adapters.langchain\n"
        "except ModuleNotFoundError as problem:\n    print(problem)\n"
    )
    done = subprocess.run([sys.executable, "-c", source], capture_output=True, text=True, check=True)
    assert "pip install 'memfin[langchain]'" in done.stdout
