"""The echo agent: the user's words, nothing else."""

from typing import Any

from memfin.agents.bounds import EchoAgent
from memfin.agents.protocol import Agent, Session


class SilentObserver:
    def recall(self, **fields: Any) -> None:
        raise AssertionError("an echo recalls nothing")

    tool = compliance = profile = memory = recall


async def test_echo_returns_the_words_unchanged_and_observes_nothing() -> None:
    session = Session(run_id="r", dialog_id="d", session_id="s", user_id="u")
    agent = EchoAgent(session, SilentObserver())
    assert isinstance(agent, Agent)
    for words in ("我想稳健一点 ", "", "line\nbreak"):
        assert await agent.reply(words) == words
        await agent.commit("whatever the reference said")
    agent.restore(agent.snapshot())
    assert await agent.reply("again") == "again"
