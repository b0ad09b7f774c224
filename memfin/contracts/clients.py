"""The sheet of a simulated client: its goal, what it tells and when, and what it takes to content it."""

from typing import Annotated, Literal

import msgspec

from memfin.contracts.base import Record
from memfin.contracts.ledger import Fact

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
    uses: Annotated[list[str], msgspec.Meta(min_length=1)]
    answers: Annotated[list[str], msgspec.Meta(min_length=1)]
    patience: Annotated[int, msgspec.Meta(ge=2)] = 8
    irritated_by: list[str] = []
    leaves_at: list[str] = []
