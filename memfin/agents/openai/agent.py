"""A model behind a chat endpoint, as the agent of one dialogue."""

import time
from collections.abc import Mapping
from contextlib import suppress
from functools import partial
from typing import Any, Final, Protocol

import msgspec

from memfin.agents.calls import TransportError
from memfin.agents.memory_context import Memory, MemoryContext, MemoryFactory
from memfin.agents.openai.conversation import Exchange, Prompt, build_prompt, trimmed_recall, utterances
from memfin.agents.openai.tools import EXCERPT, BoundTool, arguments_of, result_text
from memfin.agents.protocol import AgentReply, Observer, Session
from memfin.agents.usage import UsageTotal
from memfin.client.chat import retry_without_refused
from memfin.client.errors import RequestError
from memfin.client.messages import CUT, FILTERED, ChatAnswer, ChatRequest, ToolCall
from memfin.contracts import ModelUsage, RecallTrace, Record
from memfin.sandbox.calls import CallFailed, UserCalls, is_async
from memfin.sandbox.references import one_line

MOST_ROUNDS: Final = 8
MOST_CALLS: Final = 16
"""Rounds of tool calls in a turn, and calls in a round, that are heeded."""

UNAVAILABLE: Final = "this tool is not available"
_MS: Final = 1e3
_PASSING: Final = (TransportError, ConnectionError)


class ChatModel(Protocol):
    """What answers requests, one attempt each, such as `memfin.client.ChatClient`."""

    async def stream(self, request: ChatRequest) -> ChatAnswer:
        """Return the answer; raise `RequestError` when there is none."""
        ...


class ModelSettings(Record):
    """What the agents of one model have in common; times in seconds."""

    model: str
    temperature: float | None = 0.0
    max_tokens: int | None = None
    context_tokens: int = 32_000
    seed: int | None = 0
    call_timeout: float = 120.0


class OpenAIAgent:
    """Asks a model turn by turn; the history of the dialogue is its own, or its memory's.

    A turn may take several requests when the model calls tools. Those that can be executed are, the
    others are recorded and answered as unavailable. When a request fails on its way and the replay
    asks again, the turn goes on with that request: no tool is called twice, no memory asked twice.

    Args:
        session, observer: as for any agent.
        chat: the endpoint.
        settings: model and parameters.
        system: the system prompt.
        memory: makes the memory of the dialogue; None for a model without.
        tools: what the model is offered and can have executed.
        usage: where what the model took is added up over dialogues.
    """

    def __init__(
        self,
        session: Session,
        observer: Observer,
        *,
        chat: ChatModel,
        settings: ModelSettings,
        system: str,
        memory: MemoryFactory | None = None,
        tools: Mapping[str, BoundTool] | None = None,
        usage: UsageTotal | None = None,
    ) -> None:
        self._session = session
        self._observer = observer
        self._chat = chat
        self._settings = settings
        self._system = system
        self._tools = tools or {}
        self._total = usage or UsageTotal()
        self._history: list[Exchange] = []
        self._open: str | None = None
        self._unrecorded: str | None = None
        self._lost: _Turn | None = None
        self._make_memory = memory
        self._memory: Memory | None = None
        self._memory_calls = UserCalls("memory", session.dialog_id, _PASSING)
        self._tool_calls = UserCalls("tool", session.dialog_id, _PASSING)

    async def reply(self, user_text: str) -> AgentReply:
        """Return the model's answer with what it took; a refusal in the model's words is an answer.

        Raises:
            TransportError: a request failed on its way; the turn may be asked again.
            CallFailed: the endpoint, the memory or the model failed.
        """
        turn, self._lost = self._lost, None
        if turn is None or turn.user_text != user_text:
            turn = await self._begin(user_text)
        turn.observe(self._observer)
        try:
            return await self._converse(turn)
        except TransportError:
            self._lost = turn
            raise

    async def commit(self, assistant_text: str) -> None:
        """Put the reply that counts as said into the history and the memory."""
        user_text, self._open = self._open, None
        if user_text is not None:
            self._history.append(Exchange(user=user_text, assistant=assistant_text))
            self._unrecorded = user_text
        elif self._unrecorded is None:
            return
        if self._memory is not None:
            await self._ask_memory(self._memory.record, self._unrecorded, assistant_text)
        self._unrecorded = None

    async def close(self) -> None:
        """Close the memory and end the threads."""
        try:
            close = getattr(self._memory, "close", None)
            if callable(close):
                await self._ask_memory(close)
        finally:
            self._memory_calls.stop()
            self._tool_calls.stop()

    async def _begin(self, user_text: str) -> "_Turn":
        """Open a turn: recall, and put the messages together."""
        if self._open is not None:  # the turn before got no reply, but was heard
            self._history.append(Exchange(user=self._open))
        self._open = user_text
        remembered = await self._recall(user_text)
        said = utterances(self._history) if remembered.turns is None else remembered.turns
        prompt = build_prompt(
            self._system, remembered.context, said, user_text, self._settings.context_tokens
        )
        return _Turn(user_text, remembered, prompt)

    async def _recall(self, user_text: str) -> MemoryContext:
        if self._make_memory is None:
            return MemoryContext()
        memory = self._memory
        if memory is None:
            memory = self._memory = await self._ask_memory(self._make_memory, self._session)
        remembered = await self._ask_memory(memory.recall, user_text)
        if not isinstance(remembered, MemoryContext):
            raise CallFailed(f"memory: returned {type(remembered).__name__}; expected MemoryContext")
        return remembered

    async def _ask_memory(self, call: Any, *args: Any) -> Any:
        on_loop = isinstance(call, type) and is_async(getattr(call, "recall", None))
        calls = self._memory_calls
        try:
            return await calls.bounded(
                lambda: calls.invoke(call, *args, on_loop=on_loop), self._settings.call_timeout
            )
        except CallFailed as problem:
            raise CallFailed(f"memory: {problem}") from problem

    async def _converse(self, turn: "_Turn") -> AgentReply:
        """Ask the model until it answers without calling a tool."""
        while True:
            answer = await self._request(turn)
            if not answer.tool_calls:
                return AgentReply(text=answer.text or answer.refusal or "", usage=turn.usage.total)
            if turn.rounds >= MOST_ROUNDS:
                raise CallFailed(f"the model went on calling tools after {MOST_ROUNDS} rounds")
            turn.rounds += 1
            results = [await self._execute(call) for call in answer.tool_calls[:MOST_CALLS]]
            turn.add_round(answer, results)

    async def _request(self, turn: "_Turn") -> ChatAnswer:
        settings = self._settings
        offers = [tool.offer for tool in self._tools.values()] or None
        request = ChatRequest(
            model=settings.model,
            messages=turn.messages,
            temperature=settings.temperature,
            seed=settings.seed,
            max_tokens=settings.max_tokens,
            tools=offers,
            tool_choice="none" if offers and turn.rounds >= MOST_ROUNDS else None,
        )
        try:
            answer = await retry_without_refused(partial(self._attempt, request))
        except RequestError as problem:
            if problem.retryable:
                raise TransportError(str(problem), retry_after=problem.retry_after) from problem
            raise CallFailed(str(problem)) from problem
        metered = answer.prompt_tokens is not None or answer.completion_tokens is not None
        used = ModelUsage(
            model=answer.model,
            calls=1,
            unmetered_calls=0 if metered else 1,
            prompt_tokens=answer.prompt_tokens or 0,
            completion_tokens=answer.completion_tokens or 0,
            latency_ms=answer.latency_ms,
            first_token_ms=answer.first_token_ms,
            trimmed_turns=turn.trimmed if turn.usage.total is None else 0,
        )
        turn.usage.add(used)
        self._total.add(used)
        self._refuse_incomplete(answer)
        return answer

    def _refuse_incomplete(self, answer: ChatAnswer) -> None:
        """Raise `CallFailed` for an answer of which a user would get but the beginning, or nothing."""
        if answer.finish_reason == CUT:
            tokens = answer.completion_tokens or self._settings.max_tokens
            limit = "raise" if self._settings.max_tokens else "the server has a limit of its own; set"
            raise CallFailed(
                f"the answer was cut{f' at {tokens} tokens' if tokens else ''}; {limit} --agent-max-tokens"
            )
        if answer.finish_reason == FILTERED:
            what = "cut the answer off" if answer.text.strip() else "withheld the answer"
            raise CallFailed(f"the server's content filter {what}")

    async def _attempt(self, request: ChatRequest) -> ChatAnswer:
        begun = time.perf_counter()
        try:
            return await self._chat.stream(request)
        except BaseException:  # when the turn's time is over, too
            self._total.add_failed((time.perf_counter() - begun) * _MS)
            raise

    async def _execute(self, call: ToolCall) -> str:
        """Execute a call, record it, and return what the model is told."""
        start = time.perf_counter()
        result, error = "", None
        tool = self._tools.get(call.name)
        if tool is None:
            error = UNAVAILABLE
        else:
            try:
                result = result_text(await self._called(tool, tool.keywords(call.arguments)))
            except CallFailed as problem:
                error = one_line(str(problem))
            except (TransportError, ConnectionError) as problem:
                error = one_line(f"{type(problem).__name__}: {problem}")
        self._observer.tool(
            tool_name=call.name,
            args=arguments_of(call.arguments),
            result_excerpt=result[:EXCERPT],
            latency_ms=(time.perf_counter() - start) * _MS,
            error=error,
        )
        return result if error is None else f"error: {error}"

    async def _called(self, tool: BoundTool, keywords: dict[str, Any]) -> Any:
        calls, function = self._tool_calls, tool.function
        if is_async(function):

            async def start() -> Any:
                return await function(**keywords)

        else:

            async def start() -> Any:
                return await calls.invoke(lambda: function(**keywords))

        return await calls.bounded(start, self._settings.call_timeout)


class _Turn:
    """A turn that is being answered: its messages grow by a round of tool calls at a time."""

    def __init__(self, user_text: str, remembered: MemoryContext, prompt: Prompt) -> None:
        self.user_text = user_text
        self.messages = prompt.messages
        self.trimmed = prompt.trimmed
        self.rounds = 0
        self.usage = UsageTotal()
        self._profile = remembered.profile
        self._recall = remembered.recall
        if prompt.trimmed and remembered.turns is not None and self._recall is not None:
            with suppress(msgspec.ValidationError):  # which the observer is going to tell
                recall = msgspec.convert(self._recall, RecallTrace)
                self._recall = trimmed_recall(recall, remembered.context, prompt.kept)

    def observe(self, observer: Observer) -> None:
        """Tell what memory put before the model."""
        if self._recall is not None:
            observer.recall(**dict(self._recall))
        if self._profile is not None:
            observer.profile(**self._profile)

    def add_round(self, answer: ChatAnswer, results: list[str]) -> None:
        """Put the model's calls and their results behind the messages."""
        calls = answer.tool_calls[: len(results)]
        self.messages.append(
            {
                "role": "assistant",
                "content": answer.text,
                "tool_calls": [
                    {
                        "id": call.id,
                        "type": "function",
                        "function": {"name": call.name, "arguments": _sendable(call.arguments)},
                    }
                    for call in calls
                ],
            }
        )
        self.messages += [
            {"role": "tool", "tool_call_id": call.id, "content": result}
            for call, result in zip(calls, results, strict=True)
        ]


def _sendable(arguments: str) -> str:
    """Return a call's arguments as they go back: some servers parse them, and fail on what is no object."""
    return arguments if arguments.strip() and isinstance(arguments_of(arguments), dict) else "{}"
