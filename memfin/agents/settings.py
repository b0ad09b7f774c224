"""The settings of a run that speak of its agents."""

from typing import Final

from memfin.contracts import Record, RunConfig
from memfin.errors import UsageError

_OF_MODELS: Final = ("system", "memory", "temperature", "max_tokens", "context_tokens")


class AgentSettings(Record):
    """How agents are made; the fields are those of `RunConfig` with ``agent_`` before their names.

    All but ``turn_timeout`` and ``seed`` are for models, ``openai:MODEL``: ``system`` is a file with the
    system prompt, ``memory`` what is put before the model, ``context_tokens`` the budget of the prompt.
    """

    system: str | None = None
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
