"""The client file: everything an adviser keeps of one client, fed by her words and the replies.

What she said about herself goes through the governed memory layer, and comes back from it as the context
of a turn; the exchanges are the dialogue's own memory.

The builtin agent and the oracle keep the same file; only what they answer differs.
"""

from typing import Any, Final, TypeVar

import msgspec

from memfin.agents.builtin.clauses import Clause, detect_language, read_clauses
from memfin.agents.builtin.extraction import Statement, extract
from memfin.agents.builtin.governed import GovernedMemory
from memfin.agents.builtin.memory import DialogueMemory, MemoryState, Recall, recall_fields
from memfin.agents.builtin.profile import ClientProfile, profile_snapshot
from memfin.agents.builtin.rules import ProfileRules, profile_rules
from memfin.agents.protocol import Session
from memfin.contracts import Language, Record
from memfin.errors import MemfinError

S = TypeVar("S", bound=Record)

STATE_VERSION: Final = 1


class StateError(MemfinError):
    """A snapshot that cannot be restored."""


class ClientState(Record):
    """A client file between two turns."""

    version: int
    language: Language
    memory: MemoryState
    profile: ClientProfile


class Heard(Record):
    """A turn's words, read: their clauses, what they state, and what memory has to offer for them."""

    text: str
    language: Language
    clauses: list[Clause]
    statements: list[Statement]
    before: ClientProfile
    recall: Recall


class ClientFile:
    """Memory and profile of the client of one session. All rules are loaded at construction."""

    def __init__(self, session: Session) -> None:
        self._rules: dict[Language, ProfileRules] = {"zh": profile_rules("zh"), "en": profile_rules("en")}
        self.language: Language = "en" if session.language.lower().startswith("en") else "zh"
        self.memory = DialogueMemory(session.session_id)
        self.profile = ClientProfile()
        self._governed = GovernedMemory(self.language)

    @property
    def rules(self) -> ProfileRules:
        """Return the rules of the language spoken last."""
        return self._rules[self.language]

    def hear(self, user_text: str) -> Heard:
        """Take in a turn of the client: extend the profile, open the turn, and recall."""
        self.language = detect_language(user_text, self.language)
        before = self.profile
        clauses = read_clauses(user_text, self.rules)
        statements = extract(clauses, self.rules)
        self.profile = before.after(statements)
        self._governed.keep(self.profile, self.language, self.rules)
        self.memory.hear(user_text)
        return Heard(
            text=user_text,
            language=self.language,
            clauses=clauses,
            statements=statements,
            before=before,
            recall=self.memory.recall(user_text),
        )

    def recall_observation(self, heard: Heard) -> dict[str, Any]:
        """Return the fields of the turn's recall observation; the profile is what the layer injects."""
        return recall_fields(heard.text, heard.recall, self.user_context(), self.rules.labels)

    def user_context(self) -> str:
        """Return the block of the client's memory that the layer gives for this turn."""
        return self._governed.load().block.text

    def profile_observation(self) -> dict[str, Any]:
        """Return the fields of the turn's profile observation."""
        return profile_snapshot(self.profile)

    def state(self) -> ClientState:
        """Return the file's content."""
        return ClientState(
            version=STATE_VERSION, language=self.language, memory=self.memory.state(), profile=self.profile
        )

    def load(self, state: ClientState) -> None:
        """Replace the content by a state's."""
        if state.version != STATE_VERSION:
            raise StateError(
                f"agent state has version {state.version}, not {STATE_VERSION}: replay the dialogue"
            )
        self.language, self.profile = state.language, state.profile
        self.memory.load(state.memory)
        self._governed.keep(self.profile, self.language, self.rules)


def decode_state(state: bytes, form: type[S]) -> S:
    """Return a snapshot's content; raise `StateError` when the bytes are none."""
    try:
        return msgspec.msgpack.decode(state, type=form)
    except (msgspec.DecodeError, msgspec.ValidationError) as problem:
        raise StateError(f"agent state cannot be restored: {problem}; replay the dialogue") from problem
