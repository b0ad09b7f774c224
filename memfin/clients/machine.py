"""The decisions of a simulated client: its state and the agent's reply give the next act, without wording."""

from collections.abc import Sequence
from typing import Final, Literal

from memfin.contracts import Record
from memfin.contracts.clients import ClientOutcome, ClientSheet, Told
from memfin.ledger.matching import gives, mentions

MAX_READ: Final = 20_000
"""Characters of a reply that a client reads."""

ActKind = Literal[
    "goal", "tell", "again", "unknown", "withhold", "decide", "object", "push", "accept", "leave"
]


class Act(Record):
    """The next move of the client; ``facts`` are the ids of those that it tells with it."""

    kind: ActKind
    facts: list[str] = []


class State(Record):
    """Where a client is after an act; ``used`` and ``answered`` are the criteria of the last reply."""

    act: Act
    turn: int = 1
    told: list[str] = []
    spent: int = 0
    used: list[str] = []
    answered: bool = False

    @property
    def ended(self) -> bool:
        """True if the client says no more after this act."""
        return self.act.kind in ("accept", "leave")


def begin(sheet: ClientSheet) -> State:
    """Return the state of a client that states its goal."""
    first = [each.fact.id for each in sheet.tells if each.how == "at_once"]
    return State(act=Act(kind="goal", facts=first), told=first)


def outcome(states: Sequence[State]) -> ClientOutcome:
    """Return how a dialogue has ended; the first state is that of its goal, the last the one at the end."""
    accepted = states[-1].act.kind == "accept"
    told = {name: state.turn for state in states[:-1] for name in state.act.facts}
    return ClientOutcome(success=accepted, ended="accepted" if accepted else "left", told=told)


def advance(sheet: ClientSheet, state: State, reply: str | None) -> State:
    """Return the state after a reply; None is a turn that failed. Nothing follows an end."""
    if state.ended:
        return state
    text = (reply or "")[:MAX_READ]
    facts = {each.fact.id: each.fact for each in sheet.tells}
    used = [
        name
        for name in sheet.uses
        if name in state.told and gives(text, facts[name].value, facts[name].kind, facts[name].aliases)
    ]
    answered = any(gives(text, answer, "text") for answer in sheet.answers)
    irritated = _does(text, sheet.irritated_by)
    spent = state.spent + 1 + irritated
    act = _act(sheet, state, text, spent, content=answered and used == sheet.uses, answered=answered)
    if irritated and act.kind == "push":
        act = Act(kind="object")
    return State(
        act=act,
        turn=state.turn + 1,
        told=[*state.told, *act.facts],
        spent=spent,
        used=used,
        answered=answered,
    )


def _act(  # noqa: PLR0911 - a table of decisions, the first that fits
    sheet: ClientSheet, state: State, reply: str, spent: int, *, content: bool, answered: bool
) -> Act:
    if _does(reply, sheet.leaves_at):
        return Act(kind="leave")
    if content:
        return Act(kind="accept")
    if spent >= sheet.patience:
        return Act(kind="leave")
    asked = [each for each in sheet.tells if _has(reply, each.topics) and each.fact.id not in state.told]
    due = [
        each.fact.id
        for each in sheet.tells
        if each.fact.id not in state.told
        and (_is_due(each, state.turn) or (each.how == "asked" and each in asked))
    ]
    if due:
        return Act(kind="tell", facts=due)
    if asked:
        return Act(kind="withhold")
    if answered:
        return Act(kind="object")
    if any(mark in reply for mark in "?\uff1f"):
        again = any(_has(reply, each.topics) for each in sheet.tells if each.fact.id in state.told)
        return Act(kind="again" if again else "unknown")
    return Act(kind="decide" if set(sheet.uses) <= set(state.told) else "push")


def _is_due(told: Told, turn: int) -> bool:
    return told.how == "after" and turn >= told.after


def _has(text: str, words: Sequence[str]) -> bool:
    return any(mentions(text, each, "text") for each in words)


def _does(text: str, words: Sequence[str]) -> bool:
    """Return True if a text says one of the words and does not deny it, as a warning would."""
    return any(gives(text, each, "text") for each in words)
