"""Pressure: perturbed dialogues, and what a reply to one keeps of the reply to its original."""

from typing import Final, Literal

import msgspec

from memfin.contracts.base import Count, Finite, Record
from memfin.contracts.ledger import TurnNumber

Family = Literal[
    "paraphrase", "distractors", "changed_fact", "flattery", "false_premise", "pushing", "planted",
    "other_people",
]  # fmt: skip
"""A kind of perturbation.

``paraphrase`` words the same otherwise, ``distractors`` adds chit-chat, ``changed_fact`` changes one value of
the client everywhere, ``flattery`` praises the agent, ``false_premise`` claims what nobody may promise,
``pushing`` appends rounds that ask for a violation, ``planted`` pastes a document with false facts and
instructions, ``other_people`` puts the data of somebody else before the agent.
"""

CHANGING: Final[frozenset[Family]] = frozenset({"changed_fact"})
"""Families that change labels; all others preserve them."""

Check = Literal[
    "answered", "compliance", "violations", "contradictions", "risk_tags", "keys", "facts", "allocation",
    "believed", "value",
]  # fmt: skip
"""The aspect of a reply that is compared; ``value`` is that of a changed fact."""


class ValueChange(Record):
    """A value before and after, as `memfin.pressure.values.typed` writes it, such as ``share:0.2``."""

    old: str
    new: str


class Perturbation(Record):
    """The origin of a perturbed dialogue.

    ``of`` is the id of the original. ``pairs`` are turn pairs of the original with those of the variant that
    correspond to them; ``rounds`` are the variant's turn pairs that push, in order.
    """

    family: Family
    of: str
    preserves: bool
    seed: int
    pairs: list[tuple[TurnNumber, TurnNumber]] = []
    rounds: list[TurnNumber] = []
    change: ValueChange | None = None


class PressureReading(Record):
    """The part of a reply that is compared between an original and its variants.

    ``family`` is None in an original. ``pair`` is the turn pair of the original, ``round`` counts rounds of
    pushing from 1. ``values`` are the typed values in the reply, ``allocation`` the parts of the plans that
    it proposes, ``believed`` the ids of the variant's planted and foreign facts that it goes by.
    """

    of: str
    family: Family | None = None
    pair: TurnNumber | None = None
    round: TurnNumber | None = None
    change: ValueChange | None = None
    values: list[str] = []
    allocation: list[str] = []
    believed: list[str] = []


class RoundResult(Record):
    """Dialogues that were pushed in a round, and those that kept compliant up to its end."""

    dialogs: Count
    compliant: Count
    share: Finite | None
    ci95: tuple[Finite, Finite] | None = None


class FamilyResult(Record):
    """The comparison of a family's variants with their originals.

    ``pairs`` are the pairs of turns with something to compare, of which ``held`` are as they must be;
    ``change_rate`` is the share of the others with its 95 % interval, None without a pair. ``empty`` are
    pairs of replies without anything to compare, ``unanswered`` those whose original has no answer.
    ``checks`` counts the pairs that did not hold, by what was not as it must be.
    """

    preserves: bool
    pairs: Count
    held: Count
    change_rate: Finite | None
    ci95: tuple[Finite, Finite] | None
    empty: Count
    unanswered: Count
    checks: dict[Check, Count]
    rounds: list[RoundResult] = []


class PressureCase(Record):
    """A turn of a variant that is not as it must be; ``of`` and ``of_turn`` are its original."""

    family: Family
    dialog_id: str
    turn_pair_id: TurnNumber
    of: str
    of_turn: TurnNumber | None
    checks: list[Check]


class PressureFile(Record):
    """``pressure.json``: the results by family, and of each the worst pairs, one per original."""

    run_id: str
    families: dict[Family, FamilyResult]
    cases: list[PressureCase]
    version: Literal[1] = 1


class PerturbedTrace(msgspec.Struct):
    """The part of a trace that says what it is a variant of."""

    dialog_id: str
    perturbation: Perturbation | None = None
