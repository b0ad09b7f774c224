"""Functions, instances and objects of frameworks as agents."""

import functools
import threading
from collections.abc import AsyncIterator, Iterator, Sequence
from typing import Any

import pytest
from langchain_core.chat_history import InMemoryChatMessageHistory
from langchain_core.language_models import FakeListChatModel
from langchain_core.messages import AIMessage
from langchain_core.runnables import RunnableLambda
from langchain_core.runnables.history import RunnableWithMessageHistory
from langgraph.graph import START, MessagesState, StateGraph
from openai import AsyncOpenAI, OpenAI

from memfin.agents.protocol import AgentReply
from memfin.agents.registry import resolve_agent
from memfin.agents.replay import Replay, ReplayOptions, replay_dialog
from memfin.contracts import HistoryMode
from memfin.dataset import normalize_dialog
from memfin.errors import UsageError

DIALOG = normalize_dialog(
    {
        "dialog_id": "d",
        "profile_gt": {},
        "turns": [
            turn
            for number in (1, 2, 3)
            for turn in (
                {"role": "user", "text": f"q{number}"},
                {"role": "assistant", "text": f"r{number}", "turn_tags": {}},
            )
        ],
    }
)
Messages = list[dict[str, str]]


async def replay(agent: Any, history: HistoryMode = "free") -> Replay:
    factory = resolve_agent(agent).factory_for(DIALOG)
    return await replay_dialog(DIALOG, 1, factory, ReplayOptions(run_id="r", history=history))


async def replies(agent: Any, history: HistoryMode = "free") -> list[str | None]:
    return [turn.pred_assistant_text for turn in (await replay(agent, history)).trace.turns]


def plain(text: str) -> str:
    assert threading.current_thread() is not threading.main_thread()
    return text


async def on_loop(text: str) -> AgentReply:
    assert threading.current_thread() is threading.main_thread()
    return AgentReply(text=text)


def mapping(text: str, *, suffix: str = "") -> dict[str, Any]:
    return {"text": text + suffix, "profile_snapshot": {"risk_level": "low"}}


def tried(function: Any) -> Any:
    """Decorate a function as libraries for retries and tracing do."""

    @functools.wraps(function)
    def wrapper(*args: Any, **kwargs: Any) -> Any:
        return function(*args, **kwargs)

    return wrapper


class Bot:
    """An agent that is an instance, used for all dialogues."""

    def reply(self, user_text: str) -> str:
        return user_text

    def close(self) -> None:
        raise AssertionError

    async def __call__(self, message: str, temperature: float = 0.0) -> str:
        return message


@pytest.mark.parametrize(
    "agent",
    [
        plain,
        on_loop,
        mapping,
        lambda text: text,
        functools.partial(mapping, suffix=""),
        tried(plain),
        Bot(),
        Bot().reply,
        Bot().__call__,
    ],
)
async def test_functions_and_instances_answer(agent: Any) -> None:
    trace = (await replay(agent)).trace
    assert [turn.pred_assistant_text for turn in trace.turns] == ["q1", "q2", "q3"]
    assert {turn.recall for turn in trace.turns} == {None}


def with_history(text: str, history: Messages) -> str:
    return shown(text, history)


async def with_past(words: str, past: Sequence[dict[str, str]]) -> str:
    return shown(words, past)


def untyped(question, past):  # type: ignore[no-untyped-def] # noqa: ANN001, ANN201
    return shown(question, past)


def shown(text: str, history: Sequence[dict[str, str]]) -> str:
    earlier = "".join(f"{message['role'][0]}{message['content'][-1]}" for message in history)
    return f"{earlier}>a{text[-1]}"


class Historian:
    """An instance whose reply takes the history."""

    def reply(self, text: str, history: Messages) -> str:
        return shown(text, history)


@pytest.mark.parametrize(
    "agent",
    [
        with_history,
        with_past,
        untyped,
        tried(with_history),
        lambda text, history=(): shown(text, history),
        Historian(),
    ],
)
@pytest.mark.parametrize(
    ("history", "expected"),
    [("free", [">a1", "u1a1>a2", "u1a1u2a2>a3"]), ("forced", [">a1", "u1a1>a2", "u1a1u2a2>a3"])],
)
async def test_functions_get_the_history_of_the_dialogue(
    agent: Any, history: HistoryMode, expected: list[str]
) -> None:
    assert await replies(agent, history) == expected


async def test_the_history_is_that_of_its_mode_without_failed_turns() -> None:
    seen: list[list[str]] = []

    def agent(text: str, history: Messages) -> str:
        seen.append([message["content"] for message in history])
        history.clear()  # a copy
        if text == "q2":
            raise ValueError("no answer")
        return f"own {text}"

    trace = (await replay(agent)).trace
    assert [turn.turn_status for turn in trace.turns] == ["ok", "error", "ok"]
    assert seen == [[], ["q1", "own q1"], ["q1", "own q1"]]
    seen.clear()
    await replay(agent, "forced")
    assert seen == [[], ["q1", "r1"], ["q1", "r1", "q2", "r2"]]


def streamed(text: str) -> Iterator[str]:
    yield text


async def streamed_on_loop(text: str, history: Messages) -> AsyncIterator[str]:
    yield text


async def solve(state: Any, generate: Any) -> Any:
    return state


class Forgetful:
    def reply(self) -> str:
        return ""


@pytest.mark.parametrize(
    ("agent", "reason"),
    [
        (streamed, "yields its reply in parts; return the whole reply"),
        (streamed_on_loop, "yields its reply in parts"),
        (solve, "is no solver or agent of inspect_ai; give one that @solver"),
        (lambda session: session, "takes (session) and is called with (session, observer); expected a class"),
        (
            lambda text, history, key: text,
            "takes (text, history, key) and is called with (text, history); expected",
        ),
        (Forgetful(), ": reply: takes () and is called with (user_text); expected a class"),
        (
            OpenAI(api_key="k"),
            "is a client of openai and names no model; give (client, 'MODEL') or functools.partial(",
        ),
        (
            AsyncOpenAI(api_key="k"),
            "is a client of openai and names no model; give (client, 'MODEL') or functools.partial(",
        ),
        (OpenAI(api_key="k").chat.completions.create, "is a client of openai and names no model"),
        (
            functools.partial(OpenAI(api_key="k").responses.create, model="m"),
            "is a client of openai and names",
        ),
        (StateGraph(MessagesState), "a StateGraph of langgraph cannot be called; compile the graph first"),
        (AIMessage("hello"), "a AIMessage of langchain_core cannot be called"),
    ],
)
def test_other_objects_are_refused_before_the_run_starts(agent: Any, reason: str) -> None:
    with pytest.raises(UsageError) as refused:
        resolve_agent(agent)
    assert reason in str(refused.value)
    assert len(str(refused.value).splitlines()) == 1


def last_shown(messages: Any) -> Any:
    return shown(messages[-1].text, [])


async def answer(state: Any) -> dict[str, Any]:
    return {"messages": [AIMessage(shown(str(state["messages"][-1].text), []))]}


@pytest.mark.parametrize(
    "agent",
    [
        FakeListChatModel(responses=[">a1", ">a2", ">a3"]),
        RunnableLambda(last_shown),
        StateGraph(MessagesState).add_node(answer).add_edge(START, "answer").compile(),
    ],
)
async def test_runnables_and_graphs_find_their_adapter(agent: Any) -> None:
    assert await replies(agent) == [">a1", ">a2", ">a3"]


@pytest.mark.filterwarnings("ignore::langchain_core._api.LangChainDeprecationWarning")
async def test_a_runnable_with_its_own_history_keeps_it() -> None:
    kept = InMemoryChatMessageHistory()
    model: RunnableLambda[Any, AIMessage] = RunnableLambda(lambda messages: AIMessage(str(len(messages))))
    assert await replies(RunnableWithMessageHistory(model, lambda session_id: kept)) == ["1", "3", "5"]
