"""The system ``openai:MODEL``: one request a question, with the nearest parts of the document."""

import time
from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import Any, Final

from memfin.agents.calls import TransportError, UsageTotal
from memfin.agents.openai.prompts import SystemPrompt, prompt_from_file, prompt_of
from memfin.agents.registry import AgentSettings
from memfin.client.answers import CUT, FILTERED
from memfin.client.chat import ChatClient
from memfin.client.endpoint import Endpoint
from memfin.client.errors import WireError
from memfin.client.messages import ChatAnswer, ChatRequest
from memfin.client.parameters import as_it_likes
from memfin.client.structured import FORMATS, REFUSES_FORMAT, response_format
from memfin.contracts import ModelUsage, ParameterChange
from memfin.contracts.rag import RagAnswer
from memfin.errors import UsageError
from memfin.rag.document import Document
from memfin.rag.language import language_of
from memfin.rag.systems.openai.answers import NAME, SCHEMA, read_answer
from memfin.rag.systems.openai.prompts import Chunks, shipped_instructions
from memfin.rag.systems.protocol import RagReply
from memfin.sandbox.calls import CallFailed

BEYOND: Final = 30.0
"""Seconds for which a request outlives the question that it was made for; the run has given up by then."""

_MS: Final = 1e3


class OpenAIRag:
    """A model that answers from the parts of a document that its prompt has room for.

    ``memfin bench --rag openai:qwen3`` uses it; in Python give it to `BenchmarkRunner` or `load_system`.

    Args:
        model: the model's name, as its server knows it.
        document: the document.
        endpoint: where the model is reached; None takes ``MEMFIN_AGENT_BASE_URL`` or ``OPENAI_BASE_URL``,
            and ``MEMFIN_AGENT_API_KEY`` or ``OPENAI_API_KEY``.
        system: the instructions; None for those that ship with MemFin.
        temperature, max_tokens, seed: sent with every request; None is not sent.
        context_tokens: estimated tokens of a prompt with its answer.
        timeout: seconds that a request may take, at most.

    Raises:
        UsageError: no model is named, or the endpoint is unusable.

    Attributes:
        reference, model, version: what the artifacts of a run call the system.
    """

    def __init__(  # noqa: PLR0913 - each setting stands alone and has a default
        self,
        model: str,
        document: Document,
        *,
        endpoint: Endpoint | None = None,
        system: str | SystemPrompt | None = None,
        temperature: float | None = 0.0,
        max_tokens: int | None = None,
        context_tokens: int = 32_000,
        seed: int | None = 0,
        timeout: float = 3600.0,
    ) -> None:
        if not model.strip():
            raise UsageError("rag 'openai:': name the model, such as openai:qwen3")
        self.model = model
        self.reference = f"openai:{model}"
        self.version: str | None = None
        self._endpoint = endpoint or Endpoint.from_environment("agent")
        self._endpoint.headers()  # a key that no header can carry is told now
        if system is None:
            self._instructions = shipped_instructions()
        else:
            self._instructions = prompt_of(system) if isinstance(system, str) else system
        self._chunks = Chunks(document)
        self._temperature = temperature
        self._max_tokens = max_tokens
        self._context_tokens = context_tokens
        self._seed = seed
        self._chat = ChatClient(self._endpoint, total=timeout + BEYOND, read=timeout + BEYOND)
        self._usage = UsageTotal()
        self._first_format = 0
        self._notify: Callable[[str], None] = lambda _: None
        self._told: set[str] = set()

    @classmethod
    def from_settings(cls, model: str, document: Document, settings: AgentSettings) -> "OpenAIRag":
        """Return the system of ``--rag openai:MODEL``; raise `UsageError` when a setting is unusable."""
        if settings.memory != AgentSettings().memory:
            raise UsageError("setting agent_memory: is for agents; a RAG system has no memory")
        return cls(
            model,
            document,
            system=None if settings.system is None else prompt_from_file(Path(settings.system)),
            temperature=settings.temperature,
            max_tokens=settings.max_tokens,
            context_tokens=settings.context_tokens,
            seed=settings.seed,
            timeout=settings.turn_timeout,
        )

    async def query(self, question: str) -> RagReply:
        """Return the model's answer with what it took; a refusal in the model's words is an answer.

        Raises:
            TransportError: the request failed on its way; the question may be asked again.
            CallFailed: the endpoint or the model failed.
        """
        asked = self._chunks.messages(
            self._instructions.text(language_of(question)), question, self._context_tokens
        )
        if asked.chunks < asked.of:
            self._tell("chunks", "the document does not fit into --agent-context-tokens; parts are chosen")
        answer = await self._answered(asked.messages)
        self._refuse_incomplete(answer)
        usage = _usage(answer)
        self._usage.add(usage)
        if answer.refusal is not None and not answer.text.strip():
            return RagReply(answer=RagAnswer(answer=answer.refusal), usage=usage)
        read = read_answer(answer.text)
        if read.plain:
            self._tell("plain", "answers that are no JSON object are taken as they stand")
        for name in read.dropped:
            self._tell(name, f"malformed {name} in its answers is left out")
        return RagReply(answer=read.answer, usage=usage)

    @property
    def total_usage(self) -> ModelUsage | None:
        """What the model took so far, failed questions included."""
        return self._usage.of_run()

    @property
    def inputs(self) -> dict[str, Any]:
        """What the answers depend on besides the document, for the fingerprint; no secret is in it."""
        return {
            "base_url": self._endpoint.base_url,
            "system_prompt_sha256": dict(self._instructions.hashes()),
            "temperature": self._temperature,
            "max_tokens": self._max_tokens,
            "context_tokens": self._context_tokens,
            "seed": self._seed,
        }

    def listen(self, on_notice: Callable[[str], None]) -> None:
        """Tell what a user should know of the model while it answers."""
        self._notify = lambda line: on_notice(f"rag {self.reference}: {line}")
        self._chat.parameters.on_notice = self._notify

    def parameter_changes(self) -> list[ParameterChange]:
        """Return which parameters the model has refused so far."""
        return self._chat.parameters.changes()

    async def close(self) -> None:
        """Close the connections and begin new counts; the next run opens new ones."""
        self._usage = UsageTotal()
        self._told.clear()
        self._chat.parameters.forget()
        await self._chat.close()

    async def _answered(self, messages: list[dict[str, Any]]) -> ChatAnswer:
        """Ask in the best format that the server takes, and go on with that one."""
        for place in range(self._first_format, len(FORMATS)):
            request = ChatRequest(
                model=self.model,
                messages=messages,
                temperature=self._temperature,
                seed=self._seed,
                max_tokens=self._max_tokens,
                response_format=response_format(FORMATS[place], SCHEMA, NAME),
            )
            try:
                answer = await as_it_likes(partial(self._attempt, request))
            except WireError as problem:
                if (
                    problem.status in REFUSES_FORMAT
                    and place + 1 < len(FORMATS)
                    and problem.kind != "refusal"
                ):
                    continue
                if problem.retryable:
                    raise TransportError(str(problem), retry_after=problem.retry_after) from problem
                raise CallFailed(str(problem)) from problem
            if place > self._first_format:
                self._first_format = place
                self._tell(
                    "format", f"the server refuses structured answers; they are asked for as {FORMATS[place]}"
                )
            return answer
        raise AssertionError("the last format returns or raises")

    async def _attempt(self, request: ChatRequest) -> ChatAnswer:
        begun = time.perf_counter()
        try:
            return await self._chat.complete(request)
        except BaseException:  # when the question's time is over, too
            self._usage.add_failed((time.perf_counter() - begun) * _MS)
            raise

    def _refuse_incomplete(self, answer: ChatAnswer) -> None:
        """Raise `CallFailed` for an answer of which there is but the beginning, or nothing."""
        if answer.finish_reason not in (CUT, FILTERED):
            return
        self._usage.add(_usage(answer))
        if answer.finish_reason == CUT:
            limit = "raise" if self._max_tokens else "the server has a limit of its own; set"
            raise CallFailed(f"the answer was cut; {limit} --agent-max-tokens")
        what = "cut the answer off" if answer.text.strip() else "withheld the answer"
        raise CallFailed(f"the server's content filter {what}")

    def _tell(self, what: str, line: str) -> None:
        """Tell a user something once a run."""
        if what not in self._told:
            self._told.add(what)
            self._notify(line)


def _usage(answer: ChatAnswer) -> ModelUsage:
    metered = answer.prompt_tokens is not None or answer.completion_tokens is not None
    return ModelUsage(
        model=answer.model,
        calls=1,
        unmetered_calls=0 if metered else 1,
        prompt_tokens=answer.prompt_tokens or 0,
        completion_tokens=answer.completion_tokens or 0,
        latency_ms=answer.latency_ms,
        first_token_ms=answer.first_token_ms,
    )
