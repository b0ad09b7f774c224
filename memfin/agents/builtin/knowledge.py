"""Knowledge of the built-in agent: topics and wording, intent of a question."""

from functools import cache
from typing import Any, Final, NamedTuple

import ahocorasick_rs
import msgspec

from memfin.agents.builtin.memory import Heard
from memfin.agents.builtin.profile import Pattern, compiled, data_file
from memfin.contracts import Language, Record

_MAX_ASKED: Final = 2000  # characters of a turn that are searched for topics; more is pasted material


class Topic(Record):
    """A subject; ``fits`` are the risk levels that an investment suits, ``within`` universes that hold it."""

    id: str
    name: str
    keywords: list[str]
    disclosure: str
    facts: list[str]
    steps: list[str]
    benefit: str = ""
    risk: str = ""
    refusal: str | None = None
    fits: list[str] | None = None
    within: list[str] = []


class Knowledge(NamedTuple):
    """Topics, wording and intents of a language."""

    language: Language
    topics: dict[str, Topic]
    matcher: ahocorasick_rs.AhoCorasick
    keyword_topics: tuple[str, ...]
    wording: dict[str, Any]
    intents: dict[str, Pattern]
    recall_fields: dict[str, Pattern]


class Question(NamedTuple):
    """Intent of a turn, with its topics by falling weight and the keywords that showed them."""

    intent: str
    topics: list[str]
    keywords: list[str]


@cache
def knowledge(language: Language) -> Knowledge:
    """Return the knowledge of a language."""
    topics = msgspec.convert(data_file(f"topics.{language}.toml")["topic"], list[Topic])
    wording = data_file(f"answers.{language}.toml")
    owners = {word.lower(): topic.id for topic in reversed(topics) for word in topic.keywords}
    return Knowledge(
        language=language,
        topics={topic.id: topic for topic in topics},
        matcher=ahocorasick_rs.AhoCorasick(list(owners), matchkind=ahocorasick_rs.MatchKind.LeftmostLongest),
        keyword_topics=tuple(owners.values()),
        wording=wording,
        intents=compiled(wording["intents"]),
        recall_fields=compiled(wording["recall_fields"]),
    )


def understand(heard: Heard, known: Knowledge, last_topic: str | None) -> Question:
    """Return the question of a turn; a follow-up without a subject refers to ``last_topic``."""
    intents = known.intents
    asking = [each.words for each in heard.clauses if each.question or intents["request"].search(each.words)]
    if not asking and heard.statements:
        return Question("none", [], [])
    text = " ".join(asking) if asking else heard.text
    weights, keywords = _topics(text, known)
    if not weights and asking:  # the subject may stand in an earlier clause
        weights, keywords = _topics(heard.text, known)
    topics = sorted(weights, key=lambda topic: (known.topics[topic].refusal is None, -weights[topic]))
    recalls = intents["recall"].search(heard.text) and intents["recall_question"].search(heard.text)
    follows = not topics and last_topic is not None and intents["follow_up"].search(text)
    checks = (
        ("recall", recalls),
        ("refuse", topics and known.topics[topics[0]].refusal),
        ("allocate", intents["allocate"].search(text)),
        ("explain", topics),
        ("small_talk", intents["small_talk"].search(heard.text)),
        ("explain", follows),
    )
    intent = next((name for name, holds in checks if holds), "unknown")
    return Question(intent, topics or [last_topic or ""], keywords)


def _topics(text: str, known: Knowledge) -> tuple[dict[str, int], list[str]]:
    """Return the topics of a text with their weights, and the words that showed them."""
    lowered = text[:_MAX_ASKED].lower()
    weights: dict[str, int] = {}
    words: list[str] = []
    for number, start, end in known.matcher.find_matches_as_indexes(lowered):
        around = f"{lowered[:start][-1:]}{lowered[end : end + 1]}"
        if known.language == "en" and any(map(str.isalnum, around)):
            continue  # part of a longer word
        topic = known.keyword_topics[number]
        weights[topic] = weights.get(topic, 0) + end - start
        words.append(lowered[start:end])
    return weights, list(dict.fromkeys(words))
