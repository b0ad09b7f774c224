"""Bounds of a score: an agent that gives the reference replies, and one that echoes."""

from collections.abc import Sequence

import msgspec

from memfin.agents.builtin.compliance import compliance_rules, find_violations
from memfin.agents.builtin.memory import ClientFile, ClientState, decode_state
from memfin.agents.protocol import Observer, Session
from memfin.contracts import Record
from memfin.errors import MemfinError


class NoReferenceError(MemfinError):
    """The dialogue asks for a reply that its references do not hold."""


class OracleState(Record):
    """The oracle between two turns: the client file and how many references are used up."""

    client: ClientState
    position: int


class OracleAgent:
    """Gives the reference replies of one dialogue, in order.

    `replies` are the dialogue's turn pairs as ``(user_text, reference_text)``. A user turn that is
    not the next one is looked for further on, so that a host may leave turns out.
    """

    def __init__(self, session: Session, observer: Observer, replies: Sequence[tuple[str, str]]) -> None:
        self._observer = observer
        self._replies = tuple(replies)
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
        for at in range(self._position, len(self._replies)):
            if self._replies[at][0] == user_text:
                self._position = at + 1
                return self._replies[at][1]
        raise NoReferenceError(
            f"oracle has no reference reply for user turn {self._client.memory.turn_index}: "
            "give it the turn pairs of the dialogue that is replayed"
        )


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
