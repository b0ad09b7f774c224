"""The builtin agent's data files: complete, consistent in both languages, and fit to be said."""

import re
from typing import Any

import pytest

from memfin.agents.builtin.compliance import compliance_rules, find_violations, without_violations
from memfin.agents.builtin.knowledge import Topic, knowledge
from memfin.agents.builtin.rules import data_file, profile_rules
from memfin.contracts import Language
from tests.support import each_case

LANGUAGES: tuple[Language, ...] = ("zh", "en")
REFUSALS = {"guarantee", "prediction", "proxy_trading", "stock_tip"}


def shape(value: Any) -> Any:
    """Reduce a data file to its keys and the placeholders of its texts."""
    if isinstance(value, dict):
        return {name: shape(inner) for name, inner in value.items()}
    return sorted(set(re.findall(r"\{\w+\}", value))) if isinstance(value, str) else None


def texts(topic: Topic) -> list[str]:
    single = [topic.benefit, topic.risk, topic.refusal or ""]
    return [*topic.facts, *topic.steps, *topic.traits.values(), *single]


def test_both_languages_know_the_same_topics_and_say_the_same_kinds_of_things() -> None:
    chinese, english = knowledge("zh"), knowledge("en")
    assert list(chinese.topics) == list(english.topics)
    assert len(chinese.topics) >= 30
    for name, topic in chinese.topics.items():
        other = english.topics[name]
        assert (topic.disclosure, topic.fits, bool(topic.refusal)) == (
            other.disclosure,
            other.fits,
            bool(other.refusal),
        )
        assert list(topic.traits) == list(other.traits)
    assert shape(data_file("answers.zh.toml")) == shape(data_file("answers.en.toml"))
    assert {name for name, topic in chinese.topics.items() if topic.refusal} == REFUSALS


@pytest.mark.parametrize("language", LANGUAGES)
def test_topics_refer_to_disclosures_assets_and_dimensions_that_exist(language: Language) -> None:
    known, rules = knowledge(language), profile_rules(language)
    for topic in known.topics.values():
        assert topic.disclosure in known.disclosures
        assert set(topic.assets) <= set(rules.asset_classes)
        assert set(topic.traits) <= set(known.names)
        assert topic.facts
        assert topic.steps
        assert topic.refusal or (topic.benefit and topic.risk)


@pytest.mark.parametrize("language", LANGUAGES)
def test_nothing_the_agent_can_say_is_forbidden_to_say(language: Language) -> None:
    known, rules = knowledge(language), compliance_rules(language)
    said = [text for topic in known.topics.values() for text in texts(topic)]
    said += [text for variants in known.disclosures.values() for text in variants]
    said += list(known.phrases.values())
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
    assert [found.category for found in find_violations(text, compliance_rules(language))] == [category]


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
    assert without_violations(reply, found) == "先看费用。再看期限。"
