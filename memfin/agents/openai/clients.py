"""Clients of the ``openai`` package as agents: requests go through the client and what it was set up with."""

import hashlib
import inspect
import time
from collections.abc import Callable
from functools import partial
from typing import Any, Final

import anyio.to_thread
import msgspec

from memfin.agents.adapters.transport import translated
from memfin.agents.calls import TransportError
from memfin.agents.openai.agent import OpenAIAgents
from memfin.agents.openai.model import BEYOND_TURN
from memfin.agents.protocol import AgentSettings
from memfin.client.chat import ChatClient, refused_parameter
from memfin.client.endpoint import Endpoint
from memfin.client.errors import RequestError
from memfin.client.messages import AnswerDraft, ChatAnswer, ChatRequest
from memfin.errors import UsageError
from memfin.sandbox.references import kind_of

_KEY: Final = "the client's api_key"
_OF_AGENTS: Final = ("temperature", "seed", "max_tokens")


class ClientChat(ChatClient):
    """Chat completions by the ``create`` of a client; ``given`` are further parameters."""

    create: Callable[..., Any]
    given: dict[str, Any]

    async def stream(self, request: ChatRequest) -> ChatAnswer:
        """Request the answer as one document; raise `RequestError` or what `translated` returns."""
        fields = {**self.given, **self.parameters.fitted(request)}
        if request.headers:
            fields["extra_headers"] = {**(fields.get("extra_headers") or {}), **request.headers}
        scrubber, begun = self.endpoint.scrubber(), time.perf_counter()
        call = partial(self.create, **fields)
        try:
            # The package wraps its coroutine functions in plain ones.
            on_loop = inspect.iscoroutinefunction(inspect.unwrap(self.create))
            answer = await (call() if on_loop else anyio.to_thread.run_sync(call, abandon_on_cancel=True))
        except Exception as problem:  # noqa: BLE001 - any is raised again
            error, status = translated(problem), getattr(problem, "status_code", None)
            if status is None or isinstance(error, TransportError):
                raise error from None
            parameter = refused_parameter(fields, status, getattr(problem, "response").content)  # noqa: B009
            if parameter is not None:
                self.parameters.refuse(parameter)
            text = f"{self.endpoint.base_url}: {scrubber.scrub(str(problem))}"
            raise RequestError(
                "status" if parameter is None else "parameter",
                text,
                retryable=parameter is not None,
                status=status,
                parameter=parameter,
            ) from None
        if not hasattr(answer, "model_dump_json"):  # of a page in HTML the client returns the text
            hint = "the answer is no chat completion; base_url may lack its /v1"
            raise RequestError("invalid_schema", f"{self.endpoint.base_url}: {hint}")
        draft = AnswerDraft(scrubber)
        draft.add_document(answer.model_dump_json().encode())
        return draft.answer(request.model, (time.perf_counter() - begun) * 1000, None)


def client_agents(
    client: Any, create: Callable[..., Any], parameters: dict[str, Any], settings: AgentSettings
) -> OpenAIAgents:
    """Return the agents of a client's completions; raise `UsageError` for an unusable setting or no model."""
    given = {name: value for name, value in parameters.items() if name != "stream"}
    model = given.pop("model", None)
    if not isinstance(model, str) or not model.strip():
        raise UsageError(f"agent: a client of openai needs the name of a model; got {kind_of(model)}")
    key = client.api_key if isinstance(client.api_key, str) else ""
    endpoint = Endpoint(str(client.base_url).rstrip("/"), _KEY, environ={_KEY: key})
    agents = OpenAIAgents.from_settings(model, settings, endpoint)
    agents.settings |= {name: given.pop(name) for name in _OF_AGENTS if name in given}
    if given:
        encoded = msgspec.json.encode(given, enc_hook=kind_of, order="sorted")
        agents.settings["parameters_sha256"] = hashlib.sha256(encoded).hexdigest()
    limit = settings.turn_timeout + BEYOND_TURN
    agents.chat = chat = ClientChat(endpoint, total=limit, read=limit)
    chat.create, chat.given = create, given
    return agents
