"""A model behind a chat endpoint, as agents and RAG systems ask it: connections, usage, errors."""

import time
from collections.abc import Awaitable, Callable
from functools import partial
from typing import Final

from memfin.agents.calls import AgentEndpoint, TransportError, UsageTotal
from memfin.client.chat import ChatClient, retry_without_refused
from memfin.client.endpoint import Endpoint
from memfin.client.errors import RequestError
from memfin.client.messages import CUT, FILTERED, ChatAnswer, ChatRequest
from memfin.contracts import ModelUsage, ParameterChange
from memfin.errors import UsageError
from memfin.sandbox.calls import CallFailed

BEYOND_TURN: Final = 30.0  # seconds for which a request outlives its turn; the replay has given up by then


class ServedModel:
    """A model with the connections to its endpoint and its usage, for one run at a time.

    Attributes:
        reference, model, version: what the artifacts of a run call it.
    """

    version: str | None = None

    def __init__(self, kind: str, model: str, endpoint: Endpoint | None, timeout: float) -> None:
        """Take the model of an agent or RAG system, which errors and warnings call ``kind``.

        Raises:
            UsageError: no model is named, or the endpoint is unusable.
        """
        if not model.strip():
            raise UsageError(f"{kind} 'openai:': name the model, such as openai:qwen3")
        self.model = model
        self.reference = f"openai:{model}"
        self._kind = kind
        self._endpoint = endpoint or Endpoint.from_environment("agent")
        self._endpoint.headers()  # fails now for a key that no header can carry
        limit = timeout + BEYOND_TURN
        self.chat = ChatClient(self._endpoint, total=limit, read=limit)
        self.usage = UsageTotal()
        self.availability = AgentEndpoint()
        self.notify: Callable[[str], None] = lambda _: None

    @property
    def total_usage(self) -> ModelUsage | None:
        """Usage of the model so far, failed turns and questions included."""
        return self.usage.of_run()

    def listen(self, on_warning: Callable[[str], None]) -> None:
        """Set the receiver of warnings for the user."""
        self.notify = lambda line: on_warning(f"{self._kind} {self.reference}: {line}")
        self.chat.parameters.on_warning = self.notify

    def parameter_changes(self) -> list[ParameterChange]:
        """Return the parameters that the model has refused so far."""
        return self.chat.parameters.changes()

    def error_of(self, problem: RequestError) -> TransportError | CallFailed:
        """Return the error of a turn or question for that of a request."""
        return self.availability.error_of(problem, self._endpoint.key_env)

    async def asked(
        self, send: Callable[[ChatRequest], Awaitable[ChatAnswer]], request: ChatRequest
    ) -> ChatAnswer:
        """Send a request, without parameters that the model refuses; a failed one counts as a call."""
        answer = await retry_without_refused(partial(self._attempt, send, request))
        self.availability.count_answer()
        return answer

    async def _attempt(
        self, send: Callable[[ChatRequest], Awaitable[ChatAnswer]], request: ChatRequest
    ) -> ChatAnswer:
        begun = time.perf_counter()
        try:
            return await send(request)
        except BaseException:  # when the time is over, too
            self.usage.add_failed((time.perf_counter() - begun) * 1e3)
            raise

    async def close(self) -> None:
        """Close the connections and begin new counts; the next run opens new ones."""
        self.usage = UsageTotal()
        self.availability = AgentEndpoint()
        self.chat.parameters.forget()
        await self.chat.close()


def usage_of(answer: ChatAnswer, *, trimmed_turns: int = 0) -> ModelUsage:
    """Return the usage of one request."""
    metered = answer.prompt_tokens is not None or answer.completion_tokens is not None
    return ModelUsage(
        model=answer.model,
        calls=1,
        unmetered_calls=0 if metered else 1,
        prompt_tokens=answer.prompt_tokens or 0,
        completion_tokens=answer.completion_tokens or 0,
        latency_ms=answer.latency_ms,
        first_token_ms=answer.first_token_ms,
        trimmed_turns=trimmed_turns,
    )


def refuse_incomplete(answer: ChatAnswer, max_tokens: int | None) -> None:
    """Raise `CallFailed` for an answer that was cut, or withheld by a content filter."""
    if answer.finish_reason == CUT:
        tokens = answer.completion_tokens or max_tokens
        limit = "raise" if max_tokens else "the server has a limit of its own; set"
        raise CallFailed(
            f"the answer was cut{f' at {tokens} tokens' if tokens else ''}; {limit} --agent-max-tokens"
        )
    if answer.finish_reason == FILTERED:
        what = "cut the answer off" if answer.text.strip() else "withheld the answer"
        raise CallFailed(f"the server's content filter {what}")
