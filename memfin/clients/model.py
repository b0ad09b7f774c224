"""A model behind a chat endpoint that words a client's acts, ``--client-model openai:MODEL``."""

from functools import partial
from typing import Any, Final

from memfin.agents.openai.prompts import shipped_prompt
from memfin.client.chat import ChatClient
from memfin.client.endpoint import Endpoint
from memfin.client.limiter import CallLimiter
from memfin.client.messages import CUT, FILTERED, ChatRequest
from memfin.clients.wording import Brief

_THOUGHT: Final = "</think>"
_REDO: Final = {
    "zh": "\n\n你上一次写的话不能用，原因（系统检查，英文）：{}。请重新写一遍。",
    "en": "\n\nYour last message can not be sent; according to a check it {}. Write it anew.",
}


class ClientModel:
    """A model that words what clients do, for all dialogues of a run.

    ``limit`` bounds an attempt, in seconds; ``gate`` those under way, their retries and pauses.
    """

    def __init__(self, model: str, endpoint: Endpoint, gate: CallLimiter, *, seed: int, limit: float) -> None:
        self._model = model
        self._gate = gate
        self._seed = seed
        self._prompt = shipped_prompt("client-v1")
        self._client = ChatClient(endpoint, total=limit, read=limit)

    @property
    def inputs(self) -> dict[str, Any]:
        """Return what the words depend on, for the fingerprint."""
        return {"model": self._model, "prompt_sha256": self._prompt.hashes()}

    async def __call__(self, brief: Brief) -> str:
        """Return the model's words, empty where it refuses or its answer is incomplete.

        Raises:
            RequestError: the endpoint is down, too slow, or answers nothing of use.
        """
        mood = {"zh": ("平和", "不耐烦"), "en": ("calm", "impatient")}[brief.language][brief.curt]
        words = f"[{mood}] {brief.words}"
        if brief.faults:
            words += _REDO[brief.language].format("; ".join(brief.faults))
        request = ChatRequest(
            model=self._model,
            messages=[
                {"role": "system", "content": self._prompt.text(brief.language)},
                {"role": "user", "content": words},
            ],
            temperature=0.0,
            seed=self._seed,
        )
        answer = (await self._gate.call(partial(self._client.complete, request))).value
        return "" if answer.finish_reason in (CUT, FILTERED) else answer.text.rpartition(_THOUGHT)[2].strip()

    async def close(self) -> None:
        """Close the connections."""
        await self._gate.close()
        await self._client.close()
