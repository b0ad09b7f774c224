"""The oracle: reference replies in order, honest observations beside them."""

from typing import Any

import pytest

from memfin.agents.bounds import NoReferenceError, OracleAgent, probe_answers
from memfin.agents.builtin.memory import StateError
from memfin.agents.protocol import Agent, Session
from memfin.contracts import Dialog, EarlierSession, Fact, Probe, ProfileTruth

REPLIES = [
    ("我比较保守，不使用杠杆", "明白了，收益没有保证。"),
    ("货币基金怎么样？", "货币基金存取灵活。"),
    ("货币基金怎么样？", "同一个问题的第二次回答。"),
    ("还有呢？", "放心买，稳赚不赔。"),
]


class RecordingObserver:
    def __init__(self) -> None:
        self.seen: dict[str, list[dict[str, Any]]] = {
            "recall": [],
            "tool": [],
            "compliance": [],
            "profile": [],
            "memory": [],
        }

    def memory(self, **fields: Any) -> None:
        self.seen["memory"].append(fields)

    def recall(self, **fields: Any) -> None:
        self.seen["recall"].append(fields)

    def tool(self, **fields: Any) -> None:
        self.seen["tool"].append(fields)

    def compliance(self, **fields: Any) -> None:
        self.seen["compliance"].append(fields)

    def profile(self, **fields: Any) -> None:
        self.seen["profile"].append(fields)


def oracle() -> tuple[OracleAgent, RecordingObserver]:
    observer = RecordingObserver()
    session = Session(run_id="r", dialog_id="d", session_id="s", user_id="u")
    return OracleAgent(session, observer, REPLIES), observer


async def test_oracle_gives_the_references_in_order_even_for_repeated_questions() -> None:
    agent, _ = oracle()
    assert isinstance(agent, Agent)
    for user, reference in REPLIES:
        assert await agent.reply(user) == reference
        await agent.commit(reference)


async def test_observations_come_from_the_clients_words_only() -> None:
    agent, observer = oracle()
    await agent.reply(REPLIES[0][0])
    profile = observer.seen["profile"][-1]
    assert (profile["risk_level"], profile["forbidden_assets"]) == ("low", ["杠杆"])
    assert profile["investment_horizon"] == "unknown"
    assert "收益没有保证" not in str(observer.seen["recall"][-1])
    await agent.commit("明白了，收益没有保证。")
    await agent.reply(REPLIES[1][0])
    assert "assistant: 明白了，收益没有保证。" in observer.seen["recall"][-1]["short_term_context"]
    assert observer.seen["tool"] == []


async def test_compliance_reports_what_the_check_found_in_the_reference() -> None:
    agent, observer = oracle()
    for user, _ in REPLIES:
        await agent.reply(user)
    assert [check["is_compliant"] for check in observer.seen["compliance"]] == [True, True, True, False]
    assert observer.seen["compliance"][-1]["violations"] == [
        {"type": "guaranteed_return", "match": "稳赚不赔", "severity": "high"}
    ]


async def test_turns_a_host_leaves_out_are_skipped_and_unknown_words_refused() -> None:
    agent, _ = oracle()
    assert await agent.reply("还有呢？") == REPLIES[3][1]
    with pytest.raises(NoReferenceError, match="user turn 2"):
        await agent.reply("我比较保守，不使用杠杆")


async def test_restored_oracle_goes_on_where_it_stood() -> None:
    agent, _ = oracle()
    for user, reference in REPLIES[:2]:
        await agent.reply(user)
        await agent.commit(reference)
    copy, observer = oracle()
    copy.restore(agent.snapshot())
    assert await copy.reply(REPLIES[2][0]) == REPLIES[2][1]
    assert observer.seen["profile"][-1]["risk_level"] == "low"
    assert copy.snapshot() != agent.snapshot()


def test_bytes_that_are_no_state_are_refused_with_a_clear_error() -> None:
    agent, _ = oracle()
    with pytest.raises(StateError, match="cannot be restored"):
        agent.restore(b"\x93garbage")


@pytest.mark.parametrize(
    ("fact", "after", "right"),
    [
        ("limit", 1, "20%"),
        ("limit", 2, "10%"),
        ("gift", 1, "5万元"),
        ("gift", 2, None),
        ("offer", 1, None),
        ("wife", 1, "30%"),
        ("claim", 1, None),
    ],
)
async def test_probes_are_answered_by_the_facts_that_hold(fact: str, after: int, right: str | None) -> None:
    earlier = [
        Fact(id="limit", value="20%", told_at=1),
        Fact(id="gift", value="5万元", told_at=1),
        Fact(id="offer", value="3%", told_at=1, until="2025-01-31"),
        Fact(id="wife", value="30%", told_at=1, owner="妻子"),
        Fact(id="claim", value="50%", told_at=1, planted=True),
    ]
    dialog = Dialog(
        dialog_id="d",
        profile_gt=ProfileTruth(),
        turns=[],
        user_id="u",
        session_time="2025-02-01",
        earlier=[EarlierSession(dialog_id="c", session_index=0, facts=earlier)],
        facts=[
            Fact(id="limit.2", value="10%", told_at=2, replaces="limit"),
            Fact(id="gone", value="", told_at=2, replaces="gift"),
        ],
        probes=[Probe(id="p", after=after, question="是多少？", fact=fact)],
    )
    assert probe_answers(dialog) == {(after, "是多少？"): right}
    session = Session(run_id="r", dialog_id="d", session_id="s", user_id="u")
    agent = OracleAgent(session, RecordingObserver(), REPLIES, probe_answers(dialog))
    for user, _ in REPLIES[:after]:
        await agent.reply(user)
    assert await agent.reply("是多少？") == (right or "您没有告诉过我这一点。")
