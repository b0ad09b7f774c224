"""What the adviser remembers of a dialogue: a short window word for word, and recall of the rest.

An exchange (the client's words and the reply) is the unit of memory. The last few exchanges are the
short-term window; an exchange that leaves it goes into the long-term store, where later questions
find it by BM25.
"""

from collections import Counter, deque
from itertools import chain
from typing import Any, Final

from memfin.agents.bm25 import IncrementalBM25, terms
from memfin.contracts import RecallItem, Record, ShortTermTurn
from memfin.memory.tokens import estimate_tokens

WINDOW: Final = 3
"""Exchanges in the short-term window."""

RECALLED: Final = 3
"""Exchanges that long-term recall returns at most."""

_CLIENT_WEIGHT: Final = 3
"""How much a term of the client's words counts against one of the longer, more uniform replies."""


class Exchange(Record):
    """The client's words at a turn and the reply; either is None when the host did not give it.

    ``turn_index`` counts the client's turns from 1.
    """

    turn_index: int
    user: str | None = None
    assistant: str | None = None

    def turns(self) -> list[ShortTermTurn]:
        """Return the one or two utterances in order."""
        said = (("user", self.user), ("assistant", self.assistant))
        return [ShortTermTurn(role=role, content=text) for role, text in said if text is not None]

    def text(self) -> str:
        """Return the exchange as ``user: ...`` and ``assistant: ...`` lines."""
        return "\n".join(f"{turn.role}: {turn.content}" for turn in self.turns())


class Recall(Record):
    """What memory has to offer for a question; the question itself is not part of it.

    ``exchanges`` are the recalled ones, best first, and ``items`` the same as they are observed.
    """

    short_term: list[Exchange]
    exchanges: list[Exchange]
    items: list[RecallItem]

    def short_term_turns(self) -> list[ShortTermTurn]:
        """Return the utterances of the window, oldest first."""
        return [turn for exchange in self.short_term for turn in exchange.turns()]

    def short_term_context(self) -> str:
        """Return the window as ``user: ...`` and ``assistant: ...`` lines."""
        return "\n".join(exchange.text() for exchange in self.short_term)


class MemoryState(Record):
    """Everything a `DialogueMemory` is made of: the index follows from the exchanges."""

    exchanges: list[Exchange] = []
    pending: str | None = None
    turn_index: int = 0


class DialogueMemory:
    """The memory of one dialogue.

    `hear` opens a turn and `record` closes it with the reply that entered the history; a host that
    never records still has its clients' words remembered.
    """

    def __init__(self, session_id: str) -> None:
        self.session_id = session_id
        self.turn_index = 0
        self._pending: str | None = None
        self._window: deque[Exchange] = deque()
        self._archive: list[Exchange] = []
        self._index = IncrementalBM25()

    @property
    def postings_read(self) -> int:
        """Return how many postings the queries so far have read, the measure of recall's cost."""
        return self._index.postings_read

    def hear(self, user_text: str) -> None:
        """Take in the client's words; they become history with the reply, not before."""
        self._close_turn(None)
        self.turn_index += 1
        self._pending = user_text

    def record(self, assistant_text: str) -> None:
        """Complete the turn with the reply that counts as said."""
        if self._pending is None:
            self._push(Exchange(turn_index=self.turn_index, assistant=assistant_text))
        else:
            self._close_turn(assistant_text)

    def recall(self, query: str) -> Recall:
        """Return the window and the best long-term matches for a query, best first."""
        items: list[RecallItem] = []
        exchanges: list[Exchange] = []
        if self._archive:
            for rank, match in enumerate(self._index.search(terms(query), RECALLED), start=1):
                exchange = self._archive[match.document]
                exchanges.append(exchange)
                items.append(
                    RecallItem(
                        content=exchange.text(),
                        rank=rank,
                        item_id=f"{self.session_id}:{exchange.turn_index}:{match.document}",
                        score=round(match.score, 6),
                        source="bm25",
                        turn_index=exchange.turn_index,
                        session_id=self.session_id,
                    )
                )
        return Recall(short_term=list(self._window), exchanges=exchanges, items=items)

    def first(self) -> Exchange | None:
        """Return the exchange the dialogue began with, or None before the first reply."""
        return next(chain(self._archive, self._window), None)

    def state(self) -> MemoryState:
        """Return the memory's content; `load` makes an equal memory of it."""
        return MemoryState(
            exchanges=[*self._archive, *self._window], pending=self._pending, turn_index=self.turn_index
        )

    def load(self, state: MemoryState) -> None:
        """Replace the content by a state's."""
        self._archive, self._window, self._index = [], deque(), IncrementalBM25()
        for exchange in state.exchanges:
            self._push(exchange)
        self._pending, self.turn_index = state.pending, state.turn_index

    def _close_turn(self, assistant_text: str | None) -> None:
        if self._pending is not None:
            said = Exchange(turn_index=self.turn_index, user=self._pending, assistant=assistant_text)
            self._pending = None
            self._push(said)

    def _push(self, exchange: Exchange) -> None:
        self._window.append(exchange)
        if len(self._window) > WINDOW:
            oldest = self._window.popleft()
            self._archive.append(oldest)
            frequencies = Counter(terms(oldest.user or "") * _CLIENT_WEIGHT)
            frequencies.update(terms(oldest.assistant or ""))
            self._index.add(frequencies)


def recall_fields(query: str, recall: Recall, profile_context: str, labels: dict[str, str]) -> dict[str, Any]:
    """Return the fields of a `RecallTrace` for a turn.

    `labels` names the parts of the packed context (``recalled``, ``recent``) in the dialogue's
    language; the profile, a block with tags of its own, stands where a system prompt would end.
    """
    short_term_context = recall.short_term_context()
    recalled = "\n".join(item.content for item in recall.items)
    parts = (
        f"[{labels['recalled']}]\n{recalled}" if recalled else "",
        profile_context,
        f"[{labels['recent']}]\n{short_term_context}" if short_term_context else "",
    )
    packed = "\n\n".join(part for part in parts if part)
    return {
        "query": query,
        "short_term_context": short_term_context,
        "short_term_turns": recall.short_term_turns(),
        "profile_context": profile_context,
        "packed_context": packed,
        "token_count": estimate_tokens(packed),
        "items": recall.items,
    }
