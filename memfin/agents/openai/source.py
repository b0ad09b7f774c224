"""The agents of one model: the endpoint, the connections and the settings that they share."""

from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

from memfin.agents.memory_context import BuiltinMemory, MemoryFactory, resolve_memory
from memfin.agents.openai.agent import ModelSettings, OpenAIAgent
from memfin.agents.openai.prompts import SystemPrompt, prompt_from_file, prompt_of, shipped_prompt
from memfin.agents.openai.tools import Tool, bind_tools, tools_hash
from memfin.agents.protocol import Observer, Session
from memfin.agents.settings import AgentSettings
from memfin.agents.usage import UsageTotal
from memfin.client.chat import ChatClient
from memfin.client.endpoint import Endpoint
from memfin.contracts import ModelUsage, ParameterChange
from memfin.errors import UsageError
from memfin.sandbox.references import package_version, reference_of

BEYOND_TURN = 30.0
"""Seconds for which a request outlives the turn that it was made for; the replay has given up by then."""


class OpenAIAgents:
    """The agents of one model; an agent factory with `close`, for one run at a time.

    ``memfin.evaluate(agent=OpenAIAgents("qwen3", tools={"quote": quote}))`` is what
    ``--agent openai:qwen3`` does, with tools.

    Args:
        model: the model's name, as its server knows it.
        endpoint: where it is reached; None takes ``MEMFIN_AGENT_BASE_URL`` or ``OPENAI_BASE_URL``,
            and ``MEMFIN_AGENT_API_KEY`` or ``OPENAI_API_KEY``.
        system: the system prompt's text; None for the one that ships with MemFin.
        memory: ``none``, ``builtin``, ``pkg.module:factory``, or a factory.
        tools: functions, or `Tool` records, by the name that the model is to call them by.
        temperature, max_tokens, seed: sent with every request; None is not sent.
        context_tokens: estimated tokens of a prompt; older turns of the history are left out.
        turn_timeout: seconds that a request, a tool or the memory may take, at most. A run's own limit
            for a turn is usually shorter.

    Raises:
        UsageError: the endpoint, the memory or a tool is unusable.

    Attributes:
        reference, model, version: what the artifacts of a run call the agent.
    """

    def __init__(  # noqa: PLR0913 - each setting stands alone and has a default
        self,
        model: str,
        *,
        endpoint: Endpoint | None = None,
        system: str | SystemPrompt | None = None,
        memory: str | MemoryFactory = "none",
        tools: Mapping[str, Tool | Callable[..., Any]] | None = None,
        temperature: float | None = 0.0,
        max_tokens: int | None = None,
        context_tokens: int = 32_000,
        seed: int | None = 0,
        turn_timeout: float = 3600.0,
    ) -> None:
        if not model.strip():
            raise UsageError("agent 'openai:': name the model, such as openai:qwen3")
        self.model = model
        self.reference = f"openai:{model}"
        self.version: str | None = None
        self._endpoint = endpoint or Endpoint.from_environment("agent")
        self._endpoint.headers()  # a key that no header can carry is told now
        self._system = (
            shipped_prompt() if system is None else prompt_of(system) if isinstance(system, str) else system
        )
        self._memory_name = memory if isinstance(memory, str) else reference_of(memory)
        self._memory = resolve_memory(memory)
        if self._memory is BuiltinMemory:
            # The first one compiles the rules; done here, no event loop waits for it.
            BuiltinMemory(Session(run_id="", dialog_id="", session_id="", user_id=""))
        self._tools = bind_tools(tools)
        self._settings = ModelSettings(
            model=model,
            temperature=temperature,
            max_tokens=max_tokens,
            context_tokens=context_tokens,
            seed=seed,
            call_timeout=turn_timeout,
        )
        limit = turn_timeout + BEYOND_TURN
        self._chat = ChatClient(self._endpoint, total=limit, read=limit)
        self._usage = UsageTotal()

    @classmethod
    def from_settings(cls, model: str, settings: AgentSettings) -> "OpenAIAgents":
        """Return the agents of ``--agent openai:MODEL``; raise `UsageError` when a setting is unusable."""
        return cls(
            model,
            system=None if settings.system is None else prompt_from_file(Path(settings.system)),
            memory=settings.memory,
            temperature=settings.temperature,
            max_tokens=settings.max_tokens,
            context_tokens=settings.context_tokens,
            seed=settings.seed,
            turn_timeout=settings.turn_timeout,
        )

    def __call__(self, session: Session, observer: Observer) -> OpenAIAgent:
        """Return the agent of a dialogue."""
        return OpenAIAgent(
            session,
            observer,
            chat=self._chat,
            settings=self._settings,
            system=self._system.text(session.language),
            memory=self._memory,
            tools=self._tools,
            usage=self._usage,
        )

    @property
    def total_usage(self) -> ModelUsage | None:
        """What the model took so far, failed turns included."""
        return self._usage.of_run()

    def listen(self, on_notice: Callable[[str], None]) -> None:
        """Tell what a user should know of the model while it answers."""
        self._chat.parameters.on_notice = lambda line: on_notice(f"agent {self.reference}: {line}")

    def parameter_changes(self) -> list[ParameterChange]:
        """Return which parameters the model has refused so far."""
        return self._chat.parameters.changes()

    @property
    def inputs(self) -> dict[str, Any]:
        """What the answers depend on, for the fingerprint; no secret is in it."""
        settings = self._settings
        return {
            "base_url": self._endpoint.base_url,
            "system_prompt_sha256": dict(self._system.hashes()),
            "memory": self._memory_name,
            "memory_version": package_version(self._memory_name.partition(":")[0]),
            "tools_sha256": tools_hash(self._tools),
            "temperature": settings.temperature,
            "max_tokens": settings.max_tokens,
            "context_tokens": settings.context_tokens,
            "seed": settings.seed,
        }

    async def close(self) -> None:
        """Close the connections and begin new counts; the next run opens new ones."""
        self._usage = UsageTotal()
        self._chat.parameters.forget()
        await self._chat.close()
