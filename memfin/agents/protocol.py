"""The agent interface: what a system under test gets and what it gives (spec section 5).

An agent factory is called once a dialogue with that dialogue's `Session` and an `Observer`::

    class MyAgent:
        def __init__(self, session, observer):
            self.observer = observer

        async def reply(self, user_text):
            self.observer.recall(query=user_text, short_term_context="...")
            return "..."

``memfin run --agent mypackage.mymodule:MyAgent`` then evaluates it.
"""

from typing import Any, Final, Literal, Protocol, runtime_checkable

from memfin.contracts import HistoryMode, MemoryTrace, Record, RunConfig
from memfin.contracts.trace import ComplianceTrace, ModelUsage, RecallTrace, ToolTrace
from memfin.errors import UsageError


class Session(Record):
    """The dialogue an agent instance serves. Nothing of the ground truth is in it.

    ``seed`` is that of the run; an agent that draws random numbers is to use it. ``user_id`` is the same in
    all sessions of a client; ``session_index`` is the session's place among them, ``now`` its ISO date or
    time, and ``carried`` what the agent of the session before returned from ``carry``.
    """

    run_id: str
    dialog_id: str
    session_id: str
    user_id: str
    language: str = "zh"
    history_mode: HistoryMode = "free"
    seed: int = 0
    session_index: int | None = None
    now: str | None = None
    carried: bytes | None = None


_OF_MODELS: Final = (
    "system", "history", "user", "headers", "metadata", "memory",
    "temperature", "max_tokens", "context_tokens",
)  # fmt: skip


class AgentSettings(Record):
    """Settings of agents; the fields are those of `RunConfig` with ``agent_`` before their names.

    All but ``turn_timeout`` and ``seed`` are for models, ``openai:MODEL``: ``system`` is a file with the
    system prompt or ``none``, ``memory`` what is put before the model, ``context_tokens`` the budget of the
    prompt. ``history`` ``none`` sends the client's current words alone. ``user``, ``headers`` and
    ``metadata`` are templates: see `memfin.agents.openai.identity`.
    """

    system: str | None = None
    history: Literal["full", "none"] = "full"
    user: str | None = None
    headers: list[str] = []
    metadata: str | None = None
    memory: str = "none"
    temperature: float = 0.0
    max_tokens: int | None = None
    context_tokens: int = 32_000
    turn_timeout: float = 120.0
    seed: int = 0

    @classmethod
    def of(cls, config: RunConfig) -> "AgentSettings":
        """Return the settings of a run's agents."""
        return cls(
            **{name: getattr(config, f"agent_{name}") for name in _OF_MODELS},
            turn_timeout=config.turn_timeout,
            seed=config.seed,
        )

    def refuse_model_settings(self, agent: str) -> None:
        """Raise `UsageError` when a setting for models is set, since this agent would not heed it."""
        default = AgentSettings()
        for name in _OF_MODELS:
            if self[name] != default[name]:
                option = f"agent_{name}"
                raise UsageError(
                    f"setting {option}: is for agents of the form openai:MODEL; {agent} takes none"
                )


class AgentReply(Record):
    """A reply together with its observations, for agents that do not call the observer.

    Observations may be contract structs or plain dictionaries of the same fields; what is set
    here wins over the observer's calls during the turn. ``usage`` is what the turn took of a
    language model. ``observation_error`` is for adapters: an observation that was malformed where the
    agent runs and could not be brought here; it is recorded with the turn.
    """

    text: str
    recall: RecallTrace | dict[str, Any] | None = None
    tools: list[ToolTrace | dict[str, Any]] | None = None
    compliance: ComplianceTrace | dict[str, Any] | None = None
    profile_snapshot: dict[str, Any] | None = None
    memory: MemoryTrace | dict[str, Any] | None = None
    usage: ModelUsage | dict[str, Any] | None = None
    observation_error: str | None = None


class Observer(Protocol):
    """Receiver of an agent's recall, tool calls and checks during the current turn.

    Each method takes the fields of its contract as keywords. Nothing raises into the agent: a malformed
    observation is left out, and the turn's ``observation_error`` has the path of the offending field.
    """

    def recall(self, /, **fields: Any) -> None:
        """Record what memory put before the model (`RecallTrace`); the last call of a turn counts."""

    def tool(self, /, **fields: Any) -> None:
        """Record one tool call (`ToolTrace`); calls add up."""

    def compliance(self, /, **fields: Any) -> None:
        """Record the agent's own compliance check (`ComplianceTrace`); the last call counts."""

    def profile(self, /, **fields: Any) -> None:
        """Record the client profile as the agent sees it after this turn; the last call counts."""

    def memory(self, /, **fields: Any) -> None:
        """Record all that the agent's store holds about the client (`MemoryTrace`); the last call counts."""


@runtime_checkable
class Agent(Protocol):
    """A system under test; ``reply`` may be a plain function, which then runs in a worker thread.

    Optional methods: ``commit(assistant_text)`` puts a reply into the agent's history (its own in
    history mode ``free``, the reference reply in ``forced``, which needs the method); ``close()``
    ends the session; ``snapshot() -> bytes`` gives the state after an answered turn and
    ``restore(bytes)`` puts a fresh agent into it, so that an interrupted dialogue goes on there;
    ``carry() -> bytes``, called before ``close``, gives what the agent keeps for the client's next session.
    """

    def reply(self, user_text: str) -> Any:
        """Answer the user's words with a str or an `AgentReply`."""


class AgentFactory(Protocol):
    """Creates the agent of one dialogue; may be a coroutine function or a plain callable."""

    def __call__(self, session: Session, observer: Observer) -> Any:
        """Return the agent, or an awaitable of it."""
