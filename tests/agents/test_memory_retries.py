"""A memory that fails on its way is asked again, and remembers each turn once."""

import pytest

from memfin.agents.calls import TransportError
from memfin.agents.memory_context import MemoryContext
from memfin.agents.openai import OpenAIAgents
from memfin.client.endpoint import Endpoint
from tests.agents.adapter_replay import QUESTIONS, replayed
from tests.agents.loopback_model import loopback_model


class FlakyMemory:
    """Loses its connection as often as it is told to, then takes the turn in."""

    def __init__(self, failures: list[int]) -> None:
        self.recorded: list[tuple[str, str]] = []
        self.failures = failures

    async def recall(self, user_text: str) -> MemoryContext:
        return MemoryContext()

    async def record(self, user_text: str, assistant_text: str) -> None:
        if self.failures and self.failures.pop():
            raise TransportError("busy")
        self.recorded.append((user_text, assistant_text))


@pytest.mark.parametrize("failures", [0, 1, 2])
async def test_a_turn_that_a_memory_could_not_take_in_is_offered_again(
    failures: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    memory = FlakyMemory([1] * failures)
    async with loopback_model(lambda request: "said") as model:
        agents = OpenAIAgents("m1", endpoint=Endpoint(model.base_url), memory=lambda session: memory)
        result = await replayed(agents, monkeypatch, turns=2)
        await agents.close()
    assert [turn.error for turn in result.trace.turns] == [None, None]
    assert memory.recorded == [(QUESTIONS[0], "said"), (QUESTIONS[1], "said")]
    assert result.retries == failures


async def test_a_memory_that_stays_away_is_the_error_of_its_turn(monkeypatch: pytest.MonkeyPatch) -> None:
    memory = FlakyMemory([1] * 3)
    async with loopback_model(lambda request: "said") as model:
        agents = OpenAIAgents("m1", endpoint=Endpoint(model.base_url), memory=lambda session: memory)
        result = await replayed(agents, monkeypatch, turns=2)
        await agents.close()
    assert [turn.turn_status for turn in result.trace.turns] == ["error", "ok"]
    assert "commit: TransportError: busy" in (result.trace.turns[0].error or "")
    assert memory.recorded == [(QUESTIONS[1], "said")]
    spoken = [message["content"] for message in model.asked[-1][1:]]
    assert spoken == [QUESTIONS[0], "said", QUESTIONS[1]]
