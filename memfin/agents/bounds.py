"""Bounds of a score: an agent that gives the reference replies, and one that echoes."""

from collections.abc import Mapping, Sequence
from types import MappingProxyType
from typing import Final

import msgspec

from memfin.agents.builtin.compliance import compliance_rules, find_violations
from memfin.agents.builtin.memory import ClientFile, ClientState, decode_state
from memfin.agents.protocol import Observer, Session
from memfin.contracts import Dialog, Fact, Probe, Record
from memfin.errors import MemfinError

_UNTOLD: Final = MappingProxyType({"zh": "您没有告诉过我这一点。", "en": "You have not told me that."})


class NoReferenceError(MemfinError):
    """The dialogue asks for a reply that its references do not hold."""


class OracleState(Record):
    """The oracle between two turns: the client file and how many references are used up."""

    client: ClientState
    position: int


class OracleAgent:
    """Gives the reference replies of one dialogue, in order.

    `replies` are the dialogue's turn pairs as ``(user_text, reference_text)``. A user turn that is
    not the next one is looked for further on, so that a host may leave turns out. `probes` are the right
    answers to the dialogue's probes by place and question, None where the client has not told one.
    """

    def __init__(
        self,
        session: Session,
        observer: Observer,
        replies: Sequence[tuple[str, str]],
        probes: Mapping[tuple[int, str], str | None] = MappingProxyType({}),
    ) -> None:
        self._observer = observer
        self._replies = tuple(replies)
        self._probes = probes
        self._position = 0
        self._client = ClientFile(session)
        for language in ("zh", "en"):
            compliance_rules(language)

    async def reply(self, user_text: str) -> str:
        """Return the reference reply; raise `NoReferenceError` when there is none for these words."""
        heard = self._client.hear(user_text)
        answer = self._reference(user_text)
        self._observer.recall(**self._client.recall_observation(heard))
        violations = find_violations(answer, compliance_rules(self._client.language))
        self._observer.compliance(is_compliant=not violations, violations=violations)
        self._observer.profile(**self._client.profile_observation())
        return answer

    async def commit(self, assistant_text: str) -> None:
        """Put a reply into the history."""
        self._client.memory.record(assistant_text)

    def carry(self) -> bytes:
        """Return what the client's next session begins with."""
        return self._client.carry()

    def snapshot(self) -> bytes:
        """Return the state between turns."""
        return msgspec.msgpack.encode(OracleState(client=self._client.state(), position=self._position))

    def restore(self, state: bytes) -> None:
        """Go on from a snapshot; raise `StateError` when the bytes are none."""
        restored = decode_state(state, OracleState)
        self._client.load(restored.client)
        self._position = restored.position

    def _reference(self, user_text: str) -> str:
        if (asked := (self._position, user_text)) in self._probes:
            return self._probes[asked] or _UNTOLD["en" if self._client.language == "en" else "zh"]
        for at in range(self._position, len(self._replies)):
            if self._replies[at][0] == user_text:
                self._position = at + 1
                return self._replies[at][1]
        raise NoReferenceError(
            f"oracle has no reference reply for user turn {self._client.memory.turn_index}: "
            "give it the turn pairs of the dialogue that is replayed"
        )


def probe_answers(dialog: Dialog) -> dict[tuple[int, str], str | None]:
    """Return the right answers to a dialogue's probes, for `OracleAgent`."""
    return {(probe.after, probe.question): _probed(dialog, probe) for probe in dialog.probes}


def _probed(dialog: Dialog, probe: Probe) -> str | None:
    if probe.fact is None:
        return probe.answer
    told = [fact for session in dialog.earlier for fact in _in_order(session.facts)]
    told += [fact for fact in _in_order(dialog.facts) if (fact.told_at or 0) <= probe.after]
    held = None
    for fact in told:
        own = fact.owner in (None, dialog.user_id)
        if not fact.planted and (fact.id == probe.fact or (held and own and fact.replaces == held.id)):
            held = fact
    if held is None or (held.until and dialog.session_time and dialog.session_time[:10] > held.until):
        return None
    return held.value or None


def _in_order(facts: Sequence[Fact]) -> list[Fact]:
    """Return the facts that the client tells, in the order of telling."""
    return sorted((fact for fact in facts if fact.told_at is not None), key=lambda fact: fact.told_at or 0)


class EchoAgent:
    """Answers every turn with the user's words; it has no memory, so history is nothing to it."""

    def __init__(self, session: Session, observer: Observer) -> None:
        del session, observer  # the signature is the factory's; an echo has no use for either

    async def reply(self, user_text: str) -> str:
        """Return `user_text` unchanged."""
        return user_text

    async def commit(self, assistant_text: str) -> None:
        """Accept a reply for the history, which an echo does not keep."""

    def snapshot(self) -> bytes:
        """Return the state between turns: there is none."""
        return b""

    def carry(self) -> bytes:
        """Return what is kept for the client's next session: nothing."""
        return b""

    def restore(self, state: bytes) -> None:
        """Go on from a snapshot, which holds nothing."""
