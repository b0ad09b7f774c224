"""A model behind a chat endpoint, as the agent of one dialogue."""

import time
from collections.abc import Callable, Mapping, Sequence
from functools import partial
from pathlib import Path
from typing import Any, Final, Literal, NamedTuple

import msgspec

from memfin.agents.builtin.memory import decode_state
from memfin.agents.calls import TransportError, UsageTotal
from memfin.agents.history import prompt_fields
from memfin.agents.memory_context import BuiltinMemory, Memory, MemoryContext, MemoryFactory, resolve_memory
from memfin.agents.openai.identity import Identity
from memfin.agents.openai.model import ServedModel, refuse_incomplete, usage_of
from memfin.agents.openai.prompts import SystemPrompt, prompt_from_file, prompt_of, shipped_prompt
from memfin.agents.openai.tools import (
    EXCERPT,
    BoundTool,
    Tool,
    arguments_of,
    bind_tools,
    result_text,
    tools_hash,
)
from memfin.agents.protocol import AgentReply, AgentSettings, Observer, Session
from memfin.client.endpoint import Endpoint
from memfin.client.errors import RequestError
from memfin.client.messages import ChatAnswer, ChatRequest, ToolCall
from memfin.contracts import RecallItem, Record, ShortTermTurn
from memfin.errors import UsageError
from memfin.memory.tokens import estimate_tokens
from memfin.sandbox.calls import CallFailed, UserCalls, is_async
from memfin.sandbox.references import one_line, package_version, reference_of

NO_SYSTEM: Final = "none"
MAX_ROUNDS: Final = 8  # of tool calls per turn
MAX_CALLS: Final = 16  # per round
MESSAGE_TOKENS: Final = 4  # of a message besides its words: its role and its ends
UNAVAILABLE: Final = "this tool is not available"
_MS: Final = 1e3
_PASSING: Final = (TransportError, ConnectionError)


class Prompt(NamedTuple):
    """The messages of a request, the earlier utterances in it, and the number of older turns left out."""

    messages: list[dict[str, Any]]
    kept: list[ShortTermTurn]
    trimmed: int


def build_prompt(
    system: str, context: str, history: Sequence[ShortTermTurn], question: str, budget: int
) -> Prompt:
    """Return the messages within a budget of estimated tokens.

    Whole turns are left out, the oldest first, until the rest fits; system prompt, context and question
    stay. Neighbouring messages of a role become one, since chat templates want the roles to alternate.
    """
    head = "\n\n".join(part for part in (system, context) if part)
    room = budget - (_tokens(head) if head else 0) - _tokens(question)
    starts = [index for index, each in enumerate(history) if each.role == "user" or index == 0]
    first, end = len(history), len(history)
    trimmed = len(starts)
    for start in reversed(starts):
        room -= sum(_tokens(utterance.content) for utterance in history[start:end])
        if room < 0:
            break
        first = end = start
        trimmed -= 1
    kept = list(history[first:])
    messages: list[dict[str, Any]] = [{"role": "system", "content": head}] if head else []
    for role, content in [*((each.role, each.content) for each in kept), ("user", question)]:
        if messages and messages[-1]["role"] == role:
            messages[-1]["content"] += f"\n\n{content}"
        else:
            messages.append({"role": role, "content": content})
    return Prompt(messages, kept, trimmed)


def recall_of(remembered: MemoryContext, prompt: Prompt) -> dict[str, Any]:
    """Return the recall fields of a prompt: the messages sent, and the memory's report or context."""
    fields = dict(remembered.recall or {})
    window = fields.get("short_term_context")
    if remembered.turns is None or prompt.trimmed or not window:
        fields |= prompt_fields(remembered.context, prompt.kept)
        if remembered.turns is None and window:  # text of the context, before the agent's own history
            fields["short_term_context"] = f"{window}\n{fields['short_term_context']}".rstrip()
    if remembered.context and not (fields.get("items") or fields.get("profile_context")):
        fields["items"] = [RecallItem(content=remembered.context)]
    return fields


def _tokens(text: str) -> int:
    return estimate_tokens(text) + MESSAGE_TOKENS


class SavedHistory(Record):
    """An agent between two turns; ``memory`` is what its memory's ``snapshot`` gave."""

    history: list[ShortTermTurn]
    open: str | None = None
    memory: bytes | None = None


class OpenAIAgent:
    """A model as the agent of one dialogue; the history is its own, or its memory's.

    A turn may take several requests when the model calls tools. Those that can be executed are, the
    others are recorded and answered as unavailable. When a request fails on its way and the replay
    asks again, the turn goes on with that request: no tool is called twice, no memory asked twice.
    ``usage`` adds up over dialogues.
    """

    def __init__(self, session: Session, observer: Observer, agents: "OpenAIAgents") -> None:
        self._session = session
        self._observer = observer
        self._agents = agents
        self._system = agents.system.text(session.language)
        self._history: list[ShortTermTurn] = []
        self._open: str | None = None
        self._unrecorded: str | None = None
        self._lost: _Turn | None = None
        self._memory: Memory | None = None
        self._memory_calls = UserCalls("memory", session.dialog_id, _PASSING)
        self._tool_calls = UserCalls("tool", session.dialog_id, _PASSING)
        self._extra = agents.identity.body(session)
        self._headers = agents.identity.header_values(session)
        # Only an agent that can does have these methods: a replay asks for them by their names.
        if agents.memory is None or hasattr(agents.memory, "restore"):
            self.snapshot, self.restore = self._snapshot, self._restore
        if hasattr(agents.memory, "carry"):
            self.carry = self._carry

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
        """Put the turn's effective reply into the history and the memory."""
        user_text, self._open = self._open, None
        if user_text is not None:
            self._history += [
                ShortTermTurn(role="user", content=user_text),
                ShortTermTurn(role="assistant", content=assistant_text),
            ]
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

    async def _snapshot(self) -> bytes:
        memory: Any = await self._remembering()
        state = None if memory is None else await self._ask_memory(memory.snapshot)
        return msgspec.msgpack.encode(SavedHistory(history=self._history, open=self._open, memory=state))

    async def _restore(self, state: bytes) -> None:
        saved = decode_state(state, SavedHistory)
        memory: Any = await self._remembering()
        if memory is not None:
            await self._ask_memory(memory.restore, saved.memory)
        self._history, self._open = list(saved.history), saved.open

    async def _carry(self) -> bytes:
        memory: Any = await self._remembering()
        carried: bytes = await self._ask_memory(memory.carry)
        return carried

    async def _remembering(self) -> Memory | None:
        """Return the memory, which is made when it is first needed."""
        if self._memory is None and self._agents.memory is not None:
            self._memory = await self._ask_memory(self._agents.memory, self._session)
        return self._memory

    async def _begin(self, user_text: str) -> "_Turn":
        """Open a turn: recall, and put the messages together."""
        if self._open is not None:  # the previous turn got no reply
            self._history.append(ShortTermTurn(role="user", content=self._open))
        self._open = user_text
        remembered = await self._recall(user_text)
        history = self._history if remembered.turns is None else remembered.turns
        if self._agents.history == "none":
            history = []
        budget = self._agents.settings["context_tokens"]
        prompt = build_prompt(self._system, remembered.context, history, user_text, budget)
        return _Turn(user_text, remembered, prompt)

    async def _recall(self, user_text: str) -> MemoryContext:
        memory = await self._remembering()
        if memory is None:
            return MemoryContext()
        remembered = await self._ask_memory(memory.recall, user_text)
        if not isinstance(remembered, MemoryContext):
            raise CallFailed(f"memory: returned {type(remembered).__name__}; expected MemoryContext")
        return remembered

    async def _ask_memory(self, call: Any, *args: Any) -> Any:
        on_loop = isinstance(call, type) and is_async(getattr(call, "recall", None))
        calls = self._memory_calls
        try:
            return await calls.bounded(
                lambda: calls.invoke(call, *args, on_loop=on_loop), self._agents.call_timeout
            )
        except CallFailed as problem:
            raise CallFailed(f"memory: {problem}") from problem

    async def _converse(self, turn: "_Turn") -> AgentReply:
        """Ask the model until it answers without calling a tool."""
        while True:
            answer = await self._request(turn)
            if not answer.tool_calls:
                return AgentReply(text=answer.text or answer.refusal or "", usage=turn.usage.total)
            if turn.rounds >= MAX_ROUNDS:
                raise CallFailed(f"the model went on calling tools after {MAX_ROUNDS} rounds")
            turn.rounds += 1
            results = [await self._execute(call) for call in answer.tool_calls[:MAX_CALLS]]
            turn.add_round(answer, results)

    async def _request(self, turn: "_Turn") -> ChatAnswer:
        agents = self._agents
        offers = [tool.offer for tool in agents.tools.values()] or None
        settings = agents.settings
        request = ChatRequest(
            model=agents.model,
            messages=turn.messages,
            temperature=settings["temperature"],
            seed=settings["seed"],
            max_tokens=settings["max_tokens"],
            tools=offers,
            tool_choice="none" if offers and turn.rounds >= MAX_ROUNDS else None,
            extra=self._extra,
            headers=self._headers,
        )
        try:
            answer = await agents.asked(agents.chat.stream, request)
        except RequestError as problem:
            raise agents.error_of(problem) from problem
        used = usage_of(answer, trimmed_turns=turn.trimmed if turn.usage.total is None else 0)
        turn.usage.add(used)
        agents.usage.add(used)
        refuse_incomplete(answer, settings["max_tokens"])
        return answer

    async def _execute(self, call: ToolCall) -> str:
        """Execute a call, record it, and return its result for the model."""
        start = time.perf_counter()
        result, error = "", None
        tool = self._agents.tools.get(call.name)
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
        calls, call, on_loop = self._tool_calls, partial(tool.function, **keywords), is_async(tool.function)
        return await calls.bounded(lambda: calls.invoke(call, on_loop=on_loop), self._agents.call_timeout)


class _Turn:
    """A turn that is being answered: its messages grow by a round of tool calls at a time."""

    def __init__(self, user_text: str, remembered: MemoryContext, prompt: Prompt) -> None:
        self.user_text = user_text
        self.messages = prompt.messages
        self.trimmed = prompt.trimmed
        self.rounds = 0
        self.usage = UsageTotal()
        self._profile = remembered.profile
        self._recall = recall_of(remembered, prompt)

    def observe(self, observer: Observer) -> None:
        """Report the memory in the prompt."""
        observer.recall(**self._recall)
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


class OpenAIAgents(ServedModel):
    """The agents of one model; an agent factory with `close`, for one run at a time.

    ``memfin.evaluate(agent=OpenAIAgents("qwen3", tools={"quote": quote}))`` is what
    ``--agent openai:qwen3`` does, with tools.

    Args:
        model: the model's name, as its server knows it.
        endpoint: where it is reached; None takes ``MEMFIN_AGENT_BASE_URL`` or ``OPENAI_BASE_URL``,
            and ``MEMFIN_AGENT_API_KEY`` or ``OPENAI_API_KEY``.
        system: the system prompt's text; None for the one that ships with MemFin, empty for none.
        history: ``none`` sends the client's current words alone, for servers with a memory.
        user, headers, metadata: templates of a request's ``user``, headers (``NAME=TEMPLATE``) and
            ``metadata`` (a JSON object); see `Identity`.
        memory: ``none``, ``builtin``, ``pkg.module:factory``, or a factory.
        tools: functions, or `Tool` records, by the name that the model is to call them by.
        temperature, max_tokens, seed: sent with every request; None is not sent.
        context_tokens: estimated tokens of a prompt; older turns of the history are left out.
        turn_timeout: seconds that a request, a tool or the memory may take, at most. A run's own limit
            for a turn is usually shorter.

    Raises:
        UsageError: the endpoint, the memory or a tool is unusable.
    """

    def __init__(  # noqa: PLR0913 - each setting stands alone and has a default
        self,
        model: str,
        *,
        endpoint: Endpoint | None = None,
        system: str | SystemPrompt | None = None,
        history: Literal["full", "none"] = "full",
        user: str | None = None,
        headers: Sequence[str] = (),
        metadata: str | None = None,
        memory: str | MemoryFactory = "none",
        tools: Mapping[str, Tool | Callable[..., Any]] | None = None,
        temperature: float | None = 0.0,
        max_tokens: int | None = None,
        context_tokens: int = 32_000,
        seed: int | None = 0,
        turn_timeout: float = 3600.0,
    ) -> None:
        super().__init__("agent", model, endpoint, turn_timeout)
        self.system = prompt_of(system) if isinstance(system, str) else system or shipped_prompt()
        self.history = history
        self.identity = Identity.of(user, headers, metadata)
        self._memory_name = memory if isinstance(memory, str) else reference_of(memory)
        self.memory = resolve_memory(memory)
        if self.memory is BuiltinMemory:
            # The first one compiles the rules; done here, no event loop waits for it.
            BuiltinMemory(Session(run_id="", dialog_id="", session_id="", user_id=""))
        if history == "none" and self.memory is not None:
            raise UsageError("setting agent_history: none takes no agent_memory")
        self.tools = bind_tools(tools)
        self.settings: dict[str, Any] = {
            "temperature": temperature,
            "max_tokens": max_tokens,
            "context_tokens": context_tokens,
            "seed": seed,
        }
        self.call_timeout = turn_timeout

    @classmethod
    def from_settings(
        cls, model: str, settings: AgentSettings, endpoint: Endpoint | None = None
    ) -> "OpenAIAgents":
        """Return the agents of ``--agent openai:MODEL``; raise `UsageError` when a setting is unusable."""
        given: dict[str, Any] = {**dict(settings), "endpoint": endpoint}
        if settings.system is not None:
            none = settings.system == NO_SYSTEM
            given["system"] = prompt_of("") if none else prompt_from_file(Path(settings.system))
        return cls(model, **given)

    def __call__(self, session: Session, observer: Observer) -> OpenAIAgent:
        """Return the agent of a dialogue."""
        return OpenAIAgent(session, observer, self)

    @property
    def inputs(self) -> dict[str, Any]:
        """Settings that the answers depend on, for the fingerprint; no secrets."""
        return {
            "base_url": self._endpoint.base_url,
            "system_prompt_sha256": self.system.hashes(),
            "memory": self._memory_name,
            "memory_version": package_version(self._memory_name.partition(":")[0]),
            "tools_sha256": tools_hash(self.tools),
            **self.settings,
            **({} if self.history == "full" else {"history": self.history}),
            **({"identity": msgspec.to_builtins(self.identity)} if self.identity != Identity() else {}),
        }
