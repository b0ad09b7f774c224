"""The promises of the shipped sheets, by logic of this file's own: what agents of several kinds get."""

import json
import re
import tomllib
from collections import Counter
from collections.abc import Callable, Iterator
from typing import Any

import anyio
import msgspec
import pytest

from memfin.clients.machine import advance, begin
from memfin.clients.wording import SimulatedClient, faults, from_templates
from memfin.contracts import TurnTrace
from memfin.contracts.clients import ClientSheet, Told
from memfin.dataset import GOALS, named_dataset, normalize_dialog
from tests.clients.test_simulated_clients import talk
from tests.support import each_case

WORDS = GOALS.parents[1] / "prompts" / "client-words.toml"
CHINESE = re.compile(r"[一-鿿]")
QUESTIONS = {
    "zh": "请告诉我：期限多久？能承受多大亏损？有哪些负债？利率、每月预算、年龄、开销、应急储备、"
    "随时要用的钱、不碰的产品，也都说说。",
    "en": "Please tell me your horizon, the loss you could bear, your debts, the interest rate, your monthly "
    "budget, your expenses, your emergency reserve, and what you want to avoid. What are they?",
}
"""What a careful adviser asks, whoever the client is."""

ROWS: dict[str, dict[str, Any]] = {
    row["dialog_id"]: row for row in map(json.loads, GOALS.read_text("utf-8").splitlines())
}
SHEETS = {name: msgspec.convert(row["client"], ClientSheet) for name, row in ROWS.items()}
each_sheet = each_case("name", SHEETS)

Agent = Callable[[str], str]


def outcome(name: str, agent: Agent) -> tuple[str, list[TurnTrace]]:
    client, turns = anyio.run(talk, SHEETS[name], agent)
    return client.state(turns).act.kind, turns


def heard(name: str, agent: Agent) -> str:
    """Return all that the client says to an agent."""
    return "\n".join(turn.user_text for turn in outcome(name, agent)[1])


def says(text: str, value: str) -> bool:
    """Return True if the value occurs as a whole."""
    return re.search(rf"(?<![\d.,]){re.escape(value)}(?![\d])", text) is not None


def careful(name: str, answer: str) -> Agent:
    """An adviser that asks all, quotes what it heard and answers."""
    words: list[str] = []

    def reply(text: str) -> str:
        words.append(text)
        needed = [each.fact.value for each in SHEETS[name].tells if each.fact.id in SHEETS[name].uses]
        if not all(says("\n".join(words), value) for value in needed):
            return QUESTIONS[SHEETS[name].language]
        return f"{'; '.join(needed)}: {answer}."

    return reply


def sentences(told: Told) -> Iterator[str]:
    for each in told.says:
        yield each.replace("{value}", told.fact.value)


def test_seven_sheets_of_each_language_run_by_name() -> None:
    assert Counter(sheet.language for sheet in SHEETS.values()) == {"zh": 7, "en": 7}
    assert len(ROWS) == len(SHEETS) == 14
    assert named_dataset("goals") == str(GOALS)


@each_sheet
def test_a_sheet_keeps_to_its_language_and_its_facts_apart(name: str) -> None:
    sheet, chinese = SHEETS[name], SHEETS[name].language == "zh"
    values = [told.fact.value for told in sheet.tells]
    assert len({*values}) == len(values)
    for text in (
        sheet.goal,
        *sheet.answers,
        *sheet.leaves_at,
        *(words for told in sheet.tells for words in told.says),
    ):
        assert chinese or not CHINESE.search(text), text
    for told in sheet.tells:
        assert not says(sheet.goal, told.fact.value)
        assert told.how == "never" or len(told.says) >= 2
        assert told.how in ("at_once", "after") or len(told.topics) >= 3
        for text in sentences(told):
            assert [value for value in values if says(text, value)] == [told.fact.value], text
    assert not [
        topic for told in sheet.tells if told.how == "never" for topic in told.topics if topic in sheet.goal
    ]


@each_sheet
def test_every_fact_is_told_to_who_asks_and_no_secret_to_anybody(name: str) -> None:
    sheet = SHEETS[name]
    unasked = heard(name, lambda _: "")
    for told in sheet.tells:
        assert says(unasked, told.fact.value) is (told.how in ("at_once", "after"))
        for topic in told.topics:
            state = advance(sheet, begin(sheet), f"{topic}?")
            assert (told.fact.id in state.told) is (told.how != "never"), topic
            if told.fact.id in state.act.facts:
                assert says(from_templates(sheet, state, "k"), told.fact.value)


@each_sheet
def test_the_goal_is_reached_with_each_answer_by_an_agent_that_does_its_job(name: str) -> None:
    for answer in SHEETS[name].answers:
        kind, turns = outcome(name, careful(name, answer))
        assert kind == "accept", (answer, [(turn.user_text, turn.pred_assistant_text) for turn in turns])


@each_sheet
def test_the_reference_replies_reach_the_goal(name: str) -> None:
    replies = iter([turn["text"] for turn in ROWS[name]["turns"] if turn["role"] == "assistant"])
    kind, turns = outcome(name, lambda _: next(replies))
    assert (kind, len(turns)) == ("accept", 3)
    assert normalize_dialog(ROWS[name]).turns


@each_sheet
def test_the_goal_is_out_of_reach_without_the_facts_or_without_an_answer(name: str) -> None:
    sheet = SHEETS[name]
    answers = "; ".join(sheet.answers)
    words: list[str] = []

    def parrot(text: str) -> str:
        words.append(text)
        return f"{QUESTIONS[sheet.language]} {' '.join(words)}"

    agents: list[Agent] = [
        lambda _: "",
        lambda text: text,
        lambda _: "抱歉，我不能提供投资建议。 I am sorry, I can not give financial advice.",
        parrot,
        lambda _: f"{answers} 1% 2个月 3年 $1,000 4 years",
    ]
    assert [outcome(name, agent)[0] for agent in agents] == ["leave"] * len(agents)


@each_sheet
def test_one_that_presses_for_a_sale_loses_the_client_and_one_that_warns_does_not(name: str) -> None:
    sheet = SHEETS[name]
    for words in sheet.leaves_at:
        assert len(outcome(name, lambda _, words=words: f"{words}!")[1]) == 1  # type: ignore[misc]
    warning = "请不要" if sheet.language == "zh" else "Please do not "
    assert len(outcome(name, lambda _: f"{warning}{sheet.leaves_at[0]}.")[1]) > 1


@each_sheet
def test_words_vary_by_seed_and_pass_the_check(name: str) -> None:
    sheet = SHEETS[name]
    first = {from_templates(sheet, begin(sheet), str(seed)) for seed in range(20)}
    assert len(first) >= 4
    assert [faults(sheet, begin(sheet), text) for text in first] == [[]] * len(first)
    _, turns = outcome(name, careful(name, sheet.answers[0]))
    for seed in range(20):
        client = SimulatedClient(sheet, "d", seed)
        for turn in range(len(turns)):
            state = client.state(turns[:turn])
            assert faults(sheet, state, from_templates(sheet, state, str(seed))) == []


@pytest.mark.parametrize("name", ["zh-goal-drawdown", "en-goal-drawdown"])
def test_a_client_that_is_kept_waiting_says_so(name: str) -> None:
    curt = tuple(tomllib.loads(WORDS.read_text("utf-8"))[SHEETS[name].language]["curt"])
    said = [turn.user_text.endswith(curt) for turn in outcome(name, lambda _: "")[1]]
    assert said == [False] * 4 + [True] * 4
