"""LangChain runnables as agents under test: chat models, chains, retrieval chains.

Three lines make an agent that ``memfin run --agent my_chain:agent`` evaluates::

    from memfin.agents.adapters.langchain import runnable_agent
    from my_project import chain
    agent = runnable_agent(chain)

A runnable has no history of its own, so the adapter keeps the dialogue's and hands it over as messages.
"""

import json
import threading
import time
from collections.abc import Awaitable, Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Final, NamedTuple
from uuid import UUID

import msgspec

try:
    from langchain_core.callbacks import BaseCallbackHandler
    from langchain_core.documents import Document
    from langchain_core.messages import AIMessage, BaseMessage, HumanMessage, ToolMessage
    from langchain_core.outputs import ChatGeneration, LLMResult
    from langchain_core.runnables import Runnable, RunnableConfig
except ModuleNotFoundError as problem:
    raise ModuleNotFoundError(
        f"{problem}; the LangChain adapter needs the extra: pip install 'memfin[langchain]'"
    ) from problem

from memfin.agents.adapters.transport import translated_errors
from memfin.agents.history import as_text
from memfin.agents.protocol import AgentReply, Observer, Session
from memfin.contracts import MemoryEntry, ModelUsage, RecallItem, RecallTrace, ShortTermTurn, ToolTrace
from memfin.sandbox.references import describe
from memfin.secrets import scrubber_of_environment

EXCERPT: Final = 500  # characters of a tool's result that are kept
_ROLES: Final = {"human": "user", "ai": "assistant"}


@dataclass
class ModelCall:
    """One call of a model with its messages; ``answer`` and ``text`` stay None when it failed."""

    messages: Sequence[BaseMessage]
    answer: AIMessage | None = None
    text: str | None = None
    latency_ms: float = 0.0
    started: float = field(default_factory=time.perf_counter)


class _ToolCall(NamedTuple):
    call_id: str | None
    trace: ToolTrace
    started: float


class TurnRecorder(BaseCallbackHandler):
    """Recorder of the calls of models, tools and retrievers below a runnable during one turn.

    Runnables call it from the event loop and from worker threads alike.
    """

    run_inline = True

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._models: dict[UUID, ModelCall] = {}
        self._tools: dict[UUID, _ToolCall] = {}
        self._items: list[RecallItem] = []

    def on_chat_model_start(
        self, serialized: dict[str, Any], messages: list[list[BaseMessage]], *, run_id: UUID, **kwargs: Any
    ) -> None:
        """Record the messages of a chat model."""
        del serialized, kwargs
        self._models[run_id] = ModelCall(messages[0] if messages else [])

    def on_llm_start(
        self, serialized: dict[str, Any], prompts: list[str], *, run_id: UUID, **kwargs: Any
    ) -> None:
        """Record the prompt of a completion model."""
        del serialized, kwargs
        self._models[run_id] = ModelCall([HumanMessage(prompt) for prompt in prompts[:1]])

    def on_llm_end(self, response: LLMResult, *, run_id: UUID, **kwargs: Any) -> None:
        """Record the answer of a model and its latency."""
        del kwargs
        call = self._models.get(run_id)
        first = next((each for batch in response.generations for each in batch), None)
        if call is None or first is None:
            return
        call.latency_ms = (time.perf_counter() - call.started) * 1000.0
        if isinstance(first, ChatGeneration) and isinstance(first.message, AIMessage):
            call.answer = first.message
        call.text = first.text

    def on_tool_start(
        self,
        serialized: dict[str, Any] | None,
        input_str: str,
        *,
        run_id: UUID,
        inputs: dict[str, Any] | None = None,
        **kwargs: Any,
    ) -> None:
        """Record a tool call."""
        name = kwargs.get("name") or (serialized or {}).get("name") or "tool"
        call = ToolTrace(tool_name=str(name), args=input_str if inputs is None else plain(inputs))
        self._tools[run_id] = _ToolCall(kwargs.get("tool_call_id"), call, time.perf_counter())

    def on_tool_end(self, output: Any, *, run_id: UUID, **kwargs: Any) -> None:
        """Record the result of a tool."""
        del kwargs
        failed = isinstance(output, ToolMessage) and output.status == "error"
        self._end_tool(run_id, excerpt(output), excerpt(output) if failed else None)

    def on_tool_error(self, error: BaseException, *, run_id: UUID, **kwargs: Any) -> None:
        """Record the failure of a tool."""
        del kwargs
        self._end_tool(run_id, "", f"{type(error).__name__}: {error}"[:EXCERPT])

    def on_retriever_end(self, documents: Sequence[Document], **kwargs: Any) -> None:
        """Record retrieved documents as entries of long-term memory."""
        del kwargs
        for document in documents:
            score = document.metadata.get("score")
            self.recalled(
                document.page_content,
                item_id=document.id,
                score=score if isinstance(score, float) else None,
                source=str(document.metadata.get("source", "retriever")),
            )

    def recalled(self, content: str, *, item_id: str | None, score: float | None, source: str) -> None:
        """Add an entry of long-term memory that was read during the turn."""
        with self._lock:
            if not any(item.content == content and item.source == source for item in self._items):
                rank = len(self._items) + 1
                self._items.append(
                    RecallItem(content=content, rank=rank, item_id=item_id, score=score, source=source)
                )

    def tools(self, messages: Sequence[BaseMessage] = ()) -> list[ToolTrace]:
        """Return the turn's tool calls: those that ran here, then those that only messages show."""
        calls = list(self._tools.values())
        known = {call.call_id for call in calls}
        others = [trace for call_id, trace in _tools_in(messages) if call_id not in known]
        return [*(call.trace for call in calls), *others]

    def usage(self) -> ModelUsage | None:
        """Return the turn's usage of models; None when none answered."""
        calls = [call for call in list(self._models.values()) if call.text is not None]
        if not calls:
            return None
        metered = [call.answer.usage_metadata for call in calls if call.answer and call.answer.usage_metadata]
        answer = calls[-1].answer
        return ModelUsage(
            model=answer.response_metadata.get("model_name") if answer is not None else None,
            calls=len(calls),
            unmetered_calls=len(calls) - len(metered),
            prompt_tokens=sum(usage["input_tokens"] for usage in metered),
            completion_tokens=sum(usage["output_tokens"] for usage in metered),
            latency_ms=sum(call.latency_ms for call in calls),
        )

    def recall(self, user_text: str, reply: str | None) -> RecallTrace:
        """Return the recall observation, from the messages of the model that gave the reply.

        Earlier utterances in its messages are the short-term window; retrieved documents and entries
        read from a store are long-term items. ``token_count`` is the server's, 0 when it counts none.
        """
        calls, items = list(self._models.values()), list(self._items)
        call = next((each for each in reversed(calls) if each.text == reply), calls[-1] if calls else None)
        if call is None:
            return RecallTrace(query=user_text, items=items)
        turns = shown_history(call.messages, user_text)
        metered = call.answer.usage_metadata if call.answer is not None else None
        return RecallTrace(
            query=user_text,
            short_term_context=as_text(turns),
            short_term_turns=turns,
            packed_context="\n".join(f"{message.type}: {text_of(message)}" for message in call.messages),
            token_count=metered["input_tokens"] if metered else 0,
            items=items,
        )

    def _end_tool(self, run_id: UUID, result: str, error: str | None) -> None:
        if (call := self._tools.get(run_id)) is not None:
            latency_ms = (time.perf_counter() - call.started) * 1000.0
            trace = call.trace.replace(result_excerpt=result, error=error, latency_ms=latency_ms)
            self._tools[run_id] = call._replace(trace=trace)


def shown_history(messages: Sequence[BaseMessage], user_text: str) -> list[ShortTermTurn]:
    """Return the earlier utterances among a model's messages: those before the client's present words.

    Where the present words were put in other words, the last human message counts as them.
    """
    human = [index for index, message in enumerate(messages) if message.type == "human"]
    present = [index for index in human if text_of(messages[index]) == user_text] or human
    return [
        ShortTermTurn(role=_ROLES[message.type], content=text)
        for message in messages[: present[-1] if present else len(messages)]
        if message.type in _ROLES and (text := text_of(message))
    ]


def text_of(message: BaseMessage) -> str:
    """Return the text of a message, without pictures, reasoning and tool calls."""
    return str(message.text)


def excerpt(value: object) -> str:
    """Return the beginning of a tool's result as text."""
    if isinstance(value, BaseMessage):
        return text_of(value)[:EXCERPT]
    return (value if isinstance(value, str) else json.dumps(plain(value), ensure_ascii=False))[:EXCERPT]


def plain(value: Any) -> Any:
    """Return a value as JSON has it; what JSON does not know becomes its text."""
    return json.loads(json.dumps(value, ensure_ascii=False, default=str, allow_nan=False))


def _tools_in(messages: Sequence[BaseMessage]) -> list[tuple[str, ToolTrace]]:
    """Return the tool calls in messages, with the id of each."""
    asked: dict[str | None, Mapping[str, Any]] = {
        call["id"]: call for each in messages if isinstance(each, AIMessage) for call in each.tool_calls
    }
    found = []
    for message in messages:
        if isinstance(message, ToolMessage):
            call, result = asked.get(message.tool_call_id, {}), excerpt(message)
            trace = ToolTrace(
                tool_name=str(message.name or call.get("name") or "tool"),
                args=plain(call.get("args", {})),
                result_excerpt=result,
                error=result if message.status == "error" else None,
            )
            found.append((message.tool_call_id, trace))
    return found


Inputs = Callable[[Sequence[BaseMessage], str], Any]
"""Maker of a runnable's input from the history and the user's present words."""


class Reading(NamedTuple):
    """Functions that read a runnable's output: reply, profile snapshot, fields of the recall observation."""

    reply: Callable[[Any], str]
    profile: Callable[[Any], Mapping[str, Any] | None] | None = None
    recall: Callable[[Any], Mapping[str, Any] | None] | None = None


class RunnableAgent:
    """One dialogue with a runnable that keeps its history by session id itself, out of reach of a commit.

    ``held``, where it is set, returns what the runnable's store holds about the client, None if unknown.
    """

    held: Callable[[], Awaitable[list[MemoryEntry] | None]] | None = None

    def __init__(
        self,
        runnable: Runnable[Any, Any],
        session: Session,
        observer: Observer,
        inputs: Inputs,
        reading: Reading,
    ) -> None:
        self.session = session
        self.history: list[BaseMessage] = []
        self.pending: str | None = None
        self.recorder = TurnRecorder()
        self._runnable = runnable
        self._observer = observer
        self._inputs = inputs
        self._reading = reading

    async def reply(self, user_text: str) -> AgentReply:
        """Call the runnable and observe memory and tools below it, with the environment's keys masked.

        Raises:
            TransportError: the model behind it could not be reached or asked for a retry.
            TypeError: the runnable's output holds no text.
        """
        self.pending = user_text
        self.recorder = TurnRecorder()
        output: Any = None
        text: str | None = None
        try:
            with translated_errors():
                output = await self._ask(user_text)
                text = reply = self._reading.reply(output)
        finally:
            self._observe(user_text, output, text)
        problem = await self._observe_store()
        profile = self._reading.profile(output) if self._reading.profile is not None else None
        return AgentReply(
            text=scrubber_of_environment().scrub(reply),
            usage=self.recorder.usage(),
            profile_snapshot=None if profile is None else dict(profile),
            observation_error=problem,
        )

    async def _ask(self, user_text: str) -> Any:
        """Return the runnable's output for the user's words."""
        asked = self._inputs(list(self.history), user_text)
        return await self._runnable.ainvoke(asked, run_config(self.session, self.recorder))

    def _observe(self, user_text: str, output: Any, text: str | None) -> None:
        scrub = scrubber_of_environment().scrub_data
        shown = msgspec.to_builtins(self.recorder.recall(user_text, text))
        more = self._reading.recall(output) if self._reading.recall is not None and text is not None else None
        self._observer.recall(**scrub({**shown, **(more or {})}))
        for trace in self.recorder.tools(messages_of(output)):
            self._observer.tool(**scrub(msgspec.to_builtins(trace)))

    async def _observe_store(self) -> str | None:
        """Report the store's items; return why they cannot be read, which does not undo the reply."""
        try:
            items = None if self.held is None else await self.held()
        except Exception as problem:  # noqa: BLE001 - any: the store is not ours
            return scrubber_of_environment().scrub(f"memory: the store is unreadable: {describe(problem)}")
        if items is not None:
            self._observer.memory(items=scrubber_of_environment().scrub_data(msgspec.to_builtins(items)))
        return None


class HistoryKeepingAgent(RunnableAgent):
    """One dialogue with a runnable that gets the history at every turn."""

    async def commit(self, assistant_text: str) -> None:
        """Put the turn into the history: with its own reply, or the reference in forced history.

        The words of a turn that got no reply are not part of the history.
        """
        if self.pending is not None:
            self.history.append(HumanMessage(self.pending))
            self.pending = None
        self.history.append(AIMessage(assistant_text))


def runnable_agent(
    runnable: Runnable[Any, Any],
    *,
    inputs: Inputs | None = None,
    reply: Callable[[Any], str] | None = None,
    profile: Callable[[Any], Mapping[str, Any] | None] | None = None,
    recall: Callable[[Any], Mapping[str, Any] | None] | None = None,
    own_history: bool = False,
) -> Callable[[Session, Observer], RunnableAgent]:
    """Return the factory of agents that call a runnable.

    Args:
        runnable: any LangChain runnable; the dialogues share it.
        inputs: makes its input of the history (messages) and the user's words; by default the input
            is the list of messages, the user's words last.
        reply: takes the reply's text from the output; by default the output is a text, a message or
            an object with ``messages``, ``output`` or ``answer``.
        profile: takes the profile snapshot from the output, for M2.
        recall: takes fields of the recall observation from the output, such as ``profile_context``;
            they win over what callbacks showed.
        own_history: the runnable keeps its history by the session id itself, as
            ``RunnableWithMessageHistory`` does; then the history that `inputs` gets is empty and
            ``--history forced`` is refused.
    """
    kind = RunnableAgent if own_history else HistoryKeepingAgent
    reading = Reading(reply or reply_text, profile, recall)

    def create(session: Session, observer: Observer) -> RunnableAgent:
        return kind(runnable, session, observer, inputs or as_messages, reading)

    return create


def as_messages(history: Sequence[BaseMessage], user_text: str) -> list[BaseMessage]:
    """Return the input of a chat model: the history and the user's words."""
    return [*history, HumanMessage(user_text)]


def run_config(session: Session, recorder: TurnRecorder) -> RunnableConfig:
    """Return the config of one call: the dialogue's ids where frameworks look for them, and callbacks."""
    ids = {"thread_id": session.session_id, "session_id": session.session_id, "user_id": session.user_id}
    return {"callbacks": [recorder], "configurable": ids}


def reply_text(output: Any) -> str:
    """Return the reply in a runnable's output; raise `TypeError` when it has none."""
    if isinstance(output, Mapping):
        messages = messages_of(output)
        if messages:
            output = next((each for each in reversed(messages) if isinstance(each, AIMessage)), None)
        else:
            output = next((output[key] for key in ("output", "answer") if key in output), None)
    if isinstance(output, BaseMessage):
        return text_of(output)
    if not isinstance(output, str):
        raise TypeError(
            f"no reply found in the runnable's output of type {type(output).__name__}; "
            "pass reply=..., a function that takes the text from it"
        )
    return output


def messages_of(output: Any) -> list[BaseMessage]:
    """Return the messages in an output after the user's present words."""
    found = output.get("messages") if isinstance(output, Mapping) else None
    messages = [each for each in found if isinstance(each, BaseMessage)] if isinstance(found, list) else []
    last = max((index for index, each in enumerate(messages) if each.type == "human"), default=-1)
    return messages[last + 1 :]
