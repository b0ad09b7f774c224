"""Agent references: from ``--agent`` to a factory for each dialogue (spec section 5)."""

from collections.abc import Callable
from typing import Any, Final

from memfin import __version__
from memfin.agents.observer import TurnObserver
from memfin.agents.protocol import Observer, Session
from memfin.contracts import Dialog
from memfin.dataset import align_turn_pairs
from memfin.errors import UsageError
from memfin.foreign.references import import_reference, package_version, reference_of

FORMS: Final = "builtin, oracle, echo or pkg.module:factory"

Factory = Callable[[Session, Observer], Any]


class AgentSource:
    """Where a run's agents come from.

    Attributes:
        reference: the reference as given, or the dotted name of a factory object.
        version: version of the agent's package where it has one.
        model_name: what the run manifest calls the system under test.
    """

    def __init__(
        self, reference: str, factory_for: Callable[[Dialog], Factory], version: str | None = None
    ) -> None:
        self.reference = reference
        self.version = version
        self.model_name = reference
        self._factory_for = factory_for

    def factory_for(self, dialog: Dialog) -> Factory:
        """Return the factory of one dialogue's agent. Only the oracle looks into the dialogue."""
        return self._factory_for(dialog)


def resolve_agent(agent: str | Callable[..., Any]) -> AgentSource:
    """Return the source of agents that a reference or a factory object stands for.

    Raises:
        UsageError: the reference has no known form or does not import.
    """
    if not isinstance(agent, str):
        if not callable(agent):
            raise UsageError(f"agent: expected a reference or a factory, got {type(agent).__name__}")
        name = reference_of(agent)
        return AgentSource(name, lambda _: agent, package_version(name.partition(":")[0]))
    builtin = {"builtin": _builtin, "oracle": _oracle, "echo": _echo}.get(agent)
    if builtin is not None:
        return AgentSource(agent, builtin(), __version__)
    if agent.startswith(("http://", "https://", "openai:")):
        raise UsageError(
            f"agent {agent!r}: agents over the wire are not part of this version; known forms: {FORMS}"
        )
    factory = import_reference("agent", agent, FORMS)
    return AgentSource(agent, lambda _: factory, package_version(agent.partition(":")[0]))


def _builtin() -> Callable[[Dialog], Factory]:
    from memfin.agents.builtin import BuiltinAgent  # noqa: PLC0415 - loads its knowledge only when used

    # The first one compiles the rules; done here, no event loop waits for it.
    BuiltinAgent(Session(run_id="", dialog_id="", session_id="", user_id=""), TurnObserver())
    return lambda _: BuiltinAgent


def _echo() -> Callable[[Dialog], Factory]:
    from memfin.agents.echo import EchoAgent  # noqa: PLC0415 - only when used

    return lambda _: EchoAgent


def _oracle() -> Callable[[Dialog], Factory]:
    from memfin.agents.oracle import OracleAgent  # noqa: PLC0415 - only when used

    def factory_for(dialog: Dialog) -> Factory:
        replies = [(pair.user_text, pair.gt_assistant_text) for pair in align_turn_pairs(dialog)]

        async def create(session: Session, observer: Observer) -> OracleAgent:
            return OracleAgent(session, observer, replies)

        return create

    return factory_for
