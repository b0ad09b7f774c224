"""The built-in agent in conversation: what it answers, refuses, remembers, observes and checks."""

import builtins
import hashlib
import os
import pathlib
import re
import subprocess
import sys
from typing import Any

import anyio
import msgspec
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from memfin.agents.builtin import BuiltinAgent
from memfin.agents.builtin.compliance import compliance_rules, find_violations, without_violations
from memfin.agents.builtin.knowledge import knowledge
from memfin.agents.builtin.memory import RECALLED, WINDOW, DialogueMemory, StateError
from memfin.agents.builtin.profile import data_file
from memfin.agents.history import as_text
from memfin.agents.observer import Observed, TurnObserver
from memfin.agents.protocol import Agent, Session
from memfin.contracts import Language
from memfin.text.bm25 import POSTINGS, QUERY_TERMS
from tests.support import each_case

CHINESE = [
    "你好",
    "我比较保守，这笔钱三年不用，不使用杠杆，最大回撤不能超过10%，保留20%现金应急",
    "那我该怎么配置？我总共有30万",
    "指数基金和债券哪个更适合我？",
    "融资买股票可以吗？",
    "明天大盘会涨吗？",
    "帮我下单买入吧",
    "有没有稳赚不赔的产品？",
    "说说定投",
    "我刚才说的最大回撤是多少？",
    "其实我更偏进取，杠杆可以用一点",
    "推荐一只股票",
    "怎么给猫洗澡？",
]
ENGLISH = [
    "I'm conservative, won't need this money for five years, no leverage, keep at least 20% in cash.",
    "How should I allocate $50,000?",
    "Index funds vs bonds, which is better for me?",
    "Will the market go up next week?",
    "What did I say about cash?",
    "Should I borrow to invest?",
    "Why?",
    "How do I train a cat?",
]


class Talk:
    """A dialogue with an agent, its replies and what it observed."""

    def __init__(self, language: str = "zh") -> None:
        self.observer = TurnObserver()
        session = Session(run_id="r", dialog_id="d", session_id="s", user_id="u", language=language)
        self.agent = BuiltinAgent(session, self.observer)
        self.turn = 0

    async def say(self, *words: str) -> tuple[str, Observed]:
        """Say some turns and return the last reply with its observations."""
        reply, observed = "", Observed()
        for text in words:
            self.turn += 1
            token = self.observer.begin(self.turn)
            reply = await self.agent.reply(text)
            observed = self.observer.collect()
            self.observer.end(token)
            await self.agent.commit(reply)
        return reply, observed


def user_context(*lines: str) -> str:
    """Return the block that the memory layer gives a Chinese client of whom these lines are known."""
    preferences = ("language_preference: zh", "research_depth: standard", "risk_prompt_preference: balanced")
    return "\n".join(("<user_context>", *preferences, *lines, "</user_context>"))


async def answer(*words: str, language: str = "zh") -> str:
    return (await Talk(language).say(*words))[0]


async def test_every_turn_observes_recall_tools_compliance_and_profile() -> None:
    for language, lines in (("zh", CHINESE), ("en", ENGLISH)):
        talk = Talk(language)
        assert isinstance(talk.agent, Agent)
        for words in lines:
            _, observed = await talk.say(words)
            assert observed.error is None
            assert observed.recall is not None
            assert observed.recall.query == words
            assert observed.compliance is not None
            assert observed.compliance.is_compliant
            assert observed.profile_snapshot is not None
            assert observed.tools[0].tool_name == "profile_extractor"
            assert all((tool.latency_ms or 0) > 0 for tool in observed.tools)


async def test_replies_are_in_the_language_of_the_dialogue() -> None:
    for words in ENGLISH:
        assert (await answer(words, language="en")).isascii()
    assert "指数基金" in await answer("What are index funds about?", "那指数基金呢？", language="en")


@pytest.mark.parametrize(
    ("words", "refusal"),
    [
        ("下个月股市会涨吗？", "无法预测"),
        ("有没有保本保收益的基金？", "没有人能保证"),
        ("帮我操作账户买入吧", "不能代您"),
        ("推荐一只牛股给我", "不推荐具体"),
        ("Will prices go up next week?", "cannot foresee"),
        ("Please place an order for me.", "cannot place orders"),
        ("Is there a guaranteed investment?", "Nobody can promise"),
        ("Which stock should I buy?", "do not recommend"),
    ],
)
async def test_what_must_be_refused_is_refused_and_met_with_steps(words: str, refusal: str) -> None:
    reply = await answer(words)
    assert refusal in reply
    assert "1）" in reply or "(1)" in reply


async def test_explanation_gives_facts_both_sides_steps_and_a_fitting_disclosure() -> None:
    reply = await answer("纯债基金怎么样？")
    assert all(part in reply for part in ("依据是", "好处是", "代价是", "1）", "利率", "投资建议"))
    fund = await answer("宽基指数基金怎么样？")
    assert "历史收益不能说明" in fund
    assert "违约" not in fund


async def test_profile_and_constraints_are_tied_into_the_answer() -> None:
    talk = Talk()
    await talk.say("我比较保守，最大回撤不超过8%")
    reply, observed = await talk.say("股票型的指数基金适合我吗？")
    assert "您的风险等级是保守" in reply
    assert "“最大回撤不超过8%”" in reply
    assert observed.compliance is not None
    assert observed.compliance.suitability_warning == "风险等级保守与指数基金的波动不匹配"


async def test_every_constraint_gets_its_turn_in_the_answers() -> None:
    talk = Talk()
    words = ["不使用杠杆", "不买可转债", "保留20%现金应急", "最大回撤不超过9%", "不碰期货"]
    await talk.say("我" + "，".join(words))
    replies = [(await talk.say("说说债券"))[0] for _ in range(len(words))]
    assert all(any(f"“{word}”" in reply for reply in replies) for word in words)


async def test_what_the_client_ruled_out_is_explained_but_left_out_of_steps() -> None:
    reply = await answer("我不碰期权", "期权是怎么回事？")
    assert "您说过“不碰期权”" in reply
    assert "1）" not in reply
    assert "1）" in await answer("期权是怎么回事？")
    assert "您说过“只买基金”" in await answer("我只买基金", "黄金怎么样？")


async def test_repeated_topic_brings_other_facts_and_disclosures() -> None:
    talk = Talk()
    first, _ = await talk.say("说说黄金")
    second, _ = await talk.say("再讲讲黄金")
    assert first != second
    assert "接着说黄金" in second


async def test_follow_up_without_a_subject_stays_with_the_topic() -> None:
    assert "接着说保险" in await answer("重疾险怎么选？", "为什么？")
    assert "接着说保险" in await answer("重疾险怎么选？", "那风险呢？")
    assert "超出了我手头资料" in await answer(
        "重疾险怎么选？", "那就到这里，麻烦你把猫粮的购买清单整理出来。"
    )


async def test_beyond_its_material_the_agent_says_so() -> None:
    reply, observed = await Talk().say("怎么给猫洗澡？")
    assert "超出了我手头资料的范围" in reply
    assert [tool.tool_name for tool in observed.tools] == ["profile_extractor", "risk_template"]


async def test_english_keywords_count_as_whole_words_only() -> None:
    assert "beyond the material" in await answer("Where does good coffee come from, Ireland?", language="en")
    assert "costs" in await answer("What about the fee?", language="en")


async def test_allocation_respects_remembered_constraints() -> None:
    talk = Talk()
    await talk.say(CHINESE[1])
    reply, observed = await talk.say("我总共有30万，该怎么配置？")
    assert "现金类 35%、债券类 50%、股票类 15%" in reply
    assert "allocation_calculator" in [tool.tool_name for tool in observed.tools]
    conflict = await answer("现金不低于60%，债券至少50%", "怎么配置？")
    assert "无法同时满足" in conflict


async def test_recall_question_is_answered_from_the_profile_or_from_memory() -> None:
    talk = Talk()
    await talk.say("请问城投债是什么？", "我最大回撤不能超过7%")
    await talk.say(*["说说黄金"] * (WINDOW + 2))
    assert "最大回撤不能超过7%" in (await talk.say("我之前说的回撤要求是多少？"))[0]
    assert "“请问城投债是什么？”（第1轮）" in (await talk.say("还记得我问过的城投债吗？"))[0]


async def test_what_was_never_said_is_not_made_up() -> None:
    assert "没有找到" in await answer("我之前说的流动性要求是什么？")
    assert "没有找到" in await answer("流动性重要吗？", "我之前说的流动性要求是什么？")
    assert "find nothing" in await answer("What did I say about my horizon?", language="en")


async def test_corrections_are_confirmed_as_corrections() -> None:
    talk = Talk()
    assert (await talk.say("我比较保守，不用杠杆"))[0].startswith(
        "记下了：您的风险等级是保守、您的约束是不用杠杆"
    )
    assert (await talk.say("更正一下，我偏进取"))[0].startswith("记下了：您的风险等级是进取")
    assert (await talk.say("杠杆现在可以用"))[0].startswith("已按您的更正改过来")


async def test_words_of_the_client_that_must_not_be_repeated_are_left_out() -> None:
    reply, observed = await Talk().say("我喜欢稳赚基金")
    assert "稳赚" not in reply
    assert observed.compliance is not None
    assert (observed.compliance.needs_modification, observed.compliance.is_compliant) == (True, True)


async def test_assistant_words_never_enter_the_profile() -> None:
    talk = Talk()
    await talk.agent.reply("你好")
    await talk.agent.commit("您属于激进型，不使用杠杆，喜欢黄金")
    _, observed = await talk.say("说说债券")
    assert observed.profile_snapshot is not None
    assert observed.profile_snapshot["risk_level"] == "unknown"
    assert observed.profile_snapshot["constraints"] == []
    assert observed.recall is not None
    assert "您属于激进型" in observed.recall.short_term_context
    assert observed.recall.profile_context == user_context()


async def test_profile_context_holds_what_was_said_in_this_very_turn() -> None:
    _, observed = await Talk().say("我比较保守，不使用杠杆")
    assert observed.recall is not None
    assert observed.recall.profile_context == user_context(
        'user_stated_position_context: "风险等级: 保守"', 'constraints: ["不使用杠杆"]'
    )
    assert observed.recall.short_term_context == ""


async def test_long_dialogue_costs_no_more_a_turn_than_a_short_one() -> None:
    talk = Talk()
    cost, sizes = [], []
    spoken = CHINESE[1:5]
    span = 10 * len(spoken)
    for number in range(8 * span):
        before = talk.agent._client.memory.index.postings_read
        _, observed = await talk.say(spoken[number % len(spoken)])
        cost.append(talk.agent._client.memory.index.postings_read - before)
        assert observed.recall is not None
        assert len(observed.recall.items) <= RECALLED
        assert len(observed.recall.short_term_turns) <= 2 * WINDOW
        sizes.append(observed.recall.token_count)
    assert max(cost) <= QUERY_TERMS * POSTINGS
    # Beyond the cap on postings the same questions cost the same, however much has been said.
    assert sum(cost[-span:]) <= 1.02 * sum(cost[-2 * span : -span])
    assert max(sizes[-span:]) <= 1.02 * max(sizes[span : 2 * span])


async def test_no_file_is_read_after_construction(monkeypatch: pytest.MonkeyPatch) -> None:
    talk = Talk()

    def refuse(*args: Any, **options: Any) -> Any:
        raise AssertionError("the agent read a file")

    monkeypatch.setattr(builtins, "open", refuse)
    monkeypatch.setattr(pathlib.Path, "read_text", refuse)
    await talk.say(*CHINESE, *ENGLISH)


MORE = ["", "不碰期货，也不买黄金", "期货怎么样", "为什么"]
lines = st.lists(st.sampled_from([*CHINESE, *ENGLISH, *MORE]), max_size=10)


@settings(max_examples=12, deadline=None)
@given(lines, lines, st.booleans())
def test_restored_agent_answers_exactly_as_the_original(
    before: list[str], after: list[str], committed: bool
) -> None:
    async def play() -> None:
        original, copy = Talk(), Talk(language="en")
        for words in before:
            await original.say(words)
        if before and not committed:
            await original.agent.reply("最后一句没有提交")
        copy.agent.restore(original.agent.snapshot())
        assert copy.agent.snapshot() == original.agent.snapshot()
        for words in after:
            one, two = await original.say(words), await copy.say(words)
            assert one[0] == two[0]
            assert without_latency(one[1]) == without_latency(two[1])

    anyio.run(play)


def without_latency(observed: Observed) -> Observed:
    return observed.replace(tools=[tool.replace(latency_ms=None) for tool in observed.tools])


async def test_bytes_that_are_no_state_are_refused() -> None:
    agent = Talk().agent
    for state in (b"", b"{}", b"\xc1", agent.snapshot()[:-1]):
        with pytest.raises(StateError, match="replay the dialogue"):
            agent.restore(state)


async def test_state_of_another_version_is_refused() -> None:
    agent = Talk().agent
    state = msgspec.msgpack.decode(agent.snapshot())
    state["version"] = 99
    with pytest.raises(StateError, match="version 99, not 2"):
        agent.restore(msgspec.msgpack.encode(state))


SCRIPT = """
import hashlib, sys
import anyio
sys.path.insert(0, {tests!r})
from test_builtin_agent import replies_digest
print(anyio.run(replies_digest))
"""


async def replies_digest() -> str:
    digest = hashlib.sha256()
    for language, spoken in (("zh", CHINESE), ("en", ENGLISH)):
        talk = Talk(language)
        for words in spoken:
            reply, observed = await talk.say(words)
            digest.update(repr((reply, without_latency(observed))).encode())
    return digest.hexdigest()


def test_same_dialogue_gives_the_same_replies_under_any_hash_seed() -> None:
    here = anyio.run(replies_digest)
    assert anyio.run(replies_digest) == here
    script = SCRIPT.format(tests=str(pathlib.Path(__file__).parent))
    for seed in ("4242",):
        done = subprocess.run(
            [sys.executable, "-c", script],
            env={**os.environ, "PYTHONHASHSEED": seed},
            capture_output=True,
            text=True,
            check=True,
        )
        assert done.stdout.strip() == here


REFUSALS = {"guarantee", "prediction", "proxy_trading", "stock_tip"}


def shape(value: Any) -> Any:
    """Reduce a data file to its keys and the placeholders of its texts."""
    if isinstance(value, dict):
        return {name: shape(inner) for name, inner in value.items()}
    return sorted(set(re.findall(r"\{\w+\}", value))) if isinstance(value, str) else None


def test_both_languages_know_the_same_topics_and_say_the_same_kinds_of_things() -> None:
    chinese, english = knowledge("zh").topics, knowledge("en").topics
    assert list(chinese) == list(english)
    for topic, other in zip(chinese.values(), english.values(), strict=True):
        assert (topic.disclosure, topic.fits, topic.within) == (other.disclosure, other.fits, other.within)
        assert topic.disclosure in knowledge("zh").wording["disclosures"]
        assert topic.facts
        assert topic.steps
        assert bool(topic.refusal) == bool(other.refusal) == (topic.id in REFUSALS)
    for name in ("answers", "profile"):
        assert shape(data_file(f"{name}.zh.toml")) == shape(data_file(f"{name}.en.toml"))


@pytest.mark.parametrize("language", ["zh", "en"])
def test_nothing_the_agent_can_say_is_forbidden_to_say(language: Language) -> None:
    known, rules = knowledge(language), compliance_rules(language)
    said = [*known.wording["phrases"].values()]
    said += [text for variants in known.wording["disclosures"].values() for text in variants]
    for topic in known.topics.values():
        said += [*topic.facts, *topic.steps, topic.benefit, topic.risk, topic.refusal or ""]
    assert {text: found for text in said if (found := find_violations(text, rules))} == {}


@each_case(
    ("language", "text", "category"),
    [
        ("zh", "这款产品稳赚不赔。", "guaranteed_return"),
        ("zh", "放心，我们承诺保本。", "guaranteed_return"),
        ("zh", "明天一定会涨。", "certain_prediction"),
        ("zh", "赶紧买入吧。", "direct_order"),
        ("zh", "我帮您下单。", "discretionary_trading"),
        ("en", "It offers guaranteed returns.", "guaranteed_return"),
        ("en", "The market will definitely rise.", "certain_prediction"),
        ("en", "Buy it right now.", "direct_order"),
        ("en", "I will place the order.", "discretionary_trading"),
    ],
)
def test_check_finds_what_must_not_be_said(language: Language, text: str, category: str) -> None:
    assert [found["type"] for found in find_violations(text, compliance_rules(language))] == [category]


@each_case(
    ("language", "text"),
    [
        ("zh", "没有任何产品能保证收益。"),
        ("zh", "凡承诺保本的都是骗局。"),
        ("zh", "不要马上卖出。"),
        ("zh", "有人说明天会涨，谁也说不准。"),
        ("en", "Nobody can offer guaranteed returns."),
        ("en", "Guaranteed returns are a scam."),
        ("en", "Do not sell everything today."),
    ],
)
def test_check_lets_refutation_and_warning_pass(language: Language, text: str) -> None:
    assert find_violations(text, compliance_rules(language)) == []


def test_only_the_sentences_with_violations_are_taken_out() -> None:
    reply = "先看费用。它保证收益，稳赚不赔！再看期限。"
    found = find_violations(reply, compliance_rules("zh"))
    assert len(found) == 2
    assert without_violations(reply, compliance_rules("zh")) == "先看费用。再看期限。"


def talked(memory: DialogueMemory, *exchanges: tuple[str, str]) -> DialogueMemory:
    for user, assistant in exchanges:
        memory.hear(user)
        memory.record(assistant)
    return memory


def window_text(memory: DialogueMemory) -> str:
    return as_text(memory.window)


def test_exchange_is_recalled_only_after_it_left_the_window() -> None:
    memory = DialogueMemory("s1")
    talked(memory, ("我对国债逆回购感兴趣", "国债逆回购是短期资金出借。"))
    for number in range(WINDOW - 1):
        talked(memory, (f"问题{number}", "回答"))
    assert memory.recall("国债逆回购") == []
    assert "user: 我对国债逆回购感兴趣" in window_text(memory)
    talked(memory, ("另一个话题", "好的"))
    assert "国债逆回购" not in window_text(memory)
    (item,) = memory.recall("国债逆回购怎么买")
    assert item.content == "user: 我对国债逆回购感兴趣\nassistant: 国债逆回购是短期资金出借。"
    assert (item.rank, item.source, item.turn_index, item.session_id) == (1, "bm25", 1, "s1")


def test_recall_returns_the_best_few_in_order_of_score() -> None:
    memory = DialogueMemory("s")
    for number in range(12):
        talked(memory, (f"gold and silver {number}" if number % 2 else f"bonds {number}", "noted"))
    items = memory.recall("gold")
    assert len(items) == RECALLED
    assert [item.rank for item in items] == [1, 2, 3]
    scores = [item.score or 0.0 for item in items]
    assert scores == sorted(scores, reverse=True)
    assert all("gold" in item.content for item in items)


def test_words_without_a_committed_reply_are_still_remembered() -> None:
    memory = DialogueMemory("s")
    memory.hear("一")
    memory.hear("二")
    memory.record("答二")
    memory.record("补充")
    assert window_text(memory) == "user: 一\nuser: 二\nassistant: 答二\nassistant: 补充"
