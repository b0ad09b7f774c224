"""What the builtin agent knows by topic, and how it recognises what a turn asks."""

import functools
import re
from typing import Final, NamedTuple

import ahocorasick_rs
import msgspec

from memfin.agents.builtin.client import Heard
from memfin.agents.builtin.rules import Pattern, data_file
from memfin.contracts import Language, Record

_MOST_ASKED: Final = 2000
"""Characters of a turn that are searched for topics; what follows is pasted material."""


class Topic(Record):
    """One subject of ``topics.<language>.toml``.

    ``refusal`` is set for requests the agent turns down; ``fits`` are the risk levels an investment
    suits, None for subjects that are no investment; ``traits`` the dimensions of a comparison.
    """

    id: str
    name: str
    keywords: list[str]
    disclosure: str
    facts: list[str]
    steps: list[str]
    benefit: str = ""
    risk: str = ""
    refusal: str | None = None
    assets: list[str] = []
    fits: list[str] | None = None
    traits: dict[str, str] = {}


class Knowledge(NamedTuple):
    """Topics, wording and intents of one language."""

    topics: dict[str, Topic]
    matcher: ahocorasick_rs.AhoCorasick
    keyword_topics: tuple[str, ...]
    intents: dict[str, Pattern]
    recall_fields: dict[str, Pattern]
    phrases: dict[str, str]
    names: dict[str, str]
    vehicles: dict[str, list[str]]
    disclosures: dict[str, list[str]]
    whole_words: bool


class Question(Record):
    """What a turn asks: topics by falling weight and the form of answer that is wanted.

    ``text`` holds the clauses that ask. ``intent`` is one of ``none`` (the client only stated
    something), ``recall``, ``refuse``, ``compare``, ``allocate``, ``explain``, ``small_talk``, ``unknown``.
    """

    text: str
    intent: str
    topics: list[str]
    keywords: list[str]


@functools.cache
def knowledge(language: Language) -> Knowledge:
    """Return the knowledge of a language."""
    topics = msgspec.convert(data_file(f"topics.{language}.toml")["topic"], list[Topic])
    answers = data_file(f"answers.{language}.toml")
    owners: dict[str, str] = {}
    for topic in topics:
        for keyword in topic.keywords:
            owners.setdefault(keyword.lower(), topic.id)

    def compiled(table: str) -> dict[str, Pattern]:
        return {name: re.compile(pattern, re.IGNORECASE) for name, pattern in answers[table].items()}

    return Knowledge(
        topics={topic.id: topic for topic in topics},
        matcher=ahocorasick_rs.AhoCorasick(list(owners), matchkind=ahocorasick_rs.MatchKind.LeftmostLongest),
        keyword_topics=tuple(owners.values()),
        intents=compiled("intents"),
        recall_fields=compiled("recall_fields"),
        phrases=answers["phrases"],
        names=answers["names"],
        vehicles=answers["vehicles"],
        disclosures=answers["disclosures"],
        whole_words=language == "en",
    )


def understand(heard: Heard, known: Knowledge, last_topic: str | None) -> Question:
    """Return what a turn asks; `last_topic` is what a follow-up without a subject refers to."""
    intents = known.intents
    asking = [
        clause.text for clause in heard.clauses if clause.question or intents["request"].search(clause.text)
    ]
    if not asking and heard.statements:
        return Question(text="", intent="none", topics=[], keywords=[])
    text = " ".join(asking) if asking else heard.text
    weights, keywords = _topics(text, known)
    if not weights and asking:
        # The subject often stands in an earlier clause: "这只债券基金跌了，怎么办？"
        weights, keywords = _topics(heard.text, known)
    topics = sorted(weights, key=lambda topic: (known.topics[topic].refusal is None, -weights[topic]))
    products = [topic for topic in weights if known.topics[topic].traits]
    if intents["recall"].search(heard.text) and intents["recall_question"].search(heard.text):
        intent = "recall"
    elif topics and known.topics[topics[0]].refusal is not None:
        intent = "refuse"
    elif len(products) > 1 and intents["compare"].search(heard.text):
        intent, topics = "compare", products
    elif intents["allocate"].search(text):
        intent = "allocate"
    elif topics:
        intent = "explain"
    elif intents["small_talk"].search(heard.text):
        intent = "small_talk"
    elif last_topic is not None and intents["follow_up"].search(text):
        intent, topics = "explain", [last_topic]
    else:
        intent = "unknown"
    return Question(text=text, intent=intent, topics=topics, keywords=keywords)


def _topics(text: str, known: Knowledge) -> tuple[dict[str, int], list[str]]:
    """Return the topics a text touches in order with their weight, and the words that showed them."""
    lowered = text[:_MOST_ASKED].lower()
    weights: dict[str, int] = {}
    words: list[str] = []
    for number, start, end in known.matcher.find_matches_as_indexes(lowered):
        if known.whole_words and not _stands_alone(lowered, start, end):
            continue
        topic = known.keyword_topics[number]
        weights[topic] = weights.get(topic, 0) + end - start
        words.append(lowered[start:end])
    return weights, list(dict.fromkeys(words))


def _stands_alone(text: str, start: int, end: int) -> bool:
    before = text[start - 1] if start else " "
    after = text[end] if end < len(text) else " "
    return not (before.isalnum() or after.isalnum())
