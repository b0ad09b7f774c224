"""Readings of facts and probes, without a judge.

A failure is blamed by this table; the first row that fits decides. What the client has told about
somebody else is needed like any other fact where the turn requires it.

====================================  ====================================================
A value is used that is               Stage
====================================  ====================================================
planted, foreign, untold              ``believed``, ``leaked``, ``invented``
withdrawn, expired                    ``not_forgotten``
updated, nothing of its chain holds   ``not_forgotten``
updated, the new one is used too      ``not_updated``
updated                               that of the new one, see below
====================================  ====================================================

====================================  ====================================================
A needed value is not used and is     Stage
====================================  ====================================================
a planted or foreign one is used      ``believed``, ``leaked``
in the recall                         ``not_used``
not in the store, an old one is used  ``not_updated``
told in this turn                     ``not_used``
in the store, not in the recall       ``not_retrieved``
in the store, no recall is reported   ``unknown``
not in the store, was in it before    ``overwritten``
not in the store                      ``not_stored``
in no report                          ``unknown``
====================================  ====================================================
"""

import re
from collections.abc import Iterator, Sequence
from typing import Any, Final

import msgspec

from memfin.contracts import (
    Dialog,
    DialogTrace,
    Fact,
    FactReading,
    FactState,
    MemoryTrace,
    Probe,
    ProbeReading,
    ProbeTrace,
    RecallTrace,
    Stage,
    TurnEvalRow,
    TurnTrace,
)
from memfin.ledger import matching
from memfin.ledger.facts import Ledger

_MISUSED: Final[dict[FactState, Stage]] = {
    "planted": "believed",
    "foreign": "leaked",
    "untold": "invented",
    "withdrawn": "not_forgotten",
    "expired": "not_forgotten",
}

_Misused = Sequence[tuple[Fact, FactState]]


def fact_readings(dialog: Dialog, trace: DialogTrace) -> list[list[FactReading]]:
    """Return the readings of each turn: of its required facts, and of those that its reply must not use.

    A turn without an answer has none. A value that equals one that holds never counts against a reply, nor
    does somebody else's in the turn that tells it, or a yes or no that the turn does not ask for.
    """
    ledger = Ledger.of(dialog)
    stored_before = [] if trace.stored_before is msgspec.UNSET else trace.stored_before
    return [
        [*_Turn(ledger, trace.turns[: place + 1], stored_before).readings()]
        if turn.turn_status == "ok"
        else []
        for place, turn in enumerate(trace.turns)
    ]


def has_memory(dialog: Dialog) -> bool:
    """Return True if a dialogue is a session, or has facts or probes to read."""
    known = bool(dialog.facts or dialog.probes) or any(session.facts for session in dialog.earlier)
    return known or dialog.session_index is not None


def with_memory(dialog: Dialog, trace: DialogTrace, rows: Sequence[TurnEvalRow]) -> list[TurnEvalRow]:
    """Return the rows of a dialogue with its readings; those without facts, probes and sessions are the same.

    A probe is in the row of the turn after which it was asked, or was to be asked if the session went on.
    """
    if dialog.session_index is not None:
        of_client = {"client_id": dialog.user_id or msgspec.UNSET, "session_index": dialog.session_index}
        rows = [row.replace(**of_client) for row in rows]
    if dialog.facts or any(session.facts for session in dialog.earlier):
        facts = fact_readings(dialog, trace)
        rows = [row.replace(facts=facts[row.turn_pair_id - 1]) for row in rows]
    if dialog.probes:
        last = max((row.turn_pair_id for row in rows), default=0)
        after = {probe.id: min(probe.after, last) for probe in dialog.probes}
        readings = probe_readings(dialog, trace)
        rows = [
            row.replace(probes=[each for each in readings if after[each.probe] == row.turn_pair_id])
            for row in rows
        ]
    return [*rows]


def stored_facts(dialog: Dialog, trace: DialogTrace) -> list[str]:
    """Return the ids of the facts that the agent's store was reported to hold, up to this session's end."""
    found = dict.fromkeys([] if trace.stored_before is msgspec.UNSET else trace.stored_before)
    ledger = Ledger.of(dialog)
    for turn in trace.turns:
        if turn.memory is not msgspec.UNSET:
            text = _store(turn.memory)
            facts = (fact for fact, _ in ledger.at(turn.turn_pair_id))
            found |= dict.fromkeys(fact.id for fact in facts if _mentions(text, fact))
    return [*found]


def probe_readings(dialog: Dialog, trace: DialogTrace) -> list[ProbeReading]:
    """Return the scores of the probes that were asked, in the order of the trace."""
    ledger, probes = Ledger.of(dialog), {probe.id: probe for probe in dialog.probes}
    asked = [] if trace.probes is msgspec.UNSET else trace.probes
    return [
        _probe_reading(ledger, probes[each.probe_id], each, trace)
        for each in asked
        if each.probe_id in probes
    ]


class _Turn:
    """The evidence of one answered turn, the last of the ``turns`` so far."""

    def __init__(self, ledger: Ledger, turns: Sequence[TurnTrace], stored_before: Sequence[str]) -> None:
        self._ledger = ledger
        self._turn = turns[-1]
        self._number = self._turn.turn_pair_id
        self._reply = self._turn.pred_assistant_text or ""
        reports = [_store(turn.memory) for turn in turns if turn.memory is not msgspec.UNSET]
        self._reports = reports
        self._profile = _flat(self._turn.profile_snapshot) if self._turn.profile_snapshot else ""
        self._recall = None if self._turn.recall is None else _recalled(self._turn.recall)
        self._stored_before = stored_before
        self._facts = ledger.at(self._number)
        self._active = [fact for fact, state in self._facts if state == "active"]

    def readings(self) -> Iterator[FactReading]:
        """Yield the readings of the turn."""
        seen: set[str] = set()
        needed = dict.fromkeys(self._turn.gt_turn_tags.facts_required_gt)
        asked = {fact.id for each in needed for fact in self._ledger.chain(each, self._number)}
        misused: _Misused = [
            (fact, state)
            for fact, state in self._facts
            if state not in ("active", "untold")
            and not (state == "foreign" and self._ledger.is_told_in(fact.id, self._number))
            and (fact.kind != "yes_no" or fact.id in asked)
            and self._gives(fact)
            and not self._holds(fact)
        ]
        for required in needed:
            fact = self._ledger.right(required, self._number) or self._last(required)
            if (fact_id := fact.id if fact else required) in seen:
                continue
            seen.add(fact_id)
            yield self._needed(fact_id, fact, misused)
        for fact, state in misused:
            if fact.id not in seen:
                yield self._reading(
                    fact.id, fact, state, needed=False, used=True, stage=self._blame(fact, state)
                )

    def _last(self, required: str) -> Fact | None:
        chain = self._ledger.chain(required, self._number)
        return chain[-1] if chain else self._ledger.fact(required)

    def _needed(self, fact_id: str, fact: Fact | None, misused: _Misused) -> FactReading:
        state = self._ledger.state(fact_id, self._number)
        if fact is not None and self._ledger.right(fact_id, self._number) is fact:
            used = self._gives(fact)
            stage = None if used else _displaced(fact, misused) or self._missing(fact, misused)
            return self._reading(fact_id, fact, state, needed=True, used=used, stage=stage)
        used = fact is not None and not self._holds(fact) and self._gives(fact)
        abstained = not used and matching.abstains(self._reply, self._turn.user_text)
        if state == "untold" and fact is not None and not used and not abstained:
            used = matching.names_any(self._reply, fact.kind, self._turn.user_text)
        stage = self._blame(fact, state) if used and fact is not None else None
        return self._reading(fact_id, fact, state, needed=True, used=used, abstained=abstained, stage=stage)

    def _reading(
        self, fact_id: str, fact: Fact | None, state: FactState, *,
        needed: bool, used: bool, stage: Stage | None, abstained: bool = False,
    ) -> FactReading:  # fmt: skip
        sessions, days = self._ledger.distance(fact_id)
        return FactReading(
            fact=fact_id,
            state=state,
            needed=needed,
            used=used,
            abstained=abstained,
            stored=None if fact is None else self._stored(fact),
            retrieved=None if fact is None else self._retrieved(fact),
            sessions=sessions,
            days=days,
            stage=stage,
        )

    def _blame(self, fact: Fact, state: FactState) -> Stage:
        """Return the stage of a value that is used and must not be."""
        if state != "updated":
            return _MISUSED[state]
        new = self._ledger.right(fact.id, self._number)
        if new is None:
            return "not_forgotten"
        return "not_updated" if self._gives(new) else self._missing(new, [(fact, state)])

    def _missing(self, fact: Fact, misused: _Misused) -> Stage:
        """Return the stage of a needed value that is not used."""
        stored, retrieved = self._stored(fact), self._retrieved(fact)
        stale = {other.id for other, _ in misused}
        replaced = any(old.id in stale for old in self._ledger.chain(fact.id, self._number))
        if retrieved:
            return "not_used"
        if stored is False and replaced:
            return "not_updated"
        if self._ledger.is_told_in(fact.id, self._number):
            return "not_used"
        if stored is None or (stored and retrieved is None):
            return "unknown"
        if stored:
            return "not_retrieved"
        was = fact.id in self._stored_before or any(_mentions(text, fact) for text in self._reports)
        return "overwritten" if was else "not_stored"

    def _gives(self, fact: Fact) -> bool:
        return matching.gives(self._reply, fact.value, fact.kind, fact.aliases, self._turn.user_text)

    def _holds(self, fact: Fact) -> bool:
        return any(_same(fact, active) for active in self._active)

    def _stored(self, fact: Fact) -> bool | None:
        if self._profile and _mentions(self._profile, fact):
            return True
        return _mentions(self._reports[-1], fact) if self._reports else None

    def _retrieved(self, fact: Fact) -> bool | None:
        return None if self._recall is None else _mentions(self._recall, fact)


def _displaced(fact: Fact, misused: _Misused) -> Stage | None:
    """Return the stage of a planted or foreign value of the kind of a needed one."""
    for other, state in misused:
        if other.kind == fact.kind and state in ("planted", "foreign"):
            return _MISUSED[state]
    return None


def _probe_reading(ledger: Ledger, probe: Probe, asked: ProbeTrace, trace: DialogTrace) -> ProbeReading:
    fact = ledger.fact(probe.fact) if probe.fact is not None else None
    right = right_answer(ledger, probe)
    outcome = _outcome(ledger, probe, right, asked)
    told = right or fact
    sessions, days = ledger.distance(told.id) if told is not None and probe.fact is not None else (None, None)
    any_found, all_found = _evidence(probe, asked, trace)
    return ProbeReading(
        probe=probe.id,
        outcome=outcome,
        correct=outcome == ("abstained" if right is None else "right"),
        fact=probe.fact,
        field=None if fact is None else fact.field,
        category=probe.category,
        sessions=sessions,
        days=days,
        evidence_any=any_found,
        evidence_all=all_found,
        known=right is not None,
    )


def right_answer(ledger: Ledger, probe: Probe) -> Fact | None:
    """Return the fact or the value that a probe asks for, None where abstaining is right."""
    if probe.fact is None:
        if probe.answer is None:
            return None
        return Fact(id=probe.id, value=probe.answer, kind=probe.kind, aliases=probe.aliases)
    fact = ledger.fact(probe.fact)
    if fact is not None and fact.told_at is not None and ledger.state(fact.id, probe.after) == "foreign":
        return fact  # the client has told it and asks for it
    return ledger.right(probe.fact, probe.after)


def _outcome(ledger: Ledger, probe: Probe, right: Fact | None, asked: ProbeTrace) -> Any:
    """Return the outcome of a probe: an old value beside the right one is no answer."""
    answer = asked.answer
    if asked.status != "ok" or answer is None:
        return "failed"

    def given(fact: Fact) -> bool:
        return matching.gives(answer, fact.value, fact.kind, fact.aliases, probe.question)

    old = ledger.chain(probe.fact, probe.after) if probe.fact is not None else []
    if any(given(fact) for fact in old if right is None or not _same(fact, right)):
        return "stale"
    if right is not None and given(right):
        return "right"
    facts = ledger.at(probe.after)
    active = [fact for fact, state in facts if state == "active"]
    foreign = (fact for fact, state in facts if state == "foreign")
    if any(given(fact) for fact in foreign if not any(_same(fact, each) for each in active)):
        return "foreign"
    return "abstained" if matching.abstains(answer, probe.question) else "wrong"


def _evidence(probe: Probe, asked: ProbeTrace, trace: DialogTrace) -> tuple[bool | None, bool | None]:
    """Return whether the recall has any and all places of the evidence, None where it names no places.

    A turn of this session in the short-term context has been recalled as well.
    """
    if not probe.evidence or asked.recall is None:
        return None, None
    recall = msgspec.convert(asked.recall, RecallTrace)
    window = {turn.content for turn in recall.short_term_turns}
    turns = [turn.turn_pair_id for turn in trace.turns if turn.user_text in window]
    found: set[str | None] = {f"{trace.dialog_id}#{turn}" for turn in turns}
    found |= {trace.dialog_id} if turns else set()
    named = bool(turns) or not recall.items
    for item in recall.items:
        session = _dialog_id(item.session_id or "", trace.run_id)
        found |= {item.item_id, item.source, session, f"{session}#{item.turn_index}"}
        named = named or item.session_id is not None
    hits = [place in found for place in probe.evidence]
    return (any(hits), all(hits)) if named or any(hits) else (None, None)


def _dialog_id(session_id: str, run_id: str) -> str:
    """Return the dialogue of a session's id, also of one that was held again or is a probe's copy."""
    found = re.fullmatch(
        rf"(?:probe\d+_(?:.*_of_)?)?session_{re.escape(run_id)}_(.*?)(?:_again_[0-9a-f]{{8}})?", session_id
    )
    return found[1] if found else session_id


def _same(fact: Fact, other: Fact) -> bool:
    """Return True if two facts have one value."""
    return matching.mentions(other.value, fact.value, fact.kind, fact.aliases)


def _mentions(text: str, fact: Fact) -> bool:
    return matching.mentions(text, fact.value, fact.kind, fact.aliases)


def _store(memory: MemoryTrace) -> str:
    return "\n".join(item.content for item in memory.items)


def _recalled(recall: RecallTrace) -> str:
    parts = [recall.packed_context, recall.profile_context, recall.short_term_context]
    parts += (item.content for item in recall.items)
    parts += (turn.content for turn in recall.short_term_turns)
    return "\n".join(parts)


def _flat(value: object) -> str:
    """Return the words of plain JSON data, one a line."""
    if isinstance(value, dict):
        return "\n".join(map(_flat, value.values()))
    return "\n".join(map(_flat, value)) if isinstance(value, list) else str(value)
