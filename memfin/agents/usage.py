"""What the language models behind a run's agents took, summed."""

from typing import Any

import msgspec

from memfin.contracts import ModelUsage


class UsageTotal:
    """A sum of `ModelUsage`; ``total`` is None until something was added."""

    def __init__(self) -> None:
        self.total: ModelUsage | None = None
        self._models: set[str | None] = set()

    def add_failed(self, latency_ms: float) -> None:
        """Add a request that brought no answer: what it took in tokens is not known, nor by which model."""
        self._add(ModelUsage(calls=1, unmetered_calls=1, latency_ms=latency_ms))

    def add(self, usage: ModelUsage | dict[str, Any]) -> None:
        """Add what one turn took; what is no usage is left out, the replay says so in the turn's error.

        The total names a model only while all turns name the same one; its ``first_token_ms`` is that
        of what was added last.
        """
        if not isinstance(usage, ModelUsage):
            try:
                usage = msgspec.convert(usage, ModelUsage)
            except msgspec.ValidationError:
                return
        self._models.add(usage.model)
        self._add(usage)

    def _add(self, usage: ModelUsage) -> None:
        total = self.total or ModelUsage()
        self.total = ModelUsage(
            model=next(iter(self._models)) if len(self._models) == 1 else None,
            calls=total.calls + usage.calls,
            unmetered_calls=total.unmetered_calls + usage.unmetered_calls,
            prompt_tokens=total.prompt_tokens + usage.prompt_tokens,
            completion_tokens=total.completion_tokens + usage.completion_tokens,
            latency_ms=total.latency_ms + usage.latency_ms,
            first_token_ms=usage.first_token_ms,
            trimmed_turns=total.trimmed_turns + usage.trimmed_turns,
        )

    def of_run(self) -> ModelUsage | None:
        """Return the sum without what only one turn can have."""
        return None if self.total is None else self.total.replace(first_token_ms=None)
