"""Memory of the built-in agent: recent exchanges, BM25 recall of older ones, a governed client profile."""

from collections import Counter
from collections.abc import Mapping
from contextlib import suppress
from datetime import UTC, datetime, timedelta
from functools import lru_cache
from itertools import count
from types import MappingProxyType
from typing import Any, Final, NamedTuple, TypeVar

import msgspec

from memfin.agents.builtin import profile as profiles
from memfin.agents.builtin.profile import Clause, ClientProfile, Rules, Statement, profile_rules
from memfin.agents.history import Exchange, as_text
from memfin.agents.protocol import Session
from memfin.contracts import Language, RecallItem, Record, ShortTermTurn
from memfin.contracts.memory import ConsentScopes, ContextFields, Preferences, SliceName
from memfin.errors import MemfinError
from memfin.memory.errors import MemoryRefusal
from memfin.memory.sensitive import find_sensitive
from memfin.memory.slices import SLICES, LoadedMemory
from memfin.memory.store import IsolatedStore
from memfin.memory.tokens import OMITTED, estimate_tokens
from memfin.text.bm25 import IncrementalBM25, Match, terms

S = TypeVar("S", bound=Record)

STATE_VERSION: Final = 2
WINDOW: Final = 3  # exchanges in the short-term window
RECALLED: Final = 3  # exchanges that long-term recall returns at most

_CLIENT_WEIGHT: Final = 3  # of a term of the client's words against one of the longer, more uniform replies
MAX_CARRIED: Final = 2 << 20
"""Bytes of a client file that go to the next session; the oldest exchanges stay behind."""

_CLIENT: Final = "client"
_CONSENT: Final = ConsentScopes(
    create_task=True, save_to_profile=True, save_to_thread=True, training_use_allowed=False
)
_BEGIN: Final = datetime(2000, 1, 1, tzinfo=UTC)
_MAX_ITEM: Final = 120  # characters of one statement that the layer gets
_REFRESHES: Final = 16  # changes of one thread: each costs as much as the thread holds
_MIN_LETTERS: Final = 8  # Latin letters, or such per Chinese character, that show English; ETF does not


class StateError(MemfinError):
    """A snapshot that cannot be restored."""


def decode_state(state: bytes, form: type[S]) -> S:
    """Return a snapshot's content; raise `StateError` for bytes that are none."""
    try:
        return msgspec.msgpack.decode(state, type=form)
    except (msgspec.DecodeError, msgspec.ValidationError) as problem:
        raise StateError(f"agent state cannot be restored: {problem}; replay the dialogue") from problem


class DialogueMemory:
    """The exchanges of one dialogue; `hear` opens a turn and `record` closes it with the reply.

    The first ``before`` exchanges are of earlier sessions, which only recall looks at.
    """

    def __init__(self, session_id: str) -> None:
        self.session_id = session_id
        self.turn_index = self.before = 0
        self.exchanges: list[Exchange] = []
        self.index = IncrementalBM25()
        self.pending: str | None = None

    @property
    def window(self) -> list[ShortTermTurn]:
        """The utterances of the last exchanges, oldest first."""
        return [turn for exchange in self.exchanges[self.before :][-WINDOW:] for turn in exchange.turns()]

    def hear(self, user_text: str) -> None:
        """Take in the client's words; they become history with the reply, not before."""
        if self.pending is not None:
            self._push(Exchange(turn_index=self.turn_index, user=self.pending))
        self.turn_index += 1
        self.pending = user_text

    def record(self, assistant_text: str) -> None:
        """Complete the turn with the reply that enters the history."""
        self._push(Exchange(turn_index=self.turn_index, user=self.pending, assistant=assistant_text))
        self.pending = None

    def recall(self, query: str) -> list[RecallItem]:
        """Return the best matches for a query among the exchanges before the window."""
        matches = self.index.search(terms(query), RECALLED)
        return [self._item(rank, match) for rank, match in enumerate(matches, start=1)]

    def _item(self, rank: int, match: Match) -> RecallItem:
        found = self.exchanges[match.document]
        session = found.session_id or self.session_id
        return RecallItem(
            content=as_text(found.turns()),
            rank=rank,
            item_id=f"{session}:{found.turn_index}:{match.document}",
            score=round(match.score, 6),
            source="bm25",
            turn_index=found.turn_index,
            session_id=session,
        )

    def load(
        self, exchanges: list[Exchange], pending: str | None = None, turn_index: int = 0, before: int = 0
    ) -> None:
        """Replace the content."""
        self.exchanges, self.index, self.before = [], IncrementalBM25(), before
        for exchange in exchanges:
            self._push(exchange)
        self.pending, self.turn_index = pending, turn_index

    def _push(self, exchange: Exchange) -> None:
        self.exchanges.append(exchange)
        # Exchanges of earlier sessions are recalled at once, the others when they leave the window.
        new = len(self.exchanges) - self.before
        if new <= 0 or new > WINDOW:
            oldest = self.exchanges[-1 if new <= 0 else -WINDOW - 1]
            self.index.add(Counter(terms(oldest.user or "") * _CLIENT_WEIGHT + terms(oldest.assistant or "")))


class GovernedMemory:
    """The memory layer of one dialogue: an isolated store whose client consents to profile and thread.

    It begins with the preferences and the position that the client has `saved` elsewhere.
    """

    def __init__(self, language: Language, saved: LoadedMemory | None = None) -> None:
        names: tuple[SliceName, ...] = ("S2", "S3", "S4")
        values = {SLICES[name].label: saved.value(name) for name in names} if saved else {}
        preferences = msgspec.convert(values | {"language_preference": language}, Preferences)
        self._consent_id, files = _consented_store(preferences)
        self._position, self.horizon = _words(saved, "S7"), _words(saved, "S10")
        seconds = count(1)  # equal dialogues leave equal stores
        self._store = IsolatedStore(lambda: _BEGIN + timedelta(seconds=next(seconds)), files)
        self._level: str | None = None  # that of the horizon which was kept last
        self._known = None if self._position or self.horizon else (ClientProfile(), language)
        self._kept = ContextFields()
        self._loaded: LoadedMemory | None = None
        self._thread_id = ""
        self._refreshes = 0

    def keep(self, profile: ClientProfile, rules: Rules) -> None:
        """Keep in the thread what is known about the client now, as far as the layer takes it."""
        if (profile, rules.language) == self._known:
            return
        self._known, self._loaded = (profile, rules.language), None
        constraints = [found.words for found in reversed(profile.constraints)]
        level = profile.levels.get("horizon", "")
        if self.horizon and self._level not in (None, level):  # the dialogue has changed it
            self.horizon = [rules.words[level]["horizon"]] if level else []
        self._level = level
        known = ([*self._position, *profiles.position_lines(profile, rules)], constraints)
        texts = [[text[:_MAX_ITEM] for text in each if not find_sensitive(text)] for each in known]
        nothing: list[list[str]] = [[], []]
        for position, constraints in (texts, nothing):  # texts may be sensitive together
            stated = ("；" if rules.language == "zh" else "; ").join(position) or None
            fields = ContextFields(
                user_stated_position_context=stated,
                constraints=constraints,
                time_horizon=next(iter(self.horizon), None),
            )
            with suppress(MemoryRefusal):
                self._save(fields.replace(language_preference=rules.language))
                return

    def load(self) -> LoadedMemory:
        """Return the block that the layer gives a turn, and the slices it is made of."""
        if self._loaded is None:  # nothing was kept since, and the store has no other writers
            self._loaded = self._store.load_memory_slices(_CLIENT, "pre_execution", self._thread_id or None)
        return self._loaded

    def _save(self, fields: ContextFields) -> None:
        # Of a thread, the last value of each field counts: one without any value needs a new thread.
        lost = any(self._kept[name] and not fields[name] for name in fields.__struct_fields__)
        if self._thread_id and self._refreshes < _REFRESHES and not lost:
            self._store.refresh_thread(_CLIENT, self._thread_id, user_supplied_context=fields)
            self._kept, self._refreshes = fields, self._refreshes + 1
            return
        options: dict[str, Any] = {"save_user_context": True, "consent_id": self._consent_id}
        saved = self._store.save_thread(_CLIENT, "dialogue", "dialogue", {}, context=fields, **options)
        if self._thread_id:
            self._store.patch_thread(_CLIENT, self._thread_id, status="closed")
        self._kept, self._thread_id, self._refreshes = fields, saved.thread_id, 0


def _words(saved: LoadedMemory | None, name: SliceName) -> list[str]:
    """Return the texts of a slice, without the mark of those that its budget cut off."""
    value = None if saved is None else saved.value(name)
    texts = [value] if isinstance(value, str) else value if isinstance(value, tuple) else ()
    return [text for text in texts if text != OMITTED]


@lru_cache(maxsize=64)
def _consented_store(preferences: Preferences) -> tuple[str, Mapping[str, bytes]]:
    """Return the consent id and files of a store whose client has consented; reads all data files once."""
    store = IsolatedStore(lambda: _BEGIN)
    consent = store.grant_consent(_CLIENT, _CONSENT, preferences)
    files = store.contents()
    words = "1,000,000 of what I own, and no more than that, may be lost in any one year that is to come"
    header = store.save_thread(_CLIENT, "dialogue", "dialogue", {})
    fields = ContextFields(user_stated_position_context=words, constraints=[words])
    store.refresh_thread(_CLIENT, header.thread_id, user_supplied_context=fields)
    return consent.consent_id, MappingProxyType(files)


class ClientState(Record):
    """A client file between two turns."""

    version: int
    language: Language
    profile: ClientProfile
    exchanges: list[Exchange]
    pending: str | None
    turn_index: int
    topics: list[str]
    before: int = 0


class Heard(NamedTuple):
    """A turn's words with their clauses and statements, and what is recalled for them."""

    text: str
    clauses: list[Clause]
    statements: list[Statement]
    recalled: list[RecallItem]


class ClientFile:
    """Memory and profile of the client of one session, for the built-in agent, the oracle and models.

    The client may have `saved` preferences, a position, a horizon and constraints before.
    """

    def __init__(self, session: Session, saved: LoadedMemory | None = None) -> None:
        chinese, english = profile_rules("zh"), profile_rules("en")  # no file is read later
        self.rules = english if session.language.lower().startswith("en") else chinese
        self.memory = DialogueMemory(session.session_id)
        self.saved_position = " ".join(_words(saved, "S7"))
        horizon, constraints = " ".join(_words(saved, "S10")), reversed(_words(saved, "S8"))
        self.profile = profiles.saved_profile(self.saved_position, horizon, constraints, self.rules)
        self.depth = "".join(_words(saved, "S2")) or "standard"
        self.order = "".join(_words(saved, "S3")) or "balanced"
        self.topics: list[str] = []
        self._governed = GovernedMemory(self.language, saved)
        if session.carried:
            self._take_over(decode_state(session.carried, ClientState))
        self._governed.keep(self.profile, self.rules)

    def _take_over(self, carried: ClientState) -> None:
        """Begin with what the client's session before has left."""
        _check_version(carried)
        self.profile, self.topics = carried.profile, carried.topics
        self.memory.load(carried.exchanges, before=len(carried.exchanges))

    def carry(self) -> bytes:
        """Return what the client's next session begins with: all but the short-term window."""
        memory = self.memory
        last = [Exchange(turn_index=memory.turn_index, user=memory.pending)] if memory.pending else []
        kept = [
            each.replace(session_id=each.session_id or memory.session_id) for each in memory.exchanges + last
        ]
        while True:
            state = self.state().replace(exchanges=kept, pending=None, turn_index=0, before=len(kept))
            data = msgspec.msgpack.encode(state)
            if len(data) <= MAX_CARRIED or not kept:
                return data
            kept = kept[len(kept) // 2 + 1 :]

    @property
    def saved_horizon(self) -> str:
        """The horizon that the client has saved, unless the dialogue has changed it."""
        return " ".join(self._governed.horizon)

    @property
    def language(self) -> Language:
        """The language spoken last."""
        return self.rules.language

    def hear(self, user_text: str) -> Heard:
        """Take in a turn of the client: extend the profile, open the turn, and recall."""
        self.rules = profile_rules(detect_language(user_text, self.language))
        clauses = profiles.read_clauses(user_text, self.rules)
        statements = profiles.extract(clauses, self.rules, self.profile)
        self.profile = self.profile.after(statements)
        self._governed.keep(self.profile, self.rules)
        self.memory.hear(user_text)
        return Heard(user_text, clauses, statements, self.memory.recall(user_text))

    def context(self, heard: Heard) -> str:
        """Return the recalled exchanges under their label, and the block of the memory layer."""
        recalled = "\n".join(item.content for item in heard.recalled)
        block = self.user_context()
        return f"[{self.rules.labels['recalled']}]\n{recalled}\n\n{block}" if recalled else block

    def recall_observation(self, heard: Heard) -> dict[str, Any]:
        """Return the fields of the turn's `RecallTrace`; the profile is the block of the memory layer."""
        turns, packed = self.memory.window, self.context(heard)
        if recent := as_text(turns):
            packed += f"\n\n[{self.rules.labels['recent']}]\n{recent}"
        return {
            "query": heard.text,
            "short_term_context": recent,
            "short_term_turns": turns,
            "profile_context": self.user_context(),
            "packed_context": packed,
            "token_count": estimate_tokens(packed),
            "items": heard.recalled,
        }

    def user_context(self) -> str:
        """Return the block of the client's memory that the layer gives for this turn."""
        return self._governed.load().block.text

    def profile_observation(self) -> dict[str, Any]:
        """Return the fields of the turn's profile observation."""
        return profiles.profile_snapshot(self.profile, self.rules)

    def state(self) -> ClientState:
        """Return the file's content."""
        return ClientState(
            version=STATE_VERSION,
            language=self.language,
            profile=self.profile,
            exchanges=self.memory.exchanges,
            pending=self.memory.pending,
            turn_index=self.memory.turn_index,
            topics=self.topics,
            before=self.memory.before,
        )

    def load(self, state: ClientState) -> None:
        """Replace the content by a state's."""
        _check_version(state)
        self.rules, self.profile, self.topics = profile_rules(state.language), state.profile, state.topics
        self.memory.load(state.exchanges, state.pending, state.turn_index, state.before)
        self._governed.keep(self.profile, self.rules)


def _check_version(state: ClientState) -> None:
    if state.version != STATE_VERSION:
        raise StateError(f"agent state has version {state.version}, not {STATE_VERSION}: replay the dialogue")


def detect_language(text: str, default: Language) -> Language:
    """Return the language a text is in; one that does not show it has the default."""
    han = sum("\u4e00" <= char <= "\u9fff" for char in text)
    latin = sum(char.isascii() and char.isalpha() for char in text)
    if latin > _MIN_LETTERS * max(han, 1):
        return "en"
    return "zh" if han else default
