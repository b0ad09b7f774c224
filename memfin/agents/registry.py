"""Agent references, their settings, and a factory for each dialogue (spec section 5)."""

import re
from collections.abc import Callable, Mapping
from typing import Any, Final, Protocol, cast, runtime_checkable

from memfin.agents.forms import Factory, SupportsInvoke, completions_of, factory_of
from memfin.agents.observer import TurnObserver
from memfin.agents.protocol import Agent, AgentSettings, Observer, Session
from memfin.contracts import Dialog, ModelUsage, ParameterChange
from memfin.dataset import align_turn_pairs
from memfin.errors import UsageError
from memfin.sandbox.plugins import plugin_reference
from memfin.sandbox.references import check_signature, import_object, package_version, reference_of
from memfin.version import __version__

FORMS: Final = "builtin, oracle, echo, http(s)://..., openai:MODEL or pkg.module:factory"
_ADDRESS: Final = re.compile(r"(?:[\w.-]+|\[[0-9a-f:.]+\]):\d+(?:/[^@?#]*)?\Z", re.IGNORECASE)
"""A host with a port; no factory has a name of digits."""

AgentLike = str | Callable[..., Any] | Agent | SupportsInvoke | tuple[Any, str]
"""A reference, or an object that `memfin.agents.forms.factory_of` or `completions_of` accepts."""


@runtime_checkable
class SharedAgents(Protocol):
    """A factory whose agents share something, such as connections, that the run closes in the end."""

    reference: str
    model: str
    version: str | None

    @property
    def inputs(self) -> Mapping[str, Any]:
        """Settings that the answers depend on; no secrets."""
        ...

    @property
    def total_usage(self) -> ModelUsage | None:
        """Usage of the language models so far; None where none is known."""

    def __call__(self, session: Session, observer: Observer) -> Any:
        """Return the agent of a dialogue, or an awaitable of it."""

    async def close(self) -> None:
        """Let go of what is shared."""


class AgentSource:
    """The source of a run's agents; `close` it when the run is over.

    ``reference`` is as given, or the dotted name of a factory object; ``inputs`` are settings that the
    answers depend on, for the fingerprint. ``factory_for`` returns the factory of one dialogue's agent: only
    the oracle looks into the dialogue.
    """

    def __init__(
        self,
        reference: str,
        factory_for: Callable[[Dialog], Factory],
        version: str | None = None,
        *,
        shared: SharedAgents | None = None,
    ) -> None:
        self.reference = reference
        self.version = version
        self.model_name = reference if shared is None else shared.model
        self.inputs = {} if shared is None else dict(shared.inputs)
        self.factory_for = factory_for
        self._shared = shared

    @classmethod
    def of_shared(cls, agents: SharedAgents) -> "AgentSource":
        """Return the source of agents that share something."""
        return cls(agents.reference, lambda _: agents, agents.version, shared=agents)

    @property
    def usage(self) -> ModelUsage | None:
        """Usage of the language models behind the agents so far, failed turns included."""
        return self._shared.total_usage if self._shared is not None else None

    def listen(self, on_warning: Callable[[str], None]) -> None:
        """Pass a receiver of warnings to the agents, if they take one."""
        if callable(listen := getattr(self._shared, "listen", None)):
            listen(on_warning)

    @property
    def parameter_changes(self) -> list[ParameterChange]:
        """Parameters that the model behind the agents has refused so far, where that is known."""
        changes: Any = getattr(self._shared, "parameter_changes", None)
        return cast("list[ParameterChange]", changes()) if callable(changes) else []

    async def close(self) -> None:
        """Close what the agents share, if anything."""
        if self._shared is not None:
            await self._shared.close()


def resolve_agent(agent: AgentLike, settings: AgentSettings | None = None) -> AgentSource:
    """Return the source of agents that a reference or an object stands for.

    Raises:
        UsageError: the reference has no known form or does not import, the object has none of the forms of
            `memfin.agents.forms.factory_of`, the endpoint of a service or a model is unusable, or a setting
            is of no use to this agent.
    """
    settings = settings or AgentSettings()
    if (models := _model_agents(agent, settings)) is not None:
        return AgentSource.of_shared(models)
    settings.refuse_model_settings(agent if isinstance(agent, str) else "a factory")
    if not isinstance(agent, str):
        if isinstance(agent, SharedAgents):
            return AgentSource.of_shared(agent)
        return _own(reference_of(agent), agent)
    if agent in {"builtin", "oracle", "echo"}:
        return AgentSource(agent, _shipped(agent), __version__)
    if agent.lower().startswith(("http://", "https://")):
        from memfin.agents.http.client import HttpAgents  # noqa: PLC0415 - aiohttp loads slowly

        return AgentSource.of_shared(HttpAgents(agent, turn_timeout=settings.turn_timeout))
    if _ADDRESS.match(agent):
        raise UsageError(f"agent {agent!r}: an address needs its scheme, as in http://{agent}")
    reference = plugin_reference("agent", agent, FORMS, "memfin.agents")
    return _own(reference, import_object("agent", reference, FORMS))


def _model_agents(agent: AgentLike, settings: AgentSettings) -> SharedAgents | None:
    """Return the agents of ``openai:MODEL`` or of a client of openai; None for any other."""
    if isinstance(agent, str) and agent.startswith("openai:"):
        from memfin.agents.openai.agent import OpenAIAgents  # noqa: PLC0415 - aiohttp loads slowly

        return OpenAIAgents.from_settings(agent.removeprefix("openai:"), settings)
    if (completions := completions_of(agent)) is not None:
        from memfin.agents.openai.clients import client_agents  # noqa: PLC0415 - aiohttp loads slowly

        return client_agents(*completions, settings)
    return None


def check_observer_factory(factory: Any) -> None:
    """Raise `UsageError` for what cannot be called without arguments for a dialogue's `TurnObserver`."""
    expected = "a subclass of TurnObserver, or a function () that gives one"
    if not callable(factory):
        raise UsageError(f"observer_factory: got {type(factory).__name__}; expected {expected}")
    check_signature(f"observer_factory {reference_of(factory)!r}", factory, (), expected)


def _own(reference: str, agent: Any) -> AgentSource:
    factory = factory_of(f"agent {reference!r}", agent)
    return AgentSource(reference, lambda _: factory, package_version(reference.partition(":")[0]))


def _shipped(agent: str) -> Callable[[Dialog], Factory]:
    """Return the factories of an agent that ships with MemFin, whose modules load only when used."""
    if agent == "builtin":
        from memfin.agents.builtin import BuiltinAgent  # noqa: PLC0415

        # The first one compiles the rules; done here, no event loop waits for it.
        BuiltinAgent(Session(run_id="", dialog_id="", session_id="", user_id=""), TurnObserver())
        return lambda _: BuiltinAgent
    from memfin.agents.bounds import EchoAgent, OracleAgent, probe_answers  # noqa: PLC0415

    if agent == "echo":
        return lambda _: EchoAgent

    def factory_for(dialog: Dialog) -> Factory:
        replies = [(pair.user_text, pair.gt_assistant_text) for pair in align_turn_pairs(dialog)]
        probes = probe_answers(dialog)

        async def create(session: Session, observer: Observer) -> OracleAgent:
            return OracleAgent(session, observer, replies, probes)

        return create

    return factory_for
