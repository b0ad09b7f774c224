"""States of a client's facts at a turn of a session.

A fact told in turn t holds from turn t on: the reply of t may use it. Another one that ``replaces`` it ends
it from the turn in which that is told, an empty value withdraws the whole chain before it. Facts of others
and planted ones replace nothing. ``until`` is compared with the date of the session.
"""

from collections.abc import Iterator
from datetime import date
from typing import NamedTuple, Self

from memfin.contracts import Dialog, Fact, FactState


class Told(NamedTuple):
    """A fact with the session that names it; ``place`` counts the client's sessions from 0."""

    fact: Fact
    place: int
    session_index: int
    session_time: str | None


class Ledger:
    """The facts of a client up to the end of one session."""

    def __init__(self, dialog: Dialog) -> None:
        """Read the facts of a session and of the client's sessions before it."""
        here = len(dialog.earlier)
        self._client = dialog.user_id
        self._here = here
        self._index = here if dialog.session_index is None else dialog.session_index
        self._today = day_of(dialog.session_time)
        sessions = [(each.facts, each.session_index, each.session_time) for each in dialog.earlier]
        sessions.append((dialog.facts, self._index, dialog.session_time))
        self._told = {
            fact.id: Told(fact, place, index, time)
            for place, (facts, index, time) in enumerate(sessions)
            for fact in facts
        }
        self._successors: dict[str, list[Told]] = {}
        for told in self._told.values():
            fact = told.fact
            if fact.replaces is not None and self._is_own(fact) and fact.told_at is not None:
                self._successors.setdefault(fact.replaces, []).append(told)

    @classmethod
    def of(cls, dialog: Dialog) -> Self:
        """Return the ledger of a session."""
        return cls(dialog)

    def at(self, turn: int) -> list[tuple[Fact, FactState]]:
        """Return the facts with their states at a turn; withdrawals and what is yet to be told are left out.

        Facts that nobody tells (``told_at`` is None) are there from the beginning.
        """
        return [
            (told.fact, self.state(told.fact.id, turn))
            for told in self._told.values()
            if told.fact.value and self._is_there(told, turn)
        ]

    def state(self, fact_id: str, turn: int) -> FactState:
        """Return the state of a fact at a turn; one that is unknown or not told yet is ``untold``."""
        told = self._told.get(fact_id)
        if told is None or not self._is_there(told, turn):
            return "untold"
        fact = told.fact
        if not self._is_own(fact):
            return "planted" if fact.planted else "foreign"
        if fact.told_at is None:
            return "untold"
        end = self._end(fact_id, turn)
        if not end.value:
            return "withdrawn"
        if end.id != fact_id:
            return "updated"
        until = day_of(fact.until)
        return "expired" if until and self._today and self._today > until else "active"

    def right(self, fact_id: str, turn: int) -> Fact | None:
        """Return the active fact at the end of the chain that an id belongs to, None if nothing holds.

        Of what the client has told about somebody else it is that fact: it is right where it is asked for.
        """
        state = self.state(fact_id, turn)
        if state == "foreign" and (fact := self._told[fact_id].fact).told_at is not None:
            return fact
        if state in ("untold", "foreign", "planted"):
            return None
        end = self._end(fact_id, turn)
        return end if self.state(end.id, turn) == "active" else None

    def chain(self, fact_id: str, turn: int) -> list[Fact]:
        """Return the facts with a value told so far that belong to the chain of an id, the oldest first."""
        if fact_id not in self._told:
            return []
        first, seen = fact_id, {fact_id}
        while (before := self._told[first].fact.replaces) in self._told and before not in seen:
            assert before is not None  # noqa: S101 - it is a key
            seen.add(first := before)
        return [fact for fact in self._onward(first, turn) if fact.value]

    def fact(self, fact_id: str) -> Fact | None:
        """Return a fact by its id, None if no session names it."""
        told = self._told.get(fact_id)
        return None if told is None else told.fact

    def distance(self, fact_id: str) -> tuple[int | None, int | None]:
        """Return how long ago a fact was told, in sessions and in days; None where that is not known."""
        told = self._told.get(fact_id)
        if told is None or told.fact.told_at is None:
            return None, None
        day = day_of(told.session_time)
        days = (self._today - day).days if self._today and day else None
        return max(0, self._index - told.session_index), days

    def is_told_in(self, fact_id: str, turn: int) -> bool:
        """Return True if the words of this very turn tell a fact."""
        told = self._told.get(fact_id)
        return told is not None and told.place == self._here and told.fact.told_at == turn

    def _is_own(self, fact: Fact) -> bool:
        return not fact.planted and fact.owner in (None, self._client)

    def _is_there(self, told: Told, turn: int) -> bool:
        return told.place < self._here or told.fact.told_at is None or told.fact.told_at <= turn

    def _onward(self, fact_id: str, turn: int) -> Iterator[Fact]:
        """Yield a fact and what replaced it, up to a turn; of several replacements the one told last."""
        seen: set[str] = set()
        while fact_id not in seen:
            seen.add(fact_id)
            yield self._told[fact_id].fact
            later = [told for told in self._successors.get(fact_id, ()) if self._is_there(told, turn)]
            if later:
                fact_id = max(later, key=lambda told: (told.place, told.fact.told_at or 0)).fact.id

    def _end(self, fact_id: str, turn: int) -> Fact:
        return [*self._onward(fact_id, turn)][-1]


def day_of(time: str | None) -> date | None:
    """Return the day of an ISO date or time, None where there is none."""
    try:
        return None if time is None else date.fromisoformat(time[:10])
    except ValueError:
        return None
