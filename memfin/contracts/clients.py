"""Simulated clients: the sheet with goal, facts and what contents the client, and how a dialogue ended."""

import re
import unicodedata
from collections.abc import Iterator
from typing import Annotated, Literal

import msgspec

from memfin.contracts.base import Count, Record
from memfin.contracts.ledger import Fact, TurnNumber

Disclosure = Literal["at_once", "asked", "after", "never"]
"""``at_once`` with the goal, ``asked`` when a reply has one of its topics, ``after`` so many turns."""


class Told(Record):
    """A fact of the client with its plain name, and when the client tells it.

    ``says`` are sentences that tell it, with ``{value}``, of which templates take one; without any they
    make one of the name.
    """

    fact: Fact
    name: str
    how: Disclosure = "asked"
    topics: list[str] = []
    after: Annotated[int, msgspec.Meta(ge=0)] = 0
    says: list[str] = []


class ClientSheet(Record):
    """All that a simulated client knows and wants.

    ``uses`` are ids of facts and ``answers`` wordings of what is asked for: a reply that goes by all of the
    facts and gives one of the answers contents the client. The client itself never says an answer.
    ``patience`` is the number of turns after which it leaves; each of ``irritated_by`` in a reply costs
    another turn, any of ``leaves_at`` ends the dialogue.
    """

    language: Literal["zh", "en"]
    goal: str
    tells: list[Told]
    uses: list[str]
    answers: list[str]
    patience: Annotated[int, msgspec.Meta(ge=2)] = 8
    irritated_by: list[str] = []
    leaves_at: list[str] = []


class ClientOutcome(Record):
    """The end of a simulated dialogue.

    ``success`` is True where a reply has contented the client, else it ``left``. ``told`` are the turn pairs
    in which it told its facts, by their ids; ``misspoken`` those whose words do not fit the sheet.
    """

    success: bool
    ended: Literal["accepted", "left"]
    told: dict[str, TurnNumber] = {}
    misspoken: list[TurnNumber] = []


class ClientReading(Record):
    """The outcome of a simulated dialogue in the row of its last turn.

    ``simulator_errors`` counts the turns that are charged to the simulator, ``misspoken`` those in which the
    agent heard words that do not fit the sheet. A dialogue with one of these counts neither for nor against
    the agent.
    """

    success: bool
    simulator_errors: Count = 0
    misspoken: Count = 0


def sheet_problems(sheet: ClientSheet) -> list[str]:
    """Return why a sheet makes no sense, or why no agent could content its client."""
    return [*_problems(sheet)]


def _problems(sheet: ClientSheet) -> Iterator[str]:
    tells = {each.fact.id: each for each in sheet.tells}
    own = [
        sheet.goal,
        *(words for each in sheet.tells for words in (each.name, each.fact.value, *each.says)),
    ]
    heard = [*sheet.answers, *sheet.irritated_by, *sheet.leaves_at]
    heard += (topic for each in sheet.tells for topic in each.topics)
    if len(tells) < len(sheet.tells):
        yield "a fact is there twice"
    if not (sheet.uses and sheet.answers and all(text.strip() for text in (*own, *heard))):
        yield "uses or answers are empty, or a text is blank"
        return
    for name in sheet.uses:
        told = tells.get(name)
        if told is None:
            yield f"uses names the unknown fact {name}"
        elif (
            told.how == "never"
            or (told.how == "asked" and not told.topics)
            or (told.how == "after" and told.after >= sheet.patience)
        ):
            yield f"fact {name} is needed but can not be told in {sheet.patience} turns"
    for answer in sheet.answers:
        if any(_says(words, answer) for words in own):
            yield f"the client itself says the answer {answer}"
    yield from (
        f"a sentence of fact {each.fact.id} lacks {{value}}"
        for each in sheet.tells
        if any("{value}" not in words for words in each.says)
    )
    for told in sheet.tells:
        if told.how != "at_once" and told.fact.kind != "yes_no" and _says(sheet.goal, told.fact.value):
            yield f"the goal tells fact {told.fact.id} too early"


def _says(text: str, words: str) -> bool:
    whole = rf"(?<![a-z0-9.]){re.escape(_plain(words))}(?![a-z0-9])"
    return re.search(whole, _plain(text)) is not None


def _plain(text: str) -> str:
    return " ".join(unicodedata.normalize("NFKC", text).casefold().split())
