"""Built-in agents that begin with what their client has saved in a memory store."""

from pathlib import Path
from typing import Any

import pytest

from memfin import evaluate
from memfin.agents.builtin import BuiltinAgent, BuiltinAgents
from memfin.agents.observer import TurnObserver
from memfin.agents.protocol import Session
from memfin.contracts.memory import ConsentScopes, ContextFields, Preferences
from memfin.errors import UsageError
from memfin.memory import MemoryStore
from tests.support import dataset

EVERYTHING = ConsentScopes(
    create_task=True, save_to_profile=True, save_to_thread=True, training_use_allowed=False
)


async def answers(agents: BuiltinAgents, *words: str, user_id: str = "ada") -> tuple[str, Any]:
    """Return the last reply of a new dialogue, and its observations."""
    observer = TurnObserver()
    session = Session(run_id="r", dialog_id="d", session_id="s", user_id=user_id, language="en")
    agent = await agents(session, observer)
    reply, found = "", None
    for text in words:
        token = observer.begin(1)
        reply = await agent.reply(text)
        found = observer.collect()
        observer.end(token)
        await agent.commit(reply)
    return reply, found


def saved(store: MemoryStore, **changes: Any) -> BuiltinAgents:
    store.grant_consent("ada", EVERYTHING, Preferences(language_preference="en"))
    store.review_profile("ada", changes)
    return BuiltinAgents(store, "ada")


async def test_a_saved_constraint_holds_in_every_later_dialogue(tmp_path: Path) -> None:
    with MemoryStore(tmp_path) as store:
        agents = saved(store, constraints=["no leverage", "only what I understand"])
        reply, found = await answers(agents, "Shall I buy with leverage on margin?")
        assert 'you said "no leverage", so this is explained only' in reply
        assert found.profile_snapshot["constraints"] == ["only what I understand", "no leverage"]
        assert '"no leverage"' in found.recall.profile_context
        reply, _ = await answers(agents, "What do you know about bonds?")
        assert '"only what I understand"' in reply


async def test_an_allocation_keeps_to_a_saved_loss_and_horizon(tmp_path: Path) -> None:
    with MemoryStore(tmp_path) as store:
        free, _ = await answers(saved(store), "How should I allocate my money?")
        bound = saved(store, constraints=["max drawdown 5%"], time_horizon="20 years")
        kept, found = await answers(bound, "How should I allocate my money?")
        assert 'time_horizon: "20 years"' in found.recall.profile_context
        _, changed = await answers(bound, "I will need the money next week.")
        assert 'time_horizon: "short"' in changed.recall.profile_context
    assert "within the 5% you accept" in kept
    assert "within the" not in free
    assert found.profile_snapshot["investment_horizon"] == "long"


async def test_position_and_horizon_are_recalled_in_the_clients_words(tmp_path: Path) -> None:
    with MemoryStore(tmp_path) as store:
        words = "a third in bond funds, no single shares"
        agents = saved(store, user_stated_position_context=words, time_horizon="until my child starts school")
        for question in ("What do I hold now?", "What am I holding?", "What are my holdings?"):
            assert f"You told me earlier: position: {words}" in (await answers(agents, question))[0]
        for question in ("What is my horizon?", "How long is my horizon?"):
            reply, _ = await answers(agents, question)
            assert "investment horizon: until my child starts school" in reply
        reply, found = await answers(agents, "What about bonds?")
        assert '"until my child starts school"' in reply
        assert "I do not know your risk level, your horizon" not in reply
        assert f'user_stated_position_context: "{words}"' in found.recall.profile_context
        assert 'time_horizon: "until my child starts school"' in found.recall.profile_context
        reply, found = await answers(agents, "My horizon is short.", "What is my horizon?")
        assert "investment horizon: short" in reply
        assert 'time_horizon: "short"' in found.recall.profile_context
        agents = saved(store, user_stated_position_context="持有国债三成", time_horizon="十年")
        for question in ("我现在持有什么？", "我手里都拿着哪些？", "我的持仓是什么？"):
            assert "持仓情况: 持有国债三成" in (await answers(agents, question))[0]
        assert "投资期限: 十年" in (await answers(agents, "我的期限是多久？"))[0]
        reply, _ = await answers(saved(store), "What do I hold now?")
        assert "I find nothing you said about that in my notes" in reply


async def test_a_thread_is_read_with_the_profile(tmp_path: Path) -> None:
    with MemoryStore(tmp_path) as store:
        saved(store, constraints=["no leverage"])
        consent = store.consent_on_file("ada").consent
        assert consent is not None
        words = "half of it lies in gold"
        fields = ContextFields(user_stated_position_context=words, constraints=["no crypto"])
        thread = store.save_thread(
            "ada", "s1", "Gold", {}, save_user_context=True, consent_id=consent.consent_id, context=fields
        )
        agents = BuiltinAgents(store, "ada", thread_id=thread.thread_id)
        reply, found = await answers(agents, "Do you remember my position?")
        assert f"position: {words}" in reply
        assert {"no leverage", "no crypto"} == set(found.profile_snapshot["constraints"])
        assert words in found.recall.profile_context


async def test_the_dialogue_overrides_what_is_saved(tmp_path: Path) -> None:
    with MemoryStore(tmp_path) as store:
        agents = saved(store, constraints=["max drawdown 5%"])
        _, found = await answers(agents, "My max drawdown is 12% now.")
    assert found.profile_snapshot["max_acceptable_loss"] == 0.12


async def test_depth_and_order_of_risks_change_the_answer_and_nothing_else(tmp_path: Path) -> None:
    asked = "What is an index fund?"
    with MemoryStore(tmp_path) as store:
        by_depth = {
            depth: (await answers(saved(store, research_depth=depth), asked))[0]
            for depth in ("quick", "standard", "deep")
        }
        by_order = {
            order: (await answers(saved(store, risk_prompt_preference=order), asked))[0]
            for order in ("balanced", "counter_first", "risk_first", "permission_or_credential")
        }
    assert len(by_depth["quick"]) < len(by_depth["standard"]) < len(by_depth["deep"])
    assert by_order["balanced"] == by_depth["standard"]
    risk, boundary = "nothing certain about", "not investment advice"
    reason = "The reasons:"
    assert by_order["balanced"].index(reason) < by_order["balanced"].index(risk)
    assert by_order["risk_first"].index(risk) < by_order["risk_first"].index(reason)
    first = by_order["permission_or_credential"]
    assert first.index(boundary) < first.index(reason) < first.index(risk)
    assert "what speaks against it" in by_order["counter_first"].partition(reason)[0]
    sentences = {order: sorted(reply) for order, reply in by_order.items() if order != "counter_first"}
    assert sentences["balanced"] == sentences["risk_first"] == sentences["permission_or_credential"]


def test_no_store_and_no_user_id_are_refused(tmp_path: Path) -> None:
    with MemoryStore(tmp_path) as store:
        cases: list[tuple[Any, str]] = [
            ((str(tmp_path), "ada"), "store: must be"),
            ((store, "a/b"), "user id: must be"),
        ]
        for given, message in cases:
            with pytest.raises(UsageError, match=message):
                BuiltinAgents(*given)


async def test_without_consent_nothing_saved_is_known(tmp_path: Path) -> None:
    with MemoryStore(tmp_path) as store:
        agents = saved(store, constraints=["no leverage"], research_depth="quick")
        store.revoke_consent("ada")
        asked = "What is an index fund?"
        reply, found = await answers(agents, asked)
        stranger, _ = await answers(BuiltinAgents(store), asked, user_id="bob")
        assert reply == stranger
        assert found.profile_snapshot["constraints"] == []


async def test_an_agent_without_a_store_answers_as_before() -> None:
    session = Session(run_id="r", dialog_id="d", session_id="s", user_id="ada", language="en")
    plain = BuiltinAgent(session, TurnObserver())
    assert "The reasons:" in await plain.reply("What is an index fund?")


async def test_a_run_is_not_resumed_with_another_memory(tmp_path: Path) -> None:
    with MemoryStore(tmp_path / "memory") as store:
        agents = saved(store, constraints=["no leverage"])
        before = agents.inputs
        data = dataset(tmp_path / "d.jsonl", 2)
        await evaluate(data, agent=agents, runs_dir=tmp_path / "runs", run_id="one")

        store.review_profile("ada", {"constraints": ["no crypto"]})
        assert agents.inputs != before
